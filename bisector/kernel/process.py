"""Runs make as a group of processes that can be ended as a whole: on a time limit, on cancel, after a crash of ours."""

import contextlib
import os
import selectors
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from io import FileIO
from pathlib import Path

from bisector.model.errors import BuilderError

_TERM_WAIT_S = 5.0
_POLL_S = 0.2


class TimedOutError(Exception):
    """The command reached its time limit; its whole group is gone."""


class CancelledError(Exception):
    """Somebody set the event; the whole group is gone."""


def run_logged(
    command: Sequence[str],
    *,
    environment: Mapping[str, str],
    log: FileIO,
    timeout_s: float,
    cancelled: threading.Event,
    on_line: Callable[[bytes], None],
) -> int:
    """Exit status (negative: died by that signal) of a command whose output goes to `log`, line by line to `on_line`.

    Standard input is closed: a question ends the command instead of hanging it. Raises TimedOutError, CancelledError.
    """
    log.write(f"$ {' '.join(command)}\n".encode())
    deadline = time.monotonic() + timeout_s
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=dict(environment),
        start_new_session=True,
    )
    try:
        _follow(process, log=log, deadline=deadline, cancelled=cancelled, on_line=on_line)
        return process.returncode
    finally:
        if process.returncode is None:
            _end_group(process)
        if process.stdout is not None:
            process.stdout.close()


def end_left_overs(folder: Path) -> int:
    """Kill what a dead controller's build of `folder` left running; how many there were.

    Recognised by the marker in their environment (`toolchain.build_environment`), never by name. Raises BuilderError
    if one survives.
    """
    marker = f"BISECTOR_BUILD={folder}".encode()
    ended: set[int] = set()
    deadline = time.monotonic() + _TERM_WAIT_S
    while found := _marked(marker):
        ended |= found
        if time.monotonic() > deadline:
            raise BuilderError(
                f"processes of an earlier build in {folder} do not end: {sorted(found)}",
                resolution=f"See what they do: ps -fp {','.join(map(str, sorted(found)))}",
            )
        for pid in found:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.02)
    return len(ended)


def _follow(
    process: "subprocess.Popen[bytes]",
    *,
    log: FileIO,
    deadline: float,
    cancelled: threading.Event,
    on_line: Callable[[bytes], None],
) -> None:
    assert process.stdout is not None
    rest = b""
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        while True:
            if cancelled.is_set():
                raise CancelledError
            if time.monotonic() > deadline:
                raise TimedOutError
            if selector.select(_POLL_S):
                chunk = os.read(process.stdout.fileno(), 1 << 16)
                if not chunk:
                    break
                log.write(chunk)
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    on_line(line)
            elif process.poll() is not None:
                break  # A helper in the background may keep the pipe open for ever.
    while process.poll() is None:
        if cancelled.wait(0.01):
            raise CancelledError
        if time.monotonic() > deadline:
            raise TimedOutError
    if rest:
        on_line(rest)


def _end_group(process: "subprocess.Popen[bytes]") -> None:
    # make removes half-written targets on SIGTERM, so ask first.
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(_TERM_WAIT_S)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _marked(marker: bytes) -> set[int]:
    found = set()
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal() or int(entry.name) == os.getpid():
            continue
        # Processes end while we look, and other users' are closed to us.
        with contextlib.suppress(OSError):
            if marker in (entry / "environ").read_bytes().split(b"\0"):
                found.add(int(entry.name))
    return found

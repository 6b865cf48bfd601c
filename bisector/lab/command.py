"""The user's own commands on this computer: power switches, hooks. What they say is told, what they do is checked."""

import os
import signal
import subprocess
from collections.abc import Mapping
from contextlib import suppress

from bisector.model.errors import MachineError

_KEPT_CHARACTERS = 2000


def run_here(what: str, command: str, *, variables: Mapping[str, str], timeout_s: float) -> str:
    """What a shell command prints that ends with 0; it and its children are killed when its time is up.

    `what` names it in errors, which do not show the command itself: it may hold a password. Raises MachineError.
    """
    process = subprocess.Popen(
        ["sh", "-c", command],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, **variables},
        start_new_session=True,
    )
    try:
        out, errors = process.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired:
        raise MachineError(f"{what} did not end within {timeout_s:.0f} s and was killed") from None
    finally:
        # Its whole session, also after it ended by itself: a forgotten child would hold the console or the outlet.
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        for stream in (process.stdout, process.stderr):
            if stream is not None:
                stream.close()
    said = out.decode(errors="replace")
    if process.returncode != 0:
        words = errors.decode(errors="replace").strip() or said.strip()
        raise MachineError(f"{what} ended with {process.returncode}", details=words[-_KEPT_CHARACTERS:])
    return said

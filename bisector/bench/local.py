"""This host as a machine, for `bisector bench run --local`: the same runner, without a connection."""

import contextlib
import hashlib
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

from bisector.bench.runner import REMOTE_FOLDER, JobResult, OnPoll
from bisector.model.errors import MachineError

POLL_INTERVAL_S = 0.1
GROUP_END_S = 2.0


class LocalJobs:
    """Runs programs here, each in a session of its own, ended as a group."""

    def run(self, argv: Sequence[str], *, timeout_s: float, on_poll: OnPoll) -> JobResult:
        """What the program wrote and how it ended.

        Raises MachineError if it cannot be started or is not done after `timeout_s`; then, and when anything else
        interrupts the waiting, all of it has been killed.
        """
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            started = time.monotonic()
            try:
                process = subprocess.Popen(
                    list(argv), stdin=subprocess.DEVNULL, stdout=out, stderr=err, start_new_session=True
                )
            except OSError as error:
                raise MachineError(
                    f"{argv[0]} cannot be started here: {error}", resolution="Is that folder mounted noexec?"
                ) from error
            try:
                self._wait(process, started, timeout_s, on_poll)
            finally:
                _end_group(process)
            return JobResult(exit_code=process.returncode, stdout=_all_of(out), stderr=_all_of(err))

    def _wait(self, process: subprocess.Popen[bytes], started: float, timeout_s: float, on_poll: OnPoll) -> None:
        while True:
            left_s = started + timeout_s - time.monotonic()
            if left_s <= 0:
                raise MachineError(
                    f"The benchmark was not done after {timeout_s:g} s, and was ended.",
                    resolution="Give it more time (benchmark: timeout_s), or shorter samples (sample_ms).",
                )
            try:
                process.wait(min(POLL_INTERVAL_S, left_s))
            except subprocess.TimeoutExpired:
                on_poll()
            else:
                return


class LocalMachine:
    """This host. Uploading is copying into a private folder; leaving the `with` block removes it."""

    def __init__(self) -> None:
        self._jobs = _Translated(LocalJobs(), Path(tempfile.mkdtemp(prefix="bisector-local-")))

    def __enter__(self) -> "LocalMachine":
        return self

    def __exit__(self, *exception: object) -> None:
        shutil.rmtree(self._jobs.folder, ignore_errors=True)

    @property
    def jobs(self) -> "_Translated":
        """Jobs whose program was `put` here first."""
        return self._jobs

    def put(self, local: Path, remote: str, *, mode: int) -> None:
        """Copy a file and compare. Raises MachineError."""
        place = Path(self._jobs.place_of(remote))
        try:
            shutil.copyfile(local, place)
            place.chmod(mode)
        except OSError as error:
            raise MachineError(f"{local} cannot be copied: {error}", resolution=f"Look at {place.parent}.") from error
        if _sha256(place) != _sha256(local):
            raise MachineError(f"The copy of {local} differs from it.", resolution=f"Look at the disk of {place}.")


class _Translated:
    """A remote path stands for a file of the private folder: two runs here at once do not share a program."""

    def __init__(self, jobs: LocalJobs, folder: Path) -> None:
        self._inner = jobs
        self.folder = folder

    def place_of(self, remote: str) -> str:
        return str(self.folder / Path(remote).relative_to(REMOTE_FOLDER))

    def run(self, argv: Sequence[str], *, timeout_s: float, on_poll: OnPoll) -> JobResult:
        ours = [self.place_of(word) if word.startswith(f"{REMOTE_FOLDER}/bisector-") else word for word in argv]
        return self._inner.run(ours, timeout_s=timeout_s, on_poll=on_poll)


def _end_group(process: subprocess.Popen[bytes]) -> None:
    # After a normal end too: whatever the program left behind would disturb the next run. Only the program itself can
    # be waited for; its children are gone when the group is (bounded, for a host whose init reaps nobody).
    until = time.monotonic() + GROUP_END_S
    with contextlib.suppress(ProcessLookupError):
        while time.monotonic() < until:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            time.sleep(0.005)
    process.wait()


def _all_of(file: BinaryIO) -> bytes:
    file.seek(0)
    return file.read()


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()

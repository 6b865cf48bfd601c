"""A guest's process: it dies with us, and what a killed controller left behind is found and ended, nothing else."""

import json
import os
import select
import signal
import subprocess
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

from bisector.lab.programs import SETPRIV
from bisector.model.errors import MachineError

# The kernel sends the death signal when the *thread* that forked ends, hence `GuestProcess.keeper`. If the controller
# dies between fork and prctl no signal comes, so the child looks at its parent once more before it becomes QEMU.
_ONLY_WITH_PARENT = 'test "$PPID" = "$0" || exit 111; exec "$@"'


class GuestProcess:
    """One QEMU, recorded in `record` (pid, start time, host boot) while it lives."""

    def __init__(self, record: Path) -> None:
        self.record = record
        # One thread, alive as long as this object: ending it would kill the guest.
        self._keeper = ThreadPoolExecutor(max_workers=1, thread_name_prefix="guest-keeper")
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int | None:
        """The process id while a guest was started and not ended."""
        return None if self._process is None else self._process.pid

    def start(self, argv: Sequence[str], *, stderr: Path) -> None:
        """Start it in a session of its own (Ctrl-C is for the controller), bound to our life. Ends an older one."""
        self.end()
        command = [str(SETPRIV.path()), "--pdeathsig", "KILL", "--"]
        command += ["sh", "-c", _ONLY_WITH_PARENT, str(os.getpid()), *argv]
        with stderr.open("wb") as errors:
            self._process = self._keeper.submit(
                subprocess.Popen,
                command,
                stdin=subprocess.DEVNULL,
                stdout=errors,
                stderr=errors,
                start_new_session=True,
            ).result()
        _write_record(self.record, self._process.pid)

    def exit_code(self) -> int | None:
        """None while it runs; otherwise as `subprocess`: negative for a signal."""
        return None if self._process is None else self._process.poll()

    def wait(self, timeout_s: float) -> int | None:
        """Its exit code, or None if it still runs after `timeout_s`."""
        if self._process is None:
            return None
        with suppress(subprocess.TimeoutExpired):
            return self._process.wait(timeout_s)
        return None

    def end(self) -> None:
        """Ask it to stop, kill it after 5 s, wait, forget the record. Harmless when nothing runs."""
        process, self._process = self._process, None
        if process is None:
            return
        if process.poll() is None:
            # Its whole group: it leads a session of its own, and a command line may be a pipeline.
            _signal_group(process.pid, signal.SIGTERM)
            try:
                process.wait(5)
            except subprocess.TimeoutExpired:
                _signal_group(process.pid, signal.SIGKILL)
                process.wait(30)
        self.record.unlink(missing_ok=True)

    def close(self) -> None:
        """End it, and the thread that kept it."""
        self.end()
        self._keeper.shutdown(wait=False)


def _signal_group(leader: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.killpg(leader, number)


def end_left_over(record: Path) -> int | None:
    """End the guest that a dead controller recorded, if it is still that very process; its pid, or None.

    Pids are used again, so start time and the host's boot must match too; a process that does not match is left alone.
    Raises MachineError if it survives SIGKILL for 30 s.
    """
    try:
        told = json.loads(record.read_text())
        pid, started, boot = int(told["pid"]), int(told["start_time"]), str(told["host_boot"])
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError):
        record.unlink(missing_ok=True)
        return None
    ended = None
    if boot == _host_boot():
        ended = _end_process(pid, started)
    record.unlink(missing_ok=True)
    return ended


def _end_process(pid: int, started: int) -> int | None:
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return None
    try:
        # The handle is taken first: what we compare now is what we will kill, whatever happens to the number.
        if start_time(pid) != started:
            return None
        signal.pidfd_send_signal(handle, signal.SIGKILL)
        if not select.select([handle], [], [], 30.0)[0]:
            raise MachineError(f"A guest of an earlier run (process {pid}) survives SIGKILL")
    except ProcessLookupError:
        return None
    finally:
        os.close(handle)
    return pid


def start_time(pid: int) -> int | None:
    """Clock ticks since the host's boot at which a living process started; None if it is gone or a zombie.

    Source: proc(5), field 22 of /proc/PID/stat; the name in parentheses may hold anything, so count after it.
    """
    try:
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if fields[0] in (b"Z", b"X") else int(fields[19])


def _write_record(record: Path, pid: int) -> None:
    started = start_time(pid)
    if started is None:
        return
    text = json.dumps({"pid": pid, "start_time": started, "host_boot": _host_boot(), "at": time.time()})
    temporary = record.with_name(record.name + ".part")
    with temporary.open("w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(record)


def _host_boot() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()

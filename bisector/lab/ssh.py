"""A shell on a lab machine, over the connections of `connect`.

Four promises that neither library keeps by itself: only the pinned host key is accepted; every wait has an end; a
lost connection is a `MachineError` and never an exit code; nothing is read from the user's SSH settings or terminal.
"""

import hashlib
import secrets
import shlex
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bisector.lab.connect import LOST, close_connection, deadline, open_connection, words_of
from bisector.lab.connect import ConnectError as ConnectError
from bisector.lab.connect import Limits as Limits
from bisector.lab.connect import Target as Target
from bisector.lab.pulse import keep_pulse
from bisector.model.errors import MachineError

_KILLED = 128 + signal.SIGKILL

# Our own watch instead of the machine's `timeout`: busybox's ends only the program and not its children, and wakes up
# every second until it has noticed that the program is gone, which a benchmark started meanwhile can feel. The watch is
# killed as a process first and as a group then: before its setsid it has no group, afterwards it has a child.
_LIMITED = """
setsid "$@" &
command=$!
setsid sh -c 'sleep "$0"; kill -s KILL -- "-$1"' "$0" "$command" </dev/null >/dev/null 2>&1 &
watch=$!
wait "$command"; code=$?
{ kill -s KILL "$watch"; kill -s KILL -- "-$watch"; } 2>/dev/null
exit "$code"
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandResult:
    """A command that ended: its exit code (0 to 255) and both streams, bytes that are not UTF-8 replaced."""

    exit_code: int
    stdout: str
    stderr: str


class Shell:
    """Runs commands and moves files on one machine, one at a time; connects by itself when it must.

    `explain_loss` is called before a lost machine is reported: it may raise a better explanation (a kernel panic).
    `greet` is called on every fresh connection before anything else runs on it: what it raises ends the connection.
    Not for use by two threads at once.
    """

    def __init__(
        self,
        target: Target,
        *,
        limits: Limits | None = None,
        explain_loss: Callable[[], None] | None = None,
        greet: Callable[[], None] | None = None,
    ) -> None:
        self.target = target
        self.limits = limits or Limits()
        self._explain_loss = explain_loss or (lambda: None)
        self._greet = greet or (lambda: None)
        self._connection: Any = None

    def connect(self) -> None:
        """Open a fresh connection, dropping the old one. Raises ConnectError."""
        self.close()
        hop, gateway = None, self.target.jump
        try:
            if gateway is not None:
                hop = open_connection(gateway, self.limits, None)
            self._connection = open_connection(self.target, self.limits, hop)
        except ConnectError as failure:
            if hop is not None:
                close_connection(hop)
            if failure.stage == "reach":
                self._explain_loss()
            raise
        if self.limits.pulse_s is not None:
            keep_pulse(self._connection, self.limits.pulse_s)
        try:
            self._greet()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Drop the connection, if there is one."""
        connection, self._connection = self._connection, None
        if connection is not None:
            close_connection(connection)

    def run(self, argv: Sequence[str], *, timeout_s: float, through: Sequence[str] = ()) -> CommandResult:
        """Run one command to its end and return what it said; a failing command is an answer, not an error.

        The limit holds on both sides: the machine kills the command and its process group (so nothing is left running
        to disturb the next sample), and four seconds later we drop the connection. Raises MachineError when the command
        is cut off or the machine is lost. Do not use it where output is large: write a file and get it. `through` is a
        command that runs commands (sudo): whoever is to end root's processes in time has to be root.
        """
        limit = max(1, round(timeout_s))
        command = shlex.join((*through, "sh", "-c", _LIMITED, str(limit), *argv))
        started = time.monotonic()
        with self._lossy(f"running {shlex.join(argv)[:200]}", limit + 4.0) as connection:
            result = connection.run(command, hide=True, warn=True, in_stream=False, encoding="utf-8")
            exit_code = int(result.exited)
            if exit_code < 0:
                raise EOFError("the connection ended before the command did")
        if exit_code == _KILLED and time.monotonic() - started >= limit:
            raise MachineError(
                f"{self.target.name}: {shlex.join(argv)[:200]} did not end within {limit} s",
                details=str(result.stderr)[-2000:],
            )
        return CommandResult(exit_code=exit_code, stdout=str(result.stdout), stderr=str(result.stderr))

    def check(self, argv: Sequence[str], *, timeout_s: float) -> str:
        """What a command says that must succeed. Raises MachineError with its own words if it does not."""
        result = self.run(argv, timeout_s=timeout_s)
        if result.exit_code != 0:
            raise MachineError(
                f"{self.target.name}: {shlex.join(argv)[:200]} ended with {result.exit_code}",
                details=(result.stderr or result.stdout)[-2000:],
            )
        return result.stdout

    def follow(self, argv: Sequence[str], *, timeout_s: float, tick: Callable[[], None], tick_s: float) -> bool:
        """Wait until a silent command ends, calling `tick` every `tick_s` seconds; False if it still runs then.

        Its output is thrown away, and there is no remote limit. Raises MachineError when the machine is lost.
        """
        channel = self.channel()
        with self._lossy("starting a command", self.limits.channel_s):
            channel.exec_command(f"{shlex.join(argv)} >/dev/null 2>&1 </dev/null")
        until = time.monotonic() + timeout_s
        try:
            while not channel.status_event.wait(max(0.0, min(tick_s, until - time.monotonic()))):
                tick()
                if time.monotonic() >= until:
                    return False
        finally:
            channel.close()
        if channel.exit_status < 0:
            with self._lossy("waiting for a job", self.limits.channel_s):
                raise EOFError("the connection ended before the command did")
        return True

    def channel(self) -> Any:
        """A fresh session on the connection (paramiko's channel). Raises MachineError when the machine is lost."""
        with self._lossy("opening a channel", self.limits.channel_s) as connection:
            return connection.transport.open_session(timeout=self.limits.channel_s)

    def put(self, local: Path, remote: str, mode: int = 0o644) -> None:
        """Copy a file so that `remote` is either the old file or all of the new one, proven by its SHA-256.

        Raises MachineError if it arrives damaged, the disk is full, or the machine is lost.
        """
        with local.open("rb") as file:
            wanted = hashlib.file_digest(file, "sha256").hexdigest()
        temporary = f"{remote}.part-{secrets.token_hex(4)}"
        try:
            with self._lossy(f"sending {local.name} to {remote}", self.limits.transfer_s) as connection:
                connection.sftp().put(str(local), temporary, confirm=True)
            seen = self.check(("sha256sum", temporary), timeout_s=60).split()[0].lstrip("\\")
            if seen != wanted:
                raise MachineError(
                    f"{self.target.name}: {remote} arrived damaged", details=f"sent {wanted}, there {seen}"
                )
            with self._lossy(f"moving {remote} into place", self.limits.transfer_s) as connection:
                connection.sftp().chmod(temporary, mode)
                connection.sftp().posix_rename(temporary, remote)
        except MachineError as error:
            if self._connection is not None:
                # SFTP calls a full disk plainly "Failure".
                error.details = "\n".join(part for part in (error.details, self._clean_up(temporary)) if part)
            raise

    def get(self, remote: str, local: Path) -> None:
        """Copy a file from the machine, whole or not at all. Raises MachineError."""
        temporary = local.with_name(local.name + ".part")
        with self._lossy(f"fetching {remote}", self.limits.transfer_s) as connection:
            connection.sftp().get(remote, str(temporary))
        temporary.replace(local)

    def read_bytes(self, remote: str, *, limit_bytes: int = 64 << 20) -> bytes:
        """The content of a file, also of /proc and /sys where sizes lie. Raises MachineError, also above the limit."""
        with (
            self._lossy(f"reading {remote}", self.limits.transfer_s) as connection,
            connection.sftp().open(remote, "rb") as file,
        ):
            content: bytes = file.read(limit_bytes + 1)
        if len(content) > limit_bytes:
            raise MachineError(f"{self.target.name}: {remote} is larger than {limit_bytes} bytes")
        return content

    def read_text(self, remote: str) -> str:
        """The content of a text file, bytes that are not UTF-8 replaced. Raises MachineError."""
        return self.read_bytes(remote).decode(errors="replace")

    @contextmanager
    def _lossy(self, what: str, limit_s: float) -> Iterator[Any]:
        """Gives the connection for one step, ends it at the deadline, and turns every way to lose it into one error."""
        if self._connection is None:
            self.connect()
        connection = self._connection
        started = time.monotonic()
        try:
            with deadline(limit_s, connection.client.close):
                yield connection
        except FileNotFoundError as error:
            raise MachineError(f"{self.target.name}: {what}: no such file", details=words_of(error)) from error
        except PermissionError as error:
            raise MachineError(f"{self.target.name}: {what}: permission denied", details=words_of(error)) from error
        except LOST as error:
            if _is_answer(error) and connection.is_connected:
                raise MachineError(f"{self.target.name}: {what} failed: {words_of(error)}") from error
            self.close()
            self._explain_loss()
            waited_s = time.monotonic() - started
            raise MachineError(
                f"{self.target.name} was lost after {waited_s:.1f} s of {what}",
                details=words_of(error) if waited_s < limit_s else f"no answer within {limit_s:.0f} s",
                resolution="Look at the machine's console, then resume: nothing was counted.",
            ) from error

    def _clean_up(self, temporary: str) -> str:
        """Remove a part of an upload and tell how full its disk was; says nothing if the machine is lost as well."""
        script = 'df -P -k "${1%/*}"; rm -f -- "$1"'
        with suppress(MachineError):
            return self.run(("sh", "-c", script, "clean", temporary), timeout_s=20).stdout
        return ""


def _is_answer(error: BaseException) -> bool:
    """Did the machine itself say so (SFTP's error codes arrive as OSError)? A silence or a broken pipe is no answer."""
    return isinstance(error, OSError) and not isinstance(error, (TimeoutError, ConnectionError))

"""A shell on a lab machine. The only module that imports paramiko and fabric.

Four promises that neither library keeps by itself: only the pinned host key is accepted; every wait has an end; a
lost connection is a `MachineError` and never an exit code; nothing is read from the user's SSH settings or terminal.
"""

import hashlib
import logging
import secrets
import shlex
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import fabric
import paramiko
from invoke.exceptions import ThreadException
from paramiko.hostkeys import HostKeyEntry

from bisector.lab.pulse import keep_pulse
from bisector.model.errors import MachineError

# paramiko reports every refused connection from its own thread: dozens while a machine boots.
logging.getLogger("paramiko").addHandler(logging.NullHandler())

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
class Limits:
    """How long each wait of a connection may take, in seconds.

    Neither the library's hour for opening a channel nor its keepalives end a dead connection (fabric 1384, paramiko
    2463). TCP does after `silence_s`; where it sees nothing, a question every `pulse_s` (None: never) whose answer is
    waited for half as long.
    """

    connect_s: float = 10.0
    banner_s: float = 10.0
    auth_s: float = 20.0
    channel_s: float = 15.0
    silence_s: int = 30
    transfer_s: float = 300.0
    pulse_s: float | None = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Where a machine answers, who we are there, and which host keys we accept (lines "ssh-ed25519 AAAA...").

    `jump` is the host to go through, if we cannot reach the machine ourselves.
    """

    name: str
    host: str
    port: int
    user: str
    key: Path
    host_keys: tuple[str, ...]
    jump: "Target | None" = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandResult:
    """A command that ended: its exit code (0 to 255) and both streams, bytes that are not UTF-8 replaced."""

    exit_code: int
    stdout: str
    stderr: str


class ConnectError(MachineError):
    """No connection; `stage` tells whether nobody answered, we were refused, or somebody else answered."""

    def __init__(self, brief: str, *, stage: Literal["reach", "login", "host_key"], details: str = "") -> None:
        resolution = {
            "reach": "Look at the machine's console and network, then resume.",
            "login": "Check that the machine accepts this session's key, then resume.",
            "host_key": "If the machine was reinstalled, pin its new key; otherwise find out who answers there.",
        }[stage]
        super().__init__(brief, details=details, resolution=resolution)
        self.stage = stage


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
                hop = _open(gateway, self.limits, None)
            self._connection = _open(self.target, self.limits, hop)
        except ConnectError as failure:
            if hop is not None:
                _close(hop)
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
            _close(connection)

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
        with self._lossy("opening a channel", self.limits.channel_s) as connection:
            channel = connection.transport.open_session(timeout=self.limits.channel_s)
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
            with _deadline(limit_s, connection.client.close):
                yield connection
        except FileNotFoundError as error:
            raise MachineError(f"{self.target.name}: {what}: no such file", details=_said(error)) from error
        except PermissionError as error:
            raise MachineError(f"{self.target.name}: {what}: permission denied", details=_said(error)) from error
        except _LOST as error:
            if _is_answer(error) and connection.is_connected:
                raise MachineError(f"{self.target.name}: {what} failed: {_said(error)}") from error
            self.close()
            self._explain_loss()
            waited_s = time.monotonic() - started
            raise MachineError(
                f"{self.target.name} was lost after {waited_s:.1f} s of {what}",
                details=_said(error) if waited_s < limit_s else f"no answer within {limit_s:.0f} s",
                resolution="Look at the machine's console, then resume: nothing was counted.",
            ) from error

    def _clean_up(self, temporary: str) -> str:
        """Remove a part of an upload and tell how full its disk was; says nothing if the machine is lost as well."""
        script = 'df -P -k "${1%/*}"; rm -f -- "$1"'
        with suppress(MachineError):
            return self.run(("sh", "-c", script, "clean", temporary), timeout_s=20).stdout
        return ""


_LOST = (paramiko.SSHException, EOFError, OSError, ThreadException)


def _is_answer(error: BaseException) -> bool:
    """Did the machine itself say so (SFTP's error codes arrive as OSError)? A silence or a broken pipe is no answer."""
    return isinstance(error, OSError) and not isinstance(error, (TimeoutError, ConnectionError))


def _open(target: Target, limits: Limits, hop: Any) -> Any:
    connection = _connection_to(target, limits, hop)
    try:
        # paramiko's own limits cover the steps; this one covers their sum, key exchange included.
        with _deadline(limits.connect_s + limits.banner_s + limits.auth_s, connection.client.close):
            connection.open()
        _watch_silence(connection.transport.sock, limits.silence_s)
    except _LOST as error:
        with suppress(*_LOST):
            connection.client.close()
        raise _connect_error(target, error) from error
    return connection


def _close(connection: Any) -> None:
    with suppress(*_LOST):
        connection.client.close()
    if connection.gateway is not None:
        with suppress(*_LOST):
            connection.gateway.client.close()


def _connection_to(target: Target, limits: Limits, hop: Any) -> Any:
    connection = fabric.Connection(
        target.host,
        user=target.user,
        port=target.port,
        gateway=hop,
        # lazy: neither ~/.ssh/config nor /etc/fabric.yml may decide where a session's commands run.
        config=fabric.Config(lazy=True, overrides={"load_ssh_configs": False}),
        connect_timeout=limits.connect_s,
        forward_agent=False,
        connect_kwargs={
            "pkey": paramiko.PKey.from_path(target.key),
            "allow_agent": False,
            "look_for_keys": False,
            "banner_timeout": limits.banner_s,
            "auth_timeout": limits.auth_s,
            "channel_timeout": limits.channel_s,
        },
    )
    # fabric accepts any host key (AutoAddPolicy) unless told otherwise.
    connection.client.set_missing_host_key_policy(paramiko.RejectPolicy())
    for line in target.host_keys:
        entry = _pinned(target, line)
        connection.client.get_host_keys().add(entry.hostnames[0], entry.key.get_name(), entry.key)
    return connection


def _pinned(target: Target, line: str) -> Any:
    # OpenSSH's and paramiko's spelling: the port is part of the name unless it is 22.
    name = target.host if target.port == paramiko.config.SSH_PORT else f"[{target.host}]:{target.port}"
    entry = HostKeyEntry.from_line(f"{name} {line}")
    if entry is None or entry.key is None:
        raise MachineError(f"{target.name}: the pinned host key {line[:60]!r} is not a public key")
    return entry


def _connect_error(target: Target, error: Exception) -> ConnectError:
    where = f"{target.name} ({target.host}:{target.port})"
    pinned = ", ".join(
        f"{e.key.get_name()} {e.key.fingerprint}" for e in (_pinned(target, k) for k in target.host_keys)
    )
    if isinstance(error, paramiko.BadHostKeyException):
        return ConnectError(
            f"{where} answers with another host key than the pinned one",
            stage="host_key",
            details=f"offered {error.key.get_name()} {error.key.fingerprint}, pinned {pinned}",
        )
    if isinstance(error, paramiko.ssh_exception.IncompatiblePeer) or "not found in known_hosts" in str(error):
        return ConnectError(
            f"{where} does not prove its identity with a pinned host key",
            stage="host_key",
            details=f"{_said(error)}; pinned {pinned or 'nothing'}",
        )
    if isinstance(error, paramiko.AuthenticationException):
        return ConnectError(f"{where} refuses {target.user} with {target.key}", stage="login", details=_said(error))
    return ConnectError(f"{where} does not answer by SSH", stage="reach", details=_said(error))


def _watch_silence(sock: object, silence_s: int) -> None:
    """Let TCP itself end a connection whose peer went silent: probes cost the machine's processes nothing."""
    if not isinstance(sock, socket.socket):
        return
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, max(1, silence_s // 3))
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, max(1, silence_s // 6))
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, silence_s * 1000)


@contextmanager
def _deadline(limit_s: float, give_up: Callable[[], None]) -> Iterator[None]:
    timer = threading.Timer(limit_s, give_up)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _said(error: BaseException) -> str:
    return str(error) or type(error).__name__

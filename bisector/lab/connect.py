"""Connections to lab machines: only the pinned host key is accepted, and every wait has an end.

With `ssh` and `hostkey` the only modules that import paramiko and fabric. Nothing is read from the user's SSH settings.
"""

import logging
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import fabric
import paramiko
from invoke.exceptions import ThreadException
from paramiko.hostkeys import HostKeyEntry

from bisector.model.errors import MachineError

# paramiko reports every refused connection from its own thread; while a machine boots there are dozens.
logging.getLogger("paramiko").addHandler(logging.NullHandler())


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


LOST = (paramiko.SSHException, EOFError, OSError, ThreadException)
"""What the libraries raise when a connection is lost, or never comes to be."""


def open_connection(target: Target, limits: Limits, hop: Any) -> Any:
    """A connection (fabric's), through `hop` if there is one. Raises ConnectError."""
    connection = _connection_to(target, limits, hop)
    try:
        # paramiko's own limits cover the steps; this one covers their sum, key exchange included.
        with deadline(limits.connect_s + limits.banner_s + limits.auth_s, connection.client.close):
            connection.open()
        _watch_silence(connection.transport.sock, limits.silence_s)
    except LOST as error:
        with suppress(*LOST):
            connection.client.close()
        raise _connect_error(target, error) from error
    return connection


def close_connection(connection: Any) -> None:
    """Drop a connection and the one it goes through."""
    with suppress(*LOST):
        connection.client.close()
    if connection.gateway is not None:
        with suppress(*LOST):
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
            "pkey": _key_of(target),
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


def _key_of(target: Target) -> Any:
    try:
        return paramiko.PKey.from_path(target.key)
    except paramiko.PasswordRequiredException:
        why, mend = "it is locked with a passphrase", "Use a key without one, for the lab alone: ssh-keygen -t ed25519"
    except (OSError, ValueError, paramiko.SSHException, paramiko.pkey.UnknownKeyType) as error:
        why, mend = words_of(error), "Name the private key's file, not the .pub beside it."
    raise MachineError(f"{target.name}: the key {target.key} cannot be used: {why}", resolution=mend)


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
            details=f"{words_of(error)}; pinned {pinned or 'nothing'}",
        )
    if isinstance(error, paramiko.AuthenticationException):
        return ConnectError(f"{where} refuses {target.user} with {target.key}", stage="login", details=words_of(error))
    return ConnectError(f"{where} does not answer by SSH", stage="reach", details=words_of(error))


def _watch_silence(sock: object, silence_s: int) -> None:
    """Let TCP itself end a connection whose peer went silent: probes cost the machine's processes nothing."""
    if not isinstance(sock, socket.socket):
        return
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, max(1, silence_s // 3))
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, max(1, silence_s // 6))
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, silence_s * 1000)


@contextmanager
def deadline(limit_s: float, give_up: Callable[[], None]) -> Iterator[None]:
    """Call `give_up` from another thread when the time is up."""
    timer = threading.Timer(limit_s, give_up)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def words_of(error: BaseException) -> str:
    """What an error says, or at least what it is."""
    return str(error) or type(error).__name__

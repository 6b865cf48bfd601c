"""Which host key a machine offers, before anybody has pinned one. Nobody logs in."""

import socket
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import paramiko

from bisector.lab.connect import LOST, ConnectError, Limits, Target, close_connection, open_connection, words_of
from bisector.lab.known_hosts import pinned_keys
from bisector.model.errors import MachineError


@dataclass(frozen=True, slots=True, kw_only=True)
class HostKey:
    """A public host key: `line` is what an entry pins ("ssh-ed25519 AAAA..."), `fingerprint` what people compare."""

    line: str
    fingerprint: str

    def __str__(self) -> str:
        return f"{self.line.split()[0].removeprefix('ssh-')} {self.fingerprint}"


def offered_key(host: str, port: int, *, through: Target | None = None, limits: Limits | None = None) -> HostKey:
    """The key that whoever answers there proves to have, through a jump host if one is given. Raises ConnectError."""
    limits = limits or Limits()
    hop = open_connection(through, limits, None) if through is not None else None
    try:
        sock: Any
        if hop is not None:
            sock = hop.transport.open_channel("direct-tcpip", (host, port), ("", 0), timeout=limits.connect_s)
        else:
            sock = socket.create_connection((host, port), timeout=limits.connect_s)
        transport = paramiko.Transport(sock)
        transport.banner_timeout = limits.banner_s
        try:
            transport.start_client(timeout=limits.banner_s + limits.auth_s)
            key = transport.get_remote_server_key()
        finally:
            transport.close()
    except LOST as error:
        way = "" if through is None else f" by way of {through.host}"
        raise ConnectError(
            f"{host}:{port} does not answer by SSH{way}", stage="reach", details=words_of(error)
        ) from error
    finally:
        if hop is not None:
            close_connection(hop)
    return HostKey(line=f"{key.get_name()} {key.get_base64()}", fingerprint=str(key.fingerprint))


def known_to(path: Path, host: str, port: int, key: HostKey) -> bool | None:
    """Does a known_hosts file pin this key for the host? None if it pins nothing of its kind, or cannot be read."""
    pinned: tuple[str, ...] = ()
    with suppress(MachineError):
        pinned = pinned_keys(path, host, port)
    same_kind = [line for line in pinned if line.split()[0] == key.line.split()[0]]
    return key.line in same_kind if same_kind else None

"""The keys that a known_hosts file pins for one host: hashed names, patterns, ports and revoked keys understood."""

import base64
import binascii
import hashlib
import hmac
from fnmatch import fnmatchcase
from pathlib import Path

from bisector.model.errors import MachineError


def pinned_keys(path: Path, host: str, port: int) -> tuple[str, ...]:
    """Lines "ssh-ed25519 AAAA..." for this host and port, revoked ones left out.

    Source: sshd(8), "SSH_KNOWN_HOSTS FILE FORMAT": the port is part of the name, "[host]:port", unless it is 22; a
    name that begins with | is an HMAC-SHA1 of it; `!` before a pattern excludes. Host certificates
    (@cert-authority) prove nothing to us and are passed over. Raises MachineError if the file pins nothing for it.
    """
    name = (host if port == 22 else f"[{host}]:{port}").lower()
    try:
        lines = path.read_text(errors="replace").splitlines()
    except OSError as error:
        raise MachineError(f"{path} cannot be read: {error.strerror}") from None
    kept: list[str] = []
    revoked: set[str] = set()
    authorities = 0
    for line in lines:
        fields = line.split()
        if not fields or fields[0].startswith("#"):
            continue
        mark = fields.pop(0) if fields[0].startswith("@") else ""
        if len(fields) < 3 or not _names(fields[0], name):
            continue
        key = " ".join(fields[1:3])
        if mark == "@revoked":
            revoked.add(key)
        elif mark:
            authorities += 1
        elif key not in kept:
            kept.append(key)
    left = tuple(key for key in kept if key not in revoked)
    if not left:
        why = [f"{len(kept)} key(s) of it are revoked"] if kept else []
        why += [f"{authorities} line(s) are @cert-authority, which is not supported"] if authorities else []
        raise MachineError(
            f"{path} pins no host key for {name}",
            details="; ".join(why),
            resolution=f"Find the key out on the machine's console, or by: ssh-keyscan -p {port} {host}",
        )
    return left


def _names(patterns: str, name: str) -> bool:
    if patterns.startswith("|1|"):
        return _is_hash_of(patterns, name)
    found = False
    for pattern in patterns.lower().split(","):
        # fnmatch would take the brackets of "[host]:port" for a set of characters.
        plain = pattern.removeprefix("!").replace("[", "[[]")
        if fnmatchcase(name, plain):
            if pattern.startswith("!"):
                return False
            found = True
    return found


def _is_hash_of(hashed: str, name: str) -> bool:
    try:
        salt, digest = (base64.b64decode(part, validate=True) for part in hashed.split("|")[2:4])
    except (ValueError, binascii.Error):
        return False
    return hmac.compare_digest(hmac.new(salt, name.encode(), hashlib.sha1).digest(), digest)

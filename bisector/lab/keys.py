"""The keys of one session: who we are on the machine, and what proves that it is our machine."""

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from bisector.lab.programs import DROPBEARKEY
from bisector.model.errors import MachineError


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionKeys:
    """Two ed25519 pairs. `host` is in dropbear's own format; the public lines are OpenSSH's ("ssh-ed25519 AAAA")."""

    user: Path
    user_public: str
    host: Path
    host_public: str


def session_keys(folder: Path) -> SessionKeys:
    """The folder's keys, made on first use and readable by the owner alone; the same ones after a resume.

    Raises MissingPackageError without dropbearkey, MachineError if it fails.
    """
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    user, host = folder / "user_key", folder / "host_key"
    if not user.exists():
        pem = Ed25519PrivateKey.generate().private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.OpenSSH, serialization.NoEncryption()
        )
        _write_private(user, pem)
    if not host.exists():
        temporary = folder / "host_key.part"
        temporary.unlink(missing_ok=True)
        _dropbearkey("-t", "ed25519", "-f", str(temporary))
        temporary.chmod(0o600)
        temporary.replace(host)
    private = serialization.load_ssh_private_key(user.read_bytes(), password=None)
    public = private.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    shown = _dropbearkey("-y", "-f", str(host))
    lines = [line for line in shown.splitlines() if line.startswith("ssh-ed25519 ")]
    if not lines:
        raise MachineError(
            f"{host} is not an ed25519 host key", details=shown, resolution="Remove it; it is made anew."
        )
    return SessionKeys(user=user, user_public=public.decode(), host=host, host_public=" ".join(lines[0].split()[:2]))


def _write_private(path: Path, content: bytes) -> None:
    temporary = path.with_name(path.name + ".part")
    temporary.unlink(missing_ok=True)
    with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(content)
    temporary.replace(path)


def _dropbearkey(*arguments: str) -> str:
    done = subprocess.run(
        [str(DROPBEARKEY.path()), *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=60,
        check=False,
    )
    if done.returncode != 0:
        said = (done.stderr or done.stdout).decode(errors="replace")
        raise MachineError(f"dropbearkey {' '.join(arguments)} ended with {done.returncode}", details=said)
    return done.stdout.decode(errors="replace")

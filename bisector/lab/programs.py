"""The programs the embedded machine needs on this computer, where they are, and which package brings them."""

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from bisector.model.errors import MissingPackageError

_SBIN = "/usr/local/sbin:/usr/sbin:/sbin"


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """A program by its name in PATH or by the fixed places it is installed to, and its Debian package."""

    name: str
    package: str
    places: tuple[str, ...] = ()

    def find(self) -> Path | None:
        """Where it is, or None. /usr/sbin is searched too: an ordinary user's PATH often lacks it."""
        for place in self.places:
            if os.access(place, os.X_OK):
                return Path(place)
        found = shutil.which(self.name, path=f"{os.environ.get('PATH', os.defpath)}:{_SBIN}")
        return Path(found) if found else None

    def path(self) -> Path:
        """Where it is. Raises MissingPackageError."""
        found = self.find()
        if found is None:
            raise _missing((self,))
        return found


QEMU = Program(name="qemu-system-x86_64", package="qemu-system-x86")
SETPRIV = Program(name="setpriv", package="util-linux")
LDD = Program(name="ldd", package="libc-bin")
BUSYBOX = Program(name="busybox", package="busybox-static")
DROPBEAR = Program(name="dropbear", package="dropbear-bin")
DROPBEARKEY = Program(name="dropbearkey", package="dropbear-bin")
SFTP_SERVER = Program(
    name="sftp-server",
    package="openssh-sftp-server",
    places=("/usr/lib/openssh/sftp-server", "/usr/lib/sftp-server", "/usr/libexec/openssh/sftp-server"),
)

EMBEDDED = (QEMU, SETPRIV, LDD, BUSYBOX, DROPBEAR, DROPBEARKEY, SFTP_SERVER)
"""All that the embedded machine needs."""


def missing_programs(wanted: tuple[Program, ...] = EMBEDDED) -> tuple[Program, ...]:
    """The programs that are not here; empty when the embedded machine can be used."""
    return tuple(program for program in wanted if program.find() is None)


def require_programs(wanted: tuple[Program, ...] = EMBEDDED) -> None:
    """Raises MissingPackageError naming every missing program and the packages to install."""
    missing = missing_programs(wanted)
    if missing:
        raise _missing(missing)


def _missing(programs: tuple[Program, ...]) -> MissingPackageError:
    packages = sorted({program.package for program in programs})
    names = ", ".join(program.name for program in programs)
    return MissingPackageError(
        f"The embedded lab machine needs {names}, not found in PATH or /usr/sbin",
        resolution=f"Debian and Ubuntu: sudo apt-get install {' '.join(packages)}",
    )

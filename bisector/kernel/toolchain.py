"""The compiler and the rest that a build needs of this machine: found, named, and asked who it is."""

import os
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bisector.kernel.config import digest_of
from bisector.model.errors import BuilderError, MissingPackageError

# Debian's and Ubuntu's names. What a kernel's own configuration needs beyond these shows in the build log
# (diagnose.py).
_PROGRAMS = {"make": "make", "ld": "binutils", "flex": "flex", "bison": "bison", "bc": "bc"}
_ANSWER_TIMEOUT_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Toolchain:
    """`cc` is what make gets as CC; `id` differs whenever another compiler or linker would do the work."""

    cc: str
    id: str


def check_host(compiler: str) -> None:
    """Raise MissingPackageError, all missing packages at once, unless a kernel can be configured and compiled."""
    package = {"gcc": "gcc", "clang": "clang"}.get(compiler, compiler)
    missing = {name: where for name, where in {**_PROGRAMS, compiler: package}.items() if shutil.which(name) is None}
    if missing:
        raise MissingPackageError(
            f"building a kernel needs {', '.join(sorted(missing))}, which this machine does not have",
            resolution=f"apt-get install {' '.join(sorted(set(missing.values())))}",
        )


def find_toolchain(compiler: str) -> Toolchain:
    """The compiler of that name, through ccache where that is installed. Raises BuilderError if it does not answer."""
    program = shutil.which(compiler)
    if program is None:
        raise BuilderError(
            f"the compiler {compiler!r} is not installed", resolution=f"apt-get install {compiler}; then resume"
        )
    version = _answer([program, "--version"]).splitlines()[:1]
    linker = _answer(["ld", "--version"]).splitlines()[:1]
    digest = digest_of([str(Path(program).resolve()), *version, *linker, _answer([program, "-v"])])
    cc = f"ccache {compiler}" if shutil.which("ccache") else compiler
    return Toolchain(cc=cc, id=f"{version[0] if version else compiler} [{digest[:12]}]")


def build_environment(folder: Path) -> dict[str, str]:
    """What make sees: a short list of ours instead of what the user's shell holds (MAKEFLAGS, ARCH, KBUILD_* ...).

    The marker names this builder's folder, so that what a killed controller left running can be found.
    """
    kept = {
        name: value
        for name, value in os.environ.items()
        if name in ("PATH", "HOME", "USER", "LOGNAME", "TMPDIR") or name.startswith("CCACHE_")
    }
    return {
        # Two sessions compile the same files in two folders: let ccache see one.
        "CCACHE_BASEDIR": str(folder),
        "CCACHE_NOHASHDIR": "1",
        **kept,
        # Never ccache's depend mode, nor what another user of the same cache stored in it: it does not see that a file
        # takes in another one by .incbin. So a kernel whose packed size equals an earlier one's gets that one's code.
        "CCACHE_NODEPEND": "1",
        "CCACHE_NAMESPACE": "bisector",
        "LC_ALL": "C",
        "KBUILD_BUILD_USER": "bisector",
        "KBUILD_BUILD_HOST": "bisector",
        "KBUILD_BUILD_TIMESTAMP": "Thu Jan  1 00:00:00 UTC 1970",
        "KBUILD_BUILD_VERSION": "1",
        "SOURCE_DATE_EPOCH": "0",
        "BISECTOR_BUILD": str(folder),
    }


def _answer(command: Sequence[str]) -> str:
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            timeout=_ANSWER_TIMEOUT_S,
            env={**os.environ, "LC_ALL": "C"},
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise BuilderError(
            f"{command[0]} does not answer", details=str(error), resolution=f"Try it: {' '.join(command)}"
        ) from error
    if done.returncode != 0:
        raise BuilderError(
            f"{' '.join(command)} ended with status {done.returncode}",
            details=done.stderr.decode(errors="replace")[-2000:],
            resolution="Mend the compiler, then resume the session",
        )
    return (done.stdout + done.stderr).decode(errors="replace")

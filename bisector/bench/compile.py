"""The suite's program, compiled on the controller and kept by the digest of what it was made from.

One session measures with one program: the digest is compiled in, comes back in every run's first line, and the
runner compares it (`runner.py`).
"""

import contextlib
import hashlib
import os
import subprocess
import tempfile
from pathlib import Path

from bisector.model.errors import BuilderError, MissingPackageError

SOURCES = Path(__file__).parent / "suite"
# No stack protector: patch.c runs before the C library has made the guard's value.
C_FLAGS = ("-std=c11", "-D_GNU_SOURCE", "-O2", "-fno-builtin", "-fno-stack-protector", "-Wall", "-Wextra", "-Werror")
FLAGS = (*C_FLAGS, "-static")
COMPILE_TIMEOUT_S = 120.0


def source_digest(sources: Path = SOURCES) -> str:
    """SHA-256 (64 hex digits) of the suite's sources, names included."""
    digest = hashlib.sha256()
    for source in _files(sources):
        content = source.read_bytes()
        digest.update(f"{source.name} {len(content)}\n".encode())
        digest.update(content)
    return digest.hexdigest()


def build_suite(folder: Path, cc: str = "gcc", *, sources: Path = SOURCES) -> Path:
    """The static program `bisector-suite-<16 hex>` in `folder`, compiled unless it is there already.

    The name carries a digest of sources, flags and compiler version. Safe to call from several processes at once:
    each compiles for itself, the first to finish puts its file into place.

    Raises MissingPackageError (no compiler, no static C library) or BuilderError (anything else).
    """
    flags = [*FLAGS, f'-DSUITE_DIGEST="{source_digest(sources)}"', *_entry_flags(cc)]
    recipe = "\0".join([*flags, _ask(cc, "--version"), source_digest(sources)])
    program = folder / f"bisector-suite-{hashlib.sha256(recipe.encode()).hexdigest()[:16]}"
    if program.exists():
        return program
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder, prefix=".compile-") as scratch:
        unfinished = Path(scratch) / program.name
        inputs = [str(source) for source in _files(sources) if source.suffix == ".c"]
        _compile([cc, *flags, *inputs, "-o", str(unfinished)], cc)
        with unfinished.open("rb") as written:
            os.fsync(written.fileno())
        # Linked, not renamed: if another process was faster, its program may be running by now, and exec_test
        # executes that very file again.
        with contextlib.suppress(FileExistsError):
            program.hardlink_to(unfinished)
    return program


def _files(sources: Path) -> list[Path]:
    return sorted(path for path in sources.iterdir() if path.suffix in {".c", ".h"})


def _entry_flags(cc: str) -> list[str]:
    # The short way of `true` (entry.c) is written for one architecture; elsewhere main() answers.
    return ["-Wl,-e,suite_start"] if _ask(cc, "-dumpmachine").startswith("x86_64") else []


def _ask(cc: str, option: str) -> str:
    return _run([cc, option], cc).stdout.strip()


def _compile(command: list[str], cc: str) -> None:
    done = _run(command, cc)
    if done.returncode == 0:
        return
    if "cannot find -lc" in done.stderr or ".h: No such file or directory" in done.stderr:
        raise MissingPackageError(
            "The C library's static part or headers are not installed.",
            details=done.stderr.strip(),
            resolution="Install it: apt-get install libc6-dev",
        )
    raise BuilderError(
        f"The benchmark suite does not compile: {cc} ended with {done.returncode}.",
        details=done.stderr.strip(),
        resolution=f"Try another compiler than {cc}, or run by hand: {' '.join(command)}",
    )


def _run(command: list[str], cc: str) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            command,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            stdin=subprocess.DEVNULL,
            timeout=COMPILE_TIMEOUT_S,
            # Messages are looked at: they must come in one language.
            env={**os.environ, "LC_ALL": "C"},
        )
    except FileNotFoundError:
        raise MissingPackageError(
            f"The C compiler {cc} is not installed.", resolution="Install it: apt-get install gcc libc6-dev"
        ) from None
    except (OSError, subprocess.TimeoutExpired) as error:
        raise BuilderError(
            f"The C compiler {cc} cannot be used: {error}", resolution="Free memory or disk space, then try again."
        ) from error

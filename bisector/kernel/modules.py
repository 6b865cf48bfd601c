"""A kernel's modules: installed into a folder of the builder's, and packed into one file that machines unpack."""

import gzip
import shutil
import tarfile
from pathlib import Path

from bisector.kernel import elf
from bisector.kernel.config import digest_of, parse_config
from bisector.kernel.make import Make
from bisector.model.outcome import Outcome

_LINKS = ("build", "source")
"""What modules_install leaves beside the modules: links to folders of this computer."""

_BLOCK_BYTES = 4096
_LEVEL = 6


def are_on(config: str) -> bool:
    """Has a kernel of this configuration (the text of a .config) modules?"""
    return parse_config(config).get("CONFIG_MODULES") == "y"


class Staging:
    """The folder that `make modules_install` fills, below the builder's own. It holds one kernel's modules at most."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def clear(self) -> None:
        """Empty it."""
        shutil.rmtree(self._folder, ignore_errors=True)

    def install(self, make: Make, source: Path, jobs: int) -> None:
        """The modules that were just made, without debug information. Raises what `Make.run` raises."""
        self.clear()
        words = [f"-j{jobs}", f"INSTALL_MOD_PATH={self._folder}", "INSTALL_MOD_STRIP=1", "modules_install"]
        make.run(source, words, outcome=Outcome.BUILD_FAILED)
        for tree in self._folder.glob("lib/modules/*"):
            # Tools that make an initramfs look for it, here or in /boot.
            shutil.copyfile(make.output / ".config", tree / "config")

    def tree(self, release: str) -> Path | None:
        """The folder of that release's modules; None if the kernel has no module at all."""
        tree = self._folder / "lib" / "modules" / release
        return tree if any(tree.rglob("*.ko*")) else None

    def doubt(self, release: str) -> str:
        """Which module is not of that release, by its own word (vermagic), or ""."""
        tree = self.tree(release)
        strangers = (path for path in sorted(tree.rglob("*.ko")) if not elf.holds(path, release)) if tree else ()
        return next((f"{path.name} is not a module of {release}" for path in strangers), "")


def signature(tree: Path, output: Path, *, blank: str) -> str:
    """A digest of what all modules execute, as `elf.signature` is one of vmlinux.

    Read from the objects in make's output folder: those installed may be compressed, or signed with a key that every
    build folder makes for itself.
    """
    parts: list[str] = []
    for path in sorted(tree.rglob("*.ko*")):
        name = path.relative_to(tree).as_posix()
        name = name[: name.rindex(".ko") + len(".ko")]
        built = output / name.removeprefix("kernel/")
        parts += [name, elf.module_signature(built if built.exists() else path, blank=blank)]
    return digest_of(parts)


def pack(tree: Path, target: Path) -> int:
    """Write a gzipped tar of the folder to `target`; the bytes that it will take on a disk.

    The same files give the same bytes: names sorted, times and owners zero.
    """
    unpacked = 0
    with (
        target.open("wb") as raw,
        gzip.GzipFile(filename="", mode="wb", fileobj=raw, mtime=0, compresslevel=_LEVEL) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.GNU_FORMAT) as archive,
    ):
        for path in sorted(tree.rglob("*")):
            if path.parent == tree and path.name in _LINKS:
                continue
            member = archive.gettarinfo(path, arcname=path.relative_to(tree).as_posix())
            member.mtime = member.uid = member.gid = 0
            member.uname = member.gname = ""
            member.mode = 0o755 if member.isdir() else 0o644
            unpacked += -(-max(member.size, 1) // _BLOCK_BYTES) * _BLOCK_BYTES
            if member.isreg():
                with path.open("rb") as file:
                    archive.addfile(member, file)
            else:
                archive.addfile(member)
    return unpacked

"""The demonstration's scripts stand alone, outside the package: they are loaded from their folder."""

import importlib
import io
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

DEMO = Path(__file__).resolve().parents[2] / "recipes" / "demo"

MAKEFILE = "VERSION = 6\nPATCHLEVEL = 1\nSUBLEVEL = 7\n"
GITIGNORE = "*.o\n#\n# Debian packaging\n#\n/*\n!/debian/\n"


@pytest.fixture(scope="session")
def plan() -> ModuleType:
    return _load("history_plan")


@pytest.fixture(scope="session")
def history() -> ModuleType:
    return _load("make_history")


def _load(name: str) -> ModuleType:
    sys.dont_write_bytecode, before = True, sys.dont_write_bytecode
    sys.path.insert(0, str(DEMO))
    try:
        return importlib.import_module(name)
    finally:
        sys.path.remove(str(DEMO))
        sys.dont_write_bytecode = before


@pytest.fixture(scope="session")
def small_tree(plan: ModuleType) -> dict[str, tuple[int, str]]:
    """A made-up source that the real list of changes fits: path -> (file mode, text). Not a kernel."""
    texts: dict[str, str] = {}
    now: dict[str, str] = {}
    for change in plan.load_changes(DEMO / "history.toml"):
        for edit in change.edits:
            old, new = edit.old.decode(), edit.new.decode()
            if old not in now.get(edit.file, ""):
                texts[edit.file] = texts.get(edit.file, "") + old
                now[edit.file] = now.get(edit.file, "") + old
            now[edit.file] = now[edit.file].replace(old, new)
    tree = {path: (0o664, text) for path, text in texts.items()}
    return tree | {
        "Makefile": (0o644, MAKEFILE),
        ".gitignore": (0o644, GITIGNORE),
        "scripts/setlocalversion": (0o755, "#!/bin/sh\n"),
        "sound/pci/Kconfig": (0o644, "menu\n"),
        "sound/pci/card.c": (0o644, "int card;\n"),
        "arch/arm/mm/fault.c": (0o644, "int fault;\n"),
    }


@pytest.fixture(scope="session")
def pack(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Writes a tree as the package's archive: a folder, its files, one symbolic link."""

    def packed(tree: dict[str, tuple[int, str]], name: str = "linux-source-6.1.tar.xz") -> Path:
        archive = tmp_path_factory.mktemp("source") / name
        with tarfile.open(archive, "w:xz", preset=0) as tar:
            for path, (mode, text) in tree.items():
                member = tarfile.TarInfo(f"linux-source-6.1/{path}")
                member.mode, member.size = mode, len(text.encode())
                tar.addfile(member, io.BytesIO(text.encode()))
            link = tarfile.TarInfo("linux-source-6.1/scripts/link")
            link.type, link.linkname = tarfile.SYMTYPE, "setlocalversion"
            tar.addfile(link)
        return archive

    return packed


@pytest.fixture(scope="session")
def small_source(small_tree: dict[str, tuple[int, str]], pack: Callable[..., Path]) -> Path:
    return pack(small_tree)

"""A toy kernel's history and a builder for it: real git, real make, real gcc."""

import os
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from gitrepo import GitRepo

from bisector.history.repository import Repository
from bisector.history.worktree import WorkTree
from bisector.kernel.builder import KernelBuilder
from bisector.kernel.source import SourceTree
from bisector.kernel.store import ImageCache
from bisector.model.kernel import KernelImage
from bisector.model.progress import Progress
from bisector.recipe.schema import KernelPart

TOY = Path(__file__).parent / "toykernel"


@dataclass(kw_only=True)
class Toy:
    """A repository of toy kernels, and builders on it that share one cache."""

    folder: Path
    repo: GitRepo
    good: str
    progress: list[Progress] = field(default_factory=list)
    _open: list[tuple[KernelBuilder, WorkTree, ImageCache]] = field(default_factory=list)

    def commit(self, subject: str, files: Mapping[str, str | None], *, parent: str | None = None) -> str:
        """A commit on `parent` (default: the first one)."""
        return self.repo.commit(subject, files, parents=[parent or self.good])

    def builder(
        self,
        part: KernelPart | None = None,
        *,
        name: str = "builder",
        wrap: Callable[[Repository, WorkTree], SourceTree] = lambda _, tree: tree,
    ) -> KernelBuilder:
        """A builder as the wiring makes it; `name` is its folder, `wrap` what is laid over its tree."""
        repository = Repository.open(self.repo.path)
        source = WorkTree(repository, self.folder / name / "src")
        cache = ImageCache(self.folder / "cache", 1 << 26)
        builder = KernelBuilder(
            part or KernelPart(base="defconfig", jobs=2, timeout_s=60.0),
            self.folder,
            source=wrap(repository, source),
            good=self.good,
            folder=self.folder / name,
            cache=cache,
        )
        self._open.append((builder, source, cache))
        return builder

    def build(self, builder: KernelBuilder, commit: str) -> KernelImage:
        """Build with the log in `log` and the progress noted."""
        return builder.build(commit, log=self.log, on_progress=self.progress.append)

    def built_alone(self, commit: str) -> str:
        """The signature of the same commit built from nothing, in another folder and without the cache."""
        (self.folder / "cache").rename(self.folder / "cache-of-before")
        alone = self.build(self.builder(name="alone"), commit)
        assert not alone.from_cache
        return alone.signature

    @property
    def log(self) -> Path:
        """Where `build` writes make's output."""
        return self.folder / "logs" / "build.log"

    @property
    def compiled(self) -> list[str]:
        """Objects that the last build compiled."""
        return [line.split()[1] for line in self.log.read_text().splitlines() if line.startswith("  CC ")]

    def close(self) -> None:
        """Close every builder."""
        for builder, source, cache in self._open:
            builder.close()
            source.close()
            cache.close()
        self._open.clear()


@pytest.fixture
def toy(tmp_path: Path) -> Iterator[Toy]:
    repo = GitRepo(tmp_path / "repo")
    files = {str(path.relative_to(TOY)): path.read_text() for path in sorted(TOY.rglob("*")) if path.is_file()}
    toy = Toy(folder=tmp_path, repo=repo, good=repo.commit("toy: first", files))
    yield toy
    toy.close()


@pytest.fixture
def wait_until() -> Callable[[Callable[[], bool]], None]:
    """Wait for something that another process does; fails after 20 s."""

    def wait(condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + 20
        while not condition():
            assert time.monotonic() < deadline, "waited 20 s in vain"
            time.sleep(0.02)

    return wait


@pytest.fixture
def marked_processes() -> Callable[[Path], list[int]]:
    """Processes that carry the marker of a builder's folder."""

    def find(folder: Path) -> list[int]:
        found = []
        for entry in Path("/proc").iterdir():
            if not entry.name.isdecimal() or int(entry.name) == os.getpid():
                continue
            try:
                if f"BISECTOR_BUILD={folder}".encode() in (entry / "environ").read_bytes().split(b"\0"):
                    found.append(int(entry.name))
            except OSError:
                continue
        return found

    return find

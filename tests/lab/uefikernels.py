"""Kernels of the demonstration's history that a UEFI firmware can start. The demonstration itself builds none."""

import fcntl
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import real
from lab.machines import disk_kernels

from bisector.history.repository import Repository
from bisector.history.worktree import WorkTree
from bisector.kernel.builder import KernelBuilder
from bisector.kernel.store import ImageCache
from bisector.model.kernel import KernelImage
from bisector.recipe.load import load_recipe

DEMO = Path(__file__).parents[2] / "recipes" / "demo" / "demo.yaml"
FRAGMENTS = ("demo.config", "uefi.config")
CACHE_BYTES = 4 << 30


def uefi_kernels() -> dict[str, KernelImage]:
    """Four of them by commit, the good end's among them and none that panics, and whatever a hunt built before.

    Built into the demonstration's own cache, so only once, and not again by a hunt with the same fragments.
    """
    told = real.planted()
    log = ["git", "-C", str(real.demo_history()), "rev-list", "--first-parent", f"{told['first_bad']}^", "--not"]
    listed = subprocess.run([*log, told["good"]], capture_output=True, text=True, check=True).stdout.split()
    wanted = [told["good"], *listed[:3]]
    assert not {*told["panicking"], *told["unbuildable"]} & set(wanted)
    folder = real.demo_home() / "uefi"
    folder.mkdir(exist_ok=True)
    with _alone(folder / "lock"):
        _build(wanted, folder)
    return disk_kernels(uefi=True)


@contextmanager
def _alone(lock: Path) -> Iterator[None]:
    with lock.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _build(commits: list[str], folder: Path) -> None:
    part = load_recipe(DEMO).recipe.kernel.model_copy(
        update={"fragments": tuple(str(DEMO.parent / name) for name in FRAGMENTS)}
    )
    repository = Repository.open(real.demo_history())
    cache = ImageCache(real.demo_home() / "kernels", CACHE_BYTES)
    with WorkTree(repository, folder / "tree") as source:
        builder = KernelBuilder(part, DEMO.parent, source=source, good=commits[0], folder=folder, cache=cache)
        try:
            for commit in commits:
                builder.build(commit, log=folder / f"{commit}.log", on_progress=lambda _: None)
        finally:
            builder.close()
            cache.close()

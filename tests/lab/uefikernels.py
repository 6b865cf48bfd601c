"""Kernels of the demonstration's history that a UEFI firmware can start. The demonstration itself builds none."""

import fcntl
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import real
from lab.machines import disk_kernels

from bisector.cli.wiring import kernel_builder
from bisector.model.kernel import KernelImage
from bisector.recipe.load import load_recipe
from bisector.session.home import Home

DEMO = Path(__file__).parents[2] / "recipes" / "demo" / "demo.yaml"
FRAGMENTS = ("demo.config", "uefi.config")


def builder_folder() -> Path:
    """Where they are built. A hunt with the same fragments goes on there, and has nothing to build from nothing."""
    return real.demo_home() / "uefi"


def uefi_kernels() -> dict[str, KernelImage]:
    """Four of them by commit, the good end's among them and none that panics, and whatever a hunt built before.

    Built into the demonstration's own cache, so only once, and not again by a hunt with the same fragments.
    """
    told = real.planted()
    log = ["git", "-C", str(real.demo_history()), "rev-list", "--first-parent", f"{told['first_bad']}^", "--not"]
    listed = subprocess.run([*log, told["good"]], capture_output=True, text=True, check=True).stdout.split()
    wanted = [told["good"], *listed[:3]]
    assert not {*told["panicking"], *told["unbuildable"]} & set(wanted)
    folder = builder_folder()
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
    recipe = load_recipe(DEMO).recipe
    fragments = tuple(str(DEMO.parent / name) for name in FRAGMENTS)
    recipe = recipe.model_copy(update={"kernel": recipe.kernel.model_copy(update={"fragments": fragments})})
    home, history = Home(real.demo_home()), str(real.demo_history())
    builder, tree = kernel_builder(home, folder, history, recipe, good=commits[0])
    with tree, closing(builder):
        for commit in commits:
            builder.build(commit, log=folder / f"{commit}.log", on_progress=lambda _: None)

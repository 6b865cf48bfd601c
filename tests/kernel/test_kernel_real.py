"""A real kernel through the builder, from the demonstration's history."""

import subprocess
from pathlib import Path

import pytest
import real
from gitrepo import GitRepo

from bisector.history.repository import Repository
from bisector.history.worktree import WorkTree
from bisector.kernel import bzimage, elf
from bisector.kernel.builder import KernelBuilder
from bisector.kernel.store import ImageCache
from bisector.model.kernel import KernelImage
from bisector.model.progress import Progress
from bisector.recipe.schema import KernelPart

_RECIPES = Path(__file__).parents[2] / "recipes" / "demo"
_PART = KernelPart(base="allnoconfig", fragments=("demo.config",), required=("CONFIG_SMP=n", "CONFIG_MODULES=n"))


@pytest.mark.kernel
@pytest.mark.timeout(3600)
def test_neighbours_of_a_real_history_are_small_steps_with_proven_images(tmp_path: Path) -> None:
    history = real.demo_history()
    clone = tmp_path / "linux"
    subprocess.run(["git", "clone", "-q", "--shared", "--no-checkout", str(history), str(clone)], check=True)
    repo = GitRepo(clone)
    repository = Repository.open(clone)
    first, second = (commit.id for commit in repository.read_range("demo-good", "demo-bad").commits[:2])
    idle = repo.commit("nothing at all", {}, parents=[second], ref="idle")
    images: list[KernelImage] = []
    lines: list[int] = []
    fractions: list[float | None] = []

    def note(step: Progress) -> None:
        fractions.append(step.fraction)

    with WorkTree(repository, tmp_path / "build" / "tree") as source:
        cache = ImageCache(tmp_path / "cache", 1 << 30)
        builder = KernelBuilder(_PART, _RECIPES, source=source, good=first, folder=tmp_path / "build", cache=cache)
        for commit in (first, second, idle):
            log = tmp_path / f"{commit}.log"
            images.append(builder.build(commit, log=log, on_progress=note))
            lines.append(sum(line.startswith("  CC ") for line in log.read_text().splitlines()))
            image = images[-1]
            assert image.release.endswith(f"-bisector-{commit[:12]}")
            assert bzimage.stated_release(Path(image.path)) == image.release
            assert bzimage.carries(Path(image.path), image.build_id) is True
            assert elf.build_id(tmp_path / "build/out/vmlinux") == image.build_id
            assert image.config_changes == ()
        builder.close()
        cache.close()
    assert len({image.build_id for image in images}) == 3
    assert bzimage.carries(Path(images[0].path), images[1].build_id) is False
    assert images[0].signature != images[1].signature
    assert images[1].signature == images[2].signature
    # Seconds depend on the machine's other work; compilations do not.
    assert lines[1] < lines[0] / 4
    assert lines[2] < 12
    print(f"compilations {lines}, seconds {[round(image.duration_s, 1) for image in images]}")

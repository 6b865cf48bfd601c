"""A whole hunt on a machine with GRUB, by the real command and a machines file; only the metal is QEMU's."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import real
import yaml
from lab.diskbox import DiskBox
from lab.grubdisk import UNTOUCHED, environment, make_grub_box, missing
from lab.machines import disk_kernels

from bisector.model.events import BootFailed, KernelBuilt, MachineTrouble
from bisector.model.outcome import Outcome
from bisector.session.home import Home
from bisector.session.state import Status, fold

pytestmark = [
    pytest.mark.kernel,
    pytest.mark.timeout(1800),
    pytest.mark.skipif(bool(missing()), reason=f"needs {', '.join(missing())}"),
]

DEMO = Path(__file__).parents[2] / "recipes" / "demo" / "demo.yaml"


@pytest.fixture
def box(tmp_path: Path) -> Iterator[DiskBox]:
    """Its own kernel is one of the history as well, but of no commit that this hunt turns on."""
    told = real.planted()
    turning = {told["good"], told["bad"], told["first_bad"], *told["panicking"]}
    default = next(image for commit, image in sorted(disk_kernels().items()) if commit not in turning)
    box = make_grub_box(tmp_path / "grub", default, clock="instructions")
    try:
        box.start()
        yield box
    finally:
        box.close()


def write_recipe(folder: Path, box: DiskBox) -> Path:
    """The demonstration's, for a machine of the machines file; short, because this machine has next to no noise."""
    (folder / "lab.yaml").write_text(yaml.safe_dump({"machines": [box.config().model_dump(mode="json")]}))
    recipe = yaml.safe_load(DEMO.read_text())
    recipe["name"] = "grub-hunt"
    recipe["repo"] = str(real.demo_history())
    recipe["kernel"]["fragments"] = [str(DEMO.parent / name) for name in recipe["kernel"]["fragments"]]
    recipe["benchmark"] = {"test": "page_test", "sample_ms": 400}
    recipe["machines"] = [{"kind": "lab", "name": box.name, "file": "lab.yaml"}]
    path = folder / "grub-hunt.yaml"
    path.write_text(yaml.safe_dump(recipe))
    return path


def test_a_hunt_on_a_grub_machine_names_the_planted_commit_and_leaves_the_machine_as_it_was(
    box: DiskBox, tmp_path: Path
) -> None:
    config, default = box.run("cat /boot/grub/grub.cfg"), box.boots[-1]
    home = Home(tmp_path / "home")
    home.folder.mkdir()
    (home.folder / "kernels").symlink_to(real.demo_home() / "kernels")
    done = subprocess.run(
        [sys.executable, "-m", "bisector.cli", "start", str(write_recipe(tmp_path, box)), "--plain"],
        env={**os.environ, "BISECTOR_HOME": str(home.folder)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=1700,
    )
    print(done.stdout)
    assert done.returncode == 0, done.stdout
    told, state = real.planted(), fold(home.read("grub-hunt").entries)
    events = [entry.event for entry in home.read("grub-hunt").entries]
    assert state.status is Status.FINISHED
    assert state.answer is not None
    assert state.answer.commits == (told["first_bad"],)
    assert state.answer.probability >= 0.99
    assert not [event for event in events if isinstance(event, MachineTrouble)]

    # The commit that panics: its kernel was installed and booted twice, each time the default came back by itself.
    died = {(event.commit, event.outcome) for event in events if isinstance(event, BootFailed)}
    assert died == {(commit, Outcome.CRASHED) for commit in told["panicking"]}
    images = {event.commit: event.image for event in events if isinstance(event, KernelBuilt)}
    panicked = images[told["panicking"][0]].release
    at = box.boots.index(panicked)
    assert box.boots[at : at + 4] == [panicked, default] * 2
    assert box.cuts == 0

    assert box.run("uname -r").strip() == default
    assert environment(box) == UNTOUCHED
    assert box.run("cat /boot/grub/grub.cfg") == config
    assert box.run("cat /var/lib/bisector/lease/lease.*").startswith("- ")

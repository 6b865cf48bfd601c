"""A whole hunt on a machine with GRUB, by the real command and a machines file; only the metal is QEMU's."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from lab.diskbed import switched_on
from lab.diskbox import DiskBox
from lab.diskhunt import hunt_without_builds, own_kernel
from lab.grubdisk import UNTOUCHED, environment, make_grub_box, missing
from lab.machines import disk_kernels

pytestmark = [
    pytest.mark.kernel,
    pytest.mark.timeout(1800),
    pytest.mark.skipif(bool(missing()), reason=f"needs {', '.join(missing())}"),
]


@pytest.fixture
def box(tmp_path: Path) -> Iterator[DiskBox]:
    with switched_on(make_grub_box(tmp_path / "grub", own_kernel(disk_kernels()), clock="instructions")) as box:
        yield box


def test_a_hunt_on_a_grub_machine_names_the_planted_commit_and_leaves_the_machine_as_it_was(
    box: DiskBox, tmp_path: Path
) -> None:
    config = box.run("cat /boot/grub/grub.cfg")
    hunt_without_builds(tmp_path, box, "grub-hunt")
    assert environment(box) == UNTOUCHED
    assert box.run("cat /boot/grub/grub.cfg") == config

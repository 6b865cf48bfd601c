"""A whole hunt on a machine with UEFI and systemd-boot, by the real command; only the metal is QEMU's."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from lab.diskbed import switched_on
from lab.diskbox import DiskBox
from lab.diskhunt import hunt, own_kernel
from lab.uefibox import make_uefi_box, missing, own_files, variable
from lab.uefikernels import FRAGMENTS, builder_folder, uefi_kernels

pytestmark = [
    pytest.mark.kernel,
    pytest.mark.timeout(1800),
    pytest.mark.skipif(bool(missing()), reason=f"needs {', '.join(missing())}"),
]


@pytest.fixture
def box(tmp_path: Path) -> Iterator[DiskBox]:
    with switched_on(make_uefi_box(tmp_path / "uefi", own_kernel(uefi_kernels()), clock="instructions")) as box:
        yield box


def test_a_hunt_on_a_systemd_boot_machine_names_the_planted_commit_and_leaves_the_machine_as_it_was(
    box: DiskBox, tmp_path: Path
) -> None:
    before = own_files(box)
    hunt(tmp_path, box, "uefi-hunt", good="demo-good", fragments=FRAGMENTS, builder=builder_folder())
    assert own_files(box) == before
    assert (variable(box, "LoaderEntryOneShot"), variable(box, "LoaderEntryDefault")) == ("", "")

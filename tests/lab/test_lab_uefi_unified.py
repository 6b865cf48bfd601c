"""A real UEFI machine with an extended boot loader partition, whose default is a unified kernel image on it."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from lab.diskbed import switched_on
from lab.diskbox import PATIENT, DiskBox
from lab.uefibox import UNIFIED, make_uefi_box, missing, variable
from lab.uefikernels import uefi_kernels

from bisector.lab.physical import PhysicalMachine
from bisector.lab.survey import Survey
from bisector.model.kernel import KernelImage

pytestmark = [
    pytest.mark.kernel,
    pytest.mark.timeout(1800),  # it may have to build kernels
    pytest.mark.skipif(bool(missing()), reason=f"needs {', '.join(missing())}"),
]


@pytest.fixture(scope="module")
def kernels() -> dict[str, KernelImage]:
    return uefi_kernels()


@pytest.fixture
def box(default: KernelImage, tmp_path: Path) -> Iterator[DiskBox]:
    with switched_on(make_uefi_box(tmp_path / "box", default, unified=True)) as box:
        yield box


def test_a_unified_default_on_an_extended_boot_partition_is_proven_left_alone_and_returned_to(
    box: DiskBox, images: list[KernelImage], default: KernelImage, tmp_path: Path
) -> None:
    image = images[0]
    assert variable(box, "LoaderEntrySelected") == UNIFIED
    survey = Survey(box.config(), limits=PATIENT)
    try:
        survey._connect()
        assert "nothing speaks against it" in survey._one_shot()
    finally:
        survey.close()
    digest = "md5sum /efi/loader/loader.conf /efi/EFI/*/* /boot/EFI/Linux/*"
    before, seen = box.run(digest), len(box.boots)
    machine = PhysicalMachine(box.config(), tmp_path / "hunt", session="hunt", limits=PATIENT)
    record = machine.boot(image, console=tmp_path / "console.log", on_progress=lambda _: None)
    # First the unified image by an entry of ours, whose words it takes instead of its own, then the test kernel.
    assert box.boots[seen:] == [default.release, image.release]
    assert (record.release, record.build_id) == (image.release, image.build_id)
    assert variable(box, "LoaderEntrySelected") == f"bisector-{image.release}.conf"
    assert sorted(box.run("ls /boot/bisector /boot/loader/entries").split()) == sorted([
        "/boot/bisector:", f"vmlinuz-{image.release}",
        "/boot/loader/entries:", f"bisector-{image.release}.conf", "bisector-probe.conf",
    ])  # fmt: skip
    machine.release()
    assert box.boots[seen:] == [default.release, image.release, default.release]
    assert variable(box, "LoaderEntrySelected") == UNIFIED
    assert box.run(digest) == before
    assert box.cuts == 0

"""What the tests of machines that boot from a disk share: kernels for one, one that is on, and how it is altered."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest
import real
from lab.controllers import boot
from lab.diskbox import DiskBox

from bisector.lab.physical import PhysicalMachine
from bisector.model.errors import KernelError
from bisector.model.kernel import KernelImage
from bisector.model.outcome import Outcome


def default_among(kernels: Mapping[str, KernelImage]) -> KernelImage:
    """The good end's, for the machine's own."""
    return kernels[real.planted()["good"]]


def others_than_default(kernels: Mapping[str, KernelImage]) -> list[KernelImage]:
    """The rest, without those that panic by themselves."""
    left_out = {real.planted()["good"], *real.planted()["panicking"]}
    return [image for commit, image in sorted(kernels.items()) if commit not in left_out]


@contextmanager
def switched_on(box: DiskBox) -> Iterator[DiskBox]:
    """The machine, which answers. In the end it is off."""
    try:
        box.start()
        yield box
    finally:
        box.close()


@contextmanager
def altered(box: DiskBox, do: str, *arguments: str, undo: str) -> Iterator[None]:
    """While one script's changes to the machine hold; another one takes them back."""
    box.run(do, *arguments)
    try:
        yield
    finally:
        box.run(undo)


def check_panic(box: DiskBox, machine: PhysicalMachine, image: KernelImage, folder: Path) -> None:
    """A kernel that panics (the machine's entry has `init=/missing`) leads back to the default one by itself."""
    default, seen, cuts = box.boots[-1], len(box.boots), box.cuts
    with pytest.raises(KernelError, match="Requested init /missing failed") as caught:
        boot(machine, image, folder)
    assert caught.value.outcome is Outcome.CRASHED
    assert box.boots[seen:] == [image.release, default]
    assert box.cuts == cuts
    assert "Kernel panic - not syncing" in (folder / "console.log").read_text()


def check_hang(box: DiskBox, machine: PhysicalMachine, image: KernelImage, folder: Path) -> None:
    """A kernel that hangs (the machine's entry has `init=/sbin/hang`) is ended by the power switch, once."""
    default, seen, cuts = box.boots[-1], len(box.boots), box.cuts
    with pytest.raises(KernelError, match="hung: nothing answered") as caught:
        boot(machine, image, folder)
    assert caught.value.outcome is Outcome.BOOT_FAILED
    assert box.boots[seen:] == [image.release, default]
    assert box.cuts == cuts + 1

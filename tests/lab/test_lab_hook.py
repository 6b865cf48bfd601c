"""Boots by the user's own commands: what they are given, and what is said when they do not do it."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from lab.fakebox import DEFAULT_RELEASE, HOOK, FakeBox, fake_kernel
from lab.machines import QUICK

from bisector.lab.boot.method import OneShotError
from bisector.lab.physical import PhysicalMachine
from bisector.model.errors import KernelError, MachineError
from bisector.model.kernel import KernelImage, KernelModules
from bisector.model.machine import BootRecord
from bisector.model.outcome import Outcome

Boot = Callable[..., BootRecord]


@pytest.fixture
def boot(box: FakeBox, tmp_path: Path) -> Iterator[Callable[..., Boot]]:
    """Boots kernels on the box by a hook with these commands changed."""
    made: list[PhysicalMachine] = []

    def by(**changes: Any) -> Boot:
        machine = PhysicalMachine(box.config(boot={**HOOK, **changes}), tmp_path / "hunt", session="hunt", limits=QUICK)
        made.append(machine)
        return lambda image: machine.boot(image, console=tmp_path / "console", on_progress=lambda _: None)

    yield by
    for machine in made:
        machine.shell.close()


def test_commands_on_this_computer_get_the_image_and_its_names(
    box: FakeBox, boot: Callable[..., Boot], tmp_path: Path
) -> None:
    modules = KernelModules(path=str(tmp_path / "modules.tar.gz"), sha256="0" * 64, unpacked_bytes=1)
    image = replace(fake_kernel(tmp_path, 1), modules=modules)
    custom = box.root / "boot/grub/custom.cfg"
    (box.root / "boot/bisector/own").write_bytes(Path(image.path).read_bytes())
    entry = "menuentry x --id hook {\\n\\tlinux /boot/bisector/own x\\n}\\n"
    record = boot(
        where="here",
        install=f"env >{tmp_path}/env; printf '{entry}' >{custom}",
        boot_once=f"grub-editenv {box.root}/boot/grub/grubenv set next_entry=hook",
        armed=None,
        disarm=None,
    )(image)
    assert record.release == image.release
    told = dict(line.split("=", 1) for line in (tmp_path / "env").read_text().splitlines() if "=" in line)
    assert (told["BISECTOR_IMAGE"], told["BISECTOR_MODULES"]) == (image.path, modules.path)
    assert (told["BISECTOR_COMMIT"], told["BISECTOR_RELEASE"]) == (image.commit, image.release)
    assert (told["BISECTOR_MACHINE"], told["BISECTOR_HOST"]) == ("box1", "127.0.0.1")
    assert told["BISECTOR_CMDLINE"] == f"bisector.boot={image.release}"


def test_a_preflight_that_refuses_stops_everything_with_its_words(
    box: FakeBox, boot: Callable[..., Boot], tmp_path: Path
) -> None:
    with pytest.raises(OneShotError, match="refuses one-shot boots") as caught:
        boot(preflight="echo 'TFTP is down' >&2; exit 3")(fake_kernel(tmp_path, 1))
    assert "TFTP is down" in caught.value.details
    assert box.asked == []


def test_a_command_that_fails_is_the_labs_trouble_and_nothing_is_rebooted(
    box: FakeBox, boot: Callable[..., Boot], tmp_path: Path
) -> None:
    with pytest.raises(MachineError, match=r"the command boot.install ended with 5") as caught:
        boot(install="echo no space >&2; exit 5")(fake_kernel(tmp_path, 1))
    assert caught.value.details == "no space"
    assert box.asked == []


def test_a_next_boot_that_is_still_set_was_ignored_and_is_taken_back(
    box: FakeBox, boot: Callable[..., Boot], tmp_path: Path
) -> None:
    box.ignores_entry = box.sticky = True
    with pytest.raises(KernelError, match="did not come up") as caught:
        boot()(fake_kernel(tmp_path, 1))
    assert caught.value.outcome is Outcome.WRONG_KERNEL
    assert "hook was still set" in caught.value.details
    assert box.environment == {}
    assert box.release == DEFAULT_RELEASE


def test_the_machine_keeps_one_uploaded_image(box: FakeBox, boot: Callable[..., Boot], tmp_path: Path) -> None:
    start = boot()
    images: list[KernelImage] = [fake_kernel(tmp_path, index) for index in (1, 2)]
    for image in images:
        assert start(image).build_id == image.build_id
    assert [path.name for path in (box.root / "var/bisector/kernels").iterdir()] == [f"vmlinuz-{images[1].release}"]

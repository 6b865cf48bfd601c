"""Real kernels on a real UEFI machine: firmware with its variables, systemd-boot, ext4; only the metal is QEMU's."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from lab.controllers import Make, boot, controllers
from lab.diskbed import altered, check_hang, check_panic, switched_on
from lab.diskbox import PATIENT, DiskBox
from lab.machines import wait_until
from lab.uefibox import DEFAULT, make_uefi_box, missing, own_files, variable
from lab.uefikernels import uefi_kernels

from bisector.lab.boot.method import OneShotError
from bisector.lab.physical import PhysicalMachine
from bisector.lab.survey import Grade, Survey
from bisector.model.errors import MachineError
from bisector.model.kernel import KernelImage

pytestmark = [
    pytest.mark.kernel,
    pytest.mark.timeout(1800),  # the first may have to build kernels
    pytest.mark.skipif(bool(missing()), reason=f"needs {', '.join(missing())}"),
]


@pytest.fixture(scope="module")
def kernels() -> dict[str, KernelImage]:
    return uefi_kernels()


@pytest.fixture(scope="module")
def uefi_box(default: KernelImage, tmp_path_factory: pytest.TempPathFactory) -> Iterator[DiskBox]:
    with switched_on(make_uefi_box(tmp_path_factory.mktemp("uefi"), default)) as box:
        yield box


def set_next(box: DiskBox) -> str:
    return variable(box, "LoaderEntryOneShot")


@pytest.fixture
def box(uefi_box: DiskBox, default: KernelImage) -> Iterator[DiskBox]:
    """The machine on its default kernel, and again so afterwards, whatever a test did to it."""
    assert uefi_box.run("uname -r").strip() == default.release
    yield uefi_box
    assert uefi_box.run("uname -r").strip() == default.release
    assert (set_next(uefi_box), variable(uefi_box, "LoaderEntryDefault")) == ("", "")


@pytest.fixture
def make(box: DiskBox, tmp_path: Path) -> Iterator[Make]:
    with controllers(box, tmp_path, limits=PATIENT, end=PhysicalMachine.release) as make:
        yield make


def test_the_check_finds_nothing_against_a_machine_with_systemd_boot(box: DiskBox) -> None:
    survey = Survey(box.config(), limits=PATIENT)
    try:
        found = list(survey.findings())
    finally:
        survey.close()
    assert [one for one in found if one.grade is Grade.FAIL] == []


def test_a_kernel_is_booted_once_and_the_default_stays_the_default(
    box: DiskBox, make: Make, default: KernelImage, images: list[KernelImage], tmp_path: Path
) -> None:
    first, second, third = images[:3]
    before, seen = own_files(box), len(box.boots)
    machine = make(proven=False, boot={"method": "systemd-boot", "keep": 1, "panic_s": 1})
    record = boot(machine, first, tmp_path)
    assert (record.release, record.build_id) == (first.release, first.build_id)
    # The default kernel by an entry of ours, and then the one to be tested: the loader cleared the variable both times.
    assert box.boots[seen:] == [default.release, first.release]
    assert set_next(box) == ""
    assert variable(box, "LoaderEntrySelected") == f"bisector-{first.release}.conf"
    words = box.run("cat /proc/cmdline").split()
    assert {"panic=1", "oops=panic", f"bisector.boot={first.release}"} <= set(words)

    # Two more kernels are installed while it runs. Only one may stay beside it, and the default is not ours to remove.
    for image in (second, third):
        machine._method.install(image, running=first.release, anew=False)
    kernels = box.run("cd /boot; ls -d vmlinuz-* bisector/*; ls loader/entries").split()
    ours = [first.release, third.release]
    assert sorted(kernels) == sorted([
        f"vmlinuz-{default.release}",
        DEFAULT,
        *(f"bisector/vmlinuz-{release}" for release in ours),
        *(f"bisector-{release}.conf" for release in ours),
    ])  # fmt: skip
    # What bootctl itself makes of our entries: it finds their kernels, and none is the default.
    listed = box.run("bootctl list").split("\n\n")
    [chosen] = [entry for entry in listed if "(default)" in entry]
    assert f"id: {DEFAULT}" in chosen
    assert "No such file" not in "".join(listed)

    machine.release()
    assert box.boots[seen:] == [default.release, first.release, default.release]
    assert variable(box, "LoaderEntrySelected") == DEFAULT
    assert own_files(box) == before
    assert box.cuts == 0


def test_a_panic_leads_back_to_the_default_kernel_by_itself(
    box: DiskBox, make: Make, images: list[KernelImage], tmp_path: Path
) -> None:
    check_panic(box, make(cmdline="init=/missing"), images[0], tmp_path)


def test_a_kernel_that_hangs_is_ended_by_the_power_switch_and_the_default_is_back(
    box: DiskBox, make: Make, images: list[KernelImage], tmp_path: Path
) -> None:
    check_hang(box, make(cmdline="init=/sbin/hang", boot_timeout_s=30.0), images[0], tmp_path)


def test_a_power_cut_between_setting_the_next_boot_and_the_reboot_costs_one_boot_and_is_over(
    box: DiskBox, make: Make, default: KernelImage, images: list[KernelImage], tmp_path: Path
) -> None:
    """The firmware has the variable already: the test kernel comes up unasked, once."""
    image, seen, machine = images[0], len(box.boots), make()
    machine.recover()
    machine._method.preflight()
    machine._method.install(image, running=default.release, anew=False)
    machine._method.boot_once(image)
    box.order("cut")
    wait_until(lambda: len(box.boots) > seen, limit_s=60)
    box.wait()
    assert box.boots[seen:] == [image.release]
    assert set_next(box) == ""
    # The next controller of the session finds a kernel of ours, and returns the machine.
    make().release()
    assert box.boots[seen:] == [image.release, default.release]


BALLAST = """
cd /boot && rm -rf bisector && rm -f loader/entries/bisector-*
free=$(df -k /boot | awk "NR == 2 { print \\$4 }")
dd if=/dev/zero of=/boot/ballast bs=1024 count=$((free - 5000)) && sync
"""


def test_a_full_partition_is_refused_before_anything_is_written(
    box: DiskBox, make: Make, images: list[KernelImage], tmp_path: Path
) -> None:
    seen = len(box.boots)
    with altered(box, BALLAST, undo="rm /boot/ballast && sync"):
        listed = box.run("find /boot -type f -exec md5sum {} +")
        with pytest.raises(MachineError, match=r"/boot is full: \d MiB are needed, 4 free"):
            boot(make(), images[1], tmp_path)
        assert box.run("find /boot -type f -exec md5sum {} +") == listed
    assert box.boots[seen:] == []


def test_a_variable_that_the_firmware_does_not_clear_is_seen_with_the_default_kernel_and_taken_back(
    box: DiskBox, make: Make, default: KernelImage, images: list[KernelImage], tmp_path: Path
) -> None:
    """A start-up script of the machine sets it again at each boot, as a firmware does that restores its variables."""
    seen = len(box.boots)
    sets_it = (
        "cp /init /init.own && sed -i '/^hostname/i /usr/bin/bootctl set-oneshot bisector-probe.conf' /init && sync"
    )
    sticky = altered(box, sets_it, undo="mv /init.own /init && sync")
    with sticky, pytest.raises(OneShotError, match=r"does not clear itself: bisector-probe\.conf was still set"):
        boot(make(proven=False), images[0], tmp_path)
    assert box.boots[seen:] == [default.release]
    assert set_next(box) == ""


def test_a_machine_whose_loader_reads_another_partition_is_refused_before_the_first_test_kernel(
    box: DiskBox, make: Make, default: KernelImage, images: list[KernelImage], tmp_path: Path
) -> None:
    seen = len(box.boots)
    moved = altered(box, "cp -a /boot /other && mount --bind /other /boot", undo="rm -r /other")
    with moved, pytest.raises(OneShotError, match="booted its default entry instead"):
        boot(make(proven=False, boot={"method": "systemd-boot", "boot_path": "/boot"}), images[0], tmp_path)
    assert box.boots[seen:] == [default.release]


def test_somebody_elses_next_boot_is_left_to_them(
    box: DiskBox, make: Make, images: list[KernelImage], tmp_path: Path
) -> None:
    seen = len(box.boots)
    theirs = "auto-reboot-to-firmware-setup"
    with altered(box, f"bootctl set-oneshot {theirs}", undo='bootctl set-oneshot ""'):
        with pytest.raises(OneShotError, match=f"somebody has set the next boot to '{theirs}' already"):
            boot(make(), images[0], tmp_path)
        assert set_next(box) == theirs
    assert box.boots[seen:] == []


def test_a_default_that_an_entry_of_ours_could_become_is_refused(
    box: DiskBox, make: Make, images: list[KernelImage], tmp_path: Path
) -> None:
    loose = altered(box, 'bootctl set-default "*"', undo='bootctl set-default ""')
    with loose, pytest.raises(OneShotError, match=r"the default '\*' could mean an entry of ours"):
        boot(make(), images[0], tmp_path)


def test_kexec_starts_a_kernel_past_the_firmware_and_a_reboot_leads_back(
    box: DiskBox, make: Make, default: KernelImage, images: list[KernelImage], tmp_path: Path
) -> None:
    seen, firmware = len(box.boots), box.console.read_text(errors="replace").count("BdsDxe: starting")
    machine = make(boot={"method": "kexec", "panic_s": 1})
    record = boot(machine, images[0], tmp_path)
    assert (record.release, record.build_id) == (images[0].release, images[0].build_id)
    assert dict(record.facts.pairs)["boot method"] == "kexec, from the default kernel"
    assert box.boots[seen:] == [images[0].release]
    assert box.console.read_text(errors="replace").count("BdsDxe: starting") == firmware
    machine.release()
    assert box.boots[seen:] == [images[0].release, default.release]
    assert box.console.read_text(errors="replace").count("BdsDxe: starting") == firmware + 1

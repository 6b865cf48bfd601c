"""Real kernels on a real GRUB machine: firmware, bootloader, ext4, power switch; only the metal is QEMU's."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from lab.controllers import Make, boot, controllers
from lab.diskbed import altered, check_hang, check_panic, switched_on
from lab.diskbox import PATIENT, DiskBox
from lab.grubdisk import UNTOUCHED, environment, make_grub_box, missing
from lab.machines import disk_kernels, wait_until

from bisector.lab.boot.method import OneShotError
from bisector.lab.physical import PhysicalMachine
from bisector.lab.survey import Grade, Survey
from bisector.model.errors import KernelError, MachineError
from bisector.model.kernel import KernelImage
from bisector.model.outcome import Outcome

pytestmark = [
    pytest.mark.kernel,
    pytest.mark.timeout(600),
    pytest.mark.skipif(bool(missing()), reason=f"needs {', '.join(missing())}"),
]


@pytest.fixture(scope="module")
def kernels() -> dict[str, KernelImage]:
    return disk_kernels()


@pytest.fixture(scope="module")
def grub_box(default: KernelImage, tmp_path_factory: pytest.TempPathFactory) -> Iterator[DiskBox]:
    with switched_on(make_grub_box(tmp_path_factory.mktemp("grub"), default, clock="instructions")) as box:
        yield box


@pytest.fixture
def box(grub_box: DiskBox, default: KernelImage) -> Iterator[DiskBox]:
    """The machine on its default kernel, and again so afterwards, whatever a test did to it."""
    yield grub_box
    assert grub_box.run("uname -r").strip() == default.release
    assert environment(grub_box) == UNTOUCHED


@pytest.fixture
def make(box: DiskBox, tmp_path: Path) -> Iterator[Make]:
    with controllers(box, tmp_path, limits=PATIENT, end=PhysicalMachine.release) as make:
        yield make


def test_nothing_speaks_against_the_machine(box: DiskBox) -> None:
    survey = Survey(box.config(boot={"method": "grub", "initrd": "none"}), limits=PATIENT)
    try:
        findings = list(survey.findings())
    finally:
        survey.close()
    assert [finding for finding in findings if finding.grade is not Grade.PASS] == []


def test_a_kernel_is_booted_once_and_the_default_stays_the_default(
    box: DiskBox, make: Make, default: KernelImage, images: list[KernelImage], tmp_path: Path
) -> None:
    first, second, third = images[:3]
    config, seen, cuts = box.run("cat /boot/grub/grub.cfg"), len(box.boots), box.cuts
    machine = make(proven=False, boot={"method": "grub", "keep": 1, "panic_s": 1})
    record = boot(machine, first, tmp_path)
    assert (record.release, record.build_id) == (first.release, first.build_id)
    # The default kernel by an entry of ours, and then the one to be tested: GRUB cleared the setting both times.
    assert box.boots[seen:] == [default.release, first.release]
    assert environment(box) == UNTOUCHED
    assert f"bisector.boot={first.release}" in box.run("cat /proc/cmdline")

    # Two more kernels are installed while it runs. Only one may stay beside it, and the default is not ours to remove.
    for image in (second, third):
        machine._method.install(image, running=first.release, anew=False)
    kernels = box.run("cd /boot; ls -d vmlinuz-* bisector/*").split()
    assert sorted(kernels) == sorted(
        [f"bisector/vmlinuz-{first.release}", f"bisector/vmlinuz-{third.release}", f"vmlinuz-{default.release}"]
    )
    assert second.release not in box.run("cat /boot/grub/custom.cfg")

    machine.release()
    assert box.boots[seen:] == [default.release, first.release, default.release]
    assert box.run("cat /boot/grub/grub.cfg") == config
    assert box.cuts == cuts


def test_a_panic_leads_back_to_the_default_kernel_by_itself(
    box: DiskBox, make: Make, images: list[KernelImage], tmp_path: Path
) -> None:
    check_panic(box, make(cmdline="init=/missing"), images[0], tmp_path)


def test_a_kernel_that_hangs_is_ended_by_the_power_switch_and_the_default_is_back(
    box: DiskBox, make: Make, images: list[KernelImage], tmp_path: Path
) -> None:
    check_hang(box, make(cmdline="init=/sbin/hang", boot_timeout_s=30.0), images[0], tmp_path)


def test_a_kernel_that_is_not_the_one_that_was_built_is_never_measured(
    box: DiskBox, make: Make, images: list[KernelImage], tmp_path: Path
) -> None:
    image, seen = replace(images[0], build_id="ab" * 20), len(box.boots)
    with pytest.raises(KernelError, match=r"Another kernel than .*: build id") as caught:
        boot(make(), image, tmp_path)
    assert caught.value.outcome is Outcome.WRONG_KERNEL
    assert box.boots[seen:] == [image.release]


FOREIGN = """menuentry 'by hand' --id bisector-%s {
\tlinux /boot/vmlinuz-%s root=/dev/vda1 rw init=/init console=ttyS0 by-hand
}
"""


def test_an_entry_that_boots_another_kernel_than_ours_is_no_sample(
    box: DiskBox, make: Make, default: KernelImage, images: list[KernelImage], tmp_path: Path
) -> None:
    """Somebody's own entry has the id of ours and stands before it; GRUB takes the first."""
    image, seen = images[0], len(box.boots)
    foreign = FOREIGN % (image.release, default.release)
    written = altered(box, 'printf %s "$1" >/boot/grub/custom.cfg', foreign, undo="rm /boot/grub/custom.cfg")
    came_back = f"did not come up: the machine is back on {default.release}"
    with written, pytest.raises(KernelError, match=came_back) as caught:
        boot(make(), image, tmp_path)
    assert caught.value.outcome is Outcome.BOOT_FAILED
    assert box.boots[seen:] == [default.release]
    assert "by-hand" in box.run("cat /proc/cmdline")


def test_a_machine_whose_grub_reads_another_boot_folder_is_refused_before_the_first_test_kernel(
    box: DiskBox, make: Make, default: KernelImage, images: list[KernelImage], tmp_path: Path
) -> None:
    seen = len(box.boots)
    moved = altered(box, "cp -a /boot /other && mount --bind /other /boot", undo="rm -r /other")
    with moved, pytest.raises(OneShotError, match="booted its default entry instead"):
        boot(make(proven=False), images[0], tmp_path)
    assert box.boots[seen:] == [default.release]


BALLAST = """
rm -rf /boot/bisector; mkdir /boot/bisector; sync
free=$(df -k / | awk "NR == 2 { print \\$4 }")
dd if=/dev/zero of=/ballast bs=1024 count=$((free - 5000)) 2>/dev/null
"""


def test_a_full_boot_is_refused_before_anything_is_written(
    box: DiskBox, make: Make, images: list[KernelImage], tmp_path: Path
) -> None:
    seen, look = len(box.boots), "ls -lR /boot; md5sum /boot/grub/*cfg /boot/grub/grubenv"
    with altered(box, BALLAST, undo="rm /ballast"):
        listed = box.run(look)
        with pytest.raises(MachineError, match=r"/boot is full: \d MiB are needed, 4 free"):
            boot(make(), images[1], tmp_path)
        assert box.run(look) == listed
    assert box.boots[seen:] == []


def test_a_grubenv_that_grub_cannot_write_is_refused_with_the_reason_and_without_a_reboot(
    box: DiskBox, make: Make, images: list[KernelImage], tmp_path: Path
) -> None:
    """GRUB's own grub-probe is asked, here of a folder that lies on no disk."""
    seen = len(box.boots)
    do = "cp -a /boot/grub /grub && mount -t tmpfs tmpfs /boot/grub && cp -a /grub/. /boot/grub"
    moved = altered(box, do, undo="umount /boot/grub; rm -r /grub")
    with moved, pytest.raises(OneShotError, match="grub-probe cannot tell on which filesystem /boot/grub lies"):
        boot(make(proven=False), images[0], tmp_path)
    assert box.boots[seen:] == []


CLEARS_NOTHING = """
cp -a /boot/grub/grub.cfg /grub.cfg
sed "s/^   save_env next_entry/   if false; then save_env next_entry; fi/" </grub.cfg >/boot/grub/grub.cfg
sync
"""


def test_a_setting_that_grub_does_not_clear_is_seen_with_the_default_kernel_and_taken_back(
    box: DiskBox, make: Make, default: KernelImage, images: list[KernelImage], tmp_path: Path
) -> None:
    """Everything looks well to whoever reads grub.cfg; only a boot shows that nothing is written."""
    seen = len(box.boots)
    sticky = altered(box, CLEARS_NOTHING, undo="mv /grub.cfg /boot/grub/grub.cfg; sync")
    with sticky, pytest.raises(OneShotError, match="does not clear itself: bisector-probe was still set"):
        boot(make(proven=False), images[0], tmp_path)
    assert box.boots[seen:] == [default.release]
    assert environment(box) == UNTOUCHED


def test_somebody_elses_next_boot_is_left_to_them(
    box: DiskBox, make: Make, images: list[KernelImage], tmp_path: Path
) -> None:
    seen = len(box.boots)
    with altered(box, "grub-reboot 0", undo="grub-editenv - unset next_entry"):
        with pytest.raises(OneShotError, match="somebody has set the next boot to '0' already"):
            boot(make(), images[0], tmp_path)
        assert environment(box) == {**UNTOUCHED, "next_entry": "0"}
    assert box.boots[seen:] == []


def test_a_reboot_that_is_only_promised_is_forced_and_grub_finds_what_was_just_installed(
    box: DiskBox, make: Make, images: list[KernelImage], tmp_path: Path
) -> None:
    """These kernels have no sysrq, so the reboot comes without the filesystems being unmounted before."""
    image, seen, cuts = images[2], len(box.boots), box.cuts
    with altered(box, "printf '#!/bin/sh\\n' >/bin/systemctl; chmod 755 /bin/systemctl", undo="rm /bin/systemctl"):
        record = boot(make(shutdown_timeout_s=2.0), image, tmp_path)
        assert record.release == image.release
    assert box.boots[seen:] == [image.release]
    assert box.cuts == cuts


CONTROLLER = """
import os, signal, sys
from pathlib import Path
from lab.diskbox import PATIENT
from lab.machines import disk_kernels
from bisector.lab.physical import PhysicalMachine
from bisector.recipe.machines import SshMachine

def die(*given, **named):
    os.kill(os.getpid(), signal.SIGKILL)

def on_progress(progress):
    if "waiting" in progress.text:
        die()

entry, folder, commit, when = sys.argv[1], Path(sys.argv[2]), sys.argv[3], sys.argv[4]
machine = PhysicalMachine(SshMachine.model_validate_json(entry), folder, session="hunt", limits=PATIENT)
if when == "before":
    machine._rebooter.reboot = die
machine.boot(disk_kernels()[commit], console=folder / "console.log", on_progress=on_progress)
"""


def killed_controller(box: DiskBox, folder: Path, image: KernelImage, *, when: str) -> None:
    """One that died by SIGKILL before it ordered the reboot into this kernel, or while that boots."""
    arguments = [box.config().model_dump_json(), str(folder / "hunt"), image.commit, when]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    died = subprocess.run(
        [sys.executable, "-c", CONTROLLER, *arguments], env=env, timeout=100, capture_output=True, text=True
    )
    assert died.returncode == -signal.SIGKILL, died.stderr


def test_a_controller_killed_before_the_reboot_leaves_a_one_shot_that_the_next_one_takes_back(
    box: DiskBox, make: Make, images: list[KernelImage], tmp_path: Path
) -> None:
    machine, seen = make(), len(box.boots)
    killed_controller(box, tmp_path, images[0], when="before")
    assert environment(box)["next_entry"] == f"bisector-{images[0].release}"
    machine.recover()
    assert environment(box) == UNTOUCHED
    assert box.boots[seen:] == []


def test_a_machine_that_boots_while_its_controller_is_gone_keeps_its_power_and_is_returned(
    box: DiskBox, make: Make, default: KernelImage, images: list[KernelImage], tmp_path: Path
) -> None:
    machine, seen, cuts = make(), len(box.boots), box.cuts
    killed_controller(box, tmp_path, images[0], when="meanwhile")
    wait_until(lambda: box.boots[seen:] == [images[0].release], limit_s=180)
    machine.recover()
    assert boot(machine, images[1], tmp_path).release == images[1].release
    assert box.boots[seen:] == [images[0].release, default.release, images[1].release]
    assert box.cuts == cuts
    machine.release()
    assert box.run("cat /var/lib/bisector/lease/lease.*").startswith("- ")

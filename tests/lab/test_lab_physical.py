"""The scenarios of a physical machine, on a box whose sshd, grub-editenv and files are real (see fakebox.py)."""

import os
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from lab.controllers import Make, boot, proven_in
from lab.fakebox import DEFAULT_RELEASE, PANIC, FakeBox, fake_kernel, running_box
from lab.machines import QUICK, running, some_seconds, wait_until

from bisector.lab.boot.method import OneShotError
from bisector.lab.physical import PhysicalMachine
from bisector.lab.reboot import UnreachableError
from bisector.model.errors import KernelError, MachineError
from bisector.model.kernel import KernelImage
from bisector.model.outcome import Outcome


def follow(box: FakeBox) -> str:
    return f"exec tail -n 0 -F {box.console}"


def test_a_kernel_is_installed_booted_once_and_proven_and_the_machine_returned(
    box: FakeBox, make: Make, image: KernelImage, tmp_path: Path
) -> None:
    before = box.editenv("list")
    (box.root / "boot/grub/custom.cfg").write_bytes(b"# by hand: caf\xe9\n")
    machine = make(proven=False)
    record = boot(machine, image, tmp_path)
    assert (record.release, record.build_id, record.boot_id) == (image.release, image.build_id, box.boot_id)
    # The second one is the proof that a one-shot boot holds, with the default kernel.
    assert box.boots == [f"on: {DEFAULT_RELEASE}", f"reboot: {DEFAULT_RELEASE}", f"reboot: {image.release}"]
    assert "panic=10" in (box.root / "proc/cmdline").read_text()
    assert machine.jobs.run(("uname", "-r"), timeout_s=20).stdout.decode().strip() == image.release
    machine.release()
    assert box.release == DEFAULT_RELEASE
    assert box.editenv("list") == before
    assert (box.root / "boot/grub/custom.cfg").read_bytes().startswith(b"# by hand: caf\xe9\n")
    assert not box.leased


def test_scenario_03_a_panic_before_the_network_is_told_from_the_console_and_the_default_is_back(
    box: FakeBox, make: Make, tmp_path: Path
) -> None:
    image = fake_kernel(tmp_path, 2, then="panic")
    with pytest.raises(KernelError) as caught:
        boot(make(console=follow(box)), image, tmp_path)
    assert caught.value.outcome is Outcome.CRASHED
    assert PANIC in caught.value.brief
    assert PANIC in (tmp_path / "console.log").read_text()
    assert box.release == DEFAULT_RELEASE
    assert box.boots[1:] == [f"reboot: {image.release} panic", f"panic: {DEFAULT_RELEASE}"]


def test_scenario_03_without_a_console_a_kernel_that_falls_back_did_not_come_up(
    box: FakeBox, make: Make, tmp_path: Path
) -> None:
    image = fake_kernel(tmp_path, 2, then="panic")
    with pytest.raises(KernelError, match=f"did not come up: the machine is back on {DEFAULT_RELEASE}") as caught:
        boot(make(), image, tmp_path)
    assert caught.value.outcome is Outcome.BOOT_FAILED
    assert "there is no console to tell why" in caught.value.details
    assert box.environment == {}


def test_scenario_04_a_hang_without_a_power_switch_pauses_and_says_nothing_of_the_commit(
    box: FakeBox, make: Make, tmp_path: Path
) -> None:
    machine = make(power=None, boot_timeout_s=1.5)
    with pytest.raises(UnreachableError, match="a person has to look") as caught:
        boot(machine, fake_kernel(tmp_path, 2, then="hang"), tmp_path)
    assert "power: no command is configured" in caught.value.details
    assert box.leased
    # Somebody pushed the button; the next controller of the session looks first, and goes on.
    box.order("cut")
    wait_until(box.answers)
    machine = make(power=None)
    machine.recover()
    image = fake_kernel(tmp_path, 3)
    assert boot(machine, image, tmp_path).release == image.release


def test_scenario_04_a_hang_is_the_kernels_once_the_power_was_cut_and_the_default_is_back(
    box: FakeBox, make: Make, tmp_path: Path
) -> None:
    image = fake_kernel(tmp_path, 2, then="hang")
    with pytest.raises(KernelError, match="hung") as caught:
        boot(make(boot_timeout_s=1.5, console=follow(box)), image, tmp_path)
    assert caught.value.outcome is Outcome.BOOT_FAILED
    assert f"Linux version {image.release}" in caught.value.details
    assert box.boots[1:] == [f"reboot: {image.release} hang", f"cut: {DEFAULT_RELEASE}"]


def test_scenario_05_a_machine_that_boots_its_default_is_never_measured(
    box: FakeBox, make: Make, image: KernelImage, tmp_path: Path
) -> None:
    box.ignores_entry = True
    machine = make()
    with pytest.raises(KernelError, match="did not come up"):
        boot(machine, image, tmp_path)
    assert box.boots[1:] == [f"reboot: {DEFAULT_RELEASE}"]
    assert box.environment == {}


def test_scenario_05_a_machine_that_boots_its_default_is_refused_before_the_first_test_kernel(
    box: FakeBox, make: Make, image: KernelImage, tmp_path: Path
) -> None:
    box.ignores_entry = True
    with pytest.raises(OneShotError, match="booted its default entry instead"):
        boot(make(proven=False), image, tmp_path)
    assert box.boots == [f"on: {DEFAULT_RELEASE}", f"reboot: {DEFAULT_RELEASE}"]


def test_scenario_06_a_stale_image_of_the_same_release_is_a_wrong_kernel_and_the_next_attempt_installs_anew(
    box: FakeBox, make: Make, image: KernelImage, tmp_path: Path
) -> None:
    stale = tmp_path / "stale"
    stale.write_text(Path(image.path).read_text().replace(image.build_id, "ab" * 20))
    box.stale = [stale]
    machine = make()
    with pytest.raises(KernelError, match="build id abab") as caught:
        boot(machine, image, tmp_path)
    assert caught.value.outcome is Outcome.WRONG_KERNEL
    installed = (box.root / f"boot/bisector/vmlinuz-{image.release}").stat().st_ino
    assert boot(machine, image, tmp_path).build_id == image.build_id
    assert (box.root / f"boot/bisector/vmlinuz-{image.release}").stat().st_ino != installed
    # What was proven is not copied again.
    boot(machine, fake_kernel(tmp_path, 2), tmp_path)
    installed = (box.root / f"boot/bisector/vmlinuz-{image.release}").stat().st_ino
    boot(machine, image, tmp_path)
    assert (box.root / f"boot/bisector/vmlinuz-{image.release}").stat().st_ino == installed


@pytest.fixture
def small_boot(tmp_path: Path) -> Iterator[Path]:
    """A /boot of one megabyte, really full when it is full."""
    if os.getuid() != 0:
        pytest.skip("needs root")
    folder = tmp_path / "small"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=12m", "bisector-test", str(folder)], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def big(image: KernelImage) -> KernelImage:
    with Path(image.path).open("a") as file:
        file.write(" " * (3 << 20))
    return image


def test_scenario_06_a_boot_that_fills_up_is_cleared_of_our_kernels_alone_and_a_full_one_is_the_labs_trouble(
    small_boot: Path, tmp_path: Path
) -> None:
    subprocess.run(["mkdir", "-p", str(tmp_path / "box")], check=True)
    (tmp_path / "box" / "boot").symlink_to(small_boot)
    with running_box(tmp_path / "box") as box:
        machine = PhysicalMachine(box.config(), proven_in(tmp_path / "hunt"), session="hunt", limits=QUICK)
        for index in (1, 2, 3):
            boot(machine, big(fake_kernel(tmp_path, index)), tmp_path)
        kept = sorted(path.name for path in (small_boot / "bisector").iterdir())
        assert kept == [f"vmlinuz-6.1.0-bisector-{index * 6}" for index in ("02", "03")]
        assert (small_boot / "vmlinuz-6.1.0-37-amd64").exists()
        text = (small_boot / "grub/custom.cfg").read_text()
        assert text.count("menuentry") == 2
        (small_boot / "ballast").write_bytes(b"x" * (5 << 20))
        boots = len(box.boots)
        with pytest.raises(MachineError, match="/boot is full"):
            boot(machine, big(fake_kernel(tmp_path, 4)), tmp_path)
        assert len(box.boots) == boots
        assert box.environment == {}
        machine.shell.close()


def test_scenario_07_a_one_shot_that_does_not_clear_itself_is_refused_before_the_first_test_kernel(
    box: FakeBox, make: Make, image: KernelImage, tmp_path: Path
) -> None:
    box.sticky = True
    with pytest.raises(OneShotError, match="does not clear itself"):
        boot(make(proven=False), image, tmp_path)
    assert all(image.release not in line for line in box.boots)
    assert box.environment == {}


@pytest.mark.parametrize(
    ("what", "said", "reason"),
    [
        ("fs", "btrfs", "GRUB cannot write its environment on btrfs"),
        ("abstraction", "lvm", "GRUB cannot write its environment through lvm"),
        ("abstraction", "diskfilter mdraid1x", "through diskfilter mdraid1x"),
        ("fs", "", "grub-probe cannot tell"),
    ],
)
def test_scenario_07_a_grubenv_that_grub_cannot_write_is_refused_with_the_reason_and_no_reboot(
    box: FakeBox, make: Make, image: KernelImage, tmp_path: Path, what: str, said: str, reason: str
) -> None:
    (box.root / "probe" / what).write_text(said + "\n")
    with pytest.raises(OneShotError, match=reason):
        boot(make(), image, tmp_path)
    assert box.asked == []


def test_scenario_08_a_reboot_that_did_not_happen_is_forced_by_sysrq_then_by_power(
    box: FakeBox, make: Make, image: KernelImage, tmp_path: Path
) -> None:
    box.deaf_to = {"reboot"}
    machine = make(shutdown_timeout_s=0.6)
    assert boot(machine, image, tmp_path).release == image.release
    assert "forced" in box.asked
    assert "cut" not in box.asked
    box.deaf_to = {"reboot", "forced"}
    other = fake_kernel(tmp_path, 2)
    assert boot(machine, other, tmp_path).release == other.release
    assert box.boots[1:] == [f"forced: {image.release}", f"cut: {other.release}"]


def test_scenario_08_a_power_switch_that_lies_is_not_believed(
    box: FakeBox, make: Make, image: KernelImage, tmp_path: Path
) -> None:
    box.deaf_to = {"reboot", "forced", "cut"}
    with pytest.raises(UnreachableError) as caught:
        boot(make(shutdown_timeout_s=0.5), image, tmp_path)
    assert [line.split(":")[0] for line in caught.value.details.splitlines()] == ["ssh", "sysrq", "power"]
    assert "is it the right outlet?" in caught.value.details


def test_scenario_08_the_old_kernel_that_still_answers_for_a_while_is_not_taken_for_the_new_one(
    box: FakeBox, make: Make, image: KernelImage, tmp_path: Path
) -> None:
    box.linger_s = 1.0
    assert boot(make(), image, tmp_path).boot_id == box.boot_id
    assert box.boots[1:] == [f"reboot: {image.release}"]


def test_scenario_08_a_reboot_too_fast_to_be_seen_is_a_reboot(
    box: FakeBox, make: Make, image: KernelImage, tmp_path: Path
) -> None:
    box.boot_s = 0.0
    assert boot(make(), image, tmp_path).boot_id == box.boot_id
    assert box.asked == ["reboot"]


def test_a_login_refused_while_the_machine_boots_is_waited_for(
    box: FakeBox, make: Make, image: KernelImage, tmp_path: Path
) -> None:
    box.refuses_login_s = 1.0
    assert boot(make(), image, tmp_path).release == image.release
    assert box.boots[1:] == [f"reboot: {image.release}"]


def test_scenario_09_a_job_outlives_a_lost_connection_and_its_result_counts(
    box: FakeBox, make: Make, image: KernelImage, tmp_path: Path
) -> None:
    machine = make()
    boot(machine, image, tmp_path)
    threading.Timer(0.7, box.drop_connections).start()
    result = machine.jobs.run(("sh", "-c", "sleep 1.5; echo done"), timeout_s=30)
    assert result.stdout == b"done\n"
    assert box.boots[-1] == f"reboot: {image.release}"


def crash_once(box: FakeBox, there: Path) -> None:
    wait_until(there.exists, limit_s=50)
    box.crash()


def test_scenario_09_a_machine_that_reboots_by_itself_in_mid_run_has_crashed_and_nothing_runs_again(
    box: FakeBox, make: Make, image: KernelImage, tmp_path: Path
) -> None:
    machine = make()
    boot(machine, image, tmp_path)
    threading.Thread(target=crash_once, args=(box, box.root / "times")).start()
    with pytest.raises(KernelError, match=f"rebooted by itself and runs {DEFAULT_RELEASE}") as caught:
        machine.jobs.run(("sh", "-c", f"echo once >>/mnt/times; sleep {some_seconds()}"), timeout_s=60)
    assert caught.value.outcome is Outcome.CRASHED
    assert (box.root / "times").read_text() == "once\n"
    assert not (box.root / "tmp/bisector-jobs").exists()


def test_scenario_10_a_dead_controllers_one_shot_and_jobs_are_gone_after_recovery(
    box: FakeBox, make: Make, image: KernelImage, tmp_path: Path
) -> None:
    dead = make()
    boot(dead, image, tmp_path)
    span = some_seconds()
    dead._jobs.start(("sleep", span), timeout_s=600)
    dead._method.boot_once(image)
    dead.shell.close()
    after = make()
    after.recover()
    assert box.environment == {}
    assert not (box.root / "tmp/bisector-jobs").exists()
    assert running(f"\0{span}\0") == []
    assert boot(after, image, tmp_path).release == image.release


def test_scenario_11_an_interrupt_while_the_test_kernel_boots_leaves_the_default_and_no_lease(
    box: FakeBox, make: Make, image: KernelImage, tmp_path: Path
) -> None:
    machine = make()

    def interrupt(progress: object) -> None:
        if "waiting" in str(progress):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        machine.boot(image, console=tmp_path / "console.log", on_progress=interrupt)
    wait_until(lambda: box.boots[-1] == f"reboot: {image.release}" and box.answers())
    machine.release()
    assert box.release == DEFAULT_RELEASE
    assert box.environment == {}
    assert not box.leased

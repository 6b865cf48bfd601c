"""Debian's own kernel on the real GRUB machine: its disk and its network card are modules, which it finds by initramfs.

The machine has the distribution's real mkinitramfs, kmod and udev.
"""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from lab.controllers import proven_in
from lab.debiandisk import debian_kernel, missing, tools
from lab.diskbed import switched_on
from lab.diskbox import PATIENT, DiskBox
from lab.grubdisk import UNTOUCHED, environment, make_grub_box
from lab.grubdisk import missing as missing_for_grub
from lab.machines import disk_kernels

from bisector.lab.physical import PhysicalMachine
from bisector.model.errors import KernelError
from bisector.model.kernel import KernelImage

MISSING = [*missing(), *missing_for_grub()]
pytestmark = [
    pytest.mark.kernel,
    pytest.mark.timeout(900),
    pytest.mark.skipif(bool(MISSING), reason=f"needs {', '.join(MISSING)}"),
]


@pytest.fixture(scope="module")
def kernels() -> dict[str, KernelImage]:
    return disk_kernels()


@contextmanager
def cold_resets(box: DiskBox) -> Iterator[None]:
    """Each reset is of a new QEMU (-no-reboot ended the old one).

    In an old one GRUB takes a minute to move a large kernel: whatever it writes over code that ran before costs the
    emulator microseconds a byte.
    """
    end = threading.Event()

    def watch() -> None:
        while not end.wait(0.2):
            if box._process.exit_code() is not None:
                box.order("on")
                end.wait(2.0)

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield
    finally:
        end.set()
        thread.join(10)


@pytest.fixture(scope="module")
def box(default: KernelImage, tmp_path_factory: pytest.TempPathFactory) -> Iterator[DiskBox]:
    firmware = ("-device", "i6300esb", "-no-reboot")
    made = make_grub_box(tmp_path_factory.mktemp("debian"), default, size_mib=160, more=tools(), firmware=firmware)
    with switched_on(made) as box, cold_resets(box):
        yield box


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> KernelImage:
    return debian_kernel(tmp_path_factory.mktemp("kernel"))


def test_a_kernel_that_needs_modules_to_find_its_disk_is_booted_reset_by_the_watchdog_and_gone_after_that(
    box: DiskBox, default: KernelImage, image: KernelImage, tmp_path: Path
) -> None:
    assert image.modules is not None
    config = box.config(
        # Without systemd nobody else loads what drives the watchdog, nor names network cards.
        cmdline="net.ifnames=0",
        boot_timeout_s=240.0,
        power=None,
        console=None,
        watchdog_s=15,
        boot={"method": "grub", "panic_s": 1, "initrd_timeout_s": 240.0, "keep": 1},
    )
    machine = PhysicalMachine(config, proven_in(tmp_path), session="hunt", limits=PATIENT)
    try:
        record = machine.boot(image, console=tmp_path / "console.log", on_progress=lambda _: None)
        assert (record.release, record.build_id) == (image.release, image.build_id)
        loaded = {line.split()[0] for line in box.run("cat /proc/modules").splitlines()}
        assert {"virtio_pci", "virtio_blk", "virtio_net", "ext4"} <= loaded
        assert dict(record.facts.pairs)["watchdog"] == "i6300ESB timer, 15 s"

        # A panic that nothing ends: no console and no power command could tell or mend it.
        box.run("echo 0 >/proc/sys/kernel/panic")
        began = time.monotonic()
        with pytest.raises(KernelError, match=f"rebooted by itself and runs {default.release}"):
            machine.jobs.run(("sh", "-c", "echo 1 >/proc/sys/kernel/sysrq; echo c >/proc/sysrq-trigger"), timeout_s=200)
        print(f"back on its default kernel {time.monotonic() - began:.0f} s after the panic")
        assert box.cuts == 0

        # The next kernel's installation removes all of this one.
        machine._method.install(default, running=default.release, anew=False)
        assert box.run("ls /boot/bisector /lib/modules").split() == [
            "/boot/bisector:", f"vmlinuz-{default.release}", "/lib/modules:",
        ]  # fmt: skip
        assert environment(box) == UNTOUCHED
        assert box.run("uname -r").strip() == default.release
    finally:
        # The machine is thrown away.
        machine.shell.close()

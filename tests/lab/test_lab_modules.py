"""Modules and the initramfs of test kernels, on a box with its own /lib/modules and real tar, depmod, mkinitramfs."""

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest
from lab.controllers import proven_in
from lab.fakebox import DEFAULT_RELEASE, USABLE, WHY_NOT, FakeBox, Loader, fake_kernel
from lab.fakeloaders import FakeKexec, FakeSystemdBoot
from lab.machines import QUICK
from lab.modulebox import module_box, with_modules

from bisector.lab.physical import PhysicalMachine
from bisector.lab.survey import Finding, Grade, Survey
from bisector.model.errors import MachineError
from bisector.model.kernel import KernelImage

MISSING = [
    name for name in ("mkinitramfs", "lsinitramfs", "depmod") if shutil.which(name, path="/usr/bin:/usr/sbin") is None
]
pytestmark = pytest.mark.skipif(
    not USABLE or bool(MISSING), reason=f"{WHY_NOT}; {', '.join(MISSING)} (initramfs-tools-core, kmod)"
)

On = Callable[..., FakeBox]
Install = Callable[..., None]

# Arguments as the real ones take them (dracut(8), mkinitcpio(8)); anything else is an error.
DRACUT = """[ "$#" = 4 ] && [ "$1 $2" = "--force --gzip" ] || { echo "usage: $*" >&2; exit 1; }
[ -e "/lib/modules/$4/modules.dep" ] || exit 1
echo "dracut: of $4: usr/lib/modules/$4/kernel" >"$3"
"""
MKINITCPIO = """[ "$#" = 6 ] && [ "$1 $3 $5" = "-k -z -g" ] || { echo "usage: $*" >&2; exit 1; }
[ -e "/lib/modules/$2/modules.dep" ] || exit 1
echo "mkinitcpio: of $2: usr/lib/modules/$2/kernel" >"$6"
"""
LIST = 'exec cat "$1"'


@pytest.fixture
def on(tmp_path: Path) -> Iterator[On]:
    """Boxes, switched on."""
    with ExitStack() as stack:

        def switched_on(*, size: str = "", programs: dict[str, str] | None = None, **wanted: object) -> FakeBox:
            box = module_box(tmp_path / "box", size=size, **wanted)
            if size:
                stack.callback(subprocess.run, ["umount", "-l", str(box.root / "modules")], check=True)
            stack.callback(box.close)
            for name, body in (programs or {}).items():
                box.program(name, body)
            box.start()
            return box

        yield switched_on


@pytest.fixture
def install(tmp_path: Path) -> Iterator[Install]:
    """Install a kernel on a box by its own method, as a boot would."""
    machines: list[PhysicalMachine] = []

    def by_method(box: FakeBox, image: KernelImage, *, anew: bool = False, **boot: object) -> None:
        config = box.config(boot={**box.config().boot.model_dump(), **boot})
        machine = PhysicalMachine(config, tmp_path / "hunt", session="hunt", limits=QUICK)
        machines.append(machine)
        machine._method.install(image, running=box.release, anew=anew)

    yield by_method
    for machine in machines:
        machine.shell.close()


@pytest.fixture
def image(tmp_path: Path) -> KernelImage:
    return with_modules(fake_kernel(tmp_path, 1), tmp_path)


def listed(initrd: Path) -> list[str]:
    said = subprocess.run(["lsinitramfs", str(initrd)], capture_output=True, text=True, check=True)
    return said.stdout.splitlines()


def test_modules_are_installed_and_an_initramfs_made_of_them_by_the_machines_own_tool(
    on: On, image: KernelImage, tmp_path: Path
) -> None:
    box = on()
    machine = PhysicalMachine(box.config(), tmp_path / "hunt", session="hunt", limits=QUICK)
    try:
        machine.boot(image, console=tmp_path / "console.log", on_progress=lambda _: None)
        assert machine.shell.check(("cat", "/proc/cmdline"), timeout_s=20).count(image.release)
    finally:
        machine.release()
    there = box.root / "modules" / image.release
    assert "kernel/drivers/block/virtio_blk.ko: kernel/drivers/virtio/virtio.ko" in (there / "modules.dep").read_text()
    assert (there / "kernel/drivers/virtio/virtio.ko").stat().st_uid == 0
    inside = listed(box.root / f"boot/bisector/initrd-{image.release}")
    assert f"usr/lib/modules/{image.release}/kernel/drivers/block/virtio_blk.ko" in inside
    # What it needs, depmod found out on the machine.
    assert f"usr/lib/modules/{image.release}/kernel/drivers/virtio/virtio.ko" in inside
    custom = (box.root / "boot/grub/custom.cfg").read_text()
    assert f"\tlinux /boot/bisector/vmlinuz-{image.release} " in custom
    assert f"\tinitrd /boot/bisector/initrd-{image.release}\n" in custom
    # Nothing else is left of all that, and the default's own is as it was.
    assert [path.name for path in (box.root / "modules").iterdir()] == [image.release]
    assert [path.name for path in (box.root / "var/bisector").glob("initrd*")] == []
    assert sorted(path.name for path in (box.root / "boot").glob("*-*")) == [
        f"initrd.img-{DEFAULT_RELEASE}", f"vmlinuz-{DEFAULT_RELEASE}",
    ]  # fmt: skip


def test_what_is_there_whole_is_not_installed_twice_and_what_is_doubted_is(
    on: On, install: Install, image: KernelImage
) -> None:
    box = on(tools=False, programs={"dracut": DRACUT, "lsinitrd": LIST})

    def made() -> tuple[int, int]:
        # By their times: numbers of inodes are given out again.
        dependencies = box.root / "modules" / image.release / "modules.dep"
        return dependencies.stat().st_ctime_ns, (box.root / f"boot/bisector/initrd-{image.release}").stat().st_ctime_ns

    install(box, image)
    first = made()
    install(box, image)
    assert made() == first
    install(box, image, anew=True)
    again = made()
    assert set(again).isdisjoint(first)
    # An installation that was cut short left no digest: it is not taken for whole.
    (box.root / "modules" / image.release / ".bisector").write_text("pending\n")
    install(box, image)
    assert set(made()).isdisjoint(again)


def test_modules_and_initramfs_go_with_their_kernel_and_nobody_elses_do(
    on: On, install: Install, tmp_path: Path
) -> None:
    box = on(tools=False, programs={"dracut": DRACUT, "lsinitrd": LIST})
    for foreign in (DEFAULT_RELEASE, "6.1.0-bisector-by-hand"):
        (box.root / "modules" / foreign).mkdir()
    images = [with_modules(fake_kernel(tmp_path, index), tmp_path) for index in (1, 2, 3)]
    orphan = box.root / "modules" / "6.1.0-bisector-gone"
    orphan.mkdir()
    (orphan / ".bisector").write_text("pending\n")
    for image in images:
        install(box, image, keep=2)
    kept = [image.release for image in images[1:]]
    assert sorted(path.name for path in (box.root / "modules").iterdir()) == sorted(
        [*kept, DEFAULT_RELEASE, "6.1.0-bisector-by-hand"]
    )
    assert sorted(path.name for path in (box.root / "boot/bisector").iterdir()) == sorted(
        f"{what}-{release}" for what in ("initrd", "vmlinuz") for release in kept
    )
    assert images[0].release not in (box.root / "boot/grub/custom.cfg").read_text()


@pytest.mark.skipif(os.getuid() != 0, reason="needs root")
def test_a_full_module_folder_is_cleared_of_our_kernels_alone_and_is_the_labs_trouble_then(
    on: On, install: Install, tmp_path: Path
) -> None:
    box = on(size="16m", tools=False, programs={"dracut": DRACUT, "lsinitrd": LIST})
    first, second = (with_modules(fake_kernel(tmp_path, index), tmp_path, size=4 << 20) for index in (1, 2))
    huge = with_modules(fake_kernel(tmp_path, 3), tmp_path, size=9 << 20)
    install(box, first)
    install(box, second)
    assert [path.name for path in (box.root / "modules").iterdir()] == [second.release]
    with pytest.raises(MachineError, match=r"/lib/modules is full: 2\d MiB are needed, 1\d free"):
        install(box, huge)
    assert list((box.root / "modules").iterdir()) == []


@pytest.mark.parametrize(
    ("tool", "body", "lister"), [("dracut", DRACUT, "lsinitrd"), ("mkinitcpio", MKINITCPIO, "lsinitcpio")]
)
def test_other_distributions_tools_are_called_as_they_want_it(
    on: On, install: Install, image: KernelImage, tool: str, body: str, lister: str
) -> None:
    """Neither is real here: Debian (12) has no package of mkinitcpio. For the real dracut see below."""
    box = on(tools=False, programs={tool: body, lister: LIST})
    install(box, image)
    assert (box.root / f"boot/bisector/initrd-{image.release}").read_text().startswith(f"{tool}: of {image.release}")


@pytest.mark.kernel
@pytest.mark.skipif(shutil.which("dracut") is None, reason="needs dracut (dracut-core)")
def test_the_real_dracut_makes_one_too(on: On, install: Install, image: KernelImage) -> None:
    box = on()
    with (box.root / "mounts").open("a") as mounts:
        mounts.write("mount --bind /dev/null /usr/sbin/mkinitramfs\n")
    box.restart_sshd_without_reboot()
    install(box, image)
    initrd = str(box.root / f"boot/bisector/initrd-{image.release}")
    said = subprocess.run(["lsinitrd", initrd], capture_output=True, text=True, check=True).stdout
    assert f"lib/modules/{image.release}/modules.dep" in said


LOADERS = [(FakeSystemdBoot, "boot/bisector"), (FakeKexec, "var/bisector/kernels")]


@pytest.mark.parametrize(("loader", "folder"), LOADERS)
def test_every_way_to_boot_names_the_initramfs(
    on: On, image: KernelImage, tmp_path: Path, loader: Callable[[], Loader], folder: str
) -> None:
    # What it is called with is kept: the box's own script only boots it.
    box = on(loader=loader(), tools=False, programs={"dracut": DRACUT, "lsinitrd": LIST})
    if loader is FakeKexec:
        kexec = (box.root / "bin/kexec").read_text().replace("-l) ", '-l) echo "$*" >/mnt/kexec-called; ')
        (box.root / "bin/kexec").write_text(kexec)
    machine = PhysicalMachine(box.config(), tmp_path / "hunt", session="hunt", limits=QUICK)
    try:
        machine.boot(image, console=tmp_path / "console.log", on_progress=lambda _: None)
    finally:
        machine.release()
    assert (box.root / folder / f"initrd-{image.release}").exists()
    if loader is FakeKexec:
        assert f"--initrd=/var/lib/bisector/kernels/initrd-{image.release}" in (box.root / "kexec-called").read_text()
    else:
        entry = box.root / f"boot/loader/entries/bisector-{image.release}.conf"
        assert f"initrd /bisector/initrd-{image.release}\n" in entry.read_text()


BROKEN = {
    "a tool that fails": ("echo 'hook zfs: no module for this kernel' >&2; exit 11", "dracut ended with 11"),
    "a tool that makes nothing": ("exit 0", "there is no initramfs"),
    "a tool that cuts it short": ('echo dracut >"$3"', "cut short"),
    "a tool that does not end": ("echo waiting for a key; sleep 1000.25", "did not end within 2 s"),
}


@pytest.mark.parametrize("what", BROKEN)
def test_a_tool_that_fails_is_the_labs_trouble_and_nothing_is_booted(
    on: On, image: KernelImage, tmp_path: Path, what: str
) -> None:
    body, words = BROKEN[what]
    box = on(tools=False, programs={"dracut": body, "lsinitrd": LIST})
    config = box.config(boot={"method": "grub", "initrd_timeout_s": 2.0})
    machine = PhysicalMachine(config, proven_in(tmp_path / "hunt"), session="hunt", limits=QUICK)
    try:
        with pytest.raises(MachineError, match=f"no initramfs could be made for {image.release}: .*{words}") as caught:
            machine.boot(image, console=tmp_path / "console.log", on_progress=lambda _: None)
    finally:
        machine.release()
    if what == "a tool that fails":
        assert "hook zfs: no module for this kernel" in caught.value.details
    if what == "a tool that does not end":
        assert "waiting for a key" in caught.value.details
    assert box.asked == []
    assert not list((box.root / "boot/bisector").glob("initrd-*"))


def test_a_machine_without_a_tool_says_what_to_install_and_boots_without_if_told_to(
    on: On, install: Install, image: KernelImage
) -> None:
    box = on(tools=False)
    with pytest.raises(MachineError, match="none of these is there: mkinitramfs dracut mkinitcpio"):
        install(box, image)
    install(box, image, initrd="none")
    assert "initrd" not in (box.root / "boot/grub/custom.cfg").read_text()
    (box.root / "boot/own.img").write_text("made by hand")
    install(box, image, initrd="/boot/own.img")
    assert "\tinitrd /boot/own.img\n" in (box.root / "boot/grub/custom.cfg").read_text()
    # One without modules needs none.
    install(box, replace(image, modules=None))
    assert "initrd" not in (box.root / "boot/grub/custom.cfg").read_text()


def test_the_check_tells_which_tool_there_is_and_how_much_space(on: On) -> None:
    box = on(tools=False, programs={"dracut": DRACUT})

    def found(**boot: object) -> Finding:
        survey = Survey(box.config(boot={"method": "grub", **boot}), limits=QUICK)
        try:
            [finding] = [one for one in survey.findings() if one.requirement == "initramfs"]
            return finding
        finally:
            survey.close()

    assert found().seen.startswith("/mnt/bin/dracut, /lib/modules ")
    assert found().grade is Grade.PASS
    (box.root / "bin/dracut").unlink()
    assert (found().grade, found().mend) == (
        Grade.NOTE,
        "Kernels with modules need mkinitramfs, dracut or mkinitcpio; others do not.",
    )
    assert found(initrd="none").grade is Grade.PASS
    assert found(initrd="/boot/absent.img").grade is Grade.FAIL

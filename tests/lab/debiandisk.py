"""The GRUB machine of grubdisk.py with what a Debian makes an initramfs with, and Debian's own kernel to boot there.

That kernel finds neither its disk nor its network card without modules. Of those, the package's own, only what this
machine needs goes along: the user space of the machine runs under emulation, and unpacks all.
"""

import os
import shutil
import stat
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from lab.diskbox import INITTAB, program, text
from lab.machines import image_at
from lab.modulebox import packed

from bisector.kernel import bzimage, elf
from bisector.lab.initramfs import Entry
from bisector.model.kernel import KernelImage

PACKAGE = "BISECTOR_KERNEL_PACKAGE"
"""Names the folder into which Debian's kernel package (linux-image-amd64's) was unpacked."""

WANTED = ("virtio_pci", "virtio_blk", "virtio_net", "ext4", "crc32c_generic", "i6300esb")

_PROGRAMS = {
    "sbin/blkid": "/sbin/blkid",
    "sbin/ldconfig": "/sbin/ldconfig",
    "sbin/wdctl": "/usr/bin/wdctl",
    "bin/kmod": "/bin/kmod",
    # busybox's shell would take its own programs, whatever lies on the path.
    "bin/sh": "/bin/dash",
    "bin/bash": "/bin/bash",
    "bin/udevadm": "/bin/udevadm",
    "lib/systemd/systemd-udevd": "/lib/systemd/systemd-udevd",
    "lib/udev/ata_id": "/lib/udev/ata_id",
    "lib/udev/scsi_id": "/lib/udev/scsi_id",
    "usr/sbin/mkinitramfs": "/usr/sbin/mkinitramfs",
}
_KMOD = ("depmod", "insmod", "lsmod", "modinfo", "modprobe", "rmmod")
"""In /bin as well, where busybox has some that write no indexes."""

_ALSO = (
    *("cpio", "dpkg", "find", "getopt", "grep", "gzip", "ldd", "lsinitramfs", "mawk", "sed", "unmkinitramfs"),
    *(
        "basename",
        "cat",
        "chmod",
        "cp",
        "cut",
        "dirname",
        "dd",
        "id",
        "ln",
        "mkdir",
        "mktemp",
        "mv",
        "readlink",
        "realpath",
    ),
    # busybox's would run its own shell, and that its own programs.
    *("env", "setsid"),
    *("rm", "sort", "stat", "tail", "touch", "tr", "tsort"),
)
_FOLDERS = (
    *("etc/initramfs-tools", "usr/share/initramfs-tools", "usr/lib/klibc", "etc/udev"),
    *("lib/systemd/network", "lib/udev/rules.d"),
)


def missing() -> list[str]:
    """Packages without which there is no such machine."""
    needs = {"/usr/sbin/mkinitramfs": "initramfs-tools-core", "/lib/udev/ata_id": "udev", "/usr/bin/cpio": "cpio"}
    needs |= {"/usr/lib/klibc/bin": "klibc-utils", "/sbin/modprobe": "kmod"}
    return sorted(package for path, package in needs.items() if not Path(path).exists())


def tools() -> list[Entry]:
    """What mkinitramfs needs, and it."""
    places = {**_PROGRAMS, **{f"usr/bin/{name}": f"/usr/bin/{name}" for name in _ALSO}}
    places |= {f"{folder}/{name}": "/bin/kmod" for folder in ("bin", "sbin") for name in _KMOD}
    entries = [entry for place, source in places.items() for entry in program(place, source)]
    entries.append(text("etc/ld.so.conf", Path("/etc/ld.so.conf").read_text()))
    for library in Path("/lib").glob("klibc-*.so"):
        entries.append(_file(f"lib/{library.name}", library))
    for folder in _FOLDERS:
        entries.append(Entry(path=folder, mode=stat.S_IFDIR | 0o755))
        for path in sorted(Path("/", folder).rglob("*")):
            place = str(path).lstrip("/")
            entries.append(Entry(path=place, mode=stat.S_IFDIR | 0o755) if path.is_dir() else _file(place, path))
    # udev loads the watchdog's driver on a real Debian; here it runs in the initramfs only, which has none.
    entries.append(text("etc/inittab", "::sysinit:/sbin/modprobe -q i6300esb\n" + INITTAB))
    # This machine checks no disk while it boots.
    return [
        *entries,
        text("etc/fstab", "/dev/vda1 / ext4 defaults 0 0\n"),
        Entry(path="var/tmp", mode=stat.S_IFDIR | 0o755),
    ]


def debian_kernel(folder: Path) -> KernelImage:
    """Debian's kernel as an image with modules. Fails if its package is not there: a test must not pass unseen."""
    named = os.environ.get(PACKAGE)
    if not named or not Path(named, "boot").is_dir():
        pytest.fail(f"{PACKAGE} must name the folder of an unpacked linux-image package; use: sh tests/run.sh kernel")
    unpacked = Path(named)
    [kernel] = (unpacked / "boot").glob("vmlinuz-*")
    release = kernel.name.removeprefix("vmlinuz-")
    tree = folder / "tree"
    source = unpacked / "lib/modules" / release
    subprocess.run(["depmod", "-b", str(unpacked), release], check=True, env=_with_sbin())
    for name in WANTED:
        ask = ["modprobe", "-d", str(unpacked), "-S", release, "--show-depends", name]
        said = subprocess.run(ask, check=True, capture_output=True, text=True, env=_with_sbin()).stdout
        for path in (Path(line.split()[1]) for line in said.splitlines() if line.startswith("insmod ")):
            target = tree / path.relative_to(source)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target)
    for name in ("modules.order", "modules.builtin", "modules.builtin.modinfo"):
        shutil.copyfile(source / name, tree / name)
    shutil.copyfile(unpacked / "boot" / f"config-{release}", tree / "config")
    assert bzimage.stated_release(kernel) == release
    vmlinux = folder / "vmlinux"
    vmlinux.write_bytes(bzimage._payload(kernel.read_bytes()) or b"")
    modules = packed(tree, folder / "modules.tar.gz")
    return replace(image_at(kernel), release=release, build_id=elf.build_id(vmlinux), modules=modules)


def _file(place: str, source: Path) -> Entry:
    permissions = 0o755 if os.access(source, os.X_OK) else 0o644
    return Entry(path=place, mode=stat.S_IFREG | permissions, content=source.read_bytes())


def _with_sbin() -> dict[str, str]:
    return {**os.environ, "PATH": f"{os.environ['PATH']}:/usr/sbin:/sbin"}

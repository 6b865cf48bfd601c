"""The disk of a PC with GRUB in BIOS mode: a master boot record, GRUB's core, one ext4 partition with everything.

Made by the distribution's own tools without a loop device and without root's rights: mke2fs fills the filesystem from
a folder, grub-mkimage makes the core image. grub-install would want a running system.
"""

import os
import shutil
import struct
import subprocess
from collections.abc import Collection
from pathlib import Path
from typing import Any

from lab.diskbox import DiskBox, disk_root, program, text, write_folder
from lab.grubtext import LOADS_ENVIRONMENT, TAKES_NEXT_ENTRY

from bisector.lab.initramfs import Entry
from bisector.lab.programs import Program
from bisector.model.kernel import KernelImage

UUID = "0a1b2c3d-0000-4000-8000-0000000000b1"
DEFAULT = "gnulinux-simple"
UNTOUCHED = {"saved_entry": DEFAULT}
"""GRUB's environment while nobody has set a next boot."""

SECTOR, PARTITION_SECTOR = 512, 2048

_PC = Path("/usr/lib/grub/i386-pc")
PROGRAMS = (
    Program(name="mke2fs", package="e2fsprogs"),
    Program(name="grub-mkimage", package="grub-common"),
    Program(name="grub-editenv", package="grub-common"),
    Program(name="grub-reboot", package="grub2-common"),
)

# What grub-mkconfig makes of its 00_header and 10_linux, without the graphics.
_GRUB_CFG = f"""\
{LOADS_ENVIRONMENT}{TAKES_NEXT_ENTRY}menuentry_id_option="--id"
serial --unit=0 --speed=115200
terminal_input serial
terminal_output serial
set timeout=0
menuentry 'Debian GNU/Linux' --class debian $menuentry_id_option 'gnulinux-simple' {{
\tsearch --no-floppy --fs-uuid --set=root {UUID}
\tlinux /boot/vmlinuz-%(release)s root=/dev/vda1 rw init=/init %(cmdline)s panic=1
}}
"""


def missing() -> list[str]:
    """Packages without which there is no such disk."""
    lacking = {one.package for one in PROGRAMS if one.find() is None}
    return sorted(lacking | (set() if (_PC / "boot.img").exists() else {"grub-pc-bin"}))


def make_grub_box(
    root: Path,
    default: KernelImage,
    *,
    name: str = "grub1",
    size_mib: int = 96,
    more: Collection[Entry] = (),
    **changes: Any,
) -> DiskBox:
    """A machine, not yet switched on, whose disk was just made and whose default kernel is `default`.

    `more` is laid over its files.
    """
    box = DiskBox(root, root / "disk.img", {"method": "grub", "panic_s": 1}, name=name, **changes)
    folder = root / "files"
    _files(folder, box, default, more)
    make_disk(box.disk, folder, size_mib=size_mib)
    shutil.rmtree(folder)
    return box


def environment(box: DiskBox) -> dict[str, str]:
    """GRUB's. What it clears it leaves empty."""
    pairs = (line.partition("=") for line in box.run("grub-editenv - list").splitlines())
    return {key: value for key, _, value in pairs if value}


def _files(folder: Path, box: DiskBox, default: KernelImage, more: Collection[Entry]) -> None:
    entries = disk_root(box)
    grub = [program(f"usr/bin/{tool}", f"/usr/bin/{tool}") for tool in ("grub-editenv", "grub-mkrelpath")]
    grub += [program(f"usr/sbin/{tool}", f"/usr/sbin/{tool}") for tool in ("grub-probe", "grub-reboot")]
    for entry in (
        text("etc/fstab", f"UUID={UUID} / ext4 defaults 0 1\n"),
        *(entry for found in grub for entry in found),
        *program("usr/share/grub/grub-mkconfig_lib", "/usr/share/grub/grub-mkconfig_lib"),
        *more,
    ):
        entries[entry.path] = entry
    write_folder(folder, entries.values())
    boot = folder / "boot" / "grub"
    shutil.copytree(_PC, boot / "i386-pc", ignore=shutil.ignore_patterns("*.img"))
    shutil.copy2(default.path, folder / "boot" / f"vmlinuz-{default.release}")
    custom = subprocess.run(["sh", "/etc/grub.d/41_custom"], capture_output=True, text=True, check=True).stdout
    values = {"release": default.release, "cmdline": box.cmdline}
    (boot / "grub.cfg").write_text(_GRUB_CFG % values + custom)
    environment = str(boot / "grubenv")
    subprocess.run(["grub-editenv", environment, "create"], check=True)
    subprocess.run(["grub-editenv", environment, "set", f"saved_entry={DEFAULT}"], check=True)


def make_disk(disk: Path, folder: Path, *, size_mib: int) -> None:
    """A raw disk with GRUB that boots the files of a folder."""
    sectors = size_mib * 2048
    with disk.open("wb") as file:
        file.truncate(sectors * SECTOR)
    # What ext4 has by default, spelled out: newer ones that mke2fs may switch on are unknown to GRUB 2.06.
    features = "none,has_journal,ext_attr,dir_index,filetype,extent,64bit,flex_bg,sparse_super,large_file,huge_file"
    features += ",dir_nlink,extra_isize,metadata_csum"
    place = f"offset={PARTITION_SECTOR * SECTOR},root_owner=0:0"
    make = ["mke2fs", "-q", "-F", "-t", "ext4", "-O", features, "-m", "0", "-U", UUID, "-d", str(folder), "-E", place]
    subprocess.run(
        [*make, str(disk), f"{size_mib - 1}M"],
        check=True,
        env={**os.environ, "PATH": f"{os.environ['PATH']}:/usr/sbin:/sbin"},
    )
    core = disk.with_suffix(".core")
    modules = "biosdisk part_msdos ext2 normal"
    subprocess.run(
        ["grub-mkimage", "-O", "i386-pc", "-p", "(hd0,msdos1)/boot/grub", "-o", str(core), *modules.split()], check=True
    )
    assert core.stat().st_size < (PARTITION_SECTOR - 1) * SECTOR
    partition = struct.pack("<B3sB3sII", 0x80, b"\xfe\xff\xff", 0x83, b"\xfe\xff\xff", PARTITION_SECTOR, sectors - 2048)
    with disk.open("r+b") as file:
        file.write((_PC / "boot.img").read_bytes()[:440])
        file.seek(446)
        file.write(partition.ljust(64, b"\0") + b"\x55\xaa")
        file.write(core.read_bytes())
    core.unlink()

"""The disk of a UEFI machine: a GPT with an EFI system partition (systemd-boot, entries, kernels) and an ext4 root.

Made by the distribution's tools without a loop device and without root's rights: mtools fill the one partition, mke2fs
the other. The firmware is OVMF, whose variables lie in a file of the machine's own.
"""

import os
import shutil
import stat
import subprocess
from pathlib import Path
from typing import Any

from lab.diskbox import DiskBox, disk_root, program, text, write_folder

from bisector.lab.initramfs import Entry
from bisector.lab.programs import Program
from bisector.model.kernel import KernelImage

DEFAULT = "debian.conf"
UNIFIED = "debian-unified.efi"
LOADER = "4a67b082-0a4c-41cf-b6c7-440b29bb8c4f"
ESP_MIB, START_MIB = 40, 1

_CODE, _VARIABLES = Path("/usr/share/OVMF/OVMF_CODE_4M.fd"), Path("/usr/share/OVMF/OVMF_VARS_4M.fd")
_SYSTEMD_BOOT = Path("/usr/lib/systemd/boot/efi/systemd-bootx64.efi")
_STUB = Path("/usr/lib/systemd/boot/efi/linuxx64.efi.stub")
PROGRAMS = (
    Program(name="mke2fs", package="e2fsprogs"),
    Program(name="parted", package="parted"),
    Program(name="mformat", package="mtools"),
    Program(name="bootctl", package="systemd-boot"),
    Program(name="kexec", package="kexec-tools"),
)
_FILES = {_CODE: "ovmf", _VARIABLES: "ovmf", _SYSTEMD_BOOT: "systemd-boot-efi"}

# What bootctl and kernel-install leave on a Debian.
_ENTRY = """\
title Debian GNU/Linux
sort-key debian
version {release}
linux /vmlinuz-{release}
options root=/dev/vda2 rw init=/init {cmdline} panic=1
"""

_MOUNTS = """\
mount -t vfat -o umask=077 /dev/vda1 /boot
[ ! -d /sys/firmware/efi/efivars ] || mount -t efivarfs efivarfs /sys/firmware/efi/efivars
"""


_XBOOTLDR_MOUNTS = """\
mount -t vfat -o umask=077 /dev/vda3 /boot
mount -t vfat -o umask=077 /dev/vda1 /efi
[ ! -d /sys/firmware/efi/efivars ] || mount -t efivarfs efivarfs /sys/firmware/efi/efivars
"""


def missing() -> list[str]:
    """Packages without which there is no such machine."""
    lacking = {one.package for one in PROGRAMS if one.find() is None}
    return sorted(lacking | {package for file, package in _FILES.items() if not file.exists()})


def make_uefi_box(
    root: Path, default: KernelImage, *, name: str = "uefi1", unified: bool = False, **changes: Any
) -> DiskBox:
    """A machine, not yet switched on, whose disk was just made and whose default kernel is `default`.

    With `unified` that is a unified image, on an extended boot loader partition of its own.
    """
    variables = root / "variables.fd"
    firmware = ("-drive", f"if=pflash,format=raw,readonly=on,file={_CODE}")
    firmware += ("-drive", f"if=pflash,format=raw,file={variables}")
    method = {"method": "systemd-boot", "panic_s": 1}
    box = DiskBox(root, root / "disk.img", method, name=name, firmware=firmware, **changes)
    shutil.copyfile(_VARIABLES, variables)
    folder = root / "files"
    _write_esp(folder / "esp", box, default, unified=unified)
    _write_root(folder / "root", box, _XBOOTLDR_MOUNTS if unified else _MOUNTS)
    xbootldr = folder / "xbootldr" if unified else None
    if xbootldr is not None:
        _write_xbootldr(xbootldr, box, default)
    make_disk(box.disk, esp=folder / "esp", root=folder / "root", root_mib=40, xbootldr=xbootldr)
    shutil.rmtree(folder)
    return box


def _write_esp(folder: Path, box: DiskBox, default: KernelImage, *, unified: bool) -> None:
    entry = _ENTRY.format(release=default.release, cmdline=box.cmdline)
    for place in ("EFI/BOOT/BOOTX64.EFI", "EFI/systemd/systemd-bootx64.efi"):
        (folder / place).parent.mkdir(parents=True)
        shutil.copyfile(_SYSTEMD_BOOT, folder / place)
    (folder / "loader/entries").mkdir(parents=True)
    (folder / "loader/loader.conf").write_text(f"timeout 0\ndefault {UNIFIED if unified else DEFAULT}\n")
    if unified:
        return
    (folder / "loader/entries" / DEFAULT).write_text(entry)
    shutil.copyfile(default.path, folder / f"vmlinuz-{default.release}")


def _write_xbootldr(folder: Path, box: DiskBox, default: KernelImage) -> None:
    """Holds nothing but a unified image, as `ukify` makes it. Source: systemd-stub(7), sections and places."""
    image = folder / "EFI/Linux" / UNIFIED
    image.parent.mkdir(parents=True)
    (folder / "loader/entries").mkdir(parents=True)
    parts = {"osrel": folder / "os-release", "cmdline": folder / "cmdline", "linux": Path(default.path)}
    parts["osrel"].write_text(f'ID=debian\nPRETTY_NAME="Debian GNU/Linux"\nVERSION_ID={default.release}\n')
    parts["cmdline"].write_text(f"root=/dev/vda2 rw init=/init {box.cmdline} panic=1")
    add = []
    for (name, source), place in zip(parts.items(), ("0x20000", "0x30000", "0x2000000"), strict=True):
        add += ["--add-section", f".{name}={source}", "--change-section-vma", f".{name}={place}"]
    subprocess.run(["objcopy", *add, str(_STUB), str(image)], check=True)
    parts["osrel"].unlink()
    parts["cmdline"].unlink()


def _write_root(folder: Path, box: DiskBox, mounts: str) -> None:
    entries = disk_root(box)
    programs = {wanted.name: wanted.path() for wanted in PROGRAMS}
    # Mounted before the network answers: whoever connects finds everything.
    init = entries["init"].content.decode().replace("hostname bisector\n", f"{mounts}hostname bisector\n")
    for entry in (
        text("init", init, 0o755),
        text("etc/machine-id", "0123456789abcdef0123456789abcdef\n"),
        Entry(path="boot", mode=stat.S_IFDIR | 0o755),
        Entry(path="efi", mode=stat.S_IFDIR | 0o755),
        *program("usr/bin/bootctl", programs["bootctl"]),
        *program("usr/sbin/kexec", programs["kexec"]),
    ):
        entries[entry.path] = entry
    write_folder(folder, entries.values())


def make_disk(disk: Path, *, esp: Path, root: Path, root_mib: int, xbootldr: Path | None = None) -> None:
    """A raw disk with the files of two folders in its two partitions, and maybe those of another one in a third."""
    end_mib = START_MIB + ESP_MIB
    third_mib = end_mib + root_mib
    with disk.open("wb") as file:
        file.truncate((third_mib + (ESP_MIB if xbootldr else 0) + 1) << 20)
    env = {**os.environ, "PATH": f"{os.environ['PATH']}:/usr/sbin:/sbin", "MTOOLS_SKIP_CHECK": "1"}
    table = f"mklabel gpt mkpart ESP fat32 {START_MIB}MiB {end_mib}MiB set 1 esp on"
    table += f" mkpart root ext4 {end_mib}MiB {third_mib}MiB"
    if xbootldr is not None:
        table += f" mkpart XBOOTLDR fat32 {third_mib}MiB {third_mib + ESP_MIB}MiB set 3 bls_boot on"
    # parted complains of an udev that is not there.
    subprocess.run(["parted", "-s", str(disk), *table.split()], check=True, env=env, capture_output=True)
    for start_mib, files in ((START_MIB, esp), *([(third_mib, xbootldr)] if xbootldr is not None else [])):
        at = f"{disk}@@{start_mib}M"
        subprocess.run(["mformat", "-i", at, "-T", str(ESP_MIB * 2048), "-h", "64", "-s", "32", "::"], check=True)
        subprocess.run(["mcopy", "-i", at, "-s", *map(str, sorted(files.iterdir())), "::"], check=True, env=env)
    place = f"offset={end_mib << 20},root_owner=0:0"
    make = ["mke2fs", "-q", "-F", "-t", "ext4", "-m", "0", "-d", str(root), "-E", place, str(disk), f"{root_mib}M"]
    subprocess.run(make, check=True, env=env)


def variable(box: DiskBox, name: str) -> str:
    """One of the loader's variables, as efivarfs shows it to anybody; "" if there is none."""
    path = f"/sys/firmware/efi/efivars/{name}-{LOADER}"
    return box.run('[ ! -e "$1" ] || tail -c +5 "$1" | tr -d "\\000"', path).strip()


def own_files(box: DiskBox) -> str:
    """Digests of what the machine boots by itself, and from what."""
    return box.run("cd /boot && md5sum loader/loader.conf loader/entries/debian.conf vmlinuz-* EFI/*/*")

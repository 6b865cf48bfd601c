"""Other ways to boot for the box of fakebox.py: systemd-boot with its EFI variables, and kexec.

The box's bootctl and kexec are scripts that leave what the real ones do; the real ones work on the machine of
test_lab_uefi_machine.py.
"""

import shlex
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lab.fakebox import FakeBox

LOADER = "4a67b082-0a4c-41cf-b6c7-440b29bb8c4f"
DEFAULT_IMAGE = "/vmlinuz-6.1.0-37-amd64"
DEFAULT_ENTRY = f"""\
title Debian GNU/Linux
sort-key debian
linux {DEFAULT_IMAGE}
initrd /initrd.img-6.1.0-37-amd64
options root=UUID=0a1b ro quiet
"""

# LoaderEntry* as the real one writes it: non-volatile, visible to both services, UTF-16 with its null character.
_BOOTCTL = """\
case $1 in
--print-boot-path|--print-esp-path) echo /boot;;
set-oneshot)
  variable=/sys/firmware/efi/efivars/LoaderEntryOneShot-%s
  [ "$2" ] || exec rm -f "$variable"
  text=$(printf %%s "$2" | sed 's/./&\\\\000/g')
  printf "\\\\007\\\\000\\\\000\\\\000$text\\\\000\\\\000" >"$variable";;
*) exit 1;;
esac
"""

_KEXEC = """\
[ "$1" = -a ] && exit 2
case $1 in
-u) rm /mnt/kexec-image /mnt/kexec-words; echo 0 >/sys/kernel/kexec_loaded;;
-e) [ "$(cat /sys/kernel/kexec_loaded)" = 1 ] && echo kexec >/mnt/wire;;
-l) cp "$2" /mnt/kexec-image && echo "${3#--command-line=}" >/mnt/kexec-words && echo 1 >/sys/kernel/kexec_loaded;;
esac
"""


@dataclass
class FakeSystemdBoot:
    """A firmware that keeps variables and a loader that reads entries. Its fields say what is wrong with it."""

    sticky: bool = False
    ignores_entry: bool = False
    features: int = 0x13F
    secure: bool = False
    boot: dict[str, Any] = field(default_factory=lambda: {"method": "systemd-boot"})

    def install(self, box: FakeBox) -> None:
        self.variables = box.root / "firmware/efi/efivars"
        self.entries = box.root / "boot/loader/entries"
        for folder in (self.variables, self.entries):
            folder.mkdir(parents=True)
        (self.entries / "debian.conf").write_text(DEFAULT_ENTRY)
        (box.root / "boot/loader/loader.conf").write_text("timeout 0\n")
        box.program("bootctl", _BOOTCTL % LOADER)
        (box.root / "mounts").write_text("mount --bind /mnt/firmware /sys/firmware\n")

    def set(self, name: str, value: str | None) -> None:
        path = self.variables / f"{name}-{LOADER}"
        if value is None:
            path.unlink(missing_ok=True)
        else:
            path.write_bytes(b"\7\0\0\0" + f"{value}\0".encode("utf-16-le"))

    def get(self, name: str) -> str | None:
        path = self.variables / f"{name}-{LOADER}"
        return path.read_bytes()[4:].decode("utf-16-le").rstrip("\0") if path.exists() else None

    def choose(self, box: FakeBox, why: str) -> tuple[Path, str, list[str]]:
        wanted = (self.get("LoaderEntryOneShot") or "").lower()
        if not self.sticky:
            self.set("LoaderEntryOneShot", None)
        chosen = self.entries / wanted
        if not wanted or not chosen.exists() or self.ignores_entry:
            chosen = self.entries / "debian.conf"
        self.set("LoaderInfo", "systemd-boot 252.39")
        self.set("LoaderEntrySelected", chosen.name)
        (self.variables / f"LoaderFeatures-{LOADER}").write_bytes(b"\6\0\0\0" + self.features.to_bytes(8, "little"))
        secure = self.variables / "SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"
        secure.write_bytes(b"\6\0\0\0" + bytes([self.secure]))
        lines = [line.split(None, 1) for line in chosen.read_text().splitlines()]
        [path] = [value for key, value in lines if key == "linux"]
        [options] = [value for key, value in lines if key == "options"]
        return box.root / f"boot{path}", path, shlex.split(options)


@dataclass
class FakeKexec:
    """The running kernel starts what was loaded; every other boot is of the default kernel."""

    boot: dict[str, Any] = field(default_factory=lambda: {"method": "kexec"})

    def install(self, box: FakeBox) -> None:
        self.root = box.root
        (box.root / "kernel").mkdir()
        (box.root / "kernel/notes").touch()
        box.program("kexec", _KEXEC)
        # What the box has for /sys/kernel/notes goes on lying there, in a folder that can have more files.
        (box.root / "mounts").write_text(
            "mount --bind /mnt/proc/notes /mnt/kernel/notes\n"
            "mount -t tmpfs run /run && mkdir /run/sshd\n"
            "mount --rbind /mnt/kernel /sys/kernel\n"
        )

    @property
    def loaded(self) -> bool:
        return (self.root / "kernel/kexec_loaded").read_text().strip() == "1"

    def choose(self, box: FakeBox, why: str) -> tuple[Path, str, list[str]]:
        (self.root / "kernel/kexec_loaded").write_text("0\n")
        if why == "kexec":
            words = shlex.split((self.root / "kexec-words").read_text())
            return self.root / "kexec-image", "kexec", words
        path = f"/boot{DEFAULT_IMAGE}"
        return self.root / path.lstrip("/"), path, ["root=UUID=0a1b", "ro", "quiet"]

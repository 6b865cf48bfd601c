"""A lab machine that boots from a disk by its own firmware and bootloader: a QEMU whose power can be cut.

What is on the disk is the bootloader's matter (see grubdisk.py). Here is what every such machine shares: a small user
space with SSH, a serial console kept over all boots, and a power switch that kills QEMU and starts it again.
"""

import re
import shlex
import stat
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from lab.machines import free_port, wait_until
from lab.power import Powered

from bisector.lab.counter import counter_khz
from bisector.lab.initramfs import Entry, libraries
from bisector.lab.initramfs import _entries as embedded_user_space
from bisector.lab.keys import SessionKeys, session_keys
from bisector.lab.process import GuestProcess
from bisector.lab.programs import QEMU
from bisector.lab.ssh import Limits, Shell
from bisector.lab.target import target_of
from bisector.model.errors import MachineError
from bisector.recipe.machines import SshMachine

PATIENT = Limits(connect_s=5, banner_s=10, auth_s=60, channel_s=60)
"""Key exchange is slow under emulation on a busy host."""

_CMDLINE = "console=ttyS0 nokaslr random.trust_cpu=on tsc=reliable"

_ADDRESS = "ifconfig eth0 10.0.2.15 netmask 255.255.255.0 up\n"

INITTAB = """::respawn:/sbin/dropbear -F -E -s -j -k -p 22 -r /etc/dropbear/host_key
::restart:/bin/busybox init
::shutdown:/bin/mount -o remount,ro /
"""

# Before the embedded machine's /init: there is no /dev yet, and no console for what it says.
_INIT_HEAD = """#!/bin/sh
export PATH=/bin:/sbin:/usr/bin:/usr/sbin
mount -t devtmpfs devtmpfs /dev
exec </dev/console >/dev/console 2>&1
[ -O /root ] || chown -R 0:0 /root /etc
"""


def program(place: str, source: Path | str) -> list[Entry]:
    """A program of this computer with its libraries."""
    source = Path(source)
    found = [Entry(path=place, mode=stat.S_IFREG | 0o755, content=source.read_bytes())]
    if found[0].content.startswith(b"\x7fELF"):
        found += [
            Entry(path=library.lstrip("/"), mode=stat.S_IFREG | 0o755, content=Path(library).read_bytes())
            for library in libraries(source)
        ]
    return found


def text(place: str, content: str, permissions: int = 0o644) -> Entry:
    return Entry(path=place, mode=stat.S_IFREG | permissions, content=content.encode())


def user_space(keys: SessionKeys, *more: Entry) -> dict[str, Entry]:
    """The embedded machine's user space by path, with `more` added or put in place of what is there."""
    return {entry.path: entry for entry in (*embedded_user_space(keys), *more)}


def write_folder(folder: Path, entries: Iterable[Entry]) -> None:
    """Entries as files below a folder. Devices are left out: devtmpfs has them."""
    for entry in sorted(entries, key=lambda entry: entry.path):
        path = folder / entry.path
        path.parent.mkdir(parents=True, exist_ok=True)
        match stat.S_IFMT(entry.mode):
            case stat.S_IFDIR:
                path.mkdir(exist_ok=True)
            case stat.S_IFLNK:
                path.symlink_to(entry.content.decode())
                continue
            case stat.S_IFREG:
                path.write_bytes(entry.content)
            case _:
                continue
        path.chmod(stat.S_IMODE(entry.mode))


def disk_root(box: "DiskBox") -> dict[str, Entry]:
    """A root filesystem on a disk, by path: the embedded machine's user space, and an init that never answers."""
    entries = user_space(box.keys)
    init = entries["init"].content.decode().partition("\n")[2]
    # Who comes through a jump host has an address of another network: answers go by QEMU's gateway.
    assert _ADDRESS in init
    init = init.replace(_ADDRESS, f"{_ADDRESS}busybox route add default gw 10.0.2.2\n")
    for entry in (
        text("init", _INIT_HEAD + init, 0o755),
        text("etc/inittab", INITTAB),
        text("sbin/hang", "#!/bin/sh\nexec sleep 1000000\n", 0o755),
    ):
        entries[entry.path] = entry
    return entries


@dataclass
class DiskBox(Powered):
    """One machine. `disk` is a raw image that it boots from; `firmware` are QEMU's arguments for another one than BIOS.

    While `clock` is "instructions", QEMU counts them instead of time; sleeping still takes real time. With a
    `namespace` it answers at its `address` there, which only the host that `jump` describes can reach.
    """

    root: Path
    disk: Path
    boot: dict[str, Any]
    name: str = "disk1"
    firmware: tuple[str, ...] = ()
    clock: Literal["wall", "instructions"] = "wall"
    memory_mib: int = 384
    deaf: bool = False  # the power command ends well and does nothing
    cuts: int = 0
    port: int = field(default_factory=free_port)
    namespace: str = ""
    address: str = "127.0.0.1"
    jump: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        self.root.mkdir(parents=True, exist_ok=True)
        self.keys = session_keys(self.root / "keys")
        self.plug_in()
        self._process = GuestProcess(self.root / "qemu.json")
        self._switch = threading.Lock()
        self._supply = threading.Thread(target=self._watch, daemon=True)
        self._fault: BaseException | None = None

    @property
    def cmdline(self) -> str:
        """What any kernel needs here to say what it does, to answer soon, and to know the time on a busy host."""
        khz = counter_khz() if self.clock == "wall" else None
        return _CMDLINE if khz is None else f"{_CMDLINE} tsc_early_khz={khz}"

    @property
    def console_command(self) -> str:
        """Follows the serial line from now on."""
        return f"exec tail -n 0 -F {shlex.quote(str(self.console))}"

    def config(self, **changes: Any) -> SshMachine:
        """The machine's entry in a machines file."""
        return self.entry(
            changes,
            key=self.keys.user,
            host_key=self.keys.host_public,
            pause_s=0.5,
            jump=self.jump,
            boot=self.boot,
            console=self.console_command,
            boot_timeout_s=60.0,
            shutdown_timeout_s=20.0,
        )

    def start(self) -> None:
        """Switch it on; it answers when this returns."""
        self._supply.start()
        self.order("on")
        self.wait()

    def wait(self, *, limit_s: float = 90.0) -> None:
        """Until it answers by SSH."""
        wait_until(self.answers, limit_s=limit_s)

    def answers(self) -> bool:
        assert self._fault is None, self._fault
        try:
            self.run("true")
        except MachineError:
            return False
        return True

    def run(self, script: str, *arguments: str) -> str:
        """What a shell script on the machine says, over a connection of its own, as somebody else would have it."""
        shell = Shell(target_of(self.config()), limits=PATIENT)
        try:
            return shell.check(("sh", "-c", script, "test", *arguments), timeout_s=60)
        finally:
            shell.close()

    @property
    def boots(self) -> list[str]:
        """The releases of the kernels that were booted, in order, from the console."""
        return re.findall(r"Linux version (\S+)", self.console.read_text(errors="replace"))

    def halt(self) -> None:
        """Power off, and the switch stays off."""
        with self._switch:
            self._process.end()

    def close(self) -> None:
        """The end. Raises if QEMU could not be started once."""
        self.order("end")
        self._supply.join(30)
        self._process.close()
        self.unplug()
        assert self._fault is None, self._fault

    def _watch(self) -> None:
        for word in self.orders():
            if word == "end":
                self.halt()
                return
            if word == "cut":
                self.cuts += 1
                if self.deaf:
                    continue
            try:
                with self._switch:
                    self._run()
            except BaseException as error:
                self._fault = error
                raise

    def _run(self) -> None:
        said = self.root / "qemu.log"
        self._process.start(self.command(), stderr=said)
        time.sleep(0.2)
        code = self._process.exit_code()
        assert code is None, f"QEMU ended with {code}: {said.read_text()[-2000:]}"

    def command(self) -> list[str]:
        argv = ["nsenter", f"--net=/run/netns/{self.namespace}", "--"] if self.namespace else []
        argv += [str(QEMU.path()), "-no-user-config", "-nodefaults", "-display", "none", "-name", self.name]
        argv += ["-machine", "q35,accel=tcg", "-cpu", "max", "-smp", "1", "-m", str(self.memory_mib), *self.firmware]
        argv += ["-drive", f"if=none,id=disk,format=raw,file={self.disk}"]
        argv += ["-device", "virtio-blk-pci,drive=disk,bootindex=0"]
        argv += ["-chardev", f"file,id=console,append=on,path={self.console}", "-serial", "chardev:console"]
        # A namespace has no way out that would have to be shut.
        restrict = "off" if self.namespace else "on"
        argv += ["-netdev", f"user,id=net,restrict={restrict},hostfwd=tcp:{self.address}:{self.port}-:22"]
        argv += ["-device", "virtio-net-pci,netdev=net,romfile="]
        if self.clock == "instructions":
            # Slow, as machines go: whatever only waits while it boots costs few instructions then.
            argv += ["-icount", "shift=6,align=off,sleep=on"]
        return argv

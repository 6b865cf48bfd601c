"""A lab machine without the metal: a real sshd in a mount and PID namespace of its own, and a firmware of ours.

Inside, /boot, /var/lib, /tmp, the boot id, the kernel's notes and its command line are files of this box; uname,
reboot and grub-probe are scripts; grub-editenv is the real one. The firmware reads the real grubenv and custom.cfg as
GRUB would, looks into the image that the chosen entry names, and starts a new sshd, or does what it was told to.
Cutting the power kills PID 1 of the namespace, and with it everything.
"""

import contextlib
import json
import os
import re
import select
import shlex
import shutil
import signal
import struct
import subprocess
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from lab.grubtext import LOADS_ENVIRONMENT, READS_CUSTOM, TAKES_NEXT_ENTRY
from lab.machines import SSHD, free_port, image_at, make_key, sshd_config, wait_until
from lab.power import Powered

from bisector.kernel.elf import build_id
from bisector.model.kernel import KernelImage
from bisector.recipe.machines import SshMachine

DEFAULT_RELEASE = "6.1.0-37-amd64"
DEFAULT_BUILD_ID = "d0" * 20
UUID = "0a1b2c3d-0000-4000-8000-000000000001"

MISSING = [name for name in ("unshare", "nsenter", "grub-editenv", "setpriv") if shutil.which(name) is None]
USABLE = SSHD is not None and os.getuid() == 0 and not MISSING
WHY_NOT = "needs root, sshd (openssh-server), grub-editenv (grub-common) and unshare"

GRUB_CFG = f"""\
{LOADS_ENVIRONMENT}{TAKES_NEXT_ENTRY}menuentry 'Debian GNU/Linux' --id gnulinux-simple {{
\tlinux /boot/vmlinuz-{DEFAULT_RELEASE} root=UUID=0a1b ro quiet
\tinitrd /boot/initrd.img-{DEFAULT_RELEASE}
}}
{READS_CUSTOM}"""

_INIT = """
set -e
mount --make-rprivate /
mount --rbind "$1" /mnt
for file in sys/kernel/random/boot_id cmdline; do mount --bind "/mnt/proc/${file##*/}" "/proc/$file"; done
mount --bind /mnt/proc/notes /sys/kernel/notes
# Where the kernel has them: these are this computer's own, and the product reboots machines by them.
[ ! -e /proc/sysrq-trigger ] || mount --bind /mnt/wire /proc/sysrq-trigger
[ ! -e /proc/sys/kernel/sysrq ] || mount --bind /mnt/proc/sysrq /proc/sys/kernel/sysrq
mount --bind /mnt/boot /boot
mount --bind /mnt/var /var/lib
mount --bind /mnt/tmp /tmp
[ ! -e /mnt/mounts ] || . /mnt/mounts
exec "$2" -D -e -f /mnt/sshd_config
"""

_SCRIPTS = {
    "uname": '[ "$*" = -r ] && exec cat /mnt/proc/release\nexec /usr/bin/uname "$@"',
    "reboot": 'case "$*" in *f*) echo forced;; *) echo reboot;; esac >/mnt/wire',
    "systemctl": '[ "$1" = reboot ] || exit 1\n[ -e /mnt/no-reboot ] && exit 0\nexec /mnt/bin/reboot',
    "who": "cat /mnt/who 2>/dev/null",
    "grub-probe": 'cat "/mnt/probe/${1#--target=}"',
    "grub-mkrelpath": 'echo "$1"',
}

# A machine's own bootloader script, as a user might have one; the firmware of the box reads what it writes.
ENTRY = "menuentry hook --id hook {\\n\\tlinux %s %s\\n}\\n"
HOOK = {
    "method": "hook",
    "where": "machine",
    "install": f'printf "{ENTRY}" "$BISECTOR_IMAGE" "$BISECTOR_CMDLINE" >/boot/grub/custom.cfg',
    "boot_once": "grub-editenv /boot/grub/grubenv set next_entry=hook",
    "armed": 'grub-editenv /boot/grub/grubenv list | sed -n "s/^next_entry=//p"',
    "disarm": "grub-editenv /boot/grub/grubenv unset next_entry",
}

PANIC = "Kernel panic - not syncing: VFS: Unable to mount root fs on unknown-block(0,0)"


def children_of(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def listens(pid: int, port: int) -> bool:
    """Does anybody listen on this port in the process's network namespace? Asked of the kernel: no connection made."""
    try:
        lines = Path(f"/proc/{pid}/net/tcp").read_text().splitlines()[1:]
    except OSError:
        return False
    return any(line.split()[1].endswith(f":{port:04X}") and line.split()[3] == "0A" for line in lines)


def gnu_note(build_id: str) -> bytes:
    content = bytes.fromhex(build_id)
    return struct.pack("<III", 4, len(content), 3) + b"GNU\0" + content


def fake_kernel(folder: Path, index: int, *, then: str = "run") -> KernelImage:
    """An image that the firmware understands: `then` is run, panic or hang."""
    commit = f"{index:02x}" * 20
    release, build = f"6.1.0-bisector-{commit[:12]}", f"{index + 100:02x}" * 20
    path = folder / f"bzImage-{index}"
    path.write_text(json.dumps({"release": release, "build_id": build, "then": then}) + " " * 2000)
    return replace(image_at(path), commit=commit, release=release, build_id=build)


class Loader(Protocol):
    """Another way to boot than GRUB (see fakeloaders.py)."""

    boot: dict[str, Any]

    def install(self, box: "FakeBox") -> None:
        """Make its files and programs. A script `mounts` in the box's root runs in the namespace before sshd."""

    def choose(self, box: "FakeBox", why: str) -> "tuple[Path, str, list[str]]":
        """What the firmware's loader boots: the image, the path it has there, the words of its command line."""


@dataclass
class FakeBox(Powered):
    """One box. What it is to do wrong is set in its fields, at any time; `boots` tells what was booted and why."""

    root: Path
    name: str = "box1"
    boot_s: float = 0.1
    linger_s: float = 0.0
    deaf_to: set[str] = field(default_factory=set)  # reboot, forced, cut
    refuses_login_s: float = 0.0
    dead_until_cut: bool = False
    sticky: bool = False
    ignores_entry: bool = False
    ignored_entries: int = 0  # so many times
    stale: list[Path] = field(default_factory=list)  # booted instead of the entry's image, one after the other
    panicking: set[str] = field(default_factory=set)  # how the releases end that do
    boots: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    loader: Loader | None = None
    grub: str = "boot/grub"  # where GRUB's files lie
    grub_cfg: str = GRUB_CFG
    namespace: str = ""  # of the network, by its name under /run/netns; the default one if empty
    address: str = "127.0.0.1"
    on_order: Callable[[str], None] = lambda word: None  # told each order before it is carried out

    def __post_init__(self) -> None:
        for name in (self.grub, "boot/bisector", "proc", "bin", "var", "tmp", "probe"):
            (self.root / name).mkdir(parents=True, exist_ok=True)
        (self.root / "tmp").chmod(0o1777)
        self.port = 22 if self.namespace else free_port()
        self.host_public = make_key(self.root / "host_key")
        (self.root / "authorized_keys").write_text(make_key(self.root / "user_key") + "\n")
        for name, body in _SCRIPTS.items():
            self.program(name, body)
        for name, said in (("fs", "ext2"), ("abstraction", ""), ("fs_uuid", UUID)):
            (self.root / "probe" / name).write_text(said + "\n")
        (self.root / self.grub / "grub.cfg").write_text(self.grub_cfg)
        (self.root / "boot/vmlinuz-6.1.0-37-amd64").write_text(
            json.dumps({"release": DEFAULT_RELEASE, "build_id": DEFAULT_BUILD_ID, "then": "run"})
        )
        (self.root / "boot/initrd.img-6.1.0-37-amd64").write_text("initramfs")
        self.editenv("create")
        if self.loader is not None:
            self.loader.install(self)
        (self.root / "proc/sysrq").touch()
        self.plug_in()
        self._process: subprocess.Popen[bytes] | None = None
        self._switch = threading.RLock()
        self._firmware = threading.Thread(target=self._watch, daemon=True)

    def config(self, **changes: Any) -> SshMachine:
        """The box's entry, quick to give up."""
        boot = {"method": "grub"} if self.loader is None else self.loader.boot
        return self.entry(
            changes,
            key=self.root / "user_key",
            host_key=self.host_public,
            pause_s=0.1,
            boot=boot,
            boot_timeout_s=4.0,
            shutdown_timeout_s=2.0,
        )

    def editenv(self, *arguments: str) -> str:
        command = ["grub-editenv", str(self.root / self.grub / "grubenv"), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    @property
    def environment(self) -> dict[str, str]:
        return dict(line.split("=", 1) for line in self.editenv("list").splitlines())

    @property
    def release(self) -> str:
        return (self.root / "proc/release").read_text().strip()

    @property
    def boot_id(self) -> str:
        return (self.root / "proc/boot_id").read_text().strip()

    @property
    def leased(self) -> bool:
        records = (self.root / "var/bisector/lease").glob("lease.*")
        return any(not record.read_text().startswith("- ") for record in records)

    def start(self) -> None:
        """Switch it on; it answers when this returns."""
        self._firmware.start()
        self._boot("on")
        wait_until(self.answers)

    def answers(self) -> bool:
        process = self._process
        return process is not None and listens(process.pid, self.port)

    def close(self) -> None:
        self.order("stop")
        self._firmware.join(20)
        self.halt()
        self.unplug()

    def halt(self) -> None:
        """Everything in it ends at once."""
        with self._switch:
            process, self._process = self._process, None
            if process is not None:
                # The namespace's first process goes last: when it has gone, so has the listener on the port.
                handles = [os.pidfd_open(child) for child in children_of(process.pid)]
                process.kill()
                process.wait(20)
                for handle in handles:
                    assert select.select([handle], [], [], 20.0)[0], "a process of the box survives"
                    os.close(handle)

    def program(self, name: str, body: str) -> None:
        """A shell script of the box's own, before the program of that name that this computer has."""
        (self.root / "bin" / name).write_text(f"#!/bin/sh\n{body}\n")
        (self.root / "bin" / name).chmod(0o755)

    def restart_sshd_without_reboot(self) -> None:
        with self._switch:
            self.halt()
            self._run()
        wait_until(self.answers)

    def drop_connections(self) -> None:
        """Kill the server's half of every connection; what runs in the box runs on."""
        process = self._process
        # While it boots there is nothing to drop, and whatever there is may be gone in the next moment.
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            for server in children_of(process.pid) if process is not None else []:
                for pid in children_of(server):
                    if b"sshd" in Path(f"/proc/{pid}/cmdline").read_bytes():
                        os.kill(pid, signal.SIGKILL)

    def run_inside(self, script: str) -> None:
        """As root, in the box."""
        assert self._process is not None
        [first] = children_of(self._process.pid)
        enter = ["nsenter", "-t", str(first), "--mount", "--pid", "--"]
        subprocess.run([*enter, "sh", "-c", script], check=False, capture_output=True)

    def crash(self) -> None:
        """It resets by itself: the default kernel comes up."""
        self.order("crash")

    def _watch(self) -> None:
        for word in self.orders():
            if word == "stop":
                return
            if word in ("s", "u"):
                continue
            # What comes by /proc/sysrq-trigger: sync and remount were passed over, this is the reset.
            word = "forced" if word == "b" else word
            self.asked.append(word)
            self.on_order(word)
            if word in self.deaf_to:
                continue
            if word == "reboot":
                time.sleep(self.linger_s)
            if word != "cut" and self.dead_until_cut:
                self.halt()
                continue
            self._boot(word)

    def _boot(self, why: str) -> None:
        with self._switch:
            self.halt()
            time.sleep(self.boot_s)
            kernel, path, words = self._choose(why)
            then = kernel["then"]
            self.boots.append(f"{why}: {kernel['release']}" + ("" if then == "run" else f" {then}"))
            self._say(f"Linux version {kernel['release']}")
            if then == "panic":
                self._say(PANIC)
                self._boot("panic")
                return
            if then == "hang":
                return
            for name, content in (
                ("boot_id", f"{uuid.uuid4()}\n"),
                ("release", f"{kernel['release']}\n"),
                ("cmdline", " ".join((f"BOOT_IMAGE=(hd0,msdos1){path}", *words)) + "\n"),
            ):
                (self.root / "proc" / name).write_text(content)
            (self.root / "proc/notes").write_bytes(gnu_note(kernel["build_id"]))
            shutil.rmtree(self.root / "tmp")
            (self.root / "tmp").mkdir(mode=0o777)
            (self.root / "tmp").chmod(0o1777)
            keys, hidden = self.root / "authorized_keys", self.root / "later_keys"
            if self.refuses_login_s and keys.exists():
                keys.rename(hidden)
                threading.Timer(self.refuses_login_s, hidden.rename, (keys,)).start()
            self._run()

    def _run(self) -> None:
        assert SSHD is not None
        sshd_config(
            self.root / "sshd_config",
            port=self.port,
            address=self.address,
            keys=Path("/mnt"),
            path="/mnt/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        )
        Path("/run/sshd").mkdir(exist_ok=True, mode=0o755)
        inside = ["nsenter", f"--net=/run/netns/{self.namespace}", "--"] if self.namespace else []
        command = [*inside, "unshare", "--mount", "--pid", "--fork", "--mount-proc", "--kill-child=SIGKILL", "--"]
        with (self.root / "sshd.log").open("ab") as log:
            self._process = subprocess.Popen(
                [*command, "sh", "-c", _INIT, "init", str(self.root), SSHD], stdin=subprocess.DEVNULL, stderr=log
            )

    def _choose(self, why: str) -> tuple[dict[str, str], str, list[str]]:
        """As GRUB does: the one-shot entry, and if there is none the default; a broken entry falls back to it."""
        if self.loader is not None:
            image, path, words = self.loader.choose(self, why)
            return self._kernel(image), path, words
        chosen = self.environment.get("next_entry", "")
        if chosen and not self.sticky:
            self.editenv("unset", "next_entry")
        if self.ignores_entry or (chosen and self.ignored_entries > 0):
            chosen, self.ignored_entries = "", self.ignored_entries - 1
        custom = self.root / self.grub / "custom.cfg"
        text = custom.read_text(errors="replace") if custom.exists() else ""
        for entry in re.finditer(r"^menuentry .*? --id (\S+) \{\n(.*?)^\}", text, re.MULTILINE | re.DOTALL):
            if shlex.split(entry[1]) == [chosen]:
                lines = [shlex.split(line) for line in entry[2].splitlines()]
                [(_, path, *words)] = [line for line in lines if line[0] == "linux"]
                image = self.root / path.replace("/var/lib/", "/var/").removeprefix("/")
                if self.stale and "bisector" in path:
                    image = self.stale.pop(0)
                if image.exists():
                    return self._kernel(image), path, words
        path = "/boot/vmlinuz-6.1.0-37-amd64"
        return self._kernel(self.root / path.removeprefix("/")), path, ["root=UUID=0a1b", "ro", "quiet"]

    def _kernel(self, image: Path) -> dict[str, str]:
        content = image.read_bytes()
        if content.startswith(b"{"):
            kernel: dict[str, str] = json.loads(content)
            return kernel
        found = re.search(rb"6\.1\.0-[A-Za-z0-9.-]+", content)
        assert found is not None, f"{image} is no kernel"
        release = found[0].decode()
        then = "panic" if release.endswith(tuple(self.panicking)) else "run"
        return {"release": release, "build_id": build_id(image), "then": then}

    def _say(self, line: str) -> None:
        with self.console.open("a") as file:
            file.write(f"[    0.000000] {line}\r\n")


@contextlib.contextmanager
def running_box(root: Path, name: str = "box1", loader: Loader | None = None, **fields: Any) -> Iterator[FakeBox]:
    box = FakeBox(root, name, loader=loader, **fields)
    try:
        box.start()
        yield box
    finally:
        box.close()

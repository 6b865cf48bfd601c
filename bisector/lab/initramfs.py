"""The embedded machine's whole user space: busybox, dropbear, sftp-server, their libraries and a short /init.

Same programs and keys, same bytes: names sorted, times and owners zero, as a boot must repeat under an
instruction clock.
"""

import gzip
import hashlib
import os
import re
import stat
import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from bisector.lab.console import READY
from bisector.lab.keys import SessionKeys
from bisector.lab.programs import BUSYBOX, DROPBEAR, LDD, SFTP_SERVER, require_programs
from bisector.model.errors import MachineError

# QEMU's user network always looks like this (qemu(1), -netdev user), so neither DHCP nor CONFIG_IP_PNP is needed; a
# kernel that configured eth0 itself (ip=dhcp) has the same address already.
_INIT = f"""#!/bin/sh
export PATH=/bin:/sbin
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev 2>/dev/null
mkdir -p /dev/pts /dev/shm
mount -t devpts devpts /dev/pts
mount -t tmpfs tmpfs /tmp
mount -t tmpfs tmpfs /dev/shm
chmod 1777 /tmp /dev/shm
hostname bisector
ifconfig lo 127.0.0.1 up
ifconfig eth0 10.0.2.15 netmask 255.255.255.0 up
echo "{READY}" >/dev/console
exec /bin/busybox init
"""

# busybox init as process 1 reaps what jobs leave behind and starts dropbear again should it die: if dropbear were
# process 1 itself, its end would be a kernel panic, and the commit would be blamed. -s -j -k: keys only, no forwarding.
_INITTAB = """::respawn:/sbin/dropbear -F -E -s -j -k -p 22 -r /etc/dropbear/host_key
::restart:/bin/busybox init
::shutdown:/bin/true
"""

_LIBRARY = re.compile(r"^\s*(?:\S+ => )?(/\S+) \(0x[0-9a-f]+\)$", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One thing in the archive: `path` relative to the root, `mode` with its type bits, `content` of a file or link."""

    path: str
    mode: int
    content: bytes = b""
    device: tuple[int, int] = (0, 0)


def newc(entries: Iterable[Entry]) -> bytes:
    """A cpio archive in the format "newc" that the kernel unpacks; parents are added, entries sorted.

    Source: Documentation/driver-api/early-userspace/buffer-format.rst.
    """
    wanted = {entry.path: entry for entry in entries}
    for path in list(wanted):
        for parent in PurePosixPath(path).parents:
            if str(parent) != ".":
                wanted.setdefault(str(parent), Entry(path=str(parent), mode=stat.S_IFDIR | 0o755))
    parts: list[bytes] = []
    for inode, path in enumerate(sorted(wanted), start=1):
        parts.extend(_record(inode, wanted[path]))
    parts.extend(_record(0, Entry(path="TRAILER!!!", mode=0)))
    return b"".join(parts)


def _record(inode: int, entry: Entry) -> Iterator[bytes]:
    name = entry.path.encode() + b"\0"
    links = 2 if stat.S_ISDIR(entry.mode) else 1
    numbers = (inode, entry.mode, 0, 0, links, 0, len(entry.content), 0, 0, *entry.device, len(name), 0)
    header = b"070701" + b"".join(b"%08X" % number for number in numbers)
    yield header + name + b"\0" * (-(len(header) + len(name)) % 4)
    yield entry.content + b"\0" * (-len(entry.content) % 4)


def build_initramfs(target: Path, keys: SessionKeys) -> str:
    """Write the gzipped initramfs to `target` and return its SHA-256.

    Raises MissingPackageError naming the packages (busybox-static, dropbear-bin, openssh-sftp-server) that lack.
    """
    require_programs((BUSYBOX, DROPBEAR, SFTP_SERVER, LDD))
    packed = gzip.compress(newc(_entries(keys)), compresslevel=6, mtime=0)
    temporary = target.with_name(target.name + ".part")
    temporary.write_bytes(packed)
    temporary.replace(target)
    return hashlib.sha256(packed).hexdigest()


def _entries(keys: SessionKeys) -> Iterator[Entry]:
    busybox = BUSYBOX.path()
    yield _file("init", _INIT.encode(), 0o755)
    yield _file("etc/inittab", _INITTAB.encode())
    yield _file("etc/passwd", b"root:x:0:0:root:/root:/bin/sh\n")
    yield _file("etc/group", b"root:x:0:\n")
    yield _file("etc/shells", b"/bin/sh\n")
    yield _file("etc/hosts", b"127.0.0.1 localhost bisector\n")
    yield _file("etc/dropbear/host_key", keys.host.read_bytes(), 0o600)
    yield Entry(path="root", mode=stat.S_IFDIR | 0o700)
    yield Entry(path="root/.ssh", mode=stat.S_IFDIR | 0o700)
    yield _file("root/.ssh/authorized_keys", f"{keys.user_public}\n".encode(), 0o600)
    for folder in ("dev", "proc", "sys", "tmp", "run", "mnt", "sbin", "var/log"):
        yield Entry(path=folder, mode=stat.S_IFDIR | 0o755)
    # The kernel opens /dev/console before /init can mount anything.
    yield Entry(path="dev/console", mode=stat.S_IFCHR | 0o600, device=(5, 1))
    yield Entry(path="dev/null", mode=stat.S_IFCHR | 0o666, device=(1, 3))
    yield _file("bin/busybox", busybox.read_bytes(), 0o755)
    for applet in _applets(busybox):
        yield Entry(path=f"bin/{applet}", mode=stat.S_IFLNK | 0o777, content=b"busybox")
    programs = {"sbin/dropbear": DROPBEAR.path(), "usr/lib/openssh/sftp-server": SFTP_SERVER.path()}
    for place, program in programs.items():
        yield _file(place, program.read_bytes(), 0o755)
    for place in ("usr/lib/sftp-server", "usr/libexec/sftp-server"):
        # Where dropbear looks for it is fixed when it is compiled, and differs between distributions.
        yield Entry(path=place, mode=stat.S_IFLNK | 0o777, content=b"/usr/lib/openssh/sftp-server")
    for library in sorted({lib for program in (busybox, *programs.values()) for lib in libraries(program)}):
        yield _file(library.lstrip("/"), Path(library).read_bytes(), 0o755)


def _file(path: str, content: bytes, permissions: int = 0o644) -> Entry:
    return Entry(path=path, mode=stat.S_IFREG | permissions, content=content)


def _applets(busybox: Path) -> list[str]:
    listed = _said([str(busybox), "--list"]).split()
    return sorted(name for name in listed if name != "busybox" and "/" not in name)


def libraries(program: Path) -> list[str]:
    """Absolute paths of the shared libraries and the loader a program needs; none if it is static."""
    with program.open("rb") as file:
        if file.read(4) != b"\x7fELF":
            raise MachineError(
                f"{program} is not a program for this kernel to run", resolution="Reinstall its package."
            )
    return sorted(set(_LIBRARY.findall(_said([str(LDD.path()), str(program)], static_is_fine=True))))


def _said(argv: list[str], *, static_is_fine: bool = False) -> str:
    done = subprocess.run(
        argv,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=60,
        check=False,
        env={**os.environ, "LC_ALL": "C"},
    )
    if done.returncode != 0 and not (static_is_fine and "not a dynamic executable" in done.stdout + done.stderr):
        raise MachineError(f"{' '.join(argv)} ended with {done.returncode}", details=done.stderr)
    return done.stdout

"""A real sshd on the loopback interface with throw-away keys, and guests small enough to boot in half a second."""

import os
import pwd
import secrets
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import real
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from fakes import kernel_image

from bisector.lab.ssh import Limits, Target
from bisector.model.kernel import KernelImage

SSHD = shutil.which("sshd", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
QUICK = Limits(connect_s=5, banner_s=3, auth_s=10, channel_s=5, silence_s=10, transfer_s=20, pulse_s=20)


def make_key(path: Path) -> str:
    """A new private key at `path`; its public line."""
    key = Ed25519PrivateKey.generate()
    pem = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.OpenSSH, serialization.NoEncryption()
    )
    path.touch(0o600)
    path.write_bytes(pem)
    public = key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    return public.decode()


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


def parent_of(pid: int) -> int | None:
    try:
        return int(Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[1])
    except (FileNotFoundError, ProcessLookupError):
        return None


def sshd_config(file: Path, *, port: int, address: str, keys: Path, path: str) -> None:
    """Write the configuration of a server that knows the host's key and the users' in one folder, as it sees that."""
    lines = (
        f"Port {port}",
        f"ListenAddress {address}",
        f"HostKey {keys}/host_key",
        f"AuthorizedKeysFile {keys}/authorized_keys",
        "PidFile none",
        # SHLVL: bash then leaves the start-up files of whoever runs the tests alone.
        f"SetEnv PATH={path} SHLVL=5",
        "StrictModes no",
        "UsePAM no",
        "PasswordAuthentication no",
        "KbdInteractiveAuthentication no",
        "PermitRootLogin yes",
        "Subsystem sftp internal-sftp",
    )
    file.write_text("\n".join(lines) + "\n")


@dataclass
class Sshd:
    """One OpenSSH server for one test."""

    folder: Path
    port: int = field(default_factory=free_port)
    path: str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    namespace: str = ""
    address: str = "127.0.0.1"

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        self.host_public = make_key(self.folder / "host_key")
        self.user_public = make_key(self.folder / "user_key")
        (self.folder / "authorized_keys").write_text(self.user_public + "\n")
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def target(self) -> Target:
        return Target(
            name="lab-1",
            host=self.address,
            port=self.port,
            user=pwd.getpwuid(os.getuid()).pw_name,
            key=self.folder / "user_key",
            host_keys=(self.host_public,),
        )

    def start(self) -> None:
        if os.getuid() == 0:
            Path("/run/sshd").mkdir(exist_ok=True, mode=0o755)
        config = self.folder / "sshd_config"
        sshd_config(config, port=self.port, address=self.address, keys=self.folder, path=self.path)
        assert SSHD is not None
        inside = ["nsenter", f"--net=/run/netns/{self.namespace}", "--"] if self.namespace else []
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [*inside, SSHD, "-D", "-e", "-f", str(config)], stderr=log, stdin=subprocess.DEVNULL
            )
        until = time.monotonic() + 10
        while True:
            try:
                socket.create_connection((self.address, self.port), timeout=1).close()
            except OSError:
                assert self._process.poll() is None, (self.folder / "log").read_text()
                assert time.monotonic() < until, "sshd does not listen"
                time.sleep(0.02)
            else:
                return

    def sessions(self) -> list[int]:
        """The server's children: one for each connection, and their children that are sshd too."""
        assert self._process is not None
        found, grown = [self._process.pid], True
        while grown:
            grown = False
            for folder in Path("/proc").glob("[0-9]*"):
                pid = int(folder.name)
                try:
                    is_server = b"sshd" in (folder / "comm").read_bytes()
                except (FileNotFoundError, ProcessLookupError):
                    continue
                if is_server and pid not in found and parent_of(pid) in found:
                    found.append(pid)
                    grown = True
        return found[1:]

    def signal_sessions(self, number: signal.Signals) -> None:
        for pid in self.sessions():
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                continue

    def stop(self) -> None:
        if self._process is not None:
            self.signal_sessions(signal.SIGKILL)
            self._process.kill()
            self._process.wait(10)
            self._process = None


def running(needle: str) -> list[int]:
    """Processes whose command line holds `needle`, zombies not counted."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if needle.encode() in (folder / "cmdline").read_bytes() and int(folder.name) != os.getpid():
                found.append(int(folder.name))
        except (FileNotFoundError, ProcessLookupError):
            continue
    return found


def some_seconds() -> str:
    """Long enough for any test, and an argument that no other test's `sleep` has at the same time."""
    return f"{1000 + secrets.randbelow(1_000_000)}.5"


def wait_until(condition: Callable[[], object], *, limit_s: float = 10.0) -> None:
    until = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < until, "it did not happen in time"
        time.sleep(0.02)


def image_at(path: Path) -> KernelImage:
    return kernel_image("c0ffee" * 6 + "c0ff", build_id="00" * 20, path=str(path))


RESET = bytes.fromhex("b0fee664")  # mov al, 0xfe; out 0x64, al: the keyboard controller's reset line
HANG = b""


def tiny_kernel(path: Path, said: str, *, then: bytes = HANG) -> KernelImage:
    """A guest by the Linux boot protocol that writes `said` to the serial port, and then resets or hangs.

    QEMU enters the real-mode part at offset 0x200 (Documentation/x86/boot.rst); the code stands at 0x270.
    """
    sector = bytearray(1024)
    sector[0x1F1] = 1  # setup_sects
    sector[0x1FE:0x200] = b"\x55\xaa"
    sector[0x200:0x202] = b"\xeb\x6e"  # jmp 0x270
    sector[0x202:0x206] = b"HdrS"
    sector[0x206:0x208] = b"\x0c\x02"  # protocol 2.12
    sector[0x211] = 0x01  # loadflags: the protected-mode part is loaded high
    sector[0x22C:0x230] = (0x37FFFFFF).to_bytes(4, "little")  # initrd_addr_max
    # loop: cs lodsb; test al,al; jz end; mov dx,0x3f8; out dx,al; jmp loop; end: ...; hlt; jmp
    loop = bytes.fromhex("2eac84c07406baf803eeebf4")
    code = loop + then + bytes.fromhex("f4ebfd")
    text_at = 0x70 + 3 + len(code)
    sector[0x270 : 0x270 + 3 + len(code)] = b"\xbe" + text_at.to_bytes(2, "little") + code
    text = said.encode() + b"\0"
    body = bytes(sector[: 0x200 + text_at]) + text
    size = -(-len(body) // 512) * 512
    body = bytearray(body.ljust(size, b"\0"))
    body[0x1F1] = size // 512 - 1
    path.write_bytes(bytes(body) + b"\0" * 4096)
    return image_at(path)


def real_kernel() -> KernelImage:
    """A kernel that a demonstration built (see tests/real.py)."""
    folder, facts = real.built_kernels()[0]
    return replace(image_at(folder / "bzImage"), release=facts["release"], build_id=facts["build_id"])


def disk_kernels(*, uefi: bool = False) -> dict[str, KernelImage]:
    """The demonstration's kernels by commit; they can boot from a disk. `uefi` as for `real.built_kernels`."""
    found = {
        facts["commit"]: replace(
            image_at(folder / "bzImage"),
            commit=facts["commit"],
            key=facts["commit"],
            release=facts["release"],
            build_id=facts["build_id"],
        )
        for folder, facts in real.built_kernels(uefi=uefi)
    }
    assert len(found) >= 4, f"{real.demo_home()} has too few kernels; make it anew"
    return found

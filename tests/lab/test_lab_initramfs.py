import gzip
import stat
import subprocess
from pathlib import Path

import paramiko
import pytest

from bisector.lab import programs
from bisector.lab.initramfs import Entry, build_initramfs, libraries, newc
from bisector.lab.keys import SessionKeys, session_keys
from bisector.lab.programs import EMBEDDED, Program, missing_programs, require_programs
from bisector.model.errors import MachineError, MissingPackageError


@pytest.fixture
def keys(tmp_path: Path) -> SessionKeys:
    try:
        require_programs()
    except MissingPackageError as error:
        pytest.skip(str(error))
    return session_keys(tmp_path / "keys")


def listing(archive: bytes) -> dict[str, str]:
    """Each name and its mode, as the real cpio reads them."""
    said = subprocess.run(
        ["cpio", "--list", "--verbose", "--numeric-uid-gid", "--quiet"], input=archive, capture_output=True, check=True
    ).stdout.decode()
    rows = (line.partition(" -> ")[0].split() for line in said.splitlines())
    return {row[-1]: row[0] for row in rows}


def test_cpio_reads_what_we_write(tmp_path: Path) -> None:
    archive = newc(
        [
            Entry(path="a/b/file", mode=stat.S_IFREG | 0o640, content=b"12345"),
            Entry(path="a/link", mode=stat.S_IFLNK | 0o777, content=b"b/file"),
            Entry(path="empty", mode=stat.S_IFREG | 0o600),
        ]
    )
    subprocess.run(["cpio", "-i", "--quiet"], input=archive, cwd=tmp_path, check=True)
    assert (tmp_path / "a/link").read_bytes() == b"12345"
    assert (tmp_path / "a/b/file").stat().st_mode & 0o777 == 0o640
    assert (tmp_path / "empty").read_bytes() == b""
    names = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*"))
    assert names == ["a", "a/b", "a/b/file", "a/link", "empty"]


def test_the_initramfs_holds_all_that_ssh_and_uploads_need(keys: SessionKeys, tmp_path: Path) -> None:
    build_initramfs(tmp_path / "rootfs.gz", keys)
    names = listing(gzip.decompress((tmp_path / "rootfs.gz").read_bytes()))
    for name in ("init", "bin/busybox", "sbin/dropbear", "usr/lib/openssh/sftp-server"):
        assert names[name] == "-rwxr-xr-x"
    for applet in ("sh", "setsid", "mkfifo", "timeout", "sha256sum", "base64", "tr", "grep"):
        assert names[f"bin/{applet}"].startswith("l"), applet
    assert names["root/.ssh"] == "drwx------"
    assert names["root/.ssh/authorized_keys"] == "-rw-------"
    assert names["etc/dropbear/host_key"] == "-rw-------"
    assert names["dev/console"].startswith("c")
    for program in ("/usr/sbin/dropbear", "/usr/lib/openssh/sftp-server"):
        for library in libraries(Path(program)):
            assert library.lstrip("/") in names


def test_the_same_programs_and_keys_give_the_same_bytes(keys: SessionKeys, tmp_path: Path) -> None:
    digests = [build_initramfs(tmp_path / name, keys) for name in ("first.gz", "second.gz")]
    assert digests[0] == digests[1]
    assert (tmp_path / "first.gz").read_bytes() == (tmp_path / "second.gz").read_bytes()


def test_a_static_program_needs_no_libraries_and_a_script_is_refused(tmp_path: Path) -> None:
    assert any("libc.so" in library for library in libraries(Path("/usr/sbin/dropbear")))
    assert libraries(programs.BUSYBOX.path()) == []
    (tmp_path / "script").write_text("#!/bin/sh\n")
    with pytest.raises(MachineError, match="script"):
        libraries(tmp_path / "script")


def test_keys_are_made_once_for_a_session_and_are_readable_by_the_owner_alone(
    keys: SessionKeys, tmp_path: Path
) -> None:
    assert session_keys(tmp_path / "keys") == keys
    for path in (keys.user, keys.host):
        assert path.stat().st_mode & 0o077 == 0
    assert f"ssh-ed25519 {paramiko.PKey.from_path(keys.user).get_base64()}" == keys.user_public
    other = session_keys(tmp_path / "other")
    assert {other.user_public, other.host_public}.isdisjoint({keys.user_public, keys.host_public})


def test_missing_programs_are_all_named_with_their_packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(programs, "_SBIN", "")
    lost = tuple(Program(name=program.name, package=program.package) for program in EMBEDDED)
    assert missing_programs(lost) == lost
    with pytest.raises(MissingPackageError) as caught:
        require_programs(lost)
    assert caught.value.exit_code == 2
    for package in ("qemu-system-x86", "busybox-static", "dropbear-bin", "openssh-sftp-server"):
        assert package in caught.value.resolution
    with pytest.raises(MissingPackageError, match="qemu-system-x86_64"):
        programs.QEMU.path()

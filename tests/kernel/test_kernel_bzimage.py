"""What is read of a kernel image, with images packed by the programs that make uses."""

import bz2
import gzip
import lzma
import shutil
import struct
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from bisector.kernel import bzimage

ID, OTHER = "ab" * 20, "cd" * 20
KERNEL = b"\x7fELF" + b"text " * 2000 + bytes.fromhex(ID) + b" more" * 2000
SIZE = struct.pack("<I", len(KERNEL))


def packed_by(*command: str) -> Callable[[], bytes]:
    def pack() -> bytes:
        if shutil.which(command[0]) is None:
            pytest.skip(f"needs {command[0]}; sh tests/run.sh installs it")
        return subprocess.run(command, input=KERNEL, capture_output=True, check=True).stdout + SIZE

    return pack


PACKERS: dict[str, Callable[[], bytes]] = {
    "none": lambda: KERNEL,
    "gzip": lambda: gzip.compress(KERNEL),
    "bzip2": lambda: bz2.compress(KERNEL) + SIZE,
    "xz": lambda: lzma.compress(KERNEL, check=lzma.CHECK_CRC32) + SIZE,
    "lzma": lambda: lzma.compress(KERNEL, format=lzma.FORMAT_ALONE) + SIZE,
    "zstd": packed_by("zstd", "-22", "--ultra", "-q"),
    "lz4": packed_by("lz4", "-l", "-9", "-q"),
    "lzo": packed_by("lzop", "-9"),
}


def image(folder: Path, payload: bytes, *, setup_sects: int = 27, offset: int = 0x2CC) -> Path:
    path = folder / "bzImage"
    head = bytearray(((setup_sects or 4) + 1) * 512 + offset)
    head[0x1F1] = setup_sects
    head[0x202:0x206] = b"HdrS"
    struct.pack_into("<II", head, 0x248, offset, len(payload))
    path.write_bytes(bytes(head) + payload + b"what stands behind it")
    return path


@pytest.mark.parametrize("packer", PACKERS)
def test_the_kernel_in_an_image_is_known_however_it_is_packed(tmp_path: Path, packer: str) -> None:
    path = image(tmp_path, PACKERS[packer]())
    assert bzimage.carries(path, ID) is True
    assert bzimage.carries(path, OTHER) is False


def test_an_old_image_with_four_setup_sectors_is_read_too(tmp_path: Path) -> None:
    assert bzimage.carries(image(tmp_path, gzip.compress(KERNEL), setup_sects=0), ID) is True


def test_a_file_without_a_setup_header_is_a_kernel_as_it_stands(tmp_path: Path) -> None:
    path = tmp_path / "Image"
    path.write_bytes(KERNEL)
    assert bzimage.carries(path, ID) is True
    assert bzimage.carries(path, OTHER) is False
    assert bzimage.stated_release(path) is None


@pytest.mark.parametrize("payload", [b"an unknown packing", b"\x1f\x8bbroken", b"BZhbroken", b"\xfd7zXZbroken", b""])
def test_what_cannot_be_unpacked_is_no_proof_of_anything(tmp_path: Path, payload: bytes) -> None:
    assert bzimage.carries(image(tmp_path, payload), ID) is None


@pytest.mark.parametrize("packer", ["zstd", "lz4", "lzo"])
def test_without_the_program_that_unpacks_nothing_is_claimed(
    tmp_path: Path, packer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = image(tmp_path, PACKERS[packer]())
    monkeypatch.setenv("PATH", "/nowhere")
    assert bzimage.carries(path, ID) is None


def test_an_image_states_its_release_in_the_setup_header(tmp_path: Path) -> None:
    path = tmp_path / "bzImage"
    head = bytearray(0x4000)
    head[0x202:0x206] = b"HdrS"
    struct.pack_into("<H", head, 0x20E, 0x3000)
    head[0x3200:0x3240] = b"6.1.0-rc10-bisector-0123456789ab (bisector@bisector) #1".ljust(64, b"\0")
    path.write_bytes(bytes(head))
    assert bzimage.stated_release(path) == "6.1.0-rc10-bisector-0123456789ab"
    path.write_bytes(b"\0" * 0x4000)
    assert bzimage.stated_release(path) is None

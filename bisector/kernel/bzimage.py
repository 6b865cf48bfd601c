"""Reads what must be known of a kernel image: the release that it states, and the kernel that is packed in it.

Source: Documentation/arch/x86/boot.rst: `setup_sects` (0x1f1), `header` (0x202, "HdrS"), `kernel_version` (0x20e),
`payload_offset` and `payload_length` (0x248, protocol 2.08); how it is packed shows in the payload's first bytes.
"""

import bz2
import lzma
import shutil
import struct
import subprocess
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

_DEFAULT_SETUP_SECTS = 4
_UNPACK_TIMEOUT_S = 60.0


def stated_release(image: Path) -> str | None:
    """The release that an x86 bzImage states in its setup header, None where there is no such header."""
    head = image.read_bytes()[: 64 << 10]
    if not _is_bzimage(head):
        return None
    (pointer,) = struct.unpack_from("<H", head, 0x20E)
    text = head[pointer + 0x200 :].split(b"\0", 1)[0]
    words = text.decode("ascii", errors="replace").split()
    return words[0] if pointer and words else None


def carries(image: Path, build_id: str) -> bool | None:
    """Is the kernel with this build id (hex) the one that this image will run?

    The header and the kernel behind it are made by different steps of make, so the one can be new and the other old.
    None if that cannot be told here: the payload is packed in a way that nothing on this machine can open.
    """
    kernel = _payload(image.read_bytes())
    return None if kernel is None else bytes.fromhex(build_id) in kernel


def _is_bzimage(data: bytes) -> bool:
    return data[0x202:0x206] == b"HdrS"


def _payload(data: bytes) -> bytes | None:
    """The kernel in an image, unpacked. A file without a setup header is a kernel as it stands."""
    if not _is_bzimage(data):
        return data
    offset, length = struct.unpack_from("<II", data, 0x248)
    start = ((data[0x1F1] or _DEFAULT_SETUP_SECTS) + 1) * 512 + offset
    packed = data[start : start + length]
    for magic, unpack in _UNPACKERS.items():
        if packed.startswith(magic):
            try:
                return unpack(packed)
            except (OSError, EOFError, ValueError, zlib.error, lzma.LZMAError, subprocess.SubprocessError):
                return None
    return packed if packed.startswith(b"\x7fELF") else None


class _Stream(Protocol):
    @property
    def eof(self) -> bool: ...

    def decompress(self, data: bytes, /) -> bytes: ...


# Make appends the unpacked size, four bytes, to all but gzip.
def _stream(new: Callable[[], _Stream]) -> Callable[[bytes], bytes]:
    """By the standard library, up to the end of the packed stream; what stands behind it is not looked at."""

    def unpack(packed: bytes) -> bytes:
        stream = new()
        unpacked = stream.decompress(packed)
        if not stream.eof:
            raise EOFError("the packed kernel is cut off")
        return unpacked

    return unpack


def _program(name: str) -> Callable[[bytes], bytes]:
    """By the program that make itself packs with; a wrong end would be an error to it, so the size is cut off."""

    def unpack(packed: bytes) -> bytes:
        if shutil.which(name) is None:
            raise OSError(f"{name} is not installed")
        command = [name, "-dc"]
        done = subprocess.run(command, input=packed[:-4], capture_output=True, check=True, timeout=_UNPACK_TIMEOUT_S)
        return done.stdout

    return unpack


# Source: scripts/Makefile.lib of the kernel (cmd_gzip, cmd_bzip2, cmd_lzma, cmd_xzkern, cmd_lz4, cmd_lzo, cmd_zstd22).
_UNPACKERS: dict[bytes, Callable[[bytes], bytes]] = {
    b"\x1f\x8b": _stream(lambda: zlib.decompressobj(zlib.MAX_WBITS | 16)),
    b"BZh": _stream(bz2.BZ2Decompressor),
    b"\xfd7zXZ": _stream(lzma.LZMADecompressor),
    b"\x5d\x00\x00": _stream(lzma.LZMADecompressor),
    b"\x28\xb5\x2f\xfd": _program("zstd"),
    b"\x02\x21\x4c\x18": _program("lz4"),
    b"\x89LZO": _program("lzop"),
}

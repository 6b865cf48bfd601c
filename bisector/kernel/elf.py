"""Reads what must be known of a vmlinux: its build id, and a digest of what the machine will execute.

Source of the layout: System V ABI (gABI 4.1), chapter 4; notes as in elf(5). 64 and 32 bit, little endian.
"""

import hashlib
import mmap
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

_SHT_NOTE = 7
_SHT_NOBITS = 8
_SHF_ALLOC = 2
_NT_GNU_BUILD_ID = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class _Section:
    name: str
    kind: int
    flags: int
    address: int
    offset: int
    size: int


def build_id(vmlinux: Path) -> str:
    """GNU build id in lower-case hex. Raises ValueError if the file is not ELF or carries none."""
    with _mapped(vmlinux) as data:
        for section in _sections(data):
            if section.kind != _SHT_NOTE:
                continue
            for name, kind, content in _notes(data[section.offset : section.offset + section.size]):
                if name == b"GNU\0" and kind == _NT_GNU_BUILD_ID:
                    return content.hex()
    raise ValueError(f"{vmlinux} has no build id")


def holds(path: Path, text: str) -> bool:
    """Do these bytes stand anywhere in the file?"""
    with _mapped(path) as data:
        return data.find(text.encode()) >= 0


def signature(vmlinux: Path, *, blank: str) -> str:
    """SHA-256 over every loaded section with content (code, data, tables), notes left out, `blank` overwritten.

    `blank` is what differs between commits by our own doing: the twelve digits in the release. Equal signatures mean
    that the two kernels execute the same. Raises ValueError if the file is not ELF.
    """
    return _digest(vmlinux, blank, lambda section: bool(section.flags & _SHF_ALLOC))


def module_signature(module: Path, *, blank: str) -> str:
    """The same of a module (.ko), with its symbols and relocations: what it calls stands in those alone.

    A compressed one is taken as it is, byte for byte.
    """
    with module.open("rb") as file:
        head = file.read(4)
    if head != b"\x7fELF":
        return hashlib.sha256(module.read_bytes()).hexdigest()
    return _digest(module, blank, lambda section: ".debug" not in section.name)


def _digest(path: Path, blank: str, counts: Callable[[_Section], bool]) -> str:
    digest = hashlib.sha256()
    needle, filler = blank.encode(), b"0" * len(blank.encode())
    with _mapped(path) as data:
        for section in _sections(data):
            if section.kind in (_SHT_NOTE, _SHT_NOBITS) or not counts(section):
                continue
            content = data[section.offset : section.offset + section.size]
            digest.update(f"{section.name} {section.address:x} {section.size}\n".encode())
            digest.update(content.replace(needle, filler) if needle else content)
    return digest.hexdigest()


def _mapped(path: Path) -> mmap.mmap:
    with path.open("rb") as file:
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


def _sections(data: mmap.mmap) -> list[_Section]:
    if data[:4] != b"\x7fELF" or data[5] != 1:
        raise ValueError("not a little endian ELF file")
    wide = data[4] == 2
    table, entry, count, names_at = (
        (*struct.unpack_from("<Q", data, 0x28), *struct.unpack_from("<HHH", data, 0x3A))
        if wide
        else (*struct.unpack_from("<I", data, 0x20), *struct.unpack_from("<HHH", data, 0x2E))
    )
    layout = "<IIQQQQ" if wide else "<IIIIII"
    raw = [struct.unpack_from(layout, data, table + index * entry) for index in range(count)]
    names = data[raw[names_at][4] : raw[names_at][4] + raw[names_at][5]] if count else b""
    return [
        _Section(
            name=names[name : names.index(b"\0", name)].decode("ascii", errors="replace"),
            kind=kind, flags=flags, address=address, offset=offset, size=size,
        )
        for name, kind, flags, address, offset, size in raw
    ]  # fmt: skip


def _notes(content: bytes) -> Iterator[tuple[bytes, int, bytes]]:
    position = 0
    while position + 12 <= len(content):
        name_size, size, kind = struct.unpack_from("<III", content, position)
        name_at = position + 12
        data_at = name_at + (name_size + 3 & ~3)
        yield content[name_at : name_at + name_size], kind, content[data_at : data_at + size]
        position = data_at + (size + 3 & ~3)

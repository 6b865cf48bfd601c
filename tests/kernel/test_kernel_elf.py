"""What is read of a vmlinux, against binutils as the judge."""

import re
import subprocess
from pathlib import Path

import pytest

from bisector.kernel import elf

_SOURCE = """
const char banner[] __attribute__((used)) = "Linux version 6.1.0-bisector-%s";
int table[] = { 1, 2, 3 };
int work(int x) { return x * %d + table[x & 1]; }
void _start(void) { work(1); for (;;) ; }
"""


def _link(
    folder: Path, name: str, *, digits: str = "0123456789ab", factor: int = 3, flags: tuple[str, ...] = ()
) -> Path:
    source = folder / f"{name}.c"
    source.write_text(_SOURCE % (digits, factor))
    program = folder / name
    # The same object name for all, as in a kernel tree: the file symbol must not tell them apart.
    plain = ("-O1", "-nostdlib", "-static", "-no-pie", "-ffreestanding", "-Wl,--build-id=sha1")
    subprocess.run(["gcc", *plain, *flags, "-o", str(program), str(source)], check=True)
    return program


def test_the_build_id_is_the_one_readelf_prints(tmp_path: Path) -> None:
    program = _link(tmp_path, "vmlinux")
    printed = subprocess.run(["readelf", "-n", str(program)], capture_output=True, text=True, check=True).stdout
    found = re.search(r"Build ID: ([0-9a-f]+)", printed)
    assert found is not None
    assert elf.build_id(program) == found[1]


def test_a_build_id_among_other_notes_is_found(tmp_path: Path) -> None:
    # A kernel's notes of all kinds lie in one section, with names and contents padded to four bytes.
    notes = tmp_path / "notes.S"
    notes.write_text(
        '.section .notes,"a",@note\n'
        '.long 4, 5, 1\n.asciz "Xen"\n.ascii "abcde\\0\\0\\0"\n'
        '.long 6, 2, 3\n.asciz "Other"\n.byte 0, 0, 1, 2, 0, 0\n'
        '.long 4, 3, 3\n.asciz "GNU"\n.byte 0xab, 0xcd, 0xef, 0\n'
    )
    program = _link(tmp_path, "vmlinux", flags=("-Wl,--build-id=none", str(notes)))
    assert elf.build_id(program) == "abcdef"


def test_a_file_without_one_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no build id"):
        elf.build_id(_link(tmp_path, "vmlinux", flags=("-Wl,--build-id=none",)))
    (tmp_path / "text").write_text("#!/bin/sh\n" * 20)
    with pytest.raises(ValueError, match="not a little endian ELF"):
        elf.build_id(tmp_path / "text")


def test_two_commits_that_differ_in_release_alone_have_one_signature(tmp_path: Path) -> None:
    one = _link(tmp_path, "one", digits="0123456789ab")
    two = _link(tmp_path, "two", digits="ba9876543210")
    assert elf.build_id(one) != elf.build_id(two)
    assert elf.signature(one, blank="0123456789ab") == elf.signature(two, blank="ba9876543210")
    assert elf.signature(one, blank="") != elf.signature(two, blank="")


def test_one_changed_instruction_changes_the_signature(tmp_path: Path) -> None:
    one, two = _link(tmp_path, "one", factor=3), _link(tmp_path, "two", factor=5)
    assert elf.signature(one, blank="0123456789ab") != elf.signature(two, blank="0123456789ab")


def test_debug_information_does_not_change_the_signature(tmp_path: Path) -> None:
    one, two = _link(tmp_path, "one"), _link(tmp_path, "two", flags=("-g",))
    assert elf.signature(one, blank="0123456789ab") == elf.signature(two, blank="0123456789ab")


def test_text_is_found_wherever_it_stands(tmp_path: Path) -> None:
    program = _link(tmp_path, "vmlinux")
    assert elf.holds(program, "6.1.0-bisector-0123456789ab")
    assert not elf.holds(program, "6.1.0-bisector-0123456789ac")

import base64
import struct
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lab.machines import image_at

from bisector.lab.proof import RunningKernel, _facts, _sections, build_id_of, require
from bisector.model.errors import KernelError, MachineError
from bisector.model.outcome import Outcome

# /sys/kernel/notes of a 6.1 kernel built for these tests: the build id, then two notes of the owner "Linux".
NOTES_6_1 = base64.b64decode(
    "BAAAABQAAAADAAAAR05VAProJi09AbY6WtyK88QMfjpebKzVBgAAAAQAAAABAQAATGludXgAAAAAAAAABgAAAAEAAAAAAQAATGludXgAAAAAAAAA"
)
IMAGE = image_at(Path("/bzImage"))


def note(owner: bytes, kind: int, content: bytes) -> bytes:
    name = owner + b"\0"
    padded = name + b"\0" * (-len(name) % 4) + content + b"\0" * (-len(content) % 4)
    return struct.pack("<III", len(name), len(content), kind) + padded


def running(**changes: str) -> RunningKernel:
    proven = RunningKernel(boot_id="b" * 36, release=IMAGE.release, build_id=IMAGE.build_id, facts=())
    return replace(proven, **changes)  # type: ignore[arg-type]


def test_the_build_id_of_a_real_kernel_is_found_among_its_notes() -> None:
    assert build_id_of(NOTES_6_1) == "fae8262d3d01b63a5adc8af3c40c7e3a5e6cacd5"


@given(
    before=st.lists(st.tuples(st.sampled_from([b"Linux", b"Xen", b"stapsdt"]), st.integers(0, 300), st.binary())),
    build_id=st.binary(min_size=1, max_size=32),
)
def test_the_build_id_is_found_behind_notes_of_any_length(
    before: list[tuple[bytes, int, bytes]], build_id: bytes
) -> None:
    notes = b"".join(note(*parts) for parts in before) + note(b"GNU", 3, build_id) + note(b"Linux", 257, b"\0")
    assert build_id_of(notes) == build_id.hex()


@pytest.mark.parametrize("notes", [b"", note(b"Linux", 3, b"x"), note(b"GNU", 1, b"abc"), NOTES_6_1[:30]])
def test_notes_without_a_build_id_or_cut_short_are_refused(notes: bytes) -> None:
    with pytest.raises(ValueError, match=r"build id|beyond"):
        build_id_of(notes)


def test_the_right_kernel_is_accepted() -> None:
    require(running(), IMAGE, previous_boot_id="a" * 36)


def test_a_release_that_only_begins_alike_is_the_wrong_kernel() -> None:
    with pytest.raises(KernelError) as caught:
        require(running(release=IMAGE.release + "0"), IMAGE, previous_boot_id=None)
    assert caught.value.outcome is Outcome.WRONG_KERNEL


def test_the_same_release_with_another_build_id_is_the_wrong_kernel() -> None:
    with pytest.raises(KernelError, match="build id ff, built 0000") as caught:
        require(running(build_id="ff"), IMAGE, previous_boot_id=None)
    assert caught.value.outcome is Outcome.WRONG_KERNEL


def test_an_old_boot_id_means_that_nothing_was_rebooted_and_accuses_no_kernel() -> None:
    with pytest.raises(MachineError, match="did not reboot"):
        require(running(), IMAGE, previous_boot_id="b" * 36)


def test_facts_that_a_machine_does_not_have_are_left_out() -> None:
    said = (
        "@@boot_id\nx\n\n@@cpuinfo\nprocessor\t: 0\nmodel name\t: Fast CPU: v2\nmicrocode\t: 0x1\n\n@@thp\n"
        "always [madvise] never\n\n@@mitigations\n/sys/v/mds:Not affected\n/sys/v/l1tf:Mitigation: PTE Inversion\n\n"
        "@@clocksource\ntsc-early\n\n@@governor\n\n"
    )
    assert dict(_facts(_sections(said))) == {
        "clocksource": "tsc",
        "cpu": "Fast CPU: v2",
        "microcode": "0x1",
        "mitigations": "l1tf=Mitigation: PTE Inversion; mds=Not affected",
        "thp": "madvise",
    }

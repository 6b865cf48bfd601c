"""Options and fix-ups that differ between the kernels an answer rests on."""

from collections.abc import Mapping
from dataclasses import replace

import pytest
from story import IDS, assessment, found

from bisector.report.as_json import status_document
from bisector.report.drift import drifts, fixup_drifts
from bisector.report.summary import summarise
from bisector.report.text import ending_text, looks_table
from bisector.session.state import SessionState

ACCUSED, PARENT, BAD = 4, 3, 9
SURE = (0.0, 0.0, 0.0001, 0.0040, 0.9941, 0.0018, 0.0, 0.0, 0.0, 0.0)


def state_with(**changes: tuple[str, ...]) -> SessionState:
    """A hunt that found its commit; the kernels named have these differences from the good end's configuration."""
    return _with_images("config_changes", changes)


def fixed(**names: tuple[str, ...]) -> SessionState:
    """As `state_with`, of fix-ups."""
    return _with_images("fixups", names)


def _with_images(field: str, values: Mapping[str, tuple[str, ...]]) -> SessionState:
    state = found().state
    of = {"accused": ACCUSED, "parent": PARENT, "bad": BAD}
    for name, value in values.items():
        build = state.builds[of[name]]
        assert build.image is not None
        build.image = replace(build.image, **{field: value})
    return state


def said(state: SessionState) -> str:
    return " ".join(ending_text(summarise(state, assessment(state, SURE))).split())


def test_the_story_is_of_the_kernels_that_these_tests_speak_of() -> None:
    state = state_with()
    assert state.answer is not None
    assert state.answer.commits == (IDS[ACCUSED],)
    assert state.range.commits[ACCUSED].parents == (PARENT,)
    assert {ACCUSED, PARENT, BAD} <= {index for index, build in state.builds.items() if build.image is not None}


def test_equal_configurations_are_not_worth_a_word() -> None:
    drift = ("CONFIG_NEW: n -> y",)
    assert drifts(state_with(), state_with().answer) == ()
    assert "Configuration" not in said(state_with())
    # The accused and its parent drifted alike.
    alike = state_with(accused=drift, parent=drift)
    assert drifts(alike, alike.answer) == ()


def test_the_bad_end_is_held_against_the_good_one() -> None:
    state = state_with(bad=("CONFIG_FOO: n -> y", "CONFIG_LOCALVERSION: a -> b"))
    [drift] = drifts(state, state.answer)
    assert (drift.role, drift.commit, drift.against) == ("the bad end", IDS[BAD], IDS[0])
    assert drift.changes == ("CONFIG_FOO: n -> y", "CONFIG_LOCALVERSION: a -> b")
    assert drift.confounding == ()
    assert f"the bad end {IDS[BAD][:12]} differs from {IDS[0][:12]} in 2 options: CONFIG_FOO: n -> y" in said(state)


def test_the_first_bad_commit_is_held_against_its_parent_by_way_of_the_good_end() -> None:
    state = state_with(
        parent=("CONFIG_A: n -> y", "CONFIG_B: y -> n", "CONFIG_HZ: 250 -> 100"),
        accused=("CONFIG_A: n -> y", "CONFIG_C: n -> m", "CONFIG_HZ: 250 -> 1000"),
    )
    [drift] = drifts(state, state.answer)
    assert (drift.role, drift.commit, drift.against) == ("the first bad commit", IDS[ACCUSED], IDS[PARENT])
    assert drift.changes == ("CONFIG_B: n -> y", "CONFIG_C: n -> m", "CONFIG_HZ: 100 -> 1000")
    assert drift.confounding == ("CONFIG_HZ: 100 -> 1000",)
    text = said(state)
    assert "in 3 options: CONFIG_HZ: 100 -> 1000, ...; known to change numbers by themselves" in text
    told = status_document(summarise(state, assessment(state, SURE)))["config_drift"]
    assert [one["confounding"] for one in told] == [("CONFIG_HZ: 100 -> 1000",)]


@pytest.mark.parametrize(
    ("option", "confounds"),
    [
        ("CONFIG_HZ_1000", True),
        ("CONFIG_PREEMPT_VOLUNTARY", True),
        ("CONFIG_MITIGATION_RETPOLINE", True),
        ("CONFIG_CPU_MITIGATIONS", True),
        ("CONFIG_SLUB_DEBUG", True),
        ("CONFIG_DEBUG_PAGEALLOC", True),
        ("CONFIG_DEBUG_INFO_BTF", False),
        ("CONFIG_KASAN_GENERIC", True),
        ("CONFIG_LTO_CLANG_THIN", True),
        ("CONFIG_HZDR", False),
        ("CONFIG_SMPTE", False),
        ("CONFIG_E1000E", False),
    ],
)
def test_options_that_change_numbers_by_themselves_are_known(option: str, confounds: bool) -> None:
    state = state_with(bad=(f"{option}: n -> y",))
    [drift] = drifts(state, state.answer)
    assert bool(drift.confounding) is confounds


def test_kernels_with_the_same_fixups_are_told_in_the_table_alone() -> None:
    state = fixed(accused=("repair",), parent=("repair",))
    assert fixup_drifts(state, state.answer) == ()
    assert "Fix-ups" not in said(state)
    summary = summarise(state, assessment(state, SURE))
    assert looks_table(summary).count("built with repair") == 2
    rows = {row["commit"]: row["fixups"] for row in status_document(summary)["looks"]}
    assert (rows[IDS[ACCUSED]], rows[IDS[0]]) == (["repair"], [])


def test_a_fixup_on_one_side_only_is_named_beside_the_answer() -> None:
    state = fixed(accused=("repair", "undo"))
    [drift] = fixup_drifts(state, state.answer)
    assert (drift.role, drift.fixups, drift.fixups_against) == ("the first bad commit", ("repair", "undo"), ())
    words = f"the first bad commit {IDS[ACCUSED][:12]} was built with repair, undo, {IDS[PARENT][:12]} with none"
    assert words in said(state)
    document = status_document(summarise(state, assessment(state, SURE)))
    assert document["fixup_drift"][0]["fixups"] == ("repair", "undo")

"""What an A/A test says to people: every figure with its unit, a warning where a hunt would fail."""

import random
from pathlib import Path

import pytest
from fakes import FACTS, RECIPE, FakeBuilder, FakeLab, linear_range, sample, session_started

from bisector.model.commit import CommitRange
from bisector.model.events import BatchesCalibrated, Booted, BootEnded, BootStarted, KernelBuilt, RunFinished
from bisector.model.machine import BootRecord
from bisector.model.outcome import Purpose
from bisector.model.sample import RunRecord
from bisector.recipe.load import canonical_text
from bisector.report.as_json import to_json
from bisector.report.qualified import qualification_report, qualified_document, qualified_text
from bisector.session.state import ALL_RUNS_IN, Entry, SessionState, fold

COMMITS = CommitRange(commits=linear_range(2).commits[:1])


def state_of(folder: Path, levels: list[float], *, run_sd: float = 0.002, gap_s: float = 30.0) -> SessionState:
    """An A/A test whose boots have these levels, three runs each."""
    noise = random.Random(3)
    started = session_started(COMMITS, "aa-1")
    fields = {field: getattr(started, field) for field in started.__slots__}
    image = FakeBuilder(FakeLab(COMMITS, None)).build(COMMITS.good.id, log=folder / "log", on_progress=lambda _: None)
    entries = [
        Entry(seq=1, at=1000.0, event=type(started)(**{**fields, "recipe": canonical_text(RECIPE)})),
        Entry(seq=2, at=1000.0, event=KernelBuilt(commit=image.commit, image=image)),
    ]

    def add(at, event) -> None:
        entries.append(Entry(seq=len(entries) + 1, at=at, event=event))

    for boot, level in enumerate(levels, start=1):
        at = 1000.0 + boot * gap_s
        names = {"boot": boot, "machine": "lab-01", "commit": image.commit}
        record = BootRecord(
            boot_id=f"b{boot}", release=image.release, build_id=image.build_id, facts=FACTS, duration_s=5, artefact=""
        )
        add(at, BootStarted(**names, runs=3, purpose=Purpose.REFERENCE, reason="again"))
        add(at + 5, Booted(**names, record=record))
        add(at + 5, BatchesCalibrated(machine="lab-01", batches=(("page_test", 1),)))
        for run in range(1, 4):
            value = level * (1 + noise.gauss(0, run_sd))
            runs = RunRecord(samples=(sample("page_test", value),), artefact="", duration_s=2.0)
            add(at + 5 + 2 * run, RunFinished(**names, run=run, record=runs))
        add(at + 12, BootEnded(**names, reason=ALL_RUNS_IN))
    return fold(entries)


def test_a_quiet_lab_is_told_without_a_warning(tmp_path: Path) -> None:
    text = qualified_text(qualification_report(state_of(tmp_path, [40.0] * 8)))
    assert text.startswith("A/A test of lab-01 (embedded, clock: instructions): one kernel, 8 boots, 3 runs a boot")
    assert "page_test, ops/s, higher is better, pinned to CPU 0" in text
    for name in ("between runs", "between boots", "drift", "modes", "A against A"):
        assert f"\n  {name} " in text
    assert "0.2 % within a boot" in text
    assert "none to be seen" in " ".join(text.split())
    assert "For 1 %, the smallest effect of interest: " in text
    assert "warn" not in text
    assert max(map(len, text.splitlines())) <= 100


def test_a_lab_with_two_kinds_of_boots_is_warned_of_and_the_boots_are_named(tmp_path: Path) -> None:
    levels = [40.0, 42.0, 42.0, 40.0, 42.0, 40.0, 40.0, 42.0, 40.0, 42.0]
    text = qualified_text(qualification_report(state_of(tmp_path, levels)))
    assert "TWO, 4" in text.replace("5.0", "4")
    assert "the higher one: boots 2, 3, 5, 8, 10" in text
    assert "warn  The boots fall into two groups" in text


def test_a_lab_that_drifts_is_warned_of(tmp_path: Path) -> None:
    text = qualified_text(qualification_report(state_of(tmp_path, [40.0 + 0.2 * boot for boot in range(8)])))
    assert "the machine drifts" in " ".join(text.split())
    assert "warn  The level moved during the test." in text
    assert "drift +3." in " ".join(text.split())


def test_with_too_few_boots_it_says_how_many_there_are(tmp_path: Path) -> None:
    report = qualification_report(state_of(tmp_path, [40.0, 40.1, 40.2]))
    assert report.qualified is None
    assert "3 boots so far; it takes 4 to say anything." in qualified_text(report)


@pytest.mark.parametrize("boots", [0, 3, 8])
def test_the_document_is_json_and_holds_every_value(tmp_path: Path, boots: int) -> None:
    document = qualified_document(qualification_report(state_of(tmp_path, [40.0] * boots)))
    to_json(document)
    assert len(document["boots"]) == boots
    assert (document["figures"] is None) == (boots < 4)
    assert all(len(boot["values"]) == 3 for boot in document["boots"])

"""The fold: what a journal means."""

from collections.abc import Sequence

import pytest
from fakes import FACTS, commit_id, kernel_image, linear_range, sample, session_started

from bisector.model.events import (
    Booted,
    BootEnded,
    BootFailed,
    BootStarted,
    BuildStarted,
    Event,
    KernelBuilt,
    MachineTrouble,
    Marked,
    RunFinished,
    RunStarted,
    SessionPaused,
    SessionResumed,
    Undone,
)
from bisector.model.kernel import KernelImage
from bisector.model.machine import BootRecord
from bisector.model.outcome import Outcome, Purpose, Verdict
from bisector.model.sample import RunRecord
from bisector.session.evidence import evidence_of, skips
from bisector.session.state import Entry, SessionState, Status, fold


def folded(events: Sequence[Event], times: Sequence[float] | None = None) -> SessionState:
    whole = [session_started(linear_range(5)), *events]
    stamps = times if times is not None else [float(number) for number in range(len(whole))]
    return fold(
        Entry(seq=number, at=at, event=event) for number, (at, event) in enumerate(zip(stamps, whole, strict=True), 1)
    )


def image(index: int) -> KernelImage:
    return kernel_image(commit_id(index), signature=f"s{index}", duration_s=1.0)


def boot_started(index: int, boot: int = 1, runs: int = 3) -> BootStarted:
    return BootStarted(
        boot=boot, machine="lab-01", commit=commit_id(index), runs=runs, purpose=Purpose.GATE, reason="why"
    )


def booted(index: int, boot: int = 1) -> Booted:
    record = BootRecord(boot_id="x", release="r", build_id="b", facts=FACTS, duration_s=1.0, artefact="")
    return Booted(boot=boot, machine="lab-01", commit=commit_id(index), record=record)


def run_finished(index: int, run: int, boot: int = 1) -> RunFinished:
    record = RunRecord(samples=(sample("page_test", 40.0),), artefact="a", duration_s=1.0)
    return RunFinished(boot=boot, run=run, machine="lab-01", commit=commit_id(index), record=record)


def boot_failed(index: int, boot: int) -> BootFailed:
    return BootFailed(
        boot=boot,
        machine="lab-01",
        commit=commit_id(index),
        outcome=Outcome.CRASHED,
        reason="Kernel panic",
        artefact="c",
        duration_s=3.0,
    )


def test_a_journal_that_does_not_begin_with_its_session_is_refused() -> None:
    with pytest.raises(ValueError, match="begins with session_started"):
        fold([Entry(seq=1, at=0.0, event=SessionResumed(program="x"))])


def test_a_lost_machine_keeps_the_whole_runs_it_gave() -> None:
    lost = MachineTrouble(machine="lab-01", commit=commit_id(0), boot=1, reason="no answer", resolution="")
    state = folded([boot_started(0), booted(0), run_finished(0, 1), lost])
    assert state.looks[0].outcome is Outcome.MEASURED
    assert len(evidence_of(state, "page_test").boots) == 1
    assert state.troubles == {"lab-01": 1}


def test_a_lost_machine_without_a_run_says_nothing_of_the_commit() -> None:
    lost = MachineTrouble(machine="lab-01", commit=commit_id(0), boot=1, reason="no answer", resolution="")
    state = folded([boot_started(0), booted(0), lost])
    assert state.looks[0].outcome is Outcome.INFRA
    assert evidence_of(state, "page_test").boots == ()
    assert skips(state) == {}


def test_a_look_counts_only_once_it_has_ended() -> None:
    events: list[Event] = [boot_started(0), booted(0), run_finished(0, 1), run_finished(0, 2)]
    assert evidence_of(folded(events), "page_test").boots == ()
    # What is built ahead may go by the runs so far.
    assert evidence_of(folded(events), "page_test", under_way=True).boots[0].values == (40.0, 40.0)
    events.append(BootEnded(boot=1, machine="lab-01", commit=commit_id(0), reason="all runs are in"))
    assert evidence_of(folded(events), "page_test").boots[0].values == (40.0, 40.0)


def test_one_failed_boot_is_no_skip_and_two_are_once_another_kernel_has_booted() -> None:
    proven: list[Event] = [boot_started(0), booted(0), run_finished(0, 1)]
    proven.append(BootEnded(boot=1, machine="lab-01", commit=commit_id(0), reason=""))
    once = [*proven, boot_started(2, boot=2), boot_failed(2, boot=2)]
    assert skips(folded(once)) == {}
    twice = [*once, boot_started(2, boot=3), boot_failed(2, boot=3)]
    assert skips(folded(twice)) == {2: (Outcome.CRASHED, "Kernel panic")}


def test_without_a_control_boot_no_commit_is_skipped_for_not_booting() -> None:
    events = [boot_started(2), boot_failed(2, boot=1), boot_started(2, boot=2), boot_failed(2, boot=2)]
    assert skips(folded(events)) == {}


def test_a_build_that_a_dead_controller_began_is_unknown_after_resume() -> None:
    begun = BuildStarted(commit=commit_id(2), ahead=False, reason="")
    assert folded([begun]).builds[2].outcome is None
    assert 2 not in folded([begun, SessionResumed(program="x")]).builds
    assert 2 in folded([begun, KernelBuilt(commit=commit_id(2), image=image(2)), SessionResumed(program="x")]).builds


def test_a_clock_that_jumps_back_gives_no_negative_duration() -> None:
    ended = BootEnded(boot=1, machine="lab-01", commit=commit_id(0), reason="")
    state = folded([boot_started(0), booted(0), ended], times=[100.0, 110.0, 50.0, 40.0])
    assert state.looks[0].machine_s == 0.0
    assert state.last_at == 110.0


def test_time_between_a_pause_and_its_resume_is_not_working_time() -> None:
    paused = SessionPaused(reason="you asked", resolution="")
    state = folded([paused, SessionResumed(program="x")], times=[0.0, 10.0, 70.0])
    assert state.status is Status.RUNNING
    assert state.paused_s == 60.0


def test_a_mark_can_be_undone() -> None:
    mark = Marked(commit=commit_id(3), verdict=Verdict.SKIPPED)
    assert skips(folded([mark])) == {3: (None, "marked as skipped")}
    assert skips(folded([mark, Undone(seq=2)])) == {}


def test_a_mark_overrules_a_skip() -> None:
    good = Marked(commit=commit_id(2), verdict=Verdict.GOOD)
    failed = [boot_started(2), boot_failed(2, boot=1), boot_started(2, boot=2), boot_failed(2, boot=2)]
    state = folded([*failed, good])
    assert skips(state) == {}
    assert evidence_of(state, "page_test").marked_good == {2}


def test_forgetting_a_commit_drops_what_was_seen_of_it() -> None:
    seen: list[Event] = [boot_started(2), booted(2), RunStarted(boot=1, run=1, machine="lab-01", commit=commit_id(2))]
    seen += [run_finished(2, 1), BootEnded(boot=1, machine="lab-01", commit=commit_id(2), reason="")]
    assert len(evidence_of(folded(seen), "page_test").boots) == 1
    assert evidence_of(folded([*seen, Marked(commit=commit_id(2), verdict=None)]), "page_test").boots == ()

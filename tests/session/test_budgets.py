"""A block of commits that cannot be tested does not eat the night: failures in a row have a budget for each kind."""

from pathlib import Path

import pytest
from fakes import RECIPE, FakeBuilder, FakeLab, FakeMachine, Watcher, commit_id, linear_range, session_started

from bisector.model.events import BuildFailed
from bisector.model.outcome import AnswerKind, Outcome
from bisector.recipe.schema import LimitsPart
from bisector.session.budgets import budgets_of
from bisector.session.controller import Controller, StopRequest
from bisector.session.evidence import skips
from bisector.session.journal import create_journal, open_journal
from bisector.session.state import SessionState, Status

MANY = linear_range(60)


def hunt(folder: Path, lab: FakeLab, limits: LimitsPart) -> SessionState:
    if (folder / "journal.sqlite3").exists():
        journal = open_journal(folder, writer=True)
    else:
        journal = create_journal(folder)
        journal.append(session_started(lab.commits))
    return Controller(
        journal,
        folder,
        RECIPE.model_copy(update={"limits": limits}),
        builder=FakeBuilder(lab),
        machines={"lab-01": FakeMachine(lab)},
        higher_is_better=True,
        observer=Watcher(),
        stop=StopRequest(),
    ).run()


def used(state: SessionState, limits: LimitsPart) -> dict[str, int]:
    return {budget.kind: budget.used for budget in budgets_of(state, limits)}


def test_scenario_12_a_block_that_does_not_build_pauses_at_its_limit_and_says_which(tmp_path: Path) -> None:
    lab, limits = FakeLab(MANY, first_bad=30, unbuildable=frozenset(range(1, 59))), LimitsPart(failed_builds=4)
    state = hunt(tmp_path, lab, limits)
    assert state.status is Status.PAUSED
    assert state.pause_reason.startswith("4 commits in a row did not build (limits.failed_builds is 4)")
    assert "mm/memory.c:1:1: error" in state.pause_reason
    assert "bisector resume fake-hunt" in state.pause_resolution
    assert used(state, limits)["failed_builds"] == 4


def test_scenario_12_a_resume_counts_failed_builds_anew_and_repeats_none(tmp_path: Path) -> None:
    lab, limits = FakeLab(MANY, first_bad=30, unbuildable=frozenset(range(1, 59))), LimitsPart(failed_builds=4)
    hunt(tmp_path, lab, limits)
    state = hunt(tmp_path, lab, limits)
    assert state.status is Status.PAUSED
    failed = [entry.event.commit for entry in open_journal(tmp_path).entries if isinstance(entry.event, BuildFailed)]
    assert len(failed) == len(set(failed)) == 8


def test_scenario_12_a_block_that_does_not_boot_pauses_though_every_control_comes_up(tmp_path: Path) -> None:
    lab, limits = FakeLab(MANY, first_bad=30, crashing=frozenset(range(1, 59))), LimitsPart(failed_boots=3)
    state = hunt(tmp_path, lab, limits)
    assert state.status is Status.PAUSED
    assert state.pause_reason.startswith("3 commits in a row did not come up or crashed (limits.failed_boots is 3)")
    assert {outcome for outcome, _ in skips(state).values()} == {Outcome.CRASHED}


@pytest.mark.parametrize("limits", [LimitsPart(), LimitsPart(failed_builds=3)])
def test_a_block_that_the_search_gets_around_pauses_nothing(tmp_path: Path, limits: LimitsPart) -> None:
    state = hunt(tmp_path, FakeLab(linear_range(40), first_bad=27, unbuildable=frozenset({19, 20})), limits)
    assert state.answer is not None
    assert (state.answer.kind, state.answer.commits) == (AnswerKind.COMMIT, (commit_id(27),))


def test_an_answer_is_given_though_a_budget_is_spent_with_it(tmp_path: Path) -> None:
    lab = FakeLab(linear_range(6), first_bad=3, unbuildable=frozenset({1, 2, 3, 4}))
    state = hunt(tmp_path, lab, LimitsPart(failed_builds=4))
    assert state.status is Status.FINISHED
    assert state.answer is not None
    assert set(state.answer.commits) == {commit_id(index) for index in range(1, 6)}

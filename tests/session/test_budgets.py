"""A block of commits that cannot be tested does not eat the night: failures in a row have a budget for each kind."""

from pathlib import Path

import pytest
from fakehunt import controller
from fakes import FakeBuilder, FakeLab, FakeMachine, commit_id, linear_range

from bisector.model.errors import BuilderError, MachineError
from bisector.model.events import BuildFailed
from bisector.model.outcome import AnswerKind, Outcome
from bisector.recipe.schema import LimitsPart
from bisector.session.budgets import budgets_of, errors_of
from bisector.session.evidence import skips
from bisector.session.journal import open_journal
from bisector.session.machines import set_aside
from bisector.session.state import BUILDER, SessionState, Status

MANY = linear_range(60)


def hunt(
    folder: Path, lab: FakeLab, limits: LimitsPart, *, builder_fails: int = 0, machine_fails: tuple[int, ...] = (0,)
) -> SessionState:
    """`builder_fails` and `machine_fails`, of each machine: how often they are in trouble before they work."""
    machines = {f"lab-{number:02}": FakeMachine(lab, f"lab-{number:02}") for number, _ in enumerate(machine_fails, 1)}
    for (name, machine), times in zip(machines.items(), machine_fails, strict=True):
        machine.trouble = [MachineError(f"no answer from {name}")] * times
    builder = FakeBuilder(lab)
    builder.trouble = [BuilderError("no space left on the builder")] * builder_fails
    return controller(folder, lab, *machines.values(), builder=builder, limits=limits).run()


def used(state: SessionState) -> dict[str, int]:
    return {budget.kind: budget.used for budget in budgets_of(state)}


def test_scenario_12_a_block_that_does_not_build_pauses_at_its_limit_and_says_which(tmp_path: Path) -> None:
    lab, limits = FakeLab(MANY, first_bad=30, unbuildable=frozenset(range(1, 59))), LimitsPart(failed_builds=4)
    state = hunt(tmp_path, lab, limits)
    assert state.status is Status.PAUSED
    assert state.pause_reason.startswith("4 commits in a row did not build (limits.failed_builds is 4)")
    assert "mm/memory.c:1:1: error" in state.pause_reason
    assert "bisector resume fake-hunt" in state.pause_resolution
    assert used(state)["failed_builds"] == 4


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


@pytest.mark.parametrize(("allowed", "said"), [(1, "lab-01 failed once"), (5, "lab-01 failed 5 times in a row")])
def test_a_machine_is_asked_again_as_often_as_the_recipe_allows(tmp_path: Path, allowed: int, said: str) -> None:
    lab, limits = FakeLab(linear_range(16), first_bad=7), LimitsPart(machine_errors=allowed)
    state = hunt(tmp_path, lab, limits, machine_fails=(allowed,))
    assert state.status is Status.PAUSED
    assert state.pause_reason == (f"{said} (limits.machine_errors is {allowed}), the last time: no answer from lab-01")
    assert skips(state) == {}
    spent = errors_of(state, "lab-01")
    assert (spent.used, spent.allowed, spent.spent) == (allowed, allowed, True)
    # A resume counts anew, and one error less is none too many.
    state = hunt(tmp_path, lab, limits, machine_fails=(allowed - 1,))
    assert state.answer is not None
    assert state.answer.commits == (commit_id(7),)


def test_a_machine_that_spent_its_errors_is_set_aside_and_the_other_one_ends_the_hunt(tmp_path: Path) -> None:
    lab = FakeLab(linear_range(16), first_bad=7)
    state = hunt(tmp_path, lab, LimitsPart(machine_errors=2), machine_fails=(0, 2))
    assert set(set_aside(state)) == {"lab-02"}
    assert {look.machine for look in state.looks if look.runs} == {"lab-01"}
    assert state.answer is not None
    assert state.answer.commits == (commit_id(7),)


def test_the_builders_errors_have_a_limit_of_their_own(tmp_path: Path) -> None:
    lab, limits = FakeLab(linear_range(16), first_bad=7), LimitsPart(machine_errors=1, builder_errors=4)
    state = hunt(tmp_path, lab, limits, builder_fails=4)
    assert state.status is Status.PAUSED
    assert state.pause_reason == (
        "builder failed 4 times in a row (limits.builder_errors is 4), the last time: no space left on the builder"
    )
    assert skips(state) == {}
    assert errors_of(state, BUILDER).spent
    assert hunt(tmp_path, lab, limits, builder_fails=3).status is Status.FINISHED

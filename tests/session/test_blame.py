"""Who is at fault when kernels do not come up: a rule told look by look, and whole hunts on machines that lie."""

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from fakehunt import controller
from fakes import (
    FACTS,
    FakeLab,
    FakeMachine,
    commit_id,
    linear_range,
    sample,
    session_started,
)
from hypothesis import given
from hypothesis import strategies as st

from bisector.model.errors import KernelError
from bisector.model.events import (
    BatchesCalibrated,
    Booted,
    BootEnded,
    BootFailed,
    BootStarted,
    Event,
    MachineTrouble,
    RunFailed,
    RunFinished,
    RunStarted,
    SessionPaused,
    SessionResumed,
)
from bisector.model.kernel import KernelImage
from bisector.model.machine import BootRecord
from bisector.model.outcome import AnswerKind, Outcome, Purpose
from bisector.model.sample import RunRecord
from bisector.session.blame import controls_due
from bisector.session.evidence import skips
from bisector.session.machines import set_aside
from bisector.session.ports import OnProgress
from bisector.session.state import Entry, SessionState, Status, fold


def told(*looks: str, machines: Sequence[str] = ("lab-01",)) -> SessionState:
    """The state after looks like "3 measured", "3 failed", "3 crashed", "3 lost", "3 failed lab-02", or a "resume"."""
    events: list[Event] = [session_started(linear_range(9), machines=tuple(machines))]
    boot = 0
    for words in looks:
        if words == "resume":
            events += [SessionPaused(reason="", resolution=""), SessionResumed(program="x")]
            continue
        index, how, *rest = words.split()
        boot += 1
        machine, commit = rest[0] if rest else machines[0], commit_id(int(index))
        events.append(BootStarted(boot=boot, machine=machine, commit=commit, runs=3, purpose=Purpose.SEARCH, reason=""))
        if how == "failed":
            events.append(failed(boot, machine, commit))
            continue
        record = BootRecord(boot_id=f"{boot}", release="r", build_id="b", facts=FACTS, duration_s=1.0, artefact="")
        events.append(Booted(boot=boot, machine=machine, commit=commit, record=record))
        events.append(BatchesCalibrated(machine=machine, batches=(("page_test", 1),)))
        events.append(RunStarted(boot=boot, run=1, machine=machine, commit=commit))
        if how == "crashed":
            events.append(
                RunFailed(
                    boot=boot,
                    run=1,
                    machine=machine,
                    commit=commit,
                    outcome=Outcome.CRASHED,
                    reason="it rebooted",
                    artefact="",
                )
            )
        elif how == "lost":
            events.append(MachineTrouble(machine=machine, commit=commit, boot=boot, reason="gone", resolution=""))
        else:
            run = RunRecord(samples=(sample("page_test", 40.0),), artefact="", duration_s=1.0)
            events.append(RunFinished(boot=boot, run=1, machine=machine, commit=commit, record=run))
            events.append(BootEnded(boot=boot, machine=machine, commit=commit, reason=""))
    return fold(Entry(seq=number, at=float(number), event=event) for number, event in enumerate(events, 1))


def failed(boot: int, machine: str, commit: str) -> BootFailed:
    return BootFailed(
        boot=boot,
        machine=machine,
        commit=commit,
        outcome=Outcome.WRONG_KERNEL,
        reason="it runs another kernel",
        artefact="",
        duration_s=1.0,
    )


def test_a_kernel_that_failed_once_is_tried_again() -> None:
    state = told("0 measured", "4 failed")
    assert (skips(state), set_aside(state), controls_due(state, {"lab-01"})) == ({}, {}, {})


@pytest.mark.parametrize("how", ["failed", "crashed"])
def test_scenario_09_a_kernel_that_failed_twice_is_left_out_and_a_control_is_due(how: str) -> None:
    state = told("0 measured", f"4 {how}", f"4 {how}")
    assert set(skips(state)) == {4}
    due = controls_due(state, {"lab-01"})["lab-01"]
    assert (due.like.commit, due.urgent) == (0, False)


def test_the_next_other_kernel_that_is_measured_is_the_control() -> None:
    state = told("0 measured", "4 failed", "4 failed", "5 measured")
    assert set(skips(state)) == {4}
    assert controls_due(state, {"lab-01"}) == {}


def test_scenario_05_two_commits_that_fail_in_a_row_need_a_control_before_anything_else() -> None:
    state = told("0 measured", "4 failed", "4 failed", "5 failed")
    due = controls_due(state, {"lab-01"})["lab-01"]
    assert (due.like.commit, due.urgent) == (0, True)
    heard = told("0 measured", "4 failed", "4 failed", "5 failed", "0 measured")
    assert set(skips(heard)) == {4}
    assert set_aside(heard) == {}


def test_scenario_05_when_the_control_fails_too_the_machine_is_at_fault_and_no_commit() -> None:
    state = told("0 measured", "4 failed", "4 failed", "0 failed")
    assert skips(state) == {}
    assert "also of a kernel that had been measured there before" in set_aside(state)["lab-01"]


def test_what_failed_on_a_machine_at_fault_says_nothing_after_it_was_mended_either() -> None:
    state = told("0 measured", "4 failed", "4 failed", "0 failed", "resume", "5 measured")
    assert (skips(state), set_aside(state)) == ({}, {})
    again = told("0 measured", "4 failed", "4 failed", "0 failed", "resume", "4 failed", "5 measured")
    assert skips(again) == {}


def test_a_resume_without_a_fault_forgets_no_failure() -> None:
    assert set(skips(told("0 measured", "4 failed", "resume", "4 failed", "5 measured"))) == {4}


def test_a_machine_where_nothing_was_ever_measured_is_no_witness() -> None:
    state = told("0 failed", "0 failed")
    assert skips(state) == {}
    assert "no other kernel has been measured there so far" in set_aside(state)["lab-01"]
    assert set_aside(told("0 failed", "0 failed", "resume")) == {}


def test_a_kernel_that_boots_and_crashes_is_no_control_for_another() -> None:
    state = told("0 measured", "4 crashed", "4 crashed", "5 crashed", "0 crashed")
    assert skips(state) == {}
    assert set(set_aside(state)) == {"lab-01"}


def test_a_kernel_that_is_measured_after_all_is_not_left_out() -> None:
    assert skips(told("0 measured", "4 failed", "4 measured", "4 failed", "5 measured")) == {}


def test_failures_of_two_machines_add_up() -> None:
    two = ("lab-01", "lab-02")
    looks = ["0 measured", "0 measured lab-02", "4 failed", "4 failed lab-02"]
    assert set(skips(told(*looks, machines=two))) == {4}


def test_a_machine_that_was_lost_before_its_control_does_not_blame_anybody() -> None:
    two = ("lab-01", "lab-02")
    looks = ["0 measured", "0 measured lab-02", "4 failed lab-02", "4 failed lab-02"]
    lost = ["5 lost lab-02"] * 3
    assert set(skips(told(*looks, machines=two))) == {4}
    assert skips(told(*looks, *lost, machines=two)) == {}
    assert set(skips(told(*looks, "5 measured lab-02", *lost, machines=two))) == {4}


LOOKS = st.builds(
    "{} {} {}".format,
    st.integers(0, 3),
    st.sampled_from(["measured", "failed", "crashed", "lost"]),
    st.sampled_from(["lab-01", "lab-02"]),
)


@given(st.lists(LOOKS, max_size=14))
def test_nobody_is_blamed_without_two_failures_and_another_kernel_measured_on_that_machine(looks: list[str]) -> None:
    state = told(*looks, machines=("lab-01", "lab-02"))
    for commit in skips(state):
        failures = [words.split() for words in looks if words.split()[0] == str(commit)]
        where = {machine for _, how, machine in failures if how in ("failed", "crashed")}
        assert sum(how in ("failed", "crashed") for _, how, _ in failures) >= 2
        measured = {tuple(words.split()) for words in looks if words.split()[1] == "measured"}
        assert any(machine in where and index != str(commit) for index, _, machine in measured)


class Machine(FakeMachine):
    """Boots its own kernel instead, when `refuses` says so."""

    def __init__(self, lab: FakeLab, name: str, refuses: Callable[[int], bool]) -> None:
        super().__init__(lab, name)
        self.refuses = refuses
        self.asked: list[int] = []

    def boot(self, image: KernelImage, *, console: Path, on_progress: OnProgress) -> BootRecord:
        index = self.lab.commits.index_of(image.commit)
        self.asked.append(index)
        if self.refuses(index):
            console.write_text("")
            raise KernelError("it runs its own kernel", outcome=Outcome.WRONG_KERNEL)
        return super().boot(image, console=console, on_progress=on_progress)


def hunt(folder: Path, lab: FakeLab, *machines: FakeMachine) -> SessionState:
    return controller(folder, lab, *machines).run()


def named(state: SessionState, commit: int) -> bool:
    return state.answer is not None and (state.answer.kind, state.answer.commits) == (
        AnswerKind.COMMIT,
        (commit_id(commit),),
    )


def test_a_dead_kernel_costs_two_boots_and_its_neighbour_is_the_control(tmp_path: Path) -> None:
    lab = FakeLab(linear_range(40), first_bad=27)
    dead: set[int] = set()
    machine = Machine(lab, "lab-01", lambda index: index in dead)
    # Whatever the search looks at first between the ends.
    machine.refuses = lambda index: index in dead or (not dead and 0 < index < 39 and not dead.add(index))  # type: ignore[func-returns-value]
    state = hunt(tmp_path, lab, machine)
    assert named(state, 27)
    [victim] = dead
    assert machine.asked.count(victim) == 2
    assert set(skips(state)) == {victim}
    assert not any("control" in look.why for look in state.looks)


def test_a_boot_set_up_that_breaks_in_mid_hunt_pauses_after_a_control_and_blames_nobody(tmp_path: Path) -> None:
    lab = FakeLab(linear_range(40), first_bad=27)
    machine = Machine(lab, "lab-01", lambda index: len(machine.asked) > 6)
    state = hunt(tmp_path, lab, machine)
    assert state.status is Status.PAUSED
    assert "lab-01" in state.pause_reason
    assert skips(state) == {}
    assert len(machine.asked) <= 6 + 5
    # Two of one commit, one of another at most, and then a kernel that had worked.
    assert machine.asked[-1] in machine.asked[:6]
    assert named(hunt(tmp_path, lab, Machine(lab, "lab-01", lambda index: False)), 27)


def test_a_machine_whose_set_up_breaks_is_left_out_and_the_other_finds_the_commit(tmp_path: Path) -> None:
    lab = FakeLab(linear_range(120), first_bad=77)
    broken = Machine(lab, "lab-02", lambda index: len(broken.asked) > 6)
    state = hunt(tmp_path, lab, Machine(lab, "lab-01", lambda index: False), broken)
    assert named(state, 77)
    assert skips(state) == {}


def test_no_answer_rests_on_a_blame_that_no_control_has_confirmed(tmp_path: Path) -> None:
    lab = FakeLab(linear_range(3), first_bad=2)
    machine = Machine(lab, "lab-01", lambda index: index == 1)
    state = hunt(tmp_path, lab, machine)
    assert state.answer is not None
    assert set(state.answer.commits) == {commit_id(1), commit_id(2)}
    last = max(place for place, index in enumerate(machine.asked) if index == 1)
    assert machine.asked[last + 1 :], "after the failures something else was booted"


@pytest.mark.parametrize("dead", [range(15, 24), range(20, 34)])
def test_scenario_12_a_block_of_dead_kernels_is_searched_around_and_each_is_tried_twice_at_most(
    tmp_path: Path, dead: range
) -> None:
    lab = FakeLab(linear_range(40), first_bad=9)
    machine = Machine(lab, "lab-01", lambda index: index in dead)
    state = hunt(tmp_path, lab, machine)
    assert named(state, 9)
    assert max(machine.asked.count(index) for index in dead) <= 3

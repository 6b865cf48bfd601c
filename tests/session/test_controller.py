"""The loop, from the first event to the answer, over fake ports and the real search and journal."""

import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest
from fakehunt import answer_of, controller
from fakes import (
    FACTS,
    RECIPE,
    FakeBuilder,
    FakeLab,
    FakeMachine,
    Killed,
    commit_id,
    crash_before,
    linear_range,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from bisector.model.errors import BuilderError, MachineError
from bisector.model.events import (
    Booted,
    BootStarted,
    BuildStarted,
    Event,
    KernelBuilt,
    MachineTrouble,
    RunFinished,
    RunStarted,
)
from bisector.model.machine import MachineFacts
from bisector.model.outcome import AnswerKind, Outcome, Purpose
from bisector.model.progress import OnProgress, Progress
from bisector.model.sample import RunRecord
from bisector.session.controller import StopRequest
from bisector.session.decide import Order, decide
from bisector.session.evidence import skips
from bisector.session.journal import open_journal
from bisector.session.state import SessionState, Status


def events_of(folder: Path) -> list[Event]:
    return [entry.event for entry in open_journal(folder).entries]


def test_a_hunt_names_the_planted_commit(tmp_path: Path) -> None:
    lab = FakeLab(linear_range(40), first_bad=27)
    state = controller(tmp_path, lab).run()
    assert state.status is Status.FINISHED
    assert answer_of(state) == (AnswerKind.COMMIT, (commit_id(27),))
    assert state.answer is not None
    assert state.answer.probability >= 0.99
    assert len({look.commit for look in state.looks}) <= 14


def test_commits_that_do_not_build_or_boot_are_skipped_and_the_hunt_goes_on(tmp_path: Path) -> None:
    lab = FakeLab(linear_range(40), first_bad=27, unbuildable=frozenset({19, 20, 21}), crashing=frozenset({29, 30, 10}))
    state = controller(tmp_path, lab).run()
    assert answer_of(state) == (AnswerKind.COMMIT, (commit_id(27),))
    assert {outcome for outcome, _ in skips(state).values()} <= {Outcome.BUILD_FAILED, Outcome.CRASHED}
    assert set(skips(state)) <= {19, 20, 21, 29, 30, 10}


def test_scenario_12_a_culprit_that_cannot_be_built_ends_in_a_set_that_holds_it(tmp_path: Path) -> None:
    lab = FakeLab(linear_range(16), first_bad=7, unbuildable=frozenset({7}))
    state = controller(tmp_path, lab).run()
    kind, commits = answer_of(state)
    assert kind is AnswerKind.SET
    assert set(commits) == {commit_id(7), commit_id(8)}


def test_scenario_14_ends_that_do_not_differ_are_not_searched(tmp_path: Path) -> None:
    lab = FakeLab(linear_range(16), first_bad=None)
    state = controller(tmp_path, lab).run()
    assert answer_of(state)[0] is AnswerKind.NOT_REPRODUCED
    assert {look.commit for look in state.looks} == {0, 15}


def test_a_kernel_is_built_ahead_while_the_machine_measures(tmp_path: Path) -> None:
    lab = FakeLab(linear_range(40), first_bad=27)
    controller(tmp_path, lab).run()
    assert any(isinstance(event, BuildStarted) and event.ahead for event in events_of(tmp_path))


def test_building_ahead_goes_on_after_the_first_stock_became_useless(tmp_path: Path) -> None:
    lab = FakeLab(linear_range(500), first_bad=470)
    controller(tmp_path, lab).run()
    events = events_of(tmp_path)
    last_gate_boot = max(
        place for place, event in enumerate(events) if isinstance(event, BootStarted) and event.purpose is Purpose.GATE
    )
    later = [event for event in events[last_gate_boot:] if isinstance(event, BuildStarted)]
    assert sum(event.ahead for event in later) > 4


def test_with_builds_and_runs_on_one_host_at_odds_nothing_is_built_during_a_run(tmp_path: Path) -> None:
    alone = RECIPE.model_copy(
        update={"machines": (RECIPE.machines[0].model_copy(update={"build_beside_runs": False}),)}
    )
    lab = FakeLab(linear_range(20), first_bad=7)
    state = controller(tmp_path, lab, recipe=alone).run()
    assert answer_of(state) == (AnswerKind.COMMIT, (commit_id(7),))
    going_on: str | None = None
    for event in events_of(tmp_path):
        if isinstance(event, BootStarted | RunStarted | BuildStarted):
            assert going_on is None, f"{event} while {going_on} goes on"
            going_on = event.kind
        elif event.kind in {"booted", "boot_failed", "run_finished", "kernel_built", "build_failed"}:
            going_on = None


def test_a_machine_that_keeps_failing_pauses_the_session_and_judges_nobody(tmp_path: Path) -> None:
    lab = FakeLab(linear_range(16), first_bad=7)
    machine = FakeMachine(lab)
    machine.trouble = [MachineError("no answer from lab-01", resolution="Push its power button.")] * 3
    state = controller(tmp_path, lab, machine).run()
    assert state.status is Status.PAUSED
    assert (
        "lab-01 failed 3 times in a row (limits.machine_errors is 3), the last time: no answer from lab-01"
        in state.pause_reason
    )
    assert "Push its power button." in state.pause_resolution
    assert skips(state) == {}
    assert answer_of(controller(tmp_path, lab).run()) == (AnswerKind.COMMIT, (commit_id(7),))


def test_a_hiccup_of_the_machine_is_retried(tmp_path: Path) -> None:
    lab = FakeLab(linear_range(16), first_bad=7)
    machine = FakeMachine(lab)
    machine.trouble = [MachineError("no answer from lab-01")] * 2
    assert answer_of(controller(tmp_path, lab, machine).run()) == (AnswerKind.COMMIT, (commit_id(7),))


def test_trouble_is_met_again_only_after_a_pause_that_grows(tmp_path: Path) -> None:
    lab = FakeLab(linear_range(16), first_bad=7)
    machine = FakeMachine(lab)
    machine.trouble = [MachineError("somebody is logged in")] * 2
    state = controller(tmp_path, lab, machine, retry_pause_s=0.2).run()
    assert answer_of(state) == (AnswerKind.COMMIT, (commit_id(7),))
    entries = open_journal(tmp_path).entries
    ended = [entry.at for entry in entries if isinstance(entry.event, MachineTrouble)]
    outcomes = [entry.at for entry in entries if isinstance(entry.event, MachineTrouble | Booted)]
    waited = [outcomes[outcomes.index(at) + 1] - at for at in ended]
    assert waited[0] >= 0.2
    assert waited[1] >= 0.8


def test_a_stop_is_not_kept_waiting_by_a_pause_after_trouble(tmp_path: Path) -> None:
    lab = FakeLab(linear_range(16), first_bad=7)
    stop = StopRequest()
    machine = FakeMachine(lab)
    machine.trouble = [MachineError("somebody is logged in")]
    ask = threading.Timer(0.5, setattr, (stop, "reason", "enough"))
    ask.start()
    begun = time.monotonic()
    state = controller(tmp_path, lab, machine, stop=stop, retry_pause_s=600.0).run()
    assert time.monotonic() - begun < 20
    assert state.status is Status.PAUSED
    assert all(look.ended_at is not None for look in state.looks)
    assert answer_of(controller(tmp_path, lab).run()) == (AnswerKind.COMMIT, (commit_id(7),))


def test_scenario_02_builder_trouble_pauses_the_session_and_skips_nothing(tmp_path: Path) -> None:
    lab = FakeLab(linear_range(16), first_bad=7)
    builder = FakeBuilder(lab)
    builder.trouble = [BuilderError("No space left on device")] * 3
    state = controller(tmp_path, lab, builder=builder).run()
    assert state.status is Status.PAUSED
    assert skips(state) == {}


def test_two_kernels_that_do_not_boot_before_any_other_did_pause_the_session(tmp_path: Path) -> None:
    lab = FakeLab(linear_range(16), first_bad=7, crashing=frozenset(range(16)))
    state = controller(tmp_path, lab).run()
    assert state.status is Status.PAUSED
    assert "no other kernel has been measured there so far" in state.pause_reason
    assert len(state.looks) == 2
    assert skips(state) == {}


class ChangingMachine(FakeMachine):
    """Its governor, if it tells one, is another from its fourth boot on, and from its sixth."""

    def __init__(self, lab: FakeLab, *governors: str | None) -> None:
        super().__init__(lab)
        self.governors = governors

    def boot(self, *args: object, **named: object):  # type: ignore[no-untyped-def]
        record = super().boot(*args, **named)  # type: ignore[arg-type]
        boots = len(self.lab.booted)
        governor = self.governors[(boots > 3) + (boots > 5)]
        more = () if governor is None else (("governor", governor),)
        return replace(record, facts=MachineFacts(pairs=(*FACTS.pairs, *more)))


@pytest.mark.parametrize(
    ("governors", "said"),
    [
        (("performance", "powersave", "powersave"), "governor: powersave, was performance"),
        (("performance", None, None), "governor: missing, was performance"),
        # Told first at the fourth boot: from there on it holds.
        ((None, "performance", "powersave"), "governor: powersave, was performance"),
    ],
)
def test_a_machine_that_changed_under_us_pauses_the_session_with_the_difference(
    tmp_path: Path, governors: tuple[str | None, ...], said: str
) -> None:
    lab = FakeLab(linear_range(16), first_bad=7)
    state = controller(tmp_path, lab, ChangingMachine(lab, *governors)).run()
    assert state.status is Status.PAUSED
    troubles = [event.reason for event in events_of(tmp_path) if event.kind == "machine_trouble"]
    assert said in troubles[0]


def test_a_fact_that_was_never_asked_before_is_no_difference(tmp_path: Path) -> None:
    # A newer program goes on with the session, and asks more of the machine.
    lab = FakeLab(linear_range(16), first_bad=7)
    machine = ChangingMachine(lab, None, "powersave", "powersave")
    assert answer_of(controller(tmp_path, lab, machine).run()) == (AnswerKind.COMMIT, (commit_id(7),))
    assert len(lab.booted) > 5


def test_a_stop_request_pauses_after_the_step_in_hand_and_leaves_the_machine(tmp_path: Path) -> None:
    lab = FakeLab(linear_range(40), first_bad=27)
    stop = StopRequest()

    def ask_at_the_fourth_run(what: str) -> None:
        if what == "run" and len(lab.runs) == 3:
            stop.reason = "interrupted from the terminal (SIGINT)"

    lab.before = ask_at_the_fourth_run
    machine = FakeMachine(lab)
    state = controller(tmp_path, lab, machine, stop=stop).run()
    assert state.status is Status.PAUSED
    assert machine.released == 1
    assert len(lab.runs) == 4
    lab.before = lambda what: None
    assert answer_of(controller(tmp_path, lab).run()) == (AnswerKind.COMMIT, (commit_id(27),))


@settings(max_examples=10)
@given(crashes=st.lists(st.integers(min_value=1, max_value=40), min_size=1, max_size=4))
def test_a_crash_at_any_step_changes_neither_the_answer_nor_repeats_finished_work(
    tmp_path_factory: pytest.TempPathFactory, crashes: list[int]
) -> None:
    folder = tmp_path_factory.mktemp("crashed")
    lab = FakeLab(linear_range(24), first_bad=9, unbuildable=frozenset({11, 12}), crashing=frozenset({14}))
    builder = FakeBuilder(lab)
    for step in crashes:
        lab.before = crash_before(step)
        try:
            controller(folder, lab, builder=FakeBuilder(lab, builder.cache)).run()
        except Killed:
            continue
    lab.before = lambda what: None
    state = controller(folder, lab, builder=FakeBuilder(lab, builder.cache)).run()
    assert answer_of(state) == (AnswerKind.COMMIT, (commit_id(9),))
    assert len(lab.built) == len(set(lab.built)), "a kernel was built twice"
    events = events_of(folder)
    finished = [event for event in events if isinstance(event, RunFinished)]
    assert len({(event.boot, event.run) for event in finished}) == len(finished)
    # The run that was being made at a crash is lost, nothing else is; nothing is counted that was not made.
    assert len(finished) <= len(lab.runs) <= len(finished) + len(crashes)
    built = [event.commit for event in events if isinstance(event, KernelBuilt)]
    assert len(built) == len(set(built))


def test_every_artefact_that_an_event_names_is_there(tmp_path: Path) -> None:
    lab = FakeLab(linear_range(20), first_bad=7, unbuildable=frozenset({9}), crashing=frozenset({5}))
    state = controller(tmp_path, lab).run()
    named = [look.record.artefact for look in state.looks if look.record is not None]
    named += [run.artefact for look in state.looks for run in look.runs]
    named += [look.artefact for look in state.looks if look.outcome is Outcome.CRASHED]
    named += [build.artefact for build in state.builds.values() if build.outcome is Outcome.BUILD_FAILED]
    assert len(named) > 30
    assert all(name and (tmp_path / "artefacts" / name).is_file() for name in named)


def test_scenario_13_the_same_samples_and_seed_give_the_same_hunt(tmp_path: Path) -> None:
    looks = []
    for attempt in ("one", "two"):
        folder = tmp_path / attempt
        folder.mkdir()
        lab = FakeLab(linear_range(30), first_bad=11)
        state = controller(folder, lab).run()
        looks.append([(look.commit, look.planned_runs, look.purpose) for look in state.looks])
    assert looks[0] == looks[1]


class ChattyMachine(FakeMachine):
    """Tells of every percent of every run."""

    def run(self, batches: tuple[tuple[str, int], ...], *, log: Path, on_progress: OnProgress) -> RunRecord:
        for percent in range(100):
            on_progress(Progress(fraction=percent / 100, text="measuring"))
        return super().run(batches, log=log, on_progress=on_progress)


def test_progress_alone_does_not_make_the_search_decide_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    decided: list[int] = []

    def counted(state: SessionState, *arguments: object) -> list[Order]:
        decided.append(len(state.looks))
        return decide(state, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr("bisector.session.controller.decide", counted)
    lab = FakeLab(linear_range(16), first_bad=7)
    controller(tmp_path, lab, ChattyMachine(lab)).run()
    assert len(lab.runs) > 10
    # Twice for each durable event at most: once to give orders, once to see that there are no more.
    assert len(decided) <= 2 * len(events_of(tmp_path))


class RestingMachine(FakeMachine):
    """Counts how often it was told that a boot is over; a run after that would be of nothing (`FakeMachine.run`)."""

    rested = 0

    def rest(self) -> None:
        super().rest()
        self.rested += 1


def test_a_machine_rests_after_each_look(tmp_path: Path) -> None:
    lab = FakeLab(linear_range(16), first_bad=7)
    machine = RestingMachine(lab)
    state = controller(tmp_path, lab, machine).run()
    assert answer_of(state) == (AnswerKind.COMMIT, (commit_id(7),))
    assert machine.rested == len(lab.booted)

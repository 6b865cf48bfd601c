"""Several machines in one session: what each is told to do, and what happens when one of them fails."""

import os
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from fakes import (
    FACTS,
    FakeBuilder,
    FakeLab,
    FakeMachine,
    Killed,
    Watcher,
    commit_id,
    crash_before,
    linear_range,
    recipe_for,
    sample,
    session_started,
)

from bisector.model.errors import KernelError, MachineError
from bisector.model.events import (
    BatchesCalibrated,
    Booted,
    BootEnded,
    BootStarted,
    BuildStarted,
    Event,
    KernelBuilt,
    MachineLeft,
    MachineTrouble,
    RunFinished,
    RunStarted,
    SessionFinished,
)
from bisector.model.kernel import KernelImage
from bisector.model.machine import BootRecord, NotGivenBack
from bisector.model.outcome import AnswerKind, Outcome, Purpose
from bisector.model.progress import OnProgress, Progress
from bisector.model.sample import RunRecord
from bisector.report.events import EventLines
from bisector.search import Finding, Graph, propose
from bisector.session.controller import Controller, StopRequest
from bisector.session.decide import (
    BootOrder,
    BuildOrder,
    EndLook,
    FetchOrder,
    Finish,
    Order,
    Plan,
    RunOrder,
    decide,
    plan_of,
)
from bisector.session.evidence import costs_of, evidence_of, options_of, skips
from bisector.session.journal import create_journal, open_journal
from bisector.session.machines import set_aside
from bisector.session.state import Entry, SessionState, Status, fold

TWO, THREE = ("lab-01", "lab-02"), ("lab-01", "lab-02", "lab-03")
BATCHES = (("page_test", 1700), ("brk_test", 1700))


def controller(
    folder: Path, lab: FakeLab, machines: Sequence[FakeMachine], builder: FakeBuilder | None = None
) -> Controller:
    names = tuple(machine.name for machine in machines)
    if (folder / "journal.sqlite3").exists():
        journal = open_journal(folder, writer=True)
    else:
        journal = create_journal(folder)
        journal.append(session_started(lab.commits, machines=names))
    return Controller(
        journal,
        folder,
        recipe_for(*names),
        builder=builder or FakeBuilder(lab),
        machines={machine.name: machine for machine in machines},
        higher_is_better=True,
        observer=Watcher(),
        stop=StopRequest(),
    )


def fleet(lab: FakeLab, names: Sequence[str]) -> list[FakeMachine]:
    """Machines that are a third apart: nobody may compare the values of two."""
    return [FakeMachine(lab, name, speed=1.0 + 0.3 * number) for number, name in enumerate(names)]


def answer_of(state: SessionState) -> tuple[AnswerKind, tuple[str, ...]]:
    assert state.answer is not None
    return state.answer.kind, state.answer.commits


class Told:
    """A session of several machines, told event by event; 40 commits, the 28th is bad."""

    def __init__(self, *machines: str) -> None:
        self.lab = FakeLab(linear_range(40), first_bad=27)
        self.entries: list[Entry] = []
        self.boots = 0
        self.at = 0.0
        self.recipe = recipe_for(*machines)
        self.tell(session_started(self.lab.commits, machines=machines))

    def tell(self, event: Event, after_s: float = 0.0) -> None:
        self.at += after_s
        self.entries.append(Entry(seq=len(self.entries) + 1, at=self.at, event=event))

    @property
    def state(self) -> SessionState:
        return fold(self.entries)

    @property
    def plan(self) -> Plan:
        return plan_of(self.state, self.recipe, options_of(self.recipe, higher_is_better=True))

    def orders(self, *idle: str) -> list[Order]:
        return decide(self.state, self.plan, frozenset(idle))

    def boot_orders(self, *idle: str) -> dict[str, BootOrder]:
        return {order.machine: order for order in self.orders(*idle) if isinstance(order, BootOrder)}

    def build(self, *commits: int) -> None:
        for commit in commits:
            image = KernelImage(
                commit=commit_id(commit),
                key=commit_id(commit),
                release="r",
                build_id=commit_id(commit),
                signature=commit_id(commit),
                path="p",
                compiler="gcc",
                config_digest="c",
                config_changes=(),
                duration_s=20.0,
                from_cache=False,
            )
            self.tell(BuildStarted(commit=commit_id(commit), ahead=True, reason="needed next"))
            self.tell(KernelBuilt(commit=commit_id(commit), image=image), 20.0)

    def start(self, machine: str, commit: int, *, runs: int = 3, purpose: Purpose = Purpose.GATE) -> int:
        self.boots += 1
        self.tell(
            BootStarted(
                boot=self.boots, machine=machine, commit=commit_id(commit), runs=runs, purpose=purpose, reason="why"
            )
        )
        return self.boots

    def booted(self, boot: int, machine: str, commit: int) -> None:
        record = BootRecord(boot_id=f"b{boot}", release="r", build_id="b", facts=FACTS, duration_s=5.0, artefact="")
        self.tell(Booted(boot=boot, machine=machine, commit=commit_id(commit), record=record), 5.0)
        self.tell(BatchesCalibrated(machine=machine, batches=BATCHES))

    def run(self, boot: int, number: int, machine: str, commit: int, shift: float = 0.0) -> None:
        speed = 1.0 + 0.3 * self.state.machines.index(machine)
        value = speed * self.lab.level(commit) * (1 + shift / 100 + 0.001 * number)
        record = RunRecord(samples=(sample("page_test", value), sample("brk_test", 50.0)), artefact="", duration_s=2.0)
        self.tell(RunStarted(boot=boot, run=number, machine=machine, commit=commit_id(commit)))
        self.tell(RunFinished(boot=boot, run=number, machine=machine, commit=commit_id(commit), record=record), 2.0)

    def look(self, machine: str, commit: int, *, purpose: Purpose = Purpose.GATE, shift: float = 0.0) -> None:
        boot = self.start(machine, commit, purpose=purpose)
        self.booted(boot, machine, commit)
        for number in (1, 2, 3):
            self.run(boot, number, machine, commit, shift)
        self.tell(BootEnded(boot=boot, machine=machine, commit=commit_id(commit), reason="all runs are in"))

    def trouble(self, machine: str, boot: int = 0) -> None:
        self.tell(MachineTrouble(machine=machine, commit="", boot=boot, reason="no answer", resolution=""))

    def gate(self, *machines: str) -> None:
        """Both ends built and booted on each machine."""
        self.build(0, 39)
        for number, machine in enumerate(machines):
            for shift, commit in ((0.0, 0), (0.1, 39), (0.2, 39), (0.3, 0)):
                self.look(machine, commit, shift=shift + 0.05 * number)


def test_two_machines_begin_the_gate_at_different_ends() -> None:
    told = Told(*TWO)
    told.build(0, 39)
    orders = told.boot_orders(*TWO)
    assert {orders[name].commit for name in TWO} == {0, 39}
    assert {orders[name].purpose for name in TWO} == {Purpose.GATE}


def test_the_pairs_of_two_machines_pass_the_gate_together() -> None:
    told = Told(*TWO)
    told.build(0, 39, 19)
    for machine in TWO:
        told.look(machine, 0)
        told.look(machine, 39, shift=0.1)
    orders = told.boot_orders(*TWO)
    assert all(order.purpose is Purpose.SEARCH for order in orders.values())


def test_values_of_two_machines_are_not_compared() -> None:
    told = Told(*TWO)
    told.build(0, 39)
    for _ in range(3):
        # The second machine is faster by as much as the bad end is slower.
        told.look("lab-01", 0)
        told.look("lab-02", 39)
    orders = told.boot_orders(*TWO)
    assert {(name, orders[name].commit) for name in TWO} == {("lab-01", 39), ("lab-02", 0)}


def test_two_idle_machines_are_not_sent_to_the_same_look() -> None:
    told = Told(*TWO)
    told.gate(*TWO)
    told.build(9, 19, 29)
    orders = told.boot_orders(*TWO)
    assert len({order.commit for order in orders.values()}) == 2


def test_a_machine_that_becomes_idle_looks_beside_the_look_that_goes_on() -> None:
    told = Told(*TWO)
    told.gate(*TWO)
    told.build(9, 19, 29)
    told.booted(told.start("lab-01", 19, purpose=Purpose.SEARCH), "lab-01", 19)
    order = told.boot_orders("lab-02")["lab-02"]
    assert order.commit in (9, 29)


def test_a_kernel_in_the_cache_is_not_waited_for_behind_a_build() -> None:
    told = Told(*TWO)
    told.gate(*TWO)
    built = next(order for order in told.orders(*TWO, "builder") if isinstance(order, BuildOrder))
    told.tell(BuildStarted(commit=commit_id(built.commit), ahead=False, reason=built.reason))
    asked = [order.commit for order in told.orders(*TWO) if isinstance(order, FetchOrder)]
    assert asked
    assert built.commit not in asked
    assert decide(told.state, told.plan, frozenset(TWO), frozenset(asked)) == []
    builder = FakeBuilder(told.lab)
    image = builder.build(commit_id(asked[0]), log=Path(os.devnull), on_progress=lambda _: None)
    told.tell(KernelBuilt(commit=commit_id(asked[0]), image=image))
    assert asked[0] in {order.commit for order in told.boot_orders(*TWO).values()}


def test_a_kernel_that_one_machine_waits_for_is_built_once() -> None:
    told = Told(*TWO)
    told.gate(*TWO)
    orders = told.orders(*TWO, "builder")
    assert sum(isinstance(order, BuildOrder) for order in orders) == 1
    built = next(order for order in orders if isinstance(order, BuildOrder))
    told.tell(BuildStarted(commit=commit_id(built.commit), ahead=False, reason=built.reason))
    assert not [order for order in told.orders(*TWO) if not isinstance(order, FetchOrder)]


def test_a_machine_that_has_not_booted_both_ends_does_that_before_it_searches() -> None:
    told = Told(*TWO)
    told.gate("lab-01")
    told.build(9, 19, 29)
    told.look("lab-01", 19, purpose=Purpose.SEARCH)
    order = told.boot_orders("lab-02")["lab-02"]
    assert (order.commit in (0, 39), order.purpose) == (True, Purpose.GATE)


def nearly_found() -> Told:
    """All but the last boot of the audit: the next pair confirms commit 27."""
    told = Told(*TWO)
    told.gate(*TWO)
    told.build(19, 26, 27, 29)
    for machine in TWO:
        told.look(machine, 26, purpose=Purpose.SEARCH)
        told.look(machine, 27, purpose=Purpose.SEARCH, shift=0.1)
    for commit in (26, 27, 27, 26):
        told.look("lab-01", commit, purpose=Purpose.AUDIT)
    return told


def test_an_answer_ends_the_looks_that_go_on_after_the_run_in_hand() -> None:
    told = nearly_found()
    assert isinstance(told.orders(*TWO)[0], Finish)
    # The same with a look that goes on: it is not waited for longer than its run takes, and what it has counts.
    boot = told.start("lab-02", 19, purpose=Purpose.SEARCH)
    told.booted(boot, "lab-02", 19)
    told.run(boot, 1, "lab-02", 19)
    assert told.orders("lab-01") == []
    orders = told.orders(*TWO)
    assert [type(order) for order in orders] == [EndLook]
    ended = orders[0]
    assert isinstance(ended, EndLook)
    told.tell(BootEnded(boot=boot, machine="lab-02", commit=commit_id(19), reason=ended.reason))
    assert len(evidence_of(told.state, "page_test").boots) == len(told.state.looks)
    assert isinstance(told.orders(*TWO)[0], Finish)


def test_a_look_goes_on_while_another_machine_searches() -> None:
    told = Told(*TWO)
    told.gate(*TWO)
    told.build(9, 19, 29)
    told.booted(told.start("lab-01", 19, purpose=Purpose.SEARCH), "lab-01", 19)
    assert told.orders("lab-01") == [RunOrder(machine="lab-01")]


def test_a_machine_with_trouble_three_times_in_a_row_gets_no_more_looks() -> None:
    told = Told(*TWO)
    told.gate(*TWO)
    told.build(9, 19, 29)
    for _ in range(3):
        told.trouble("lab-02", told.start("lab-02", 19, purpose=Purpose.SEARCH))
    assert set(set_aside(told.state)) == {"lab-02"}
    assert set(told.boot_orders(*TWO)) == {"lab-01"}
    assert skips(told.state) == {}
    assert told.state.looks[-1].outcome is Outcome.INFRA


def test_a_run_that_succeeds_forgives_earlier_trouble_and_a_mere_boot_does_not() -> None:
    told = Told(*TWO)
    told.gate(*TWO)
    told.build(19)
    for _ in range(3):
        boot = told.start("lab-02", 19, purpose=Purpose.SEARCH)
        told.booted(boot, "lab-02", 19)
        told.trouble("lab-02", boot)
    assert set(set_aside(told.state)) == {"lab-02"}
    told.look("lab-02", 19, purpose=Purpose.SEARCH)
    assert set_aside(told.state) == {}


@pytest.mark.parametrize("names", [TWO, THREE], ids=["two", "three"])
def test_several_machines_name_the_planted_commit(tmp_path: Path, names: tuple[str, ...]) -> None:
    lab = FakeLab(linear_range(40), first_bad=27)
    state = controller(tmp_path, lab, fleet(lab, names)).run()
    assert answer_of(state) == (AnswerKind.COMMIT, (commit_id(27),))
    assert all(look.ended_at is not None for look in state.looks)
    for name in names:
        first = [look.commit for look in state.looks if look.machine == name][:2]
        assert set(first) <= {0, 39}


def test_the_answer_is_what_the_whole_journal_says(tmp_path: Path) -> None:
    lab = FakeLab(linear_range(60), first_bad=33, boot_sd=0.02, run_sd=0.03, effect=0.1)
    state = controller(tmp_path, lab, fleet(lab, THREE)).run()
    options = options_of(recipe_for(*THREE), higher_is_better=True)
    graph = Graph.from_parents(state.range.parents)
    finding = propose(graph, evidence_of(state, "page_test"), costs_of(state), options)
    assert isinstance(finding, Finding)
    assert state.answer is not None
    assert tuple(commit_id(index) for index in finding.commits) == state.answer.commits


def test_a_machine_that_fails_for_good_is_set_aside_and_the_others_go_on(tmp_path: Path) -> None:
    lab = FakeLab(linear_range(40), first_bad=27)
    machines = fleet(lab, TWO)
    machines[1].trouble = [MachineError("no answer from lab-02")] * 100
    state = controller(tmp_path, lab, machines).run()
    assert answer_of(state) == (AnswerKind.COMMIT, (commit_id(27),))
    assert sum(look.machine == "lab-02" for look in state.looks) == 3
    assert skips(state) == {}


def test_a_machine_that_dies_in_the_middle_leaves_what_it_has_measured(tmp_path: Path) -> None:
    lab = FakeLab(linear_range(200), first_bad=127)
    machines = fleet(lab, TWO)

    def die(what: str) -> None:
        if len(lab.booted) > 8 and not machines[1].trouble:
            machines[1].trouble = [MachineError("no answer from lab-02")] * 100

    lab.before = die
    state = controller(tmp_path, lab, machines).run()
    assert answer_of(state) == (AnswerKind.COMMIT, (commit_id(127),))
    assert {boot.machine for boot in evidence_of(state, "page_test").boots} == {0, 1}


def test_without_a_machine_left_the_session_pauses_and_a_resume_tries_them_all_again(tmp_path: Path) -> None:
    lab = FakeLab(linear_range(40), first_bad=27)
    machines = fleet(lab, TWO)
    for machine in machines:
        machine.trouble = [MachineError(f"no answer from {machine.name}")] * 3
    state = controller(tmp_path, lab, machines).run()
    assert state.status is Status.PAUSED
    assert "lab-01 failed 3 times" in state.pause_reason
    assert "lab-02 failed 3 times" in state.pause_reason
    assert answer_of(controller(tmp_path, lab, fleet(lab, TWO)).run()) == (AnswerKind.COMMIT, (commit_id(27),))


class Gone(FakeMachine):
    """Measures once, is lost in its next run, and from then on its boots only wait, until they are told to stop."""

    def __init__(self, lab: FakeLab, name: str, after: int) -> None:
        super().__init__(lab, name)
        self.after = after
        self.waiting = threading.Event()
        self.stopped = threading.Event()

    def run(self, batches: tuple[tuple[str, int], ...], *, log: Path, on_progress: OnProgress) -> RunRecord:
        self.after -= 1
        if self.after < 0:
            log.write_text("")
            raise MachineError(f"{self.name} was lost")
        return super().run(batches, log=log, on_progress=on_progress)

    def boot(self, image: KernelImage, *, console: Path, on_progress: OnProgress) -> BootRecord:
        if self.after >= 0:
            return super().boot(image, console=console, on_progress=on_progress)
        self.waiting.set()
        until = time.monotonic() + 300
        try:
            while time.monotonic() < until:
                on_progress(Progress(fraction=None, text="waiting for it to boot"))
                time.sleep(0.5)  # each is a step of the loop
        finally:
            self.stopped.set()
        raise MachineError("it never came")


def test_a_finished_hunt_does_not_wait_for_a_lost_machine_to_boot(tmp_path: Path) -> None:
    lab = FakeLab(linear_range(40), first_bad=27)
    gone = Gone(lab, "lab-02", after=4)
    # The other machine is not done before the lost one waits for its boot.
    lab.before = lambda what: gone.waiting.wait(10) if gone.after < 0 and what == "build" else None
    state = controller(tmp_path, lab, [FakeMachine(lab, "lab-01"), gone]).run()
    # Its first trouble is the run that it was lost in; a boot that was waited for would be another.
    assert state.troubles["lab-02"] == 1
    assert answer_of(state) == (AnswerKind.COMMIT, (commit_id(27),))
    assert gone.waiting.is_set()
    assert gone.stopped.is_set()
    assert gone.released == 1
    last = [look for look in state.looks if look.machine == "lab-02"][-1]
    assert (last.outcome, last.reason) == (Outcome.INFRA, "the answer is there without it")
    assert skips(state) == {}


def test_a_healthy_machine_that_boots_is_waited_for_at_the_end() -> None:
    told = nearly_found()
    told.start("lab-02", 19, purpose=Purpose.SEARCH)
    assert told.orders("lab-01") == []
    told.trouble("lab-02")
    orders = told.orders("lab-01")
    assert orders == [EndLook(machine="lab-02", reason="the answer is there without it")]


def test_what_comes_of_a_step_that_nobody_waited_for_is_not_in_the_journal(tmp_path: Path) -> None:
    lab = FakeLab(linear_range(40), first_bad=27)
    gone = Gone(lab, "lab-02", after=4)
    controller(tmp_path, lab, [FakeMachine(lab, "lab-01"), gone]).run()
    events = [entry.event for entry in open_journal(tmp_path).entries]
    lost_at = next(place for place, event in enumerate(events) if isinstance(event, MachineTrouble))
    assert not [event for event in events[lost_at:] if isinstance(event, Booted) and event.machine == "lab-02"]
    assert isinstance(events[-1], SessionFinished)


@pytest.mark.parametrize("stopped", [False, True], ids=["finished", "paused"])
def test_a_machine_that_cannot_be_given_back_is_named_at_the_end(tmp_path: Path, stopped: bool) -> None:
    lab = FakeLab(linear_range(40), first_bad=27)
    machines = fleet(lab, TWO)
    machines[1].left = NotGivenBack(reason="lab-02 does not answer", resolution="bisector lab release lab-02 --force")
    if stopped:
        for machine in machines:
            machine.trouble = [MachineError("no answer")] * 3
    state = controller(tmp_path, lab, machines).run()
    assert state.status is (Status.PAUSED if stopped else Status.FINISHED)
    last = open_journal(tmp_path).entries[-1]
    assert isinstance(last.event, MachineLeft)
    line = EventLines().line(last.at, last.event)
    assert "lab-02 was not given back: lab-02 does not answer; bisector lab release lab-02 --force" in line
    assert list(state.not_given_back) == ["lab-02"]
    if stopped:
        again = controller(tmp_path, lab, fleet(lab, TWO)).run()
        assert again.not_given_back == {}


class DeadDisk(FakeMachine):
    """No kernel ever comes up here, and every time it looks like the kernel's fault."""

    def boot(self, image: KernelImage, *, console: Path, on_progress: object) -> BootRecord:
        console.write_text("")
        raise KernelError("VFS: Unable to mount root fs", outcome=Outcome.BOOT_FAILED)


def test_a_machine_where_nothing_boots_blames_no_commit_while_others_boot(tmp_path: Path) -> None:
    lab = FakeLab(linear_range(40), first_bad=27)
    state = controller(tmp_path, lab, [FakeMachine(lab, "lab-01"), DeadDisk(lab, "lab-02")]).run()
    assert answer_of(state) == (AnswerKind.COMMIT, (commit_id(27),))
    assert skips(state) == {}
    assert "no other kernel has been measured there so far" in set_aside(state)["lab-02"]


@pytest.mark.parametrize("step", [3, 9, 30])
def test_a_crash_with_two_machines_at_work_loses_their_running_steps_only(tmp_path: Path, step: int) -> None:
    lab = FakeLab(linear_range(24), first_bad=9, unbuildable=frozenset({11, 12}), crashing=frozenset({14}))
    cache = FakeBuilder(lab).cache
    lab.before = crash_before(step)
    with pytest.raises(Killed):
        controller(tmp_path, lab, fleet(lab, TWO), FakeBuilder(lab, cache)).run()
    lab.before = lambda what: None
    state = controller(tmp_path, lab, fleet(lab, TWO), FakeBuilder(lab, cache)).run()
    assert answer_of(state) == (AnswerKind.COMMIT, (commit_id(9),))
    assert len(lab.built) == len(set(lab.built)), "a kernel was built twice"
    finished = [entry.event for entry in open_journal(tmp_path).entries if isinstance(entry.event, RunFinished)]
    assert len({(event.boot, event.run) for event in finished}) == len(finished)
    assert len(finished) <= len(lab.runs) <= len(finished) + len(TWO)


def idle_after(entries: Sequence[Entry]) -> frozenset[str]:
    """The machines of TWO that no step went on at after these entries."""
    busy: set[str] = set()
    calibrated: set[str] = set()
    for entry in entries:
        match entry.event:
            case BootStarted(machine=name) | RunStarted(machine=name):
                busy.add(name)
            case BatchesCalibrated(machine=name):
                calibrated.add(name)
                busy.discard(name)
            case Booted(machine=name):
                busy -= {name} & calibrated
            case RunFinished(machine=name):
                busy.discard(name)
    return frozenset(TWO) - busy


def test_every_look_of_a_journal_is_what_its_past_decides(tmp_path: Path) -> None:
    lab = FakeLab(linear_range(40), first_bad=27)
    controller(tmp_path, lab, fleet(lab, TWO)).run()
    entries = list(open_journal(tmp_path).entries)
    recipe = recipe_for(*TWO)
    plan = plan_of(fold(entries[:1]), recipe, options_of(recipe, higher_is_better=True))
    for place, entry in enumerate(entries):
        if isinstance(entry.event, BootStarted):
            past = entries[:place]
            orders = decide(fold(past), plan, idle_after(past))
            commits = {order.machine: commit_id(order.commit) for order in orders if isinstance(order, BootOrder)}
            assert commits[entry.event.machine] == entry.event.commit

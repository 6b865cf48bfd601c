"""Several machines in one session: what happens when one of them fails, or is never heard of again."""

import threading
import time
from pathlib import Path

import pytest
from fakehunt import answer_of, controller
from fakes import (
    FakeLab,
    FakeMachine,
    commit_id,
    linear_range,
)
from session.fleet import TWO, fleet

from bisector.model.errors import KernelError, MachineError
from bisector.model.events import (
    Booted,
    MachineLeft,
    MachineTrouble,
    SessionFinished,
)
from bisector.model.kernel import KernelImage
from bisector.model.machine import BootRecord, NotGivenBack
from bisector.model.outcome import AnswerKind, Outcome
from bisector.model.progress import OnProgress, Progress
from bisector.model.sample import RunRecord
from bisector.report.events import EventLines
from bisector.session.evidence import evidence_of, skips
from bisector.session.journal import open_journal
from bisector.session.machines import set_aside
from bisector.session.state import Status


def test_a_machine_that_fails_for_good_is_set_aside_and_the_others_go_on(tmp_path: Path) -> None:
    lab = FakeLab(linear_range(40), first_bad=27)
    machines = fleet(lab, TWO)
    machines[1].trouble = [MachineError("no answer from lab-02")] * 100
    state = controller(tmp_path, lab, *machines).run()
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
    state = controller(tmp_path, lab, *machines).run()
    assert answer_of(state) == (AnswerKind.COMMIT, (commit_id(127),))
    assert {boot.machine for boot in evidence_of(state, "page_test").boots} == {0, 1}


def test_without_a_machine_left_the_session_pauses_and_a_resume_tries_them_all_again(tmp_path: Path) -> None:
    lab = FakeLab(linear_range(40), first_bad=27)
    machines = fleet(lab, TWO)
    for machine in machines:
        machine.trouble = [MachineError(f"no answer from {machine.name}")] * 3
    state = controller(tmp_path, lab, *machines).run()
    assert state.status is Status.PAUSED
    assert "lab-01 failed 3 times" in state.pause_reason
    assert "lab-02 failed 3 times" in state.pause_reason
    assert answer_of(controller(tmp_path, lab, *fleet(lab, TWO)).run()) == (AnswerKind.COMMIT, (commit_id(27),))


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
    state = controller(tmp_path, lab, FakeMachine(lab, "lab-01"), gone).run()
    # Its first trouble is the run that it was lost in; a boot that was waited for would be another.
    assert state.troubles["lab-02"] == 1
    assert answer_of(state) == (AnswerKind.COMMIT, (commit_id(27),))
    assert gone.waiting.is_set()
    assert gone.stopped.is_set()
    assert gone.released == 1
    last = [look for look in state.looks if look.machine == "lab-02"][-1]
    assert (last.outcome, last.reason) == (Outcome.INFRA, "the answer is there without it")
    assert skips(state) == {}


def test_what_comes_of_a_step_that_nobody_waited_for_is_not_in_the_journal(tmp_path: Path) -> None:
    lab = FakeLab(linear_range(40), first_bad=27)
    gone = Gone(lab, "lab-02", after=4)
    controller(tmp_path, lab, FakeMachine(lab, "lab-01"), gone).run()
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
    state = controller(tmp_path, lab, *machines).run()
    assert state.status is (Status.PAUSED if stopped else Status.FINISHED)
    last = open_journal(tmp_path).entries[-1]
    assert isinstance(last.event, MachineLeft)
    line = EventLines().line(last.at, last.event)
    assert "lab-02 was not given back: lab-02 does not answer; bisector lab release lab-02 --force" in line
    assert list(state.not_given_back) == ["lab-02"]
    if stopped:
        again = controller(tmp_path, lab, *fleet(lab, TWO)).run()
        assert again.not_given_back == {}


class DeadDisk(FakeMachine):
    """No kernel ever comes up here, and every time it looks like the kernel's fault."""

    def boot(self, image: KernelImage, *, console: Path, on_progress: object) -> BootRecord:
        console.write_text("")
        raise KernelError("VFS: Unable to mount root fs", outcome=Outcome.BOOT_FAILED)


def test_a_machine_where_nothing_boots_blames_no_commit_while_others_boot(tmp_path: Path) -> None:
    lab = FakeLab(linear_range(40), first_bad=27)
    state = controller(tmp_path, lab, FakeMachine(lab, "lab-01"), DeadDisk(lab, "lab-02")).run()
    assert answer_of(state) == (AnswerKind.COMMIT, (commit_id(27),))
    assert skips(state) == {}
    assert "no other kernel has been measured there so far" in set_aside(state)["lab-02"]

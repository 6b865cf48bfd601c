"""An A/A test over a fake machine: what it does when things go wrong, and that nothing measured is lost."""

from pathlib import Path

import pytest
from fakes import (
    RECIPE,
    FakeBuilder,
    FakeLab,
    FakeMachine,
    Killed,
    Watcher,
    crash_before,
    linear_range,
    session_started,
)

from bisector.model.commit import CommitRange
from bisector.model.errors import MachineError
from bisector.model.events import MachineTrouble, RunFinished
from bisector.model.kernel import KernelImage
from bisector.model.machine import MachineFacts
from bisector.recipe.load import canonical_text
from bisector.session.controller import StopRequest
from bisector.session.journal import create_journal, open_journal
from bisector.session.ports import OnProgress
from bisector.session.qualification import Qualification, goes_on, whole_looks
from bisector.session.state import SessionState, Status, fold

COMMITS = CommitRange(commits=linear_range(2).commits[:1])


def quiet(of: str) -> None:
    del of


@pytest.fixture
def lab() -> FakeLab:
    return FakeLab(COMMITS, first_bad=None)


def image(lab: FakeLab, folder: Path) -> KernelImage:
    return FakeBuilder(lab).build(COMMITS.good.id, log=folder / "log", on_progress=lambda _: None)


def run(
    folder: Path, lab: FakeLab, machine: FakeMachine, *, boots: int = 4, runs: int = 3, stop: StopRequest | None = None
) -> SessionState:
    if not (folder / "journal.sqlite3").exists():
        journal = create_journal(folder)
        started = session_started(COMMITS, "aa")
        fields = {field: getattr(started, field) for field in started.__slots__}
        journal.append(type(started)(**{**fields, "recipe": canonical_text(RECIPE)}))
    else:
        journal = open_journal(folder, writer=True)
    test = Qualification(journal, folder, machine=machine, observer=Watcher(), stop=stop or StopRequest())
    try:
        return test.run(image(lab, folder), boots=boots, runs=runs)
    finally:
        journal.close()


def test_every_boot_is_a_boot_of_its_own_with_all_its_runs(tmp_path: Path, lab: FakeLab) -> None:
    machine = FakeMachine(lab)
    state = run(tmp_path, lab, machine, boots=5)
    assert state.status is Status.RUNNING
    assert [len(look.runs) for look in state.looks] == [3] * 5
    assert len({look.record.boot_id for look in state.looks if look.record is not None}) == 5
    assert (machine.recovered, machine.released) == (1, 1)
    assert all((tmp_path / "artefacts" / run.artefact).exists() for look in state.looks for run in look.runs)


def test_a_test_killed_at_any_moment_goes_on_and_counts_no_run_twice(tmp_path: Path, lab: FakeLab) -> None:
    for step in (1, 2, 4, 5, 11, 16):
        folder = tmp_path / str(step)
        folder.mkdir()
        lab.before = lambda what: None
        kernel = image(lab, folder)
        lab.before = crash_before(step)
        with pytest.raises(Killed):
            run_with(folder, lab, kernel)
        lab.before = lambda what: None
        state = run_with(folder, lab, kernel)
        entries = open_journal(folder).entries
        finished = [(e.event.boot, e.event.run) for e in entries if isinstance(e.event, RunFinished)]
        assert len(set(finished)) == len(finished)
        assert len(whole_looks(state)) == 4


def run_with(folder: Path, lab: FakeLab, kernel: KernelImage) -> SessionState:
    if not (folder / "journal.sqlite3").exists():
        journal = create_journal(folder)
        journal.append(session_started(COMMITS, "aa"))
    else:
        journal = open_journal(folder, writer=True)
    test = Qualification(journal, folder, machine=FakeMachine(lab), observer=Watcher(), stop=StopRequest())
    try:
        return test.run(kernel, boots=4, runs=3)
    finally:
        journal.close()


def test_a_machine_that_hiccups_is_tried_again_and_its_lost_boot_does_not_count(tmp_path: Path, lab: FakeLab) -> None:
    machine = FakeMachine(lab)
    machine.trouble = [MachineError("lab-01 was lost", resolution="look at it")] * 2
    state = run(tmp_path, lab, machine)
    assert state.status is Status.RUNNING
    assert len(whole_looks(state)) == 4
    assert len(state.looks) == 6


def test_a_machine_that_fails_again_and_again_pauses_the_test_and_says_what_to_do(tmp_path: Path, lab: FakeLab) -> None:
    machine = FakeMachine(lab)
    machine.trouble = [MachineError("lab-01 was lost", resolution="look at it")] * 3
    state = run(tmp_path, lab, machine)
    assert state.status is Status.PAUSED
    assert (
        state.pause_reason
        == "lab-01 failed 3 times in a row (limits.machine_errors is 3), the last time: lab-01 was lost"
    )
    assert state.pause_resolution == "look at it"
    assert machine.released == 1
    # Resumed, it has a fresh budget.
    state = run(tmp_path, lab, machine)
    assert (state.status, len(whole_looks(state))) == (Status.RUNNING, 4)


def test_a_kernel_that_does_not_come_up_twice_pauses_the_test(tmp_path: Path) -> None:
    lab = FakeLab(COMMITS, first_bad=None, crashing=frozenset({0}))
    state = run(tmp_path, lab, FakeMachine(lab))
    assert state.status is Status.PAUSED
    assert "2 looks in a row failed on lab-01 (the last: Kernel panic" in state.pause_reason
    assert "--kernel" in state.pause_resolution


class Changing(FakeMachine):
    """Its governor is another one at the third boot."""

    def boot(self, image: KernelImage, *, console: Path, on_progress: OnProgress):  # type: ignore[no-untyped-def]
        governor = "powersave" if len(self.lab.booted) >= 2 else "performance"
        self.facts = MachineFacts(pairs=(("governor", governor),))
        return super().boot(image, console=console, on_progress=on_progress)


def test_a_machine_that_is_not_as_it_was_is_trouble_and_measures_nothing(tmp_path: Path, lab: FakeLab) -> None:
    state = run(tmp_path, lab, Changing(lab))
    assert state.status is Status.PAUSED
    assert "governor: powersave, was performance" in state.pause_reason
    assert len(whole_looks(state)) == 2
    troubles = [e for e in open_journal(tmp_path).entries if isinstance(e.event, MachineTrouble)]
    assert len(troubles) == 3


def test_an_interrupted_test_ends_its_run_pauses_and_releases_the_machine(tmp_path: Path, lab: FakeLab) -> None:
    stop = StopRequest()

    def interrupt(what: str) -> None:
        if what == "run" and len(lab.runs) == 4:
            stop.reason = "interrupted"

    lab.before = interrupt
    machine = FakeMachine(lab)
    state = run(tmp_path, lab, machine, stop=stop)
    assert (state.status, state.pause_reason) == (Status.PAUSED, "interrupted")
    assert [len(look.runs) for look in state.looks] == [3, 2]
    assert machine.released == 1
    lab.before = quiet
    assert len(whole_looks(run(tmp_path, lab, machine))) == 4


def test_only_the_same_unfinished_and_recent_test_is_gone_on_with(tmp_path: Path, lab: FakeLab) -> None:
    state = run(tmp_path, lab, FakeMachine(lab))
    kernel, text = image(lab, tmp_path), canonical_text(RECIPE)
    assert goes_on(state, recipe_text=text, image=kernel, runs=3, boots=6)
    assert goes_on(state, recipe_text=text, image=None, runs=3, boots=6)
    assert not goes_on(state, recipe_text=text, image=kernel, runs=3, boots=4)
    assert not goes_on(state, recipe_text=text, image=kernel, runs=4, boots=6)
    assert not goes_on(state, recipe_text=text + "#", image=kernel, runs=3, boots=6)
    other = FakeBuilder(FakeLab(linear_range(3), first_bad=None)).build(
        linear_range(3).bad.id, log=tmp_path / "log", on_progress=lambda _: None
    )
    assert not goes_on(state, recipe_text=text, image=other, runs=3, boots=6)
    old = fold(open_journal(tmp_path).entries)
    old.last_at -= 25 * 3600
    assert not goes_on(old, recipe_text=text, image=kernel, runs=3, boots=6)

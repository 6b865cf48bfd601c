"""The fifteen failures of a lab that a hunt has to survive, each a test named after its number, and ten spares.

Here are those that take a whole hunt on a fake box; where the others stand (`pytest -k scenario_05` finds all of one):

 1 compile error at the midpoint         here; kernel/test_kernel_builder
 2 builder: disk full, compiler killed   session/test_controller, kernel/test_kernel_builder (the builder is this host)
 3 panic before the network              here; test_lab_physical
 4 hang, no console, no power            here; test_lab_physical
 5 answers, but runs the default         here; test_lab_physical; the rule itself in session/test_blame
 6 stale image, upload cut, /boot full   test_lab_physical; uploads cut in the middle in test_lab_proxy
 7 one-shot that does not clear itself   test_lab_physical
 8 no reboot, or one too fast to see     test_lab_physical; lost in the command: test_lab_proxy
 9 SSH lost in mid-benchmark             here; test_lab_physical; session/test_blame (crashes); half-open connections:
                                         test_lab_proxy, test_lab_network
10 controller killed anywhere            session/test_killed_controller; test_lab_physical; two controllers on one
                                         session, and a journal cut off: session/test_journal
11 Ctrl-C while the test kernel boots    here; test_lab_physical; session/test_killed_controller; what the terminal
                                         looks like afterwards: cli/test_display
12 a block that cannot be tested         here; session/test_blame, session/test_budgets, session/test_controller
13 a noisy commit                        here; session/test_controller, search/test_search_noise, _hostile_labs
14 ends not separable, or swapped        session/test_controller, search/test_search_gate; swapped revisions:
                                         cli/test_commands
15 configuration or compiler drift       kernel/test_kernel_builder; told in the report: report/test_drift

Spares: another user logged in, machine leased, host key changed, sudo lost: test_lab_physical_others; clock
jump, branch force-pushed: here; culprit a merge, and one with its parent's binary: search/test_search_demo, _engine;
good no ancestor of bad: cli/test_commands, history/test_repository; git at work in the user's checkout:
history/test_worktree.
"""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from gitrepo import GitRepo
from lab.boxhunt import BoxHunt
from lab.fakebox import DEFAULT_RELEASE, PANIC, USABLE, WHY_NOT, FakeBox, fake_kernel
from lab.machines import QUICK, wait_until

from bisector.history.repository import Repository
from bisector.history.worktree import WorkTree
from bisector.lab.physical import PhysicalMachine
from bisector.model.errors import MachineError
from bisector.model.events import BootStarted, BuildFailed, BuildStarted, Event, RunFinished, RunStarted
from bisector.model.outcome import Outcome
from bisector.session.evidence import measured_looks, skips
from bisector.session.state import SessionState, Status

pytestmark = [pytest.mark.skipif(not USABLE, reason=WHY_NOT), pytest.mark.timeout(900)]

SHORT = {"boot_timeout_s": 10.0, "shutdown_timeout_s": 5.0}
"""Long enough for a box on a busy computer, short enough where one is waited for in vain."""

DEADLINE_S = 300.0
"""For a whole hunt with its trouble, on a busy computer; one that waits for an ordinary limit takes longer."""


@contextmanager
def within(limit_s: float = DEADLINE_S) -> Iterator[None]:
    started = time.monotonic()
    yield
    assert time.monotonic() - started < limit_s


def left_as_it_was(box: FakeBox) -> bool:
    return box.release == DEFAULT_RELEASE and "next_entry" not in box.environment and not box.leased


@dataclass
class Eventful:
    """One hunt with a block around its middle: the middle does not compile, its neighbours panic."""

    hunt: BoxHunt
    box: FakeBox
    paused: SessionState
    state: SessionState
    events: list[Event]
    duration_s: float


MIDDLE, PANICS, DIES = 4, 5, 3


@pytest.fixture
def eventful(box: FakeBox, tmp_path: Path) -> Eventful:
    dead = {MIDDLE: "unbuildable", PANICS: "panic", DIES: "panic"}
    console = f"exec tail -n 0 -F {box.console}"
    changes = {**SHORT, "console": console}
    hunt = BoxHunt(tmp_path / "hunt", [box], count=9, dead=dead, first_bad=7, changes=changes)
    hunt.on_event = lambda event: stop_once_the_middle_failed(hunt, event)
    started = time.monotonic()
    paused = hunt.go()
    hunt.on_event = lambda event: None
    state = hunt.go()
    return Eventful(hunt, box, paused, state, hunt.events(), time.monotonic() - started)


def stop_once_the_middle_failed(hunt: BoxHunt, event: Event) -> None:
    """So that a second controller has to know it, too."""
    failed = [one for one in hunt.events() if isinstance(one, BuildFailed)]
    if isinstance(event, RunFinished) and failed:
        hunt.stop.reason = "interrupted"


def test_scenario_01_and_scenario_03_and_scenario_12_a_block_around_the_middle_that_cannot_be_tested(
    eventful: Eventful,
) -> None:
    # One hunt for three scenarios: it takes the longest of all here.
    assert eventful.paused.status is Status.PAUSED
    assert eventful.hunt.names_the_first_bad(eventful.state)
    assert set(skips(eventful.state)) <= {MIDDLE, PANICS, DIES}
    assert eventful.duration_s < DEADLINE_S
    a_compile_error_costs_the_machine_nothing_and_is_built_once(eventful)
    a_kernel_that_panics_is_tried_twice_with_its_console_kept_and_then_skipped(eventful)
    for commit in (PANICS, DIES):
        assert sum(look.commit == commit for look in eventful.state.looks) <= 2
    assert left_as_it_was(eventful.box)


def a_compile_error_costs_the_machine_nothing_and_is_built_once(eventful: Eventful) -> None:
    assert skips(eventful.state)[MIDDLE] == (Outcome.BUILD_FAILED, "mm/memory.c:1:1: error: expected ';'")
    commit = eventful.hunt.commits.commits[MIDDLE].id
    assert not [event for event in eventful.events if isinstance(event, BootStarted) and event.commit == commit]
    assert len([event for event in eventful.events if isinstance(event, BuildStarted) and event.commit == commit]) == 1
    [failed] = [event for event in eventful.events if isinstance(event, BuildFailed)]
    log = eventful.hunt.folder / "artefacts" / failed.artefact
    assert log.read_text() == f"building {commit}\n"


def a_kernel_that_panics_is_tried_twice_with_its_console_kept_and_then_skipped(eventful: Eventful) -> None:
    outcome, reason = skips(eventful.state)[PANICS]
    assert (outcome, PANIC in reason) == (Outcome.CRASHED, True)
    release = f"6.1.0-bisector-{eventful.hunt.commits.commits[PANICS].short}"
    boots = eventful.box.boots
    panicked = [place for place, line in enumerate(boots) if release in line]
    assert [boots[place] for place in panicked] == [f"reboot: {release} panic"] * 2
    assert [boots[place + 1] for place in panicked] == [f"panic: {DEFAULT_RELEASE}"] * 2
    for look in eventful.state.looks:
        if look.commit == PANICS:
            assert PANIC in (eventful.hunt.folder / "artefacts" / look.artefact).read_text()


def small_hunt(folder: Path, box: FakeBox, **fields: object) -> BoxHunt:
    changes = {**SHORT, **fields.pop("changes", {})}  # type: ignore[dict-item]
    return BoxHunt(folder / "hunt", [box], count=3, first_bad=2, changes=changes, **fields)  # type: ignore[arg-type]


def at_the_fifth_boot(do: Callable[[], None]) -> Callable[[Event], None]:
    """After the gate, and once only."""
    seen: list[Event] = []

    def on_event(event: Event) -> None:
        if isinstance(event, BootStarted):
            seen.append(event)
            if len(seen) == 5:
                do()

    return on_event


def test_scenario_04_a_machine_that_nobody_can_bring_back_pauses_the_session_with_what_to_do(
    box: FakeBox, tmp_path: Path
) -> None:
    hunt = small_hunt(tmp_path, box, changes={"power": None, "boot_timeout_s": 6.0})
    hunt.on_event = at_the_fifth_boot(lambda: setattr(box, "dead_until_cut", True))
    with within():
        state = hunt.go()
    assert state.status is Status.PAUSED
    assert "does not answer" in state.pause_reason or "unreachable" in state.pause_reason
    assert "Bring it" in state.pause_resolution
    assert (skips(state), box.leased) == ({}, True)
    assert {look.outcome for look in state.looks[4:]} == {Outcome.INFRA}
    # Somebody pushed the button.
    box.dead_until_cut = False
    box.order("cut")
    wait_until(box.answers)
    asked = len(box.asked)
    with within():
        state = hunt.go()
    assert hunt.names_the_first_bad(state)
    assert box.asked[asked:].count("cut") == 0
    assert left_as_it_was(box)


def test_scenario_05_a_machine_that_begins_to_ignore_entries_pauses_and_blames_no_commit(
    box: FakeBox, tmp_path: Path
) -> None:
    hunt = small_hunt(tmp_path, box)
    hunt.on_event = at_the_fifth_boot(lambda: setattr(box, "ignores_entry", True))
    with within():
        state = hunt.go()
    assert state.status is Status.PAUSED
    assert "looks in a row failed on box1" in state.pause_reason
    assert skips(state) == {}
    # Two of a commit, at most one of another, and the control.
    assert len(state.looks) <= 4 + 5
    assert all(look.outcome is not Outcome.MEASURED for look in state.looks[4:])
    box.ignores_entry = False
    with within():
        assert hunt.names_the_first_bad(hunt.go())
    assert left_as_it_was(box)


def test_scenario_11_a_stop_while_the_test_kernel_boots_leaves_the_machine_as_it_was_and_loses_nothing(
    box: FakeBox, tmp_path: Path
) -> None:
    hunt = small_hunt(tmp_path, box)
    stopped: list[str] = []

    def stop(text: str) -> None:
        if "waiting for box1 to boot" in text and len(box.boots) > 3 and not stopped:
            stopped.append(text)
            hunt.stop.reason = "interrupted from the terminal (SIGINT)"

    hunt.on_progress = stop
    with within():
        state = hunt.go()
    assert stopped
    assert state.status is Status.PAUSED
    assert left_as_it_was(box)
    assert skips(state) == {}
    before = [look.commit for look in measured_looks(state)]
    with within():
        state = hunt.go()
    assert hunt.names_the_first_bad(state)
    assert [look.commit for look in measured_looks(state)][: len(before)] == before


def test_scenario_09_a_job_that_vanished_is_thrown_away_and_says_nothing_of_the_commit(
    box: FakeBox, tmp_path: Path
) -> None:
    hunt = small_hunt(tmp_path, box, takes_s=0.5)
    killed: list[int] = []

    def kill_the_job() -> None:
        jobs = box.root / "tmp/bisector-jobs"
        wait_until(lambda: list(jobs.glob("*/keeper")))
        time.sleep(0.1)
        [keeper] = jobs.glob("*/keeper")
        box.run_inside(f"kill -9 -- -{keeper.read_text().strip()}; rm -rf /tmp/bisector-jobs/*")

    def in_the_second_run(event: Event) -> None:
        if isinstance(event, RunStarted) and event.run == 2 and not killed:
            killed.append(event.boot)
            threading.Thread(target=kill_the_job).start()

    hunt.on_event = in_the_second_run
    with within():
        state = hunt.go()
    assert hunt.names_the_first_bad(state)
    struck = state.looks[killed[0] - 1]
    # The whole run before it counts; nothing is said of the commit.
    assert (struck.outcome, len(struck.runs)) == (Outcome.MEASURED, 1)
    assert "vanished without a result" in struck.reason
    assert skips(state) == {}


def test_scenario_13_a_wild_sample_flips_no_verdict_and_is_kept(box: FakeBox, tmp_path: Path) -> None:
    hunt = small_hunt(tmp_path, box)
    # Every twelfth run or so is told at half its figure.
    text = hunt.suite.read_text()
    wild = '[ $(($(crc "$tag") % 12)) = 0 ] && level=$((level / 2))\n'
    hunt.suite.write_text(text.replace("sleep 0.0", wild, 1))
    with within():
        state = hunt.go()
    assert hunt.holds_the_first_bad(state)
    runs = [run for look in state.looks for run in look.runs]
    kept = [hunt.folder / "artefacts" / run.artefact for run in runs]
    assert all(path.stat().st_size for path in kept)


def test_spare_a_clock_that_jumps_neither_ends_a_wait_nor_loses_the_lease(
    box: FakeBox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The machine wakes up in 1970 and finds the time while it is used; ours jumps an hour with each thing it waits for.
    machine_time = box.root / "time"
    machine_time.write_text("1000\n")
    date = box.root / "bin/date"
    date.write_text('#!/bin/sh\n[ "$1" = +%s ] && exec cat /mnt/time\nexec /usr/bin/date "$@"\n')
    date.chmod(0o755)
    jumps: list[object] = []
    real = time.time
    monkeypatch.setattr(time, "time", lambda: real() + 3600 * len(jumps))
    machine = PhysicalMachine(box.config(), tmp_path / "hunt", session="hunt", limits=QUICK)
    image = fake_kernel(tmp_path, 1)
    with within(60):
        record = machine.boot(image, console=tmp_path / "console", on_progress=jumps.append)
    assert len(jumps) > 2
    assert record.release == image.release
    assert 0 <= record.duration_s < 60
    machine_time.write_text(f"{int(real())}\n")
    assert machine.jobs.run(("echo", "done"), timeout_s=30).stdout == b"done\n"
    stranger = PhysicalMachine(box.config(), tmp_path / "other", session="other", limits=QUICK)
    with pytest.raises(MachineError, match="is held by"):
        stranger.recover()
    stranger.shell.close()
    machine.release()
    assert left_as_it_was(box)


def test_spare_a_branch_that_was_force_pushed_between_two_lives_changes_nothing(tmp_path: Path) -> None:
    repo = GitRepo(tmp_path / "linux")
    old = repo.line(5)
    commits = Repository.open(repo.path).read_range("main~4", "main")
    repo.git("update-ref", "refs/heads/main", repo.commit("anew", {"f": "other"}, ref="anew"))
    # A session keeps full ids: its kernels are still built from what it began with.
    assert [commit.id for commit in commits.commits] == old
    with WorkTree(Repository.open(repo.path), tmp_path / "tree") as tree:
        assert (tree.move_to(commits.commits[3].id) / "f").read_text() == "3\n"

"""`kill -9` and Ctrl-C of a real controller process, and what its journal says afterwards."""

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest
from fakes import commit_id
from kill_target import FIRST_BAD

from bisector.model.events import BootStarted, KernelBuilt, RunFinished, RunStarted
from bisector.session.home import Home
from bisector.session.state import Status, fold

TESTS = Path(__file__).parent.parent


def life(home: Path, done: Path, killed_after_s: float | None) -> int:
    environment = {**os.environ, "PYTHONPATH": str(TESTS)}
    command = [sys.executable, str(TESTS / "kill_target.py"), str(home), str(done)]
    with subprocess.Popen(command, env=environment) as controller:
        if killed_after_s is None:
            return controller.wait(timeout=100)
        # Count from its first deed, so that a slow start does not make every kill an early one.
        begun = time.monotonic()
        size = done.stat().st_size if done.exists() else 0
        while controller.poll() is None and time.monotonic() - begun < 30:
            if done.exists() and done.stat().st_size > size:
                break
            time.sleep(0.002)
        time.sleep(killed_after_s)
        controller.send_signal(signal.SIGKILL)
        return controller.wait()


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_scenario_10_ten_kills_give_the_same_answer_and_repeat_no_finished_work(tmp_path: Path, seed: int) -> None:
    moments = random.Random(seed)
    done = tmp_path / "done"
    kills = 0
    for _ in range(10):
        if life(tmp_path, done, moments.uniform(0.0, 0.25)) == -signal.SIGKILL:
            kills += 1
    assert life(tmp_path, done, None) == 0
    entries = Home(tmp_path).read("fake-hunt").entries
    state = fold(entries)
    assert state.status is Status.FINISHED
    assert state.answer is not None
    assert state.answer.commits == (commit_id(FIRST_BAD),)
    events = [entry.event for entry in entries]
    built = Counter(event.commit for event in events if isinstance(event, KernelBuilt))
    assert max(built.values()) == 1, "a finished build stands twice in the journal"
    runs = Counter((event.boot, event.run) for event in events if isinstance(event, RunFinished))
    assert max(runs.values()) == 1, "a run was counted twice"
    boots = Counter(event.boot for event in events if isinstance(event, BootStarted))
    assert max(boots.values()) == 1
    begun = sum(isinstance(event, RunStarted) for event in events)
    made = done.read_text().splitlines().count("run")
    assert len(runs) <= made <= begun <= len(runs) + kills, "more was repeated than what each kill cut off"


def interrupted(home: Path, done: Path, *, times: int) -> tuple[int, str]:
    """Start the controller, send SIGINT once it works, and again at once if asked; its exit code and last words."""
    environment = {**os.environ, "PYTHONPATH": str(TESTS)}
    command = [sys.executable, str(TESTS / "kill_target.py"), str(home), str(done)]
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) as controller:
        assert controller.stderr is not None
        deadline = time.monotonic() + 30
        while not (done.exists() and done.stat().st_size > 20) and time.monotonic() < deadline:
            time.sleep(0.002)
        controller.send_signal(signal.SIGINT)
        said = controller.stderr.readline() + controller.stderr.readline()
        if times > 1:
            controller.send_signal(signal.SIGINT)
        said += controller.stderr.read()
        return controller.wait(timeout=30), said


def test_scenario_11_the_first_interrupt_pauses_with_exit_130_and_the_hunt_goes_on_to_its_answer(
    tmp_path: Path,
) -> None:
    code, said = interrupted(tmp_path, tmp_path / "done", times=1)
    assert code == 130
    assert "Ctrl-C again leaves at once" in said
    state = fold(Home(tmp_path).read("fake-hunt").entries)
    assert state.status is Status.PAUSED
    assert "SIGINT" in state.pause_reason
    assert "bisector resume fake-hunt" in state.pause_resolution
    assert all(look.ended_at is not None for look in state.looks)
    assert life(tmp_path, tmp_path / "done", None) == 0


def test_scenario_11_the_second_interrupt_leaves_at_once_and_loses_nothing(tmp_path: Path) -> None:
    code, said = interrupted(tmp_path, tmp_path / "done", times=2)
    assert code == 130
    assert "bisector resume fake-hunt" in said or fold(Home(tmp_path).read("fake-hunt").entries).status is Status.PAUSED
    assert life(tmp_path, tmp_path / "done", None) == 0

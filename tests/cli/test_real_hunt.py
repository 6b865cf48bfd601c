"""Hunts in a real kernel, by the real command, on the embedded machine; its kernels come from the demonstration."""

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import real

from bisector.model.events import KernelBuilt, RunFinished, RunStarted
from bisector.session.evidence import skips
from bisector.session.home import Home
from bisector.session.state import SessionState, Status, fold

pytestmark = [pytest.mark.kernel, pytest.mark.timeout(3000)]

KILLS = int(os.environ.get("BISECTOR_TEST_KILLS", "3"))
RECIPE = Path(__file__).parents[2] / "recipes" / "demo" / "demo.yaml"


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """A home of its own that shares the demonstration's kernels, so that a hunt costs boots and no builds."""
    return Home(real.home_with_kernels(tmp_path / "home"))


def command(home: Home, *arguments: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-m", "bisector.cli", *arguments],
        env={**os.environ, "BISECTOR_HOME": str(home.folder)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def said(home: Home, *arguments: str) -> str:
    with command(home, *arguments) as process:
        out, _ = process.communicate(timeout=100)
    return out


def guests(home: Home) -> list[str]:
    """QEMUs that belong to this home."""
    listed = subprocess.run(["ps", "-eo", "pid,args"], capture_output=True, text=True, check=True).stdout
    return [line for line in listed.splitlines() if "qemu-system" in line and str(home.folder) in line]


def state_of(home: Home) -> SessionState:
    return fold(home.read("hunt").entries)


def check_answer(state: SessionState) -> None:
    planted = real.planted()
    assert state.status is Status.FINISHED
    assert state.answer is not None
    assert state.answer.commits == (planted["first_bad"],)
    assert state.answer.probability >= 0.99
    assert len({look.commit for look in state.looks}) <= 14


def test_a_hunt_killed_again_and_again_names_the_planted_commit_and_repeats_nothing(home: Home, tmp_path: Path) -> None:
    moments = random.Random(11)
    # Only the deciding test, and short: this hunt is about being killed.
    short = ["--set", "benchmark.also=[]", "--set", "benchmark.sample_ms=300"]
    start = ["start", str(RECIPE), "--repo", str(real.demo_history()), "--name", "hunt", "--plain", *short]
    kills = 0
    for life in range(KILLS):
        with command(home, *(start if life == 0 else ["resume", "hunt", "--plain"])) as controller:
            try:
                controller.wait(timeout=moments.uniform(10, 45))
            except subprocess.TimeoutExpired:
                controller.send_signal(signal.SIGKILL)
                kills += 1
            controller.wait(timeout=10)
        deadline = time.monotonic() + 10
        while guests(home) and time.monotonic() < deadline:
            time.sleep(0.1)
        assert not guests(home), "a guest outlived its controller"
    with command(home, "resume", "hunt", "--plain") as controller:
        out, _ = controller.communicate(timeout=2400)
    assert controller.returncode == 0, out
    state = state_of(home)
    check_answer(state)
    events = [entry.event for entry in home.read("hunt").entries]
    builds = Counter(event.commit for event in events if isinstance(event, KernelBuilt))
    assert max(builds.values()) == 1, "a finished build was done again"
    runs = Counter((event.boot, event.run) for event in events if isinstance(event, RunFinished))
    assert max(runs.values()) == 1, "a run was counted twice"
    begun = sum(isinstance(event, RunStarted) for event in events)
    assert begun <= len(runs) + kills, "more runs were begun again than kills cut off"
    check_replay(home, state, tmp_path)
    check_skips(state)


def check_skips(state: SessionState) -> None:
    """Only commits that were planted so may be skipped."""
    planted = real.planted()
    skipped = {state.range.commits[index].id for index in skips(state)}
    assert skipped <= {*planted["unbuildable"], *planted["panicking"]}


def check_replay(home: Home, state: SessionState, tmp_path: Path) -> None:
    """`git bisect replay` of our log, in a clone, comes to the same commit."""
    log = tmp_path / "bisect.log"
    log.write_text(said(home, "log", "hunt", "--git"))
    clone = tmp_path / "clone"
    quiet: dict[str, Any] = {"check": True, "capture_output": True, "text": True}
    subprocess.run(["git", "clone", "-q", "--shared", "--no-checkout", str(real.demo_history()), str(clone)], **quiet)
    # A bisection without a work tree: replay must not check kernels out.
    subprocess.run(["git", "-C", str(clone), "bisect", "start", "--no-checkout"], **quiet)
    replayed = subprocess.run(["git", "-C", str(clone), "bisect", "replay", str(log)], **quiet)
    assert state.answer is not None
    assert f"{state.answer.commits[0]} is the first bad commit" in replayed.stdout

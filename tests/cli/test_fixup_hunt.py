"""A real hunt whose slowdown lies in a stretch that does not compile: a set without a fix-up, one commit with it."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import real
from gitrepo import GitRepo

pytestmark = [pytest.mark.kernel, pytest.mark.timeout(1800)]

RECIPE = Path(__file__).parents[2] / "recipes" / "demo" / "demo.yaml"
SHORT = ("--set", "benchmark.also=[]", "--set", "benchmark.sample_ms=500")


class Stretch:
    """The demonstration's own breakage, slowdown and repair, in another order: broken, slow, in between, repaired."""

    def __init__(self, folder: Path) -> None:
        told, demo = real.planted(), real.demo_history()
        subprocess.run(["git", "clone", "--quiet", "--shared", "--no-checkout", str(demo), str(folder)], check=True)
        self.repo = repo = GitRepo(folder)
        self.first_bad = str(told["first_bad"])
        self.good = repo.git("rev-parse", f"{self.first_bad}^")
        whole = self._text(self.good, "fs/stat.c")
        broken = next(text for commit in told["unbuildable"] if (text := self._text(commit, "fs/stat.c")) != whole)
        slow = self._text(self.first_bad, "mm/memory.c")
        self.broken = repo.commit("fs/stat: broken", {"fs/stat.c": broken}, parents=[self.good], ref="stretch")
        self.slow = repo.commit("mm/memory: slow", {"mm/memory.c": slow}, parents=[self.broken], ref="stretch")
        between = repo.commit("a note", {"NOTE": "words\n"}, parents=[self.slow], ref="stretch")
        self.repaired = repo.commit("fs/stat: repaired", {"fs/stat.c": whole}, parents=[between], ref="stretch")
        self.bad = repo.commit("another note", {"NOTE": "more\n"}, parents=[self.repaired], ref="stretch")

    def _text(self, commit: str, path: str) -> bytes:
        shown = subprocess.run(
            ["git", "-C", str(self.repo.path), "show", f"{commit}:{path}"], capture_output=True, check=True
        )
        return shown.stdout


def bisector(home: Path, *words: str) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, "-m", "bisector.cli", *words],
        env={**os.environ, "BISECTOR_HOME": str(home)},
        capture_output=True,
        text=True,
        check=False,
    )
    print(done.stdout, done.stderr)
    return done.returncode, done.stdout


def report(home: Path, session: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(bisector(home, "report", session, "--format", "json")[1])
    return document


def test_a_fixup_lets_a_stretch_that_does_not_compile_be_measured(tmp_path: Path) -> None:
    stretch, home = Stretch(tmp_path / "linux"), real.home_with_kernels(tmp_path / "home")
    ends = ["--repo", str(stretch.repo.path), "--good", stretch.good, "--bad", stretch.bad, "--plain", *SHORT]
    status, _ = bisector(home, "start", str(RECIPE), "--name", "without", *ends)
    assert status == 1
    left = {suspect["commit"] for suspect in report(home, "without")["answer"]["suspects"]}
    assert {stretch.slow, stretch.broken} <= left
    assert stretch.bad not in left

    repair = {"name": "repair", "cherry_pick": "stretch~1", "contains": stretch.broken}
    fixups = ["--set", f"kernel.fixups={json.dumps([repair])}"]
    assert (
        f"fix-up repair: picks {stretch.repaired[:12]}"
        in bisector(home, "start", str(RECIPE), "--name", "with", *ends, *fixups, "--dry-run")[1]
    )
    status, _ = bisector(home, "start", str(RECIPE), "--name", "with", *ends, *fixups)
    found = report(home, "with")
    assert (status, found["answer"]["commits"]) == (0, [stretch.slow])
    assert found["answer"]["probability"] >= 0.99
    fixed = {look["commit"]: look["fixups"] for look in found["looks"] if look["boots"]}
    assert fixed[stretch.slow] == fixed[stretch.broken] == ["repair"]
    assert fixed[stretch.good] == []
    # Its parent has the same fix-up, so what differs between the two is the commit's.
    assert [drift["role"] for drift in found["fixup_drift"]] == []

"""An A/A test on the embedded machine, with a kernel that the demonstration built, by the real command."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import real

pytestmark = [pytest.mark.kernel, pytest.mark.timeout(600)]


def qualified(home: Path, *arguments: str) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-m", "bisector.cli", "lab", "qualify", "embedded", *arguments, "--json"],
        env={**os.environ, "BISECTOR_HOME": str(home)},
        capture_output=True,
        text=True,
        timeout=500,
    )
    assert done.returncode == 0, done.stderr
    told: dict[str, Any] = json.loads(done.stdout)
    return told


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return real.home_with_kernels(tmp_path)


def test_the_embedded_machine_is_quiet_by_its_instruction_clock_and_loud_on_the_wall(home: Path) -> None:
    _, facts = real.built_kernels()[0]
    short = ("--boots", "4", "--runs", "3", "--kernel", facts["commit"], "--set", "benchmark.sample_ms=200")
    quiet = qualified(home, "--clock", "instructions", *short)
    loud = qualified(home, "--clock", "wall", *short)
    assert {told["kernel"]["build_id"] for told in (quiet, loud)} == {facts["build_id"]}
    assert len({boot["boot_id"] for told in (quiet, loud) for boot in told["boots"]}) == 8
    # Figures of the machine that is tried, not of any: the instruction clock repeats runs to a tenth of a percent.
    assert quiet["figures"]["run_sd_percent"] < 0.5
    assert quiet["figures"]["run_sd_percent"] < loud["figures"]["run_sd_percent"]
    assert quiet["figures"]["false_alarms"] == 0
    assert quiet["figures"]["boots_needed"] < loud["figures"]["boots_needed"]
    assert (home / "qualifications").is_dir()

"""A script of one's own on the embedded machine, under a kernel that the demonstration built, by the real command."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import real

pytestmark = [pytest.mark.kernel, pytest.mark.timeout(600)]

SCRIPT = """#!/bin/sh
i=0
while [ $i -lt 300 ]; do i=$((i+1)); /bin/true; done
"""


def test_a_shell_script_is_timed_by_busybox_in_the_guest(tmp_path: Path) -> None:
    home, script = real.home_with_kernels(tmp_path / "home"), tmp_path / "forks.sh"
    script.write_text(SCRIPT)
    script.chmod(0o755)
    _, facts = real.built_kernels()[0]
    elapsed = {"name": "forks", "reads": "elapsed", "better": "lower", "unit": "s"}
    command = {"shell": "time forks.sh", "files": [str(script)], "output": "stderr", "parser": "time"}
    benchmark = {"test": "forks", "cpu": 0, "command": {**command, "metrics": [elapsed]}}
    short = ("--clock", "instructions", "--boots", "4", "--runs", "2", "--kernel", facts["commit"], "--json")
    setting = f"benchmark={json.dumps(benchmark)}"
    done = subprocess.run(
        [sys.executable, "-m", "bisector.cli", "lab", "qualify", "embedded", *short, "--set", setting],
        env={**os.environ, "BISECTOR_HOME": str(home)},
        capture_output=True,
        text=True,
        timeout=500,
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert (told["test"], told["unit"], told["kernel"]["commit"]) == ("forks", "s", facts["commit"])
    values = [value for boot in told["boots"] for value in boot["values"]]
    assert len(values) == 8
    assert min(values) > 0.1
    # The guest's clock counts instructions, so its shell tells nearly the same time in each boot.
    assert max(values) < 1.05 * min(values)
    [session] = (home / "qualifications" / "sessions").iterdir()
    log = (session / "artefacts" / "boot-0001-run-01.jsonl").read_text()
    assert f"# real\t0m {values[0]:.2f}s" in log

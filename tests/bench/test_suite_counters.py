"""What the kernel counts during a sample: of children too, and missing, never zero, where nothing was counted."""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bisector.bench.compile import SOURCES, build_suite
from bisector.model.sample import COUNTERS
from tests.bench.conftest import Ended, RunSuite

ALL = ",".join(COUNTERS)
SOFTWARE = "page-faults,context-switches,cpu-migrations"

Lines = Callable[[Ended], list[dict[str, Any]]]


def _sample(ended: Ended) -> dict[str, Any]:
    assert ended.returncode == 0, ended.stderr
    found: dict[str, Any] = json.loads(ended.stdout.splitlines()[1])
    return found


@pytest.mark.parametrize(("name", "ops"), [("page_test", 17000), ("fault_cow", 10240), ("fork_test", 100)])
def test_the_faults_counted_are_those_of_the_process_and_its_children(name: str, ops: int, run_suite: RunSuite) -> None:
    sample = _sample(run_suite("run", name, "--ops", str(ops), "--counters", "page-faults"))
    counted = sample["counters"]["page-faults"]
    # Two ways to the same number: by the task and by its counter. A few faults lie between the two readings.
    assert counted["value"] == pytest.approx(sample["minflt"], abs=4)
    assert counted["running_ns"] == counted["enabled_ns"] > 0
    assert sample["missing_counters"] == {}


def test_a_parent_that_waits_on_the_only_cpu_is_switched_for_every_child(run_suite: RunSuite) -> None:
    cpu = str(max(os.sched_getaffinity(0)))
    sample = _sample(run_suite("run", "fork_test", "--ops", "100", "--cpu", cpu, "--counters", SOFTWARE))
    assert sample["counters"]["context-switches"]["value"] >= 100
    # Nothing moves a process that is pinned: this zero was counted.
    assert sample["counters"]["cpu-migrations"]["value"] == 0


def test_every_counter_is_counted_or_missing_with_the_reason(run_suite: RunSuite) -> None:
    sample = _sample(run_suite("run", "page_test", "--ops", "17000", "--counters", ALL))
    counted, missing = sample["counters"], sample["missing_counters"]
    assert sorted([*counted, *missing]) == sorted(COUNTERS)
    assert all(missing.values())
    for name in ("instructions:u", "instructions:k", "cycles:u", "cycles:k"):
        # Of a machine that has them: 17 000 operations are no fewer instructions.
        assert name in missing or counted[name]["value"] > 17000


def test_the_suite_and_the_recipe_know_the_same_counters(run_suite: RunSuite, lines: Lines) -> None:
    assert tuple(lines(run_suite("--list", "--json"))[0]["counters"]) == COUNTERS


def _calls(suite: Path, trace: Path, *arguments: str, inject: str = "") -> tuple[Ended, list[str]]:
    command = ["strace", "-f", "-o", str(trace), "-e", "trace=perf_event_open,ioctl"]
    if inject:
        command += ["-e", f"inject=perf_event_open:{inject}"]
    ended = subprocess.run(
        [*command, str(suite), "run", "fork_test", "--ops", "20", *arguments], capture_output=True, timeout=60
    )
    return ended, re.findall(r"^\d+ +(\w+)\(", trace.read_text(), flags=re.MULTILINE)


def test_a_sample_without_counters_opens_and_switches_none(suite: Path, tmp_path: Path) -> None:
    ended, calls = _calls(suite, tmp_path / "trace")
    assert calls == []
    assert not {"counters", "missing_counters"} & _sample(ended).keys()


def test_counters_are_opened_once_and_switched_once_on_and_off_as_a_group(suite: Path, tmp_path: Path) -> None:
    ended, calls = _calls(suite, tmp_path / "trace", "--counters", SOFTWARE)
    assert calls == ["perf_event_open"] * 3 + ["ioctl"] * 2
    assert len(_sample(ended)["counters"]) == 3


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        ("ENOENT", "not supported"),
        ("EOPNOTSUPP", "not supported"),
        ("EACCES", "not permitted: perf_event_paranoid or a filter of system calls forbids it"),
        ("EPERM", "not permitted: perf_event_paranoid or a filter of system calls forbids it"),
        ("ENOSYS", "the kernel has no perf_event_open"),
        ("EMFILE", "Too many open files"),
    ],
)
def test_a_counter_that_cannot_be_opened_is_missing_and_the_sample_counts(
    error: str, reason: str, suite: Path, tmp_path: Path
) -> None:
    ended, _ = _calls(suite, tmp_path / "trace", "--counters", SOFTWARE, inject=f"error={error}")
    sample = _sample(ended)
    assert sample["counters"] == {}
    assert sample["missing_counters"] == dict.fromkeys(SOFTWARE.split(","), reason)
    assert sample["checks"]["ok"] is True


def test_a_group_without_its_first_counter_still_counts(suite: Path, tmp_path: Path) -> None:
    ended, _ = _calls(suite, tmp_path / "trace", "--counters", SOFTWARE, inject="error=ENOENT:when=1")
    sample = _sample(ended)
    assert set(sample["missing_counters"]) == {"page-faults"}
    assert sample["counters"]["context-switches"]["running_ns"] > 0


def test_a_counter_that_ran_for_a_part_of_the_time_or_never_is_missing(tmp_path: Path, run_suite: RunSuite) -> None:
    sources = tmp_path / "sources"
    shutil.copytree(SOURCES, sources)
    text = (sources / "counters.c").read_text()
    running = "count->running_ns = read_values[2];"
    assert running in text
    # As a processor with one counter for two would do it: page-faults never ran, context-switches half the time.
    half = "count->running_ns = descriptor == descriptors[4] ? 0 : descriptor == descriptors[5] ? read_values[2] / 2 :"
    (sources / "counters.c").write_text(text.replace(running, f"{half} read_values[2];"))
    program = build_suite(tmp_path / "built", sources=sources)
    sample = _sample(run_suite("run", "fork_test", "--ops", "20", "--counters", SOFTWARE, program=program))
    assert set(sample["counters"]) == {"cpu-migrations"}
    assert "never ran" in sample["missing_counters"]["page-faults"]
    assert "a part of the time only" in sample["missing_counters"]["context-switches"]


@pytest.mark.parametrize("asked", ["", "page-fault", "page-faults,", "page-faults,page-faults", "cycles"])
def test_counters_that_there_are_not_are_refused(asked: str, run_suite: RunSuite) -> None:
    ended = run_suite("run", "page_test", "--ops", "1700", "--counters", asked)
    assert (ended.returncode, ended.stdout) == (2, b"")
    assert b"bisector-suite: " in ended.stderr

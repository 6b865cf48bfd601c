"""Tests with phases: each is a metric of its own beside their sum, wherever metrics are."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from bisector.bench.local import LocalMachine
from bisector.bench.parse import SuiteOutputError, parse_samples
from bisector.bench.runner import SuiteRunner
from bisector.bench.tests import Test, known_tests, wanted_tests
from bisector.model.errors import UsageError
from bisector.recipe.schema import BenchmarkPart


@pytest.fixture(scope="module")
def lines(suite: Path) -> list[dict[str, Any]]:
    """A real run of one series."""
    with LocalMachine() as machine:
        machine.put(suite, "/tmp/bisector-suite", mode=0o755)
        argv = ["/tmp/bisector-suite", "run", "patch_series", "--ops", "99", "--param", "seed=3"]
        job = machine.jobs.run(argv, timeout_s=60, on_poll=lambda: None)
    assert job.exit_code == 0, job.stderr
    return [json.loads(line) for line in job.stdout.splitlines()]


def _output(lines: list[dict[str, Any]]) -> bytes:
    return "".join(f"{json.dumps(line)}\n" for line in lines).encode()


def _with_phases(lines: list[dict[str, Any]], **phases: int) -> bytes:
    env, sample, end = lines
    return _output([env, sample | {"phases": phases}, end])


def test_each_phase_is_a_sample_of_its_own_beside_the_sum(suite: Path, lines: list[dict[str, Any]]) -> None:
    both, push, pop = parse_samples(_output(lines), known_tests(suite))[1]
    assert [one.test for one in (both, push, pop)] == ["patch_series", "patch_series.push", "patch_series.pop"]
    assert {one.ops for one in (both, push, pop)} == {99}
    assert (push.wall_ns, pop.wall_ns) == tuple(lines[1]["phases"].values())
    assert both.wall_ns == push.wall_ns + pop.wall_ns
    assert 99 / both.value == pytest.approx(99 / push.value + 99 / pop.value)
    assert (both.user_ns is None, push.user_ns, pop.minor_faults) == (False, None, None)
    assert push.higher_is_better


def test_phases_that_are_missing_or_do_not_add_up_do_not_count(suite: Path, lines: list[dict[str, Any]]) -> None:
    tests = known_tests(suite)
    wall_ns = lines[1]["wall_ns"]
    assert parse_samples(_with_phases(lines, push=1, pop=wall_ns - 1), tests)
    for phases in ({}, {"push": wall_ns}, {"pop": 1, "push": wall_ns - 1}, {"push": 1, "pop": 1, "peek": wall_ns - 2}):
        with pytest.raises(SuiteOutputError, match="has the phases"):
            parse_samples(_with_phases(lines, **phases), tests)
    with pytest.raises(SuiteOutputError, match="do not add up"):
        parse_samples(_with_phases(lines, push=1, pop=wall_ns), tests)
    for none in (0, -1):
        with pytest.raises(SuiteOutputError, match=r"phases\.push"):
            parse_samples(_with_phases(lines, push=none, pop=wall_ns - none), tests)


def test_a_test_without_phases_that_tells_some_does_not_count(suite: Path, lines: list[dict[str, Any]]) -> None:
    tests = [dataclasses.replace(test, phases=()) for test in known_tests(suite)]
    with pytest.raises(SuiteOutputError, match="has the phases"):
        parse_samples(_output(lines), tests)


def _names(tests: tuple[Test, ...]) -> list[str]:
    return [test.name for test in tests]


def test_a_recipe_may_name_a_phase_and_its_test_is_run_once(suite: Path) -> None:
    known = known_tests(suite)
    part = BenchmarkPart(
        test="patch_series.pop",
        also=("getppid", "patch_series", "patch_series.push"),
        params={"patch_series": {"seed": 3}},
    )
    assert _names(wanted_tests(part, known)) == ["patch_series", "getppid"]
    with pytest.raises(UsageError, match=r"there is no test patch_series\.pul") as refused:
        wanted_tests(BenchmarkPart(test="patch_series.pul"), known)
    assert "patch_series.pu" in refused.value.resolution
    with pytest.raises(UsageError, match=r"there is no test getppid\.push"):
        wanted_tests(BenchmarkPart(test="getppid.push"), known)


def test_a_run_that_a_phase_decides_holds_every_metric(suite: Path, tmp_path: Path) -> None:
    runner = SuiteRunner(BenchmarkPart(test="patch_series.push", also=("getppid",), cpu=None), suite)
    with LocalMachine() as machine:
        runner.install(machine)
        record = runner.run(machine, (("patch_series", 99), ("getppid", 1000)), tmp_path / "log")
    names = [sample.test for sample in record.samples]
    assert names == ["patch_series", "patch_series.push", "patch_series.pop", "getppid"]
    assert record.value_of("patch_series.push") > record.value_of("patch_series") > 0
    assert runner.higher_is_better

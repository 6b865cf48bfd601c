"""Parameters of the suite's tests: declared by the program, named in a recipe, told in every sample."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bisector.bench.parse import SuiteOutputError, parse_samples
from bisector.bench.tests import full_params, known_tests, wanted_tests
from bisector.model.errors import UsageError
from bisector.recipe.schema import BenchmarkPart
from tests.bench.conftest import Ended, RunSuite

Lines = Callable[[Ended], list[dict[str, Any]]]


def test_the_wide_variant_of_page_test_takes_the_same_faults(run_suite: RunSuite, lines: Lines) -> None:
    ended = run_suite("run", "page_test", "--ops", "17000", "--param", "variant=wide")
    if ended.returncode == 4 and b"4 GiB" in ended.stderr:
        pytest.skip("this computer does not allow the break to grow by 4 GiB")
    sample = lines(ended)[1]
    assert sample["params"] == {"variant": "wide"}
    assert sample["minflt"] == pytest.approx(16000, rel=0.01)


def test_every_sample_tells_its_parameters(run_suite: RunSuite, lines: Lines) -> None:
    asked = ("run-all", "--batches", "stat=10,open_close=10,getppid=1000", "--param", "stat.depth=3")
    samples = lines(run_suite(*asked))[1:-1]
    assert [sample["params"] for sample in samples] == [{"depth": 3}, {"depth": 1}, {}]


@pytest.mark.parametrize(
    "arguments",
    [
        ("run", "page_test", "--param", "variant=narrow"),
        ("run", "page_test", "--param", "variant"),
        ("run", "page_test", "--param", "width=2"),
        ("run", "fork_shell", "--param", "shell=/bin/zsh"),
        ("run", "stat", "--param", "depth=0"),
        ("run", "stat", "--param", "depth=17"),
        ("run", "stat", "--param", "open_close.depth=2"),
        ("run-all", "--batches", "stat=10,open_close=10", "--param", "depth=2"),
    ],
)
def test_a_parameter_that_is_unknown_or_out_of_range_is_refused(
    arguments: tuple[str, ...], run_suite: RunSuite
) -> None:
    ended = run_suite(*arguments)
    assert (ended.returncode, ended.stdout) == (2, b"")


@pytest.mark.parametrize(
    ("params", "named"),
    [
        ({"page_test": {"variant": "narrow"}}, "fixed, wide"),
        ({"page_test": {"width": 1}}, "variant: fixed, wide"),
        ({"stat": {"depth": 17}}, "1 to 16"),
        ({"stat": {"depth": "deep"}}, "1 to 16"),
        ({"open_close": {"depth": 2}}, "page_test, stat"),
    ],
)
def test_a_recipe_with_a_wrong_parameter_is_told_the_right_ones(
    params: dict[str, dict[str, int | str]], named: str, suite: Path
) -> None:
    part = BenchmarkPart(test="page_test", also=("stat",), params=params)
    with pytest.raises(UsageError) as refused:
        wanted_tests(part, known_tests(suite))
    assert named in refused.value.details


def test_a_sample_with_other_parameters_than_asked_for_does_not_count(suite: Path, run_suite: RunSuite) -> None:
    tests = known_tests(suite)
    part = BenchmarkPart(test="stat", params={"stat": {"depth": 4}})
    asked = {test.name: full_params(test, part) for test in tests}
    right = run_suite("run", "stat", "--ops", "10", "--param", "depth=4").stdout
    assert parse_samples(right, tests, asked)[1][0].ops == 10
    with pytest.raises(SuiteOutputError, match="asked for"):
        parse_samples(run_suite("run", "stat", "--ops", "10").stdout, tests, asked)

"""The table of the search's targets can be made at all: one small row, and what it is made of."""

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

HERE = Path(__file__).parent


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(HERE))


def test_one_command_prints_a_row_its_verdict_and_the_calibration() -> None:
    done = subprocess.run(
        [sys.executable, str(HERE / "search.py"), "7", "--trials", "2", "--jobs", "1", "--only", "rows"],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode in (0, 1), done.stderr
    row = next(line.split() for line in done.stdout.splitlines() if " n64-5 " in line)
    assert row[:4] == ["7", "n64-5", "2", "100.0"]
    assert "answers at >= 0.99: 2, of them wrong 0" in done.stdout


def test_rows_that_no_search_can_reach_show_the_bound(bench: None) -> None:
    from bounds import lines

    assert list(lines(["n64-5"], seed=1, trials=2)) == []
    said = list(lines(["realistic", "layout-1"], seed=1, trials=2))
    assert [line.split(":")[0] for line in said] == ["realistic", "layout-1"]


def hunt(claims, *, right, kind="commit"):
    moments = [SimpleNamespace(claimed=claim, right=right) for claim in claims]
    result = SimpleNamespace(kind=kind, probability=claims[-1])
    return SimpleNamespace(first_bad=(7,), moments=moments, result=result, verdict="correct" if right else "wrong")


def test_a_hunt_is_one_sample_a_bin_however_long_it_stays_there(bench: None) -> None:
    from calibration import Reliability

    reliability = Reliability()
    reliability.add([hunt([0.55, 0.56, 0.97, 0.58, 0.995], right=True), hunt([0.51, 0.993], right=False)])
    table = {line.split()[0]: line.split()[1:4] for line in list(reliability.lines())[1:-1]}
    assert table["0.500-0.600"] == ["2", "53.00%", "50.00%"]
    assert table["0.950-0.990"] == ["1", "97.00%", "100.00%"]
    assert list(reliability.lines())[-1].startswith("answers at >= 0.99: 2, of them wrong 1 (50.00 %")


def test_a_hunt_that_names_nobody_claims_nothing_at_its_end(bench: None) -> None:
    from calibration import Reliability

    reliability = Reliability()
    reliability.add([hunt([0.6, 0.999], right=True, kind="set")])
    assert reliability.answers == 0
    assert [line.split()[0] for line in list(reliability.lines())[1:]] == ["0.600-0.700"]


def test_a_goal_is_missed_by_what_is_beyond_it(bench: None) -> None:
    from rows import Goal

    figures = SimpleNamespace(trials=500, correct=0.97, wrong=0.004, machine_s_mean=10100.0, builds=16.0, boots=40.0)
    assert Goal(correct=0.97, wrong=0.005, mean_s=10200, kernels=16, boots=41).missed(figures) == []
    assert Goal(correct=0.98, wrong=0.003, mean_s=10000).missed(figures) == [
        "correct >= 98 %",
        "wrong <= 0.3 %",
        "time <= 10000 s",
    ]


@pytest.mark.parametrize(("unbuildable", "share"), [(0.0, 1.0), (0.95, 0.0)])
def test_a_commit_can_be_named_where_it_and_the_one_before_it_compile(
    bench: None, unbuildable: float, share: float
) -> None:
    from bounds import nameable
    from rows import Row

    from bisector.search import World

    row = Row(world=World(commits=400, unbuildable=unbuildable, cluster=1))
    assert nameable(row, seed=3, trials=20) == pytest.approx(share, abs=0.1)


def test_an_all_knowing_search_is_sure_only_where_kernels_scatter_less_than_the_change(bench: None) -> None:
    from bounds import oracle
    from rows import Row

    from bisector.search import World

    assert oracle(Row(world=World(layout_sd_percent=0.1)), seed=3, trials=20) == (1.0, 1.0)
    sure, guessed = oracle(Row(world=World(layout_sd_percent=5.0)), seed=3, trials=40)
    assert sure < 0.1
    assert 0.1 < guessed < 0.9

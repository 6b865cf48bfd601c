"""Our operations per second in AIM9's own columns, and the table of 2011 (linux-kernel, kernels 2.6.32 to 2.6.39)."""

import csv
from pathlib import Path

import pytest

from bisector.bench.tests import known_tests

TABLE = Path(__file__).parents[1] / "data" / "aim9_2.6.csv"


def _rows() -> list[dict[str, str]]:
    with TABLE.open(newline="") as file:
        return list(csv.DictReader(file))


def test_the_table_of_2011_holds_calls_per_second_and_our_factors_make_operations_of_them(suite: Path) -> None:
    factor = {test.aim: test.aim_factor for test in known_tests(suite) if test.aim}
    first = {row["test"].replace("_", "-"): row for row in reversed(_rows())}
    operations = {name: float(row["ops_per_s"]) * factor[row["test"]] for name, row in first.items()}
    # A call of brk_test is 17 000 operations; fork_test forks 100 times and exec_test executes 5.
    assert operations["page-test"] == pytest.approx(73457, abs=1)
    assert operations["brk-test"] == pytest.approx(768230, abs=100)
    assert operations["creat-clo"] == pytest.approx(365470, abs=1)
    assert operations["fork-test"] == pytest.approx(6159, abs=1)
    assert operations["exec-test"] == pytest.approx(1936, abs=1)


def test_the_percentages_of_2011_are_of_the_new_value_not_of_the_base() -> None:
    base = {row["test"]: float(row["ops_per_s"]) for row in reversed(_rows())}
    of_the_base = 0
    for row in _rows():
        new, printed = float(row["ops_per_s"]), float(row["percent_vs_first"])
        assert 100 * (new - base[row["test"]]) / new == pytest.approx(printed, abs=0.02), row
        of_the_base += abs(100 * (new / base[row["test"]] - 1) - printed) > 0.05
    assert of_the_base > len(base)

"""The MMTests table, against the one posted in 2011."""

import csv
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bisector.report.mmtests import MmtestsRow, mmtests_table, percent, split_header

DATA = Path(__file__).parent.parent / "data"
DURATIONS_S = (613.03, 611.99, 611.85, 611.90, 612.36, 612.62, 612.26)


def _cells() -> list[dict[str, str]]:
    with (DATA / "aim9_2.6.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def _printed() -> dict[str, list[tuple[float, float]]]:
    """(value, percentage) of each kernel by test, both as printed: with two digits."""
    rows: dict[str, list[tuple[float, float]]] = {}
    for cell in _cells():
        rows.setdefault(cell["test"], []).append((float(cell["ops_per_s"]), float(cell["percent_vs_first"])))
    return rows


def _rounded_rows() -> list[MmtestsRow]:
    return [MmtestsRow(test=test, values=tuple(value for value, _ in row)) for test, row in _printed().items()]


def _measured(row: list[tuple[float, float]], new_for: Callable[[float, float], float]) -> tuple[float, ...] | None:
    """Values that all round to the printed ones and give the printed percentages; None if there are none.

    `new_for(base, percentage)` is the inverse of a convention. The percentages were computed before the values were
    rounded for print: 41.44 against 43.21 is -4.27, and the table says -4.26.
    """
    printed_base = row[0][0]
    for step in range(-49, 50):
        base = printed_base + step * 1e-4
        values = [base]
        for printed, percentage in row[1:]:
            # The percentage was rounded too: of all values that give it, the one nearest to the printed value.
            ends = sorted(new_for(base, percentage + half) for half in (-0.0049, 0.0049))
            values.append(min(max(printed, ends[0]), ends[1]))
        if all(f"{value:.2f}" == f"{printed:.2f}" for value, (printed, _) in zip(values, row, strict=True)):
            return tuple(values)
    return None


def _measured_rows() -> list[MmtestsRow]:
    rows = []
    for test, row in _printed().items():
        values = _measured(row, lambda base, percentage: base / (1 - percentage / 100))
        assert values is not None, test
        rows.append(MmtestsRow(test=test, values=values))
    return rows


def _headers() -> list[tuple[str, str]]:
    kernels = dict.fromkeys(cell["kernel"] for cell in _cells())
    # The posted names were cut by hand: "vmr-aim9" over the version, "aim9-2.6.39" over the -rc.
    return [
        ("aim9-2.6.39", kernel.removeprefix("2.6.39-")) if kernel.startswith("2.6.39-") else ("vmr-aim9", kernel)
        for kernel in kernels
    ]


def test_the_table_of_2011_comes_out_digit_for_digit() -> None:
    table = mmtests_table("AIM9", _headers(), _measured_rows(), durations_s=DURATIONS_S, percent_of="new")
    assert table == (DATA / "aim9_2.6.txt").read_text()


def test_from_the_rounded_values_everything_but_the_last_digit_of_a_percentage_comes_out() -> None:
    table = mmtests_table("AIM9", _headers(), _rounded_rows(), durations_s=DURATIONS_S, percent_of="new")
    posted = (DATA / "aim9_2.6.txt").read_text()
    percentage = re.compile(r"-?\d+\.\d\d(?=%)")
    assert percentage.sub("", table) == percentage.sub("", posted)
    differences = [
        abs(float(ours) - float(theirs))
        for ours, theirs in zip(percentage.findall(table), percentage.findall(posted), strict=True)
    ]
    assert len(differences) == 35
    assert max(differences) < 0.011


def test_the_percentages_of_2011_cannot_be_of_the_base() -> None:
    for row in _printed().values():
        assert _measured(row, lambda base, percentage: base * (1 + percentage / 100)) is None
    assert percent(43.21, 38.10) == pytest.approx(-11.83, abs=0.005)
    assert percent(43.21, 36.08) == pytest.approx(-16.50, abs=0.005)


def test_today_the_percentage_is_of_the_base() -> None:
    table = mmtests_table("AIM9", _headers(), _rounded_rows())
    page_test = next(line for line in table.splitlines() if line.startswith("page_test"))
    assert page_test == (
        "page_test       43.21 ( 0.00%)    41.44 (-4.10%)    43.71 ( 1.16%)    38.10 (-11.83%)    41.87 (-3.10%)"
        "    36.08 (-16.50%)    44.25 ( 2.41%)"
    )
    assert "duration" not in table


def test_positive_means_better_whichever_direction_a_test_has() -> None:
    assert percent(100, 80, higher_is_better=False) == 20
    assert percent(100, 80, higher_is_better=True) == -20
    assert percent(100, 80, higher_is_better=False, percent_of="new") == 25


def test_large_values_and_long_names_keep_their_columns_apart() -> None:
    table = mmtests_table(
        "suite",
        [("6.1.192-bisector", "0123456789ab"), ("a-very-long-name-of-a-kernel", "0123456789abcdef0123")],
        [MmtestsRow(test="a_test_with_a_long_name", values=(123456789.0, 234567890.123))],
    )
    _, first, _, row = table.splitlines()
    assert row.split() == ["a_test_with_a_long_name", "123456789.00", "(", "0.00%)", "234567890.12", "(90.00%)"]
    assert len(first) == len(row)
    assert first.split() == ["6.1.192-bisector", "a-very-long-name-of-a-kernel"]


def test_a_kernel_without_a_value_is_a_dash_and_the_next_column_stays_in_place() -> None:
    rows = [MmtestsRow(test="t", values=(10.0, None, 10.0)), MmtestsRow(test="u", values=(10.0, 10.0, 10.0))]
    lines = mmtests_table("suite", [("", "a"), ("", "b"), ("", "c")], rows).splitlines()
    assert lines[3].split() == ["t", "10.00", "(", "0.00%)", "-", "10.00", "(", "0.00%)"]
    assert len(lines[3]) == len(lines[4])


@pytest.mark.parametrize("value", [0.0, -1.0, float("nan"), float("inf")])
def test_a_value_that_is_no_measurement_is_refused(value: float) -> None:
    with pytest.raises(ValueError, match="page_test"):
        MmtestsRow(test="page_test", values=(1.0, value))


def test_a_row_of_another_length_than_the_headers_is_refused() -> None:
    with pytest.raises(ValueError, match="2 values for 1 kernels"):
        mmtests_table("AIM9", [("", "a")], [MmtestsRow(test="t", values=(1.0, 2.0))])
    with pytest.raises(ValueError, match="2 durations for 1 kernels"):
        mmtests_table("AIM9", [("", "a")], [MmtestsRow(test="t", values=(1.0,))], durations_s=(1.0, 2.0))
    with pytest.raises(ValueError, match="nothing to compare"):
        MmtestsRow(test="t", values=(None, 2.0))


@pytest.mark.parametrize(
    ("kernel", "lines"),
    [
        ("2.6.38-vanilla", ("2.6.38", "vanilla")),
        ("2.6.39-rc3-noway", ("2.6.39-rc3", "noway")),
        ("2.6.39-rc3", ("2.6.39-rc3", "")),
        ("6.1-rcu-fix", ("6.1", "rcu-fix")),
        ("v6.1", ("", "v6.1")),
        ("A-base", ("A", "base")),
    ],
)
def test_a_kernels_name_is_cut_at_its_first_dash_but_not_before_an_rc(kernel: str, lines: tuple[str, str]) -> None:
    assert split_header(kernel) == lines


@given(base=st.floats(0.01, 1e6), new=st.floats(0.01, 1e6))
def test_both_conventions_agree_on_the_sign_and_convert_into_each_other(base: float, new: float) -> None:
    of_base = percent(base, new)
    of_new = percent(base, new, percent_of="new")
    assert (of_base > 0) == (of_new > 0)
    assert of_new == pytest.approx(of_base * base / new, rel=1e-9)

"""Two results beside each other: what is seen, what is not, and how often chance is taken for more."""

import math

import numpy as np
import pytest

from bisector.search.contrast import Repeated, contrast


def lab(
    rng: np.random.Generator, level: float, boots: int, runs: int, boot_sd: float, run_sd: float
) -> list[list[float]]:
    """Runs by boot of an invented lab; deviations in percent."""
    return [
        [level * math.exp((shift + run_sd * float(rng.normal())) / 100) for _ in range(runs)]
        for shift in boot_sd * rng.normal(size=boots)
    ]


def test_the_difference_is_in_percent_of_the_base_and_turns_with_the_order() -> None:
    there = contrast([[100.0, 101.0], [100.5, 100.0]], [[80.0, 80.8], [80.4, 80.0]])
    back = contrast([[80.0, 80.8], [80.4, 80.0]], [[100.0, 101.0], [100.5, 100.0]])
    assert there.difference_percent == pytest.approx(-20.0, abs=0.01)
    assert back.difference_percent == pytest.approx(25.0, abs=0.01)
    assert there.p_value == pytest.approx(back.p_value)
    assert (there.base, there.new) == (pytest.approx(100.4, abs=0.1), pytest.approx(80.3, abs=0.1))


def test_boots_are_compared_where_both_sides_have_several_and_runs_otherwise() -> None:
    two, one = [[10.0, 10.1], [10.2, 10.1]], [[10.0, 10.1, 10.2]]
    assert (contrast(two, two).repeated, contrast(two, two).counts) == (Repeated.BOOTS, (2, 2))
    assert (contrast(two, one).repeated, contrast(two, one).counts) == (Repeated.RUNS, (4, 3))
    assert contrast(two, two, same_boot=True).repeated is Repeated.RUNS


def test_no_difference_is_taken_for_one_as_often_as_the_level_says() -> None:
    rng = np.random.default_rng(5)
    p_values = [contrast(lab(rng, 30000, 5, 4, 0.8, 0.3), lab(rng, 30000, 5, 4, 0.8, 0.3)).p_value for _ in range(2000)]
    alarms = int((np.array(p_values) < 0.05).sum())
    assert 70 <= alarms <= 130  # 100 expected, 3 standard deviations are 29


def test_runs_of_single_boots_take_the_boots_own_difference_for_one() -> None:
    # Why the report warns: five runs agree to 0.1 %, and the two boots lie 1 % apart by chance.
    rng = np.random.default_rng(6)
    seen = [
        contrast(lab(rng, 30000, 1, 5, 1.0, 0.1), lab(rng, 30000, 1, 5, 1.0, 0.1)).p_value < 0.01 for _ in range(100)
    ]
    assert sum(seen) > 50


def test_the_interval_covers_the_truth_in_nineteen_cases_of_twenty() -> None:
    rng = np.random.default_rng(7)
    covered = 0
    for _ in range(1000):
        seen = contrast(lab(rng, 100, 4, 3, 1.0, 0.5), lab(rng, 90, 6, 3, 2.0, 0.5))
        covered += seen.interval_percent[0] <= -10 <= seen.interval_percent[1]
    assert 925 <= covered <= 975


def test_values_that_agree_to_the_digit_are_not_taken_to_be_without_noise() -> None:
    seen = contrast([[100.0, 100.0, 100.0]], [[100.005, 100.005, 100.005]])
    assert seen.p_value > 0.05
    assert contrast([[100.0] * 3], [[101.0] * 3]).p_value < 1e-6


@pytest.mark.parametrize("wrong", [[[]], [[1.0, 0.0]], [[1.0, math.nan]], [[1.0, math.inf]], [[1.0, -1.0]]])
def test_a_value_that_cannot_be_a_measurement_is_refused(wrong: list[list[float]]) -> None:
    with pytest.raises(ValueError, match="finite values > 0"):
        contrast(wrong, [[1.0, 2.0]])


@pytest.mark.parametrize("few", [[], [[1.0]]])
def test_one_value_does_not_tell_how_it_scatters(few: list[list[float]]) -> None:
    with pytest.raises(ValueError, match="it takes 2 values a side"):
        contrast(few, [[1.0, 2.0]])

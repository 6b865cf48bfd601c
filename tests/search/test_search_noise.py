import numpy as np
import pytest

from bisector.search import Boot, Options, Purpose
from bisector.search.noise import SMALLEST_SD_PERCENT, huber_mean, pooled_run_sd, read


def boot(commit, *values):
    return Boot(commit=commit, values=values, at_s=0.0, purpose=Purpose.GATE)


def test_the_run_deviation_is_right_on_normal_runs():
    rng = np.random.default_rng(1)
    logs = [rng.normal(rng.normal(0, 5), 3.0, 5) for _ in range(400)]
    assert pooled_run_sd(logs) == pytest.approx(3.0, rel=0.05)


def test_one_wild_run_in_ten_hardly_moves_the_run_deviation():
    rng = np.random.default_rng(2)
    logs = [np.where(rng.random(5) < 0.1, 60.0, rng.normal(0, 3.0, 5)) for _ in range(400)]
    assert pooled_run_sd(logs) < 4.5


def test_scenario_13_one_wild_run_moves_a_boot_by_less_than_half_a_deviation():
    runs = np.array([0.0, 0.3, -0.2, 0.1, 80.0])
    assert abs(huber_mean(runs, 1.0)) < 0.5


def test_two_runs_give_their_plain_mean():
    assert huber_mean(np.array([1.0, 4.0]), 0.1) == pytest.approx(2.5)


def test_constant_samples_have_the_smallest_deviation_and_never_nan():
    readings = read([boot(0, 100.0, 100.0, 100.0), boot(1, 69.0, 69.0, 69.0)], Options(), 0)
    assert readings.run_sd == SMALLEST_SD_PERCENT
    assert np.isfinite(readings.y).all()
    assert readings.y[1] == pytest.approx(-100 * np.log(0.69))


def test_a_coarse_metric_has_its_own_resolution_as_a_floor():
    # Seven equal runs and one a whole step away: the median distance is 0, the step is 1 %.
    readings = read([boot(0, *[100.0] * 7, 101.0)], Options(), 0)
    assert readings.run_sd == pytest.approx(100 * np.log(1.01) / np.sqrt(12))


def test_the_distance_between_two_commits_is_no_resolution():
    readings = read([boot(0, 100.0, 100.0), boot(1, 50.0, 50.0)], Options(), 0)
    assert readings.run_sd == SMALLEST_SD_PERCENT


@pytest.mark.parametrize(("higher", "improvement", "sign"), [(True, False, 1), (False, False, -1), (True, True, -1)])
def test_larger_is_worse_whatever_the_metric_and_whatever_is_hunted(higher, improvement, sign):
    options = Options(higher_is_better=higher, find_improvement=improvement)
    readings = read([boot(0, 100.0), boot(1, 80.0)], options, 0)
    assert sign * readings.y[1] > 0
    assert readings.value_at(readings.y[1]) == pytest.approx(80.0)
    assert readings.percent(readings.y[1]) == pytest.approx(-20.0)


@pytest.mark.parametrize("values", [(), (0.0,), (-1.0,), (float("nan"),), (float("inf"),)])
def test_a_boot_without_usable_values_is_refused(values):
    with pytest.raises(ValueError, match="finite values > 0"):
        read([boot(3, *values)], Options(), 0)

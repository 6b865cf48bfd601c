"""What an A/A test says of invented labs whose noise is known."""

import numpy as np
import pytest

from bisector.search import Boot, Costs, Options, Purpose
from bisector.search import gate as gates
from bisector.search.noise import read
from bisector.search.qualify import Qualified, qualify

COSTS = Costs(build_s=60, boot_s=30, run_s=10)
GAP_S = 600.0


def lab(rng, boots, boot_sd, run_sd, *, runs=4, drift_percent_per_h=0.0, mode_percent=0.0, wild=0, gap_s=GAP_S):
    """Boots of one kernel; every second pair of boots is in the higher mode."""
    made = []
    for number in range(boots):
        level = rng.normal(0, boot_sd) + drift_percent_per_h * number * gap_s / 3600 + mode_percent * (number // 2 % 2)
        values = 1000 * np.exp((level + rng.normal(0, run_sd, runs)) / 100)
        values[0] *= 0.8 if number < wild else 1.0
        made.append(Boot(commit=0, values=tuple(values), at_s=number * gap_s, purpose=Purpose.REFERENCE))
    return made


def test_the_deviations_of_a_known_lab_are_found():
    seen = qualify(lab(np.random.default_rng(1), 40, 1.0, 2.0), Options(), COSTS)
    assert seen.run_sd_percent == pytest.approx(2.0, rel=0.15)
    assert seen.boot_sd_seen_percent == pytest.approx(1.0, rel=0.35)
    assert seen.boot_sd_interval_percent[0] < 1.0 < seen.boot_sd_interval_percent[1]
    assert seen.total_runs == 160
    assert np.mean(seen.values) == pytest.approx(1000, rel=0.01)


def test_the_interval_of_the_boot_deviation_holds_the_truth_as_often_as_it_says():
    rng = np.random.default_rng(2)
    intervals = [qualify(lab(rng, 8, 0.5, 0.2), Options(), COSTS).boot_sd_interval_percent for _ in range(60)]
    assert 50 <= sum(low <= 0.5 <= high for low, high in intervals) <= 60


@pytest.mark.parametrize(
    ("drift", "gap_s", "noise"), [(0.0, 600, 0.1), (-1.0, 600, 0.1), (5.0, 600, 0.1), (100.0, 20, 2.0)]
)
def test_the_interval_of_the_drift_holds_the_truth_as_often_as_it_says(drift: float, gap_s: float, noise: float):
    rng = np.random.default_rng(3)
    truth = 100 * np.expm1(drift * 7 * gap_s / 3600 / 100)
    seen = [
        qualify(lab(rng, 8, noise, 2 * noise, drift_percent_per_h=drift, gap_s=gap_s), Options(), COSTS)
        for _ in range(40)
    ]
    held = [of.drift_interval_percent[0] <= truth <= of.drift_interval_percent[1] for of in seen]
    assert 33 <= sum(held) <= 40
    assert np.mean([of.drift_percent for of in seen]) == pytest.approx(truth, abs=noise)


def test_a_metric_where_lower_is_better_drifts_the_same_way_and_has_the_same_higher_group():
    boots = lab(np.random.default_rng(4), 12, 0.05, 0.1, drift_percent_per_h=1.0, mode_percent=20.0)
    higher, lower = (qualify(boots, Options(higher_is_better=better), COSTS) for better in (True, False))
    assert higher.drift_percent == pytest.approx(lower.drift_percent, rel=1e-6)
    assert higher.modes.upper == lower.modes.upper == (2, 3, 6, 7, 10, 11)
    assert higher.values == pytest.approx(lower.values)


def test_two_groups_of_boots_are_told_and_one_is_not_taken_for_two():
    rng = np.random.default_rng(5)
    found = [qualify(lab(rng, 12, 0.2, 0.3, mode_percent=3.0), Options(), COSTS).modes for _ in range(8)]
    assert sum(modes.two for modes in found) >= 7
    assert found[0].upper == (2, 3, 6, 7, 10, 11)
    assert found[0].apart_percent == pytest.approx(3.0, rel=0.2)
    alarms = sum(qualify(lab(rng, 12, 0.2, 0.3), Options(), COSTS).modes.two for _ in range(30))
    assert alarms <= 3


def test_groups_that_differ_by_less_than_any_clock_can_tell_are_one():
    boots = [
        Boot(commit=0, values=(1000 + 0.01 * (number % 2), 1000.0), at_s=number, purpose=Purpose.GATE)
        for number in range(10)
    ]
    assert not qualify(boots, Options(), COSTS).modes.two


def test_one_kernel_is_hardly_ever_told_apart_from_itself():
    rng = np.random.default_rng(6)
    seen = [qualify(lab(rng, 8, 0.5, 1.0), Options(), COSTS) for _ in range(25)]
    assert {of.orders for of in seen} == {16}
    assert sum(of.false_alarms for of in seen) <= 0.05 * 16 * 25
    inside = [of.effect_interval_percent[0] <= 0 <= of.effect_interval_percent[1] for of in seen]
    assert sum(inside) >= 23


def test_of_many_boots_not_every_order_of_neighbours_is_tried():
    boots = lab(np.random.default_rng(7), 21, 0.5, 1.0)
    assert qualify(boots, Options(), COSTS).orders == 256


def test_wild_runs_are_counted_and_told_by_how_far_they_lie():
    seen = qualify(lab(np.random.default_rng(8), 8, 0.1, 0.2, wild=2), Options(), COSTS)
    assert seen.wild_runs == 2
    assert seen.wildest_percent == pytest.approx(-20, abs=1.5)
    assert qualify(lab(np.random.default_rng(8), 8, 0.1, 0.2), Options(), COSTS).wild_runs == 0


@pytest.mark.parametrize(("boot_sd", "run_sd"), [(0.02, 0.03), (0.5, 1.0), (1.5, 1.0)])
def test_what_is_promised_of_a_hunt_is_what_the_gate_of_a_hunt_can_see(boot_sd: float, run_sd: float):
    rng = np.random.default_rng(9)
    tests = [qualify(lab(rng, 24, boot_sd, run_sd), Options(), COSTS) for _ in range(10)]
    for place, boots in ((0, 4), (1, 8), (2, 16)):
        runs = tests[0].reach[place].runs
        promised = np.mean([seen.reach[place].half_percent for seen in tests])
        hunts = []
        for _ in range(40):
            made = lab(rng, boots, boot_sd, run_sd, runs=runs)
            ends = [Boot(commit=n % 2, values=b.values, at_s=b.at_s, purpose=b.purpose) for n, b in enumerate(made)]
            detectable = gates.judge(read(ends, Options(), 0), (0, 1), Options(), spent=False).detectable
            assert detectable is not None
            hunts.append(100 * np.expm1(detectable / 100))
        assert promised == pytest.approx(np.mean(hunts), rel=0.2)
        assert tests[0].reach[place].sure_percent > tests[0].reach[place].half_percent


def test_more_boots_see_smaller_effects_and_cost_more():
    seen = qualify(lab(np.random.default_rng(10), 8, 0.5, 1.0), Options(min_effect_percent=2.0), COSTS)
    assert [reach.boots for reach in seen.reach] == [4, 8, 16, 32, 64]
    effects = [reach.half_percent for reach in seen.reach]
    assert effects == sorted(effects, reverse=True)
    assert seen.reach[0].machine_s == 4 * (30 + seen.best_runs * 10)
    assert seen.smallest_percent == 2.0
    assert seen.boots_needed < qualify(lab(np.random.default_rng(10), 8, 0.5, 1.0), Options(), COSTS).boots_needed


def test_the_same_boots_say_the_same_twice():
    boots = lab(np.random.default_rng(11), 9, 0.5, 1.0)
    first, second = (qualify(boots, Options(), COSTS) for _ in range(2))
    assert isinstance(first, Qualified)
    assert first == second


def test_three_boots_are_too_few():
    with pytest.raises(ValueError, match="at least 4 boots, got 3"):
        qualify(lab(np.random.default_rng(12), 3, 1, 1), Options(), COSTS)

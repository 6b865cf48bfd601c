"""Whole hunts in labs that deceive: noise of every kind, coarse metrics, machines that change while they measure."""

import numpy as np
import pytest
from hostile import COSTS, Lab, cauchy, in_steps_of, line, modes, normal, still, wild

from bisector.search import AnswerKind, Options, assess, drive

LINE = line(200)
FIRST_BAD = 77
SEEDS = (1, 2, 3)


def names_it(answer, first_bad=FIRST_BAD):
    return answer.kind is AnswerKind.COMMIT and answer.commits == (first_bad,) and answer.probability >= 0.99


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(
    ("boots", "runs"),
    [
        (modes(0.3, 4), normal(1)),
        (modes(0.5, 6), normal(1)),
        (modes(0.05, 15), normal(1)),
        (cauchy(0.5), normal(1)),
        (normal(0.5), wild(0.1, 1)),
        (normal(0.5), cauchy(1)),
    ],
    ids=["three in ten in a slow mode", "half in a slow mode", "bad boots", "Cauchy boots", "wild runs", "Cauchy runs"],
)
def test_a_change_of_eight_percent_is_named_in_noise_that_no_normal_law_describes(boots, runs, seed):
    assert names_it(drive(LINE, Lab(LINE, {FIRST_BAD: -8}, boots=boots, runs=runs, seed=seed), COSTS))


def test_runs_that_are_all_equal_find_the_change_with_the_fewest_boots():
    answer = drive(LINE, Lab(LINE, {FIRST_BAD: -8}, boots=still, runs=still), COSTS)
    assert names_it(answer)
    assert answer.boots <= 16
    assert answer.share == 1.0


def test_two_ends_of_one_constant_value_are_no_regression():
    answer = drive(LINE, Lab(LINE, {}, boots=still, runs=still), COSTS)
    assert answer.kind is AnswerKind.NOT_REPRODUCED
    assert answer.boots <= 10


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(("step", "effect"), [(10.0, 5), (50.0, 8), (50.0, 12)])
def test_a_metric_that_is_read_in_coarse_steps_still_names_the_change(step, effect, seed):
    lab = Lab(LINE, {FIRST_BAD: -effect}, read_off=in_steps_of(step), seed=seed)
    assert names_it(drive(LINE, lab, COSTS))


def test_a_change_smaller_than_the_metrics_step_is_not_invented():
    # 1000 and 980 are both read as 1000.
    answer = drive(LINE, Lab(LINE, {FIRST_BAD: -2}, boots=still, runs=still, read_off=in_steps_of(50.0)), COSTS)
    assert answer.kind is AnswerKind.NOT_REPRODUCED


@pytest.mark.parametrize("end", [0, 199])
def test_one_boot_of_equal_runs_among_boots_that_scatter_is_only_a_boot(end):
    lab = Lab(LINE, {FIRST_BAD: -8})

    def measure(commit, boots, runs):
        first = commit == end and commit not in lab.asked
        values = lab(commit, boots, runs)
        return [[of[0]] * len(of) for of in values] if first else values

    assert names_it(drive(LINE, measure, COSTS))


def test_ends_that_scatter_and_commits_between_that_repeat_exactly_are_one_lab():
    noisy, quiet = Lab(LINE, {FIRST_BAD: -8}), Lab(LINE, {FIRST_BAD: -8}, boots=still, runs=still)

    def measure(commit, boots, runs):
        return (noisy if commit in (0, 199) else quiet)(commit, boots, runs)

    assert names_it(drive(LINE, measure, COSTS))


@pytest.mark.parametrize("percent_per_h", [1.0, -1.0])
@pytest.mark.parametrize("seed", SEEDS)
def test_a_lab_that_drifts_by_one_percent_an_hour_does_not_move_the_answer(percent_per_h, seed):
    lab = Lab(LINE, {FIRST_BAD: -5}, trend=lambda hour: percent_per_h * hour, seed=seed)
    assert names_it(drive(LINE, lab, COSTS))


@pytest.mark.parametrize("seed", SEEDS)
def test_half_an_hour_at_half_the_speed_costs_boots_and_no_wrong_name(seed):
    lab = Lab(LINE, {FIRST_BAD: -8}, trend=lambda hour: -69.3 * (1.2 < hour < 1.7), seed=seed)
    assert names_it(drive(LINE, lab, COSTS))


@pytest.mark.parametrize("seed", SEEDS)
def test_a_machine_that_is_twice_as_slow_from_the_middle_on_names_nobody_wrong_and_keeps_the_effect_in_bounds(seed):
    lab = Lab(LINE, {FIRST_BAD: -8}, trend=lambda hour: -69.3 * (hour > 1.2), seed=seed)
    answer = drive(LINE, lab, COSTS)
    assert FIRST_BAD in answer.commits
    assert answer.share is None or 0 < answer.share <= 1
    # Both machines agree on the sign: what is reported as the ends' difference must not be the lab's.
    assert "%, the ends -" in answer.reason


@pytest.mark.parametrize("value", [1e-12, 1e15])
@pytest.mark.parametrize("effect", [-8, -690])
def test_values_near_zero_huge_values_and_a_change_of_three_magnitudes_are_ordinary(value, effect):
    answer = drive(LINE, Lab(LINE, {FIRST_BAD: effect}, value=value), COSTS)
    assert names_it(answer)
    report = assess(LINE, answer.evidence, Options())
    assert report.good_level == pytest.approx(value, rel=0.02)
    assert report.effect_percent == pytest.approx(100 * np.expm1(effect / 100), abs=2.0)


def test_one_run_a_boot_is_enough_if_the_lab_gives_no_more():
    lab = Lab(LINE, {FIRST_BAD: -8})
    assert names_it(drive(LINE, lambda commit, boots, runs: [of[:1] for of in lab(commit, boots, runs)], COSTS))


def test_more_boots_and_runs_than_were_asked_for_are_all_used():
    lab = Lab(LINE, {FIRST_BAD: -8})
    answer = drive(LINE, lambda commit, boots, runs: lab(commit, boots + 1, runs + 2), COSTS)
    assert names_it(answer)
    assert answer.boots == 2 * len(answer.looks)


@pytest.mark.parametrize("seed", range(1, 9))
def test_bad_boots_during_the_audit_do_not_make_a_small_part_of_a_whole_change(seed):
    # One boot in ten is 15 % slow: two of them among the parent's make it look as slow as the accused.
    answer = drive(LINE, Lab(LINE, {FIRST_BAD: -8}, boots=modes(0.1, 15), seed=seed), COSTS)
    assert names_it(answer)
    assert "fresh pairs of it and its parent show -" in answer.reason
    assert answer.share > 0.3

import numpy as np
import pytest

from bisector.search import AnswerKind, Costs, Graph, Options, Purpose, drive

COSTS = Costs(build_s=300.0, boot_s=120.0, run_s=20.0)
GRAPH = Graph.from_parents([(), *((i,) for i in range(63))])


def lab(effect_percent, *, boot_sd=1.0, run_sd=3.0, seed=1, first_bad=20):
    rng = np.random.default_rng(seed)

    def measure(commit, boots, runs):
        level = np.log(1000) + (np.log1p(effect_percent / 100) if commit >= first_bad else 0.0)
        return [
            list(np.exp(level + (rng.normal(0, boot_sd) + rng.normal(0, run_sd, runs)) / 100)) for _ in range(boots)
        ]

    return measure


def test_the_ends_are_booted_in_turn_so_that_a_drift_cannot_pass_for_an_effect():
    answer = drive(GRAPH, lab(-5), COSTS)
    gate = [look.commit for look in answer.looks if look.purpose is Purpose.GATE]
    assert gate[:4] == [0, 63, 63, 0]


def test_without_an_effect_the_hunt_ends_as_not_reproduced_and_builds_only_the_ends():
    answer = drive(GRAPH, lab(0), COSTS, Options(min_effect_percent=2.0))
    assert answer.kind is AnswerKind.NOT_REPRODUCED
    assert answer.builds == 2
    assert "smallest effect of interest, 2 %" in answer.reason
    assert "deviation" in answer.reason


def test_scenario_14_a_change_for_the_better_is_not_taken_for_a_regression():
    answer = drive(GRAPH, lab(10), COSTS)
    assert answer.kind is AnswerKind.NOT_REPRODUCED
    assert "--set search.find=improvement" in answer.reason


def test_the_change_for_the_better_is_found_when_that_is_hunted():
    answer = drive(GRAPH, lab(10), COSTS, Options(find_improvement=True))
    assert answer.kind is AnswerKind.COMMIT
    assert answer.commits == (20,)


def test_a_change_for_the_worse_is_not_an_improvement():
    answer = drive(GRAPH, lab(-10), COSTS, Options(find_improvement=True))
    assert answer.kind is AnswerKind.NOT_REPRODUCED
    assert "--set search.find=regression" in answer.reason


def test_a_clear_effect_below_the_smallest_of_interest_is_not_hunted():
    answer = drive(GRAPH, lab(-0.5, boot_sd=0.02, run_sd=0.02), COSTS, Options(min_effect_percent=3.0))
    assert answer.kind is AnswerKind.NOT_REPRODUCED


def test_scenario_14_a_drift_of_ten_percent_an_hour_alone_is_no_effect():
    clock = [0.0]
    rng = np.random.default_rng(5)

    def drifting(commit, boots, runs):
        clock[0] += (120 + 20 * runs) / 3600
        return [list(1000 * np.exp((-10 * clock[0] + rng.normal(0, 1, runs)) / 100))]

    answer = drive(GRAPH, drifting, COSTS, Options(min_effect_percent=3.0))
    assert answer.kind is AnswerKind.NOT_REPRODUCED


def test_the_budget_of_pairs_ends_a_gate_that_cannot_tell():
    answer = drive(GRAPH, lab(0, boot_sd=4, run_sd=10), COSTS, Options(max_gate_pairs=4))
    assert answer.kind is AnswerKind.NOT_REPRODUCED
    assert answer.boots == 8
    assert "boots of" in answer.reason


@pytest.mark.parametrize("higher", [True, False])
def test_a_noiseless_lab_passes_the_gate_with_the_fewest_boots(higher):
    answer = drive(GRAPH, lab(-31 if higher else 31, boot_sd=0, run_sd=0.01), COSTS, Options(higher_is_better=higher))
    assert answer.kind is AnswerKind.COMMIT
    assert answer.commits == (20,)
    assert sum(look.purpose is Purpose.GATE for look in answer.looks) <= 6

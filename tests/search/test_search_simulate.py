import numpy as np
import pytest

from bisector.search import Options, Trial, World, simulate
from bisector.search.world import history


def test_the_same_seed_gives_the_same_tally():
    world = World(commits=64)
    assert simulate(world, trials=4, seed=3) == simulate(world, trials=4, seed=3)


def test_another_seed_gives_other_labs():
    world = World(commits=1000)
    assert simulate(world, trials=4, seed=3).machine_s_mean != simulate(world, trials=4, seed=4).machine_s_mean


def test_claimed_and_true_agree_over_several_worlds():
    worlds = [
        World(commits=64),
        World(commits=300, effect_percent=8.0),
        World(commits=64, effect_percent=3.0, run_sd_percent=1.0),
    ]
    trials: list[Trial] = []
    for world in worlds:
        simulate(world, Options(audit=False, confidence=0.9), trials=25, seed=11, on_trial=trials.append)
    named = [trial for trial in trials if trial.result.kind == "commit"]
    claimed = np.mean([trial.result.probability for trial in named])
    true = np.mean([trial.verdict == "correct" for trial in named])
    assert len(named) >= 70
    # 75 trials at about 95 %: one standard deviation is 2.5 points.
    assert abs(claimed - true) < 0.08


def test_a_clear_change_is_found_for_less_than_the_prototypes_time():
    tally = simulate(World(commits=1000), trials=12, seed=5)
    assert tally.correct >= 0.95
    assert tally.wrong == 0
    assert tally.machine_s_mean <= 13200
    assert tally.builds <= 13.5


def test_a_lab_without_a_regression_accuses_nobody():
    tally = simulate(World(commits=1000, regression=False), Options(min_effect_percent=2.0), trials=25, seed=5)
    assert tally.correct >= 0.95
    assert tally.wrong == 0
    assert tally.machine_s_mean <= 10000


def test_git_bisect_with_one_run_is_mostly_wrong_where_the_search_is_right():
    tally = simulate(World(commits=1000), trials=60, seed=5, strategy="classic")
    assert tally.correct < 0.3
    assert tally.builds < 13


def test_git_bisect_is_right_where_there_is_no_noise():
    world = World(commits=300, effect_percent=30, boot_sd_percent=0.01, run_sd_percent=0.01, merges=0.1)
    assert simulate(world, trials=20, strategy="classic").correct == 1.0


@pytest.mark.parametrize(
    "world",
    [
        World(commits=200, unbuildable=0.1),
        World(commits=200, merges=0.1),
        World(commits=200, drift_percent_per_h=1.0),
        World(commits=200, outliers=0.1),
        World(commits=200, bad_boots=0.05),
        World(commits=200, layout_sd_percent=0.5),
        World(commits=200, improvement=True),
        World(commits=200, boot_sd_percent=0.0, run_sd_percent=0.0),
    ],
    ids=["unbuildable", "merges", "drift", "outliers", "bad boots", "layout", "improvement", "no noise"],
)
def test_hostile_labs_do_not_lead_to_wrong_names(world):
    tally = simulate(world, trials=6, seed=2)
    assert tally.wrong == 0
    assert tally.correct + tally.set == 1.0
    assert tally.in_set == (1.0 if tally.set else 0.0)


def test_two_steps_are_said_to_explain_only_a_part():
    trials: list[Trial] = []
    simulate(World(commits=400, two_steps=True, effect_percent=12.0), trials=20, seed=4, on_trial=trials.append)
    named = [trial for trial in trials if trial.verdict == "correct"]
    assert not [trial for trial in trials if trial.verdict == "wrong"]
    assert len(named) >= 10
    assert sum((trial.result.share or 0) < 0.85 for trial in named) >= 0.5 * len(named)


def test_an_invented_history_with_merges_is_one_history():
    graph = history(World(commits=3000, merges=0.08), np.random.default_rng(1))
    assert len(graph) == 3000
    assert graph.candidates.sum() == 2999
    merges = sum(len(of) > 1 for of in graph.parents)
    assert 0.02 * 3000 < merges < 0.15 * 3000


@pytest.mark.parametrize(("arguments", "words"), [({"trials": 0}, "trials"), ({"strategy": "magic"}, "'magic'")])
def test_a_simulation_that_makes_no_sense_is_refused(arguments, words):
    with pytest.raises(ValueError, match=words):
        simulate(World(commits=10), **arguments)

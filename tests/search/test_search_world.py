"""The invented lab itself: what it is asked to be, it is."""

import numpy as np
import pytest

from bisector.search import Options, World, simulate, tally
from bisector.search.world import Lab, history

QUIET = {"boot_sd_percent": 0.0, "run_sd_percent": 0.0, "outliers": 0.0}


def lab(world, **options):
    rng = np.random.default_rng(3)
    graph = history(world, rng)
    return graph, Lab(graph, world, rng, Options(**options))


def level(lab, commit, machine=0):
    return lab.measure_on(commit, 1, 1, machine=machine, at_s=0.0)[0][0]


@pytest.mark.parametrize("higher_is_better", [True, False])
@pytest.mark.parametrize("improvement", [True, False])
def test_the_change_is_as_large_and_in_the_direction_that_was_asked_for(higher_is_better, improvement):
    graph, quiet = lab(World(commits=50, improvement=improvement, **QUIET), higher_is_better=higher_is_better)
    ratio = level(quiet, graph.bad) / level(quiet, graph.good)
    assert max(ratio, 1 / ratio) == pytest.approx(1.05)
    assert (ratio > 1) is (higher_is_better is improvement)


def test_the_change_lies_at_the_first_bad_commit_and_nowhere_else():
    _, quiet = lab(World(commits=50, **QUIET))
    levels = np.array([level(quiet, commit) for commit in range(50)])
    assert [int(step) + 1 for step in np.flatnonzero(np.abs(np.diff(levels)) > 1e-6)] == list(quiet.first_bad)


def test_the_true_levels_are_what_endless_boots_would_show():
    _, quiet = lab(World(commits=50, layout_sd_percent=0.7, **QUIET))
    shown = [100 * np.log(1000 / level(quiet, commit)) for commit in range(50)]
    assert quiet.true_levels.tolist() == pytest.approx(shown)


def test_a_gradual_change_is_spread_evenly_over_neighbours():
    _, quiet = lab(World(commits=50, gradual=5, **QUIET))
    logs = np.log([level(quiet, commit) for commit in range(50)])
    steps = np.flatnonzero(np.abs(np.diff(logs)) > 1e-9) + 1
    assert steps.tolist() == list(quiet.first_bad) == list(range(steps[0], steps[0] + 5))
    assert np.diff(logs)[steps - 1] == pytest.approx(-np.log(1.05) / 5)


def test_commits_that_do_not_build_come_in_clusters_and_never_at_the_ends():
    graph, broken = lab(World(commits=2000, unbuildable=0.2))
    failing = np.array([broken.measure_on(commit, 1, 1, machine=0, at_s=0.0) is None for commit in range(2000)])
    assert failing.tolist() == [not broken.builds(commit) for commit in range(2000)]
    assert 0.1 < failing.mean() < 0.3
    assert (failing[1:] & failing[:-1]).sum() > 0.8 * failing.sum()
    assert not failing[[graph.good, graph.bad]].any()


def test_machines_have_levels_of_their_own_and_the_same_change():
    graph, two = lab(World(commits=50, machines=2, **QUIET))
    goods = [level(two, graph.good, machine) for machine in (0, 1)]
    bads = [level(two, graph.bad, machine) for machine in (0, 1)]
    assert abs(np.log(goods[1] / goods[0])) > 0.01
    assert bads[1] / goods[1] == pytest.approx(bads[0] / goods[0])


def test_a_drift_goes_on_by_the_hour():
    _, drifting = lab(World(commits=50, drift_percent_per_h=2.0, **QUIET))
    first, later = (drifting.measure_on(0, 1, 1, machine=0, at_s=at)[0][0] for at in (0.0, 5 * 3600.0))
    assert abs(100 * np.log(later / first)) == pytest.approx(10.0)


@pytest.mark.parametrize(
    ("act", "words"),
    [
        (lambda: history(World(commits=1), np.random.default_rng(1)), "at least 2 commits, got 1"),
        (lambda: simulate(World(machines=2), strategy="sprt"), "one machine only"),
        (lambda: tally([]), "no trial"),
    ],
)
def test_what_cannot_be_simulated_is_refused(act, words):
    with pytest.raises(ValueError, match=words):
        act()


def test_a_given_history_is_taken_as_it_is():
    parents = ((), (0,), (0,), (1, 2))
    assert history(World(parents=parents), np.random.default_rng(1)).parents == parents

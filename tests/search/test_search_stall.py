import numpy as np
import pytest

from bisector.search import Boot, Evidence, Graph, Options, Purpose
from bisector.search.situation import situation
from bisector.search.stall import slope_of


def line(count):
    return Graph.from_parents([(), *((i,) for i in range(count - 1))])


def found(graph, levels, *, boots=8, run_sd=2.0, seed=1, machines=(0,)):
    """The slope after this many boots of each commit at these levels (percent worse), machines taking turns."""
    rng = np.random.default_rng(seed)
    made = []
    for number in range(boots):
        for commit, level in levels.items():
            machine = machines[number % len(machines)]
            runs = 1000 * (1 + machine) * np.exp(-(level + rng.normal(0, 0.5) + rng.normal(0, run_sd, 4)) / 100)
            made.append(
                Boot(commit=commit, values=tuple(runs.tolist()), at_s=0.0, purpose=Purpose.SEARCH, machine=machine)
            )
    now = situation(graph, Evidence(boots=tuple(made), built=frozenset(levels)), Options())
    return slope_of(graph, now.readings, now.belief)


RAMP = {commit: 5 * float(np.clip((commit - 40) / 20, 0, 1)) for commit in (0, 30, *range(41, 60), 70, 99)}


@pytest.mark.parametrize("seed", range(3))
def test_levels_in_order_between_the_ends_are_a_slope(seed):
    slope = found(line(100), RAMP, seed=seed)
    assert slope is not None
    assert {48, 50, 52} <= set(slope.booted) <= set(range(31, 99))
    assert set(range(48, 53)) <= set(slope.suspects) <= set(range(31, 100))


def test_a_slope_is_seen_by_machines_of_different_speed():
    assert found(line(100), RAMP, boots=12, machines=(0, 1)) is not None


@pytest.mark.parametrize("seed", range(8))
def test_kernels_that_scatter_around_one_step_are_no_slope(seed):
    offsets = np.random.default_rng(seed).normal(0, 1.0, 100)
    levels = {commit: 5.0 * (commit >= 50) + offsets[commit] for commit in RAMP}
    assert found(line(100), levels, seed=seed) is None


def test_one_step_on_a_side_branch_is_no_slope():
    # 1 to 6 and 7 to 12 are branches of 0; all of one branch is bad and none of the other, merged by 13.
    parents = [(), *((i,) for i in range(6)), (0,), *((i,) for i in range(7, 12)), (6, 12), (13,)]
    levels = {commit: 5.0 * (commit >= 7) for commit in range(15)}
    assert found(Graph.from_parents(parents), levels) is None


def test_two_looked_at_commits_make_no_slope():
    assert found(line(10), {0: 0.0, 9: 5.0}) is None

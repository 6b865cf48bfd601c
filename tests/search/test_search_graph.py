import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bisector.search import Graph


def line(count):
    return Graph.from_parents([(), *((i,) for i in range(count - 1))])


#      1 - 2 ----- 5 - 6        3 and 4 branch off at 1 and are merged by 5
#        \ 3 - 4 /
DIAMOND = [(), (0,), (1,), (1,), (3,), (2, 4), (5,)]


@st.composite
def histories(draw, max_size=40):
    """Parents of a history whose last commit descends from all others: merges of 2 to 4, branches, several roots."""
    count = draw(st.integers(2, max_size))
    parents = [()]
    for child in range(1, count):
        how_many = draw(st.sampled_from([1, 1, 1, 1, 2, 2, 3, 4, 0]))
        how_many = min(how_many, child)
        parents.append(
            tuple(draw(st.lists(st.integers(0, child - 1), min_size=how_many, max_size=how_many, unique=True)))
        )
    loose = set(range(count - 1)) - {p for of in parents for p in of}
    parents[-1] = tuple(sorted(set(parents[-1]) | loose))
    return parents


def ancestors_by_walking(parents, commit):
    seen, stack = set(), [commit]
    while stack:
        one = stack.pop()
        if one not in seen:
            seen.add(one)
            stack.extend(parents[one])
    return seen


def test_a_merge_has_the_ancestors_of_all_its_parents():
    graph = Graph.from_parents(DIAMOND)
    assert set(np.flatnonzero(graph.ancestors([5])[0])) == {0, 1, 2, 3, 4, 5}
    assert set(np.flatnonzero(graph.ancestors([4])[0])) == {0, 1, 3, 4}


def test_the_good_end_cannot_be_the_first_bad_commit():
    assert not Graph.from_parents(DIAMOND).candidates[0]
    assert not line(5).candidates[0]


def test_only_commits_between_the_ends_can_be_the_first_bad_one():
    graph = Graph.from_parents(DIAMOND, good=2, bad=5)
    assert set(np.flatnonzero(graph.candidates)) == {3, 4, 5}


def matrix_of(parents):
    """Every commit against every other, row by row: what the tree of bases stands for."""
    bits = np.zeros((len(parents), len(parents)), dtype=bool)
    for child, of in enumerate(parents):
        bits[child] = bits[list(of)].any(axis=0)
        bits[child, child] = True
    return bits


@given(histories())
def test_ancestors_and_descendants_agree_with_a_walk_over_the_parents(parents):
    graph = Graph.from_parents(parents)
    rows = graph.ancestors(range(len(parents)))
    for commit in range(len(parents)):
        assert set(np.flatnonzero(rows[commit])) == ancestors_by_walking(parents, commit)
    assert np.array_equal(graph.descendants(range(len(parents))), rows.T)


@given(histories(), st.data())
def test_commits_beside_the_range_are_ancestors_and_descendants_as_well(parents, data):
    bits = matrix_of(parents)
    bad = data.draw(st.integers(1, len(parents) - 1))
    below = np.flatnonzero(bits[bad])[:-1].tolist()
    if not below:
        return
    good = data.draw(st.sampled_from(below))
    graph = Graph.from_parents(parents, good=good, bad=bad)
    everyone = np.arange(len(parents))
    assert np.array_equal(graph.ancestors(everyone), bits)
    assert np.array_equal(graph.descendants(everyone), bits.T)
    assert np.array_equal(graph.candidates, bits[bad] & ~bits[good])


@given(histories(), st.integers(0, 2**32 - 1))
def test_the_mass_below_a_commit_is_that_of_it_and_its_ancestors(parents, seed):
    graph = Graph.from_parents(parents)
    mass = np.random.default_rng(seed).dirichlet(np.ones(len(parents)))
    everyone = np.arange(len(parents))
    assert graph.mass_below(everyone, mass) == pytest.approx(matrix_of(parents) @ mass, abs=1e-12)
    assert np.array_equal(graph.mass_below(everyone[::-1], mass), graph.masses_below(mass)[::-1])


def nested_history(count, seed):
    """A main line of trees that merge branches of their own, each other, and at times the main line."""
    rng = np.random.default_rng(seed)
    parents, tip, trees = [()], 0, [0, 0, 0]
    while len(parents) < count - 1:
        which = int(rng.integers(len(trees)))
        here, kind = trees[which], rng.random()
        if kind < 0.15:
            branch = here
            for _ in range(int(rng.integers(1, 8))):
                parents.append((branch,))
                branch = len(parents) - 1
            parents.append((here, branch))
        elif kind < 0.2:
            parents.append((tip, here))
            tip = len(parents) - 1
        elif kind < 0.25:
            parents.append((here, tip))
        elif kind < 0.27:
            parents.append((here, *(one for one in trees if one != here)))
        else:
            parents.append((here,))
        trees[which] = len(parents) - 1
    parents.append((tip, *sorted(set(trees) - {tip})))
    return parents


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_trees_that_merge_branches_and_each_other_agree_with_the_matrix(seed):
    parents = nested_history(1500, seed)
    bits = matrix_of(parents)
    graph = Graph.from_parents(parents)
    everyone = np.arange(len(parents))
    assert np.array_equal(graph.ancestors(everyone), bits)
    assert np.array_equal(graph.descendants(everyone), bits.T)


def test_more_branches_at_once_than_are_remembered_change_nothing():
    parents = [(), *((0,) for _ in range(700))]
    for step in (1, 2):
        start = len(parents)
        parents += [(start - 700 + place, 1 + (place + step) % 700) for place in range(700)]
    parents.append((0, *range(len(parents) - 700, len(parents))))
    graph = Graph.from_parents(parents)
    some = np.arange(0, len(parents), 7)
    assert np.array_equal(graph.ancestors(some), matrix_of(parents)[some])


def test_a_long_history_with_merges_takes_memory_for_its_commits_and_not_for_their_square():
    parents = nested_history(60000, 1)
    tracemalloc.start()
    graph = Graph.from_parents(parents)
    graph.masses_below(graph.weights)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    # All pairs in bits would be 450 MB.
    assert peak < 60e6


def test_a_line_and_the_same_line_stored_as_a_dag_give_the_same():
    straight = line(200)
    # A second parent that is an ancestor anyway changes nothing but the storage.
    stored = Graph.from_parents([(), (0,), *((i, i - 1) for i in range(1, 199))])
    assert straight.linear
    assert not stored.linear
    mass = np.linspace(0, 1, 200)
    assert np.array_equal(straight.ancestors(range(200)), stored.ancestors(range(200)))
    assert straight.mass_below([3, 150], mass) == pytest.approx(stored.mass_below([3, 150], mass), rel=1e-6)


@pytest.mark.parametrize(
    ("parents", "ends", "words"),
    [
        ([(), (0,)], {"good": 1, "bad": 1}, "same commit"),
        ([(), (0,)], {"good": 0, "bad": 2}, "indexes"),
        ([(), (2,), (0,)], {}, "after its parents"),
        ([(), (-1,)], {}, "after its parents"),
        ([(), (), (1,)], {}, "not an ancestor"),
    ],
)
def test_a_graph_that_makes_no_range_is_refused(parents, ends, words):
    with pytest.raises(ValueError, match=words):
        Graph.from_parents(parents, **ends)


@pytest.mark.parametrize("weights", [[1.0], [1.0, float("nan")], [1.0, 0.0]])
def test_weights_that_are_no_weights_are_refused(weights):
    with pytest.raises(ValueError, match="weights"):
        Graph.from_parents([(), (0,)], weights=weights)

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
    """Parents of a history whose last commit descends from all others; some commits are merges, some branch off 0."""
    count = draw(st.integers(2, max_size))
    parents = [()]
    for child in range(1, count):
        how_many = draw(st.integers(1, min(3, child)))
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


@given(histories())
def test_ancestors_and_descendants_agree_with_a_walk_over_the_parents(parents):
    graph = Graph.from_parents(parents)
    rows = graph.ancestors(range(len(parents)))
    for commit in range(len(parents)):
        assert set(np.flatnonzero(rows[commit])) == ancestors_by_walking(parents, commit)
    assert np.array_equal(graph.descendants(range(len(parents))), rows.T)


@given(histories(), st.integers(0, 2**32 - 1))
def test_the_mass_below_a_commit_is_that_of_it_and_its_ancestors(parents, seed):
    graph = Graph.from_parents(parents)
    mass = np.random.default_rng(seed).dirichlet(np.ones(len(parents)))
    everyone = np.arange(len(parents))
    assert graph.mass_below(everyone, mass) == pytest.approx(graph.ancestors(everyone) @ mass, abs=1e-6)


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

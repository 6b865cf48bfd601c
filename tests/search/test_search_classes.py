import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bisector.search import Boot, Evidence, Graph, Options, Purpose, World, pending, plan
from bisector.search.algebra import product
from bisector.search.classes import classes_of, renumbered, split_classes
from bisector.search.situation import situation
from bisector.search.world import history


def merged(count, seed):
    return history(World(commits=count, merges=0.2), np.random.default_rng(seed))


def groups(of_class):
    return {frozenset(np.flatnonzero(of_class == number).tolist()) for number in set(of_class.tolist()) - {-1}}


@settings(deadline=None, max_examples=40)
@given(st.integers(2, 300), st.integers(0, 70), st.integers(0, 99))
def test_commits_are_in_one_class_exactly_when_no_looked_at_commit_tells_them_apart(count, looks, seed):
    graph = merged(count, seed)
    looked = np.random.default_rng(seed).integers(0, count, looks)
    rows = graph.ancestors(looked)
    of_class, bits = classes_of(graph, rows)
    by_column = {}
    for commit in np.flatnonzero(graph.candidates).tolist():
        by_column.setdefault(tuple(rows[:, commit].tolist()), []).append(commit)
    assert groups(of_class) == {frozenset(members) for members in by_column.values()}
    # Numbered by their first commits, which dictionaries keep in order; and each with the column of its members.
    assert [tuple(row) for row in bits.tolist()] == list(by_column)
    assert np.all(of_class[~graph.candidates] == -1)


@given(st.integers(2, 120), st.integers(0, 99), st.data())
def test_one_more_commit_splits_classes_as_if_it_had_been_looked_at_from_the_start(count, seed, data):
    graph = merged(count, seed)
    looked = data.draw(st.lists(st.integers(0, count - 1), min_size=1, max_size=12))
    before, _ = classes_of(graph, graph.ancestors(looked[1:]))
    whole, _ = classes_of(graph, graph.ancestors(looked))
    assert groups(split_classes(before, graph.ancestors(looked[:1])[0])) == groups(whole)


@pytest.mark.parametrize("seed", range(4))
def test_the_middle_of_a_class_is_the_nearest_of_all_its_commits_and_not_of_some(seed):
    graph, rng = merged(3000, seed), np.random.default_rng(seed)
    boots = [
        Boot(commit=commit, values=tuple(level * np.exp(rng.normal(0, 0.02, 4))), at_s=0.0, purpose=Purpose.SEARCH)
        for commit, level in [(0, 1000.0), (2999, 950.0), (700, 1000.0), (2000, 950.0), (1200, 980.0)] * 2
    ]
    evidence = Evidence(boots=tuple(boots), skipped=frozenset(rng.integers(1, 2998, 500).tolist()))
    belief = situation(graph, evidence, Options()).belief
    middles = plan.middle_of_classes(graph, evidence, belief)
    free = plan.testable(graph, evidence)
    below = graph.ancestors(np.arange(3000)) @ belief.probability
    assert set(middles) >= {number for number, mass in enumerate(belief.mass) if mass > plan.LIGHT_CLASS}
    for number, middle in middles.items():
        members = belief.members(number)
        off = np.abs(below[members[free[members]]] - 0.5)
        assert abs(below[middle] - 0.5) == pytest.approx(off.min(), abs=1e-8)


def test_what_is_remembered_of_a_mass_is_only_what_cannot_change():
    graph = merged(50, 1)
    mass = np.ones(50)
    before = graph.masses_below(mass)[-1]
    mass[0] = 5.0
    assert graph.masses_below(mass)[-1] == before + 4
    frozen = mass.copy()
    frozen.flags.writeable = False
    assert graph.masses_below(frozen) is graph.masses_below(frozen)


def test_a_class_larger_than_any_list_is_split_from_outside():
    # 3000 commits of a side branch that cannot be tested, and one line beside it: only the merges tell.
    side = [(0,), *((commit,) for commit in range(1, 3000))]
    graph = Graph.from_parents([(), *side, (0,), (3001, 1500), (3002, 3000)])
    evidence = Evidence(skipped=frozenset(range(1, 3001)))
    belief = situation(graph, evidence, Options()).belief
    assert plan.middle_of_classes(graph, evidence, belief)[0] == 3002


@pytest.mark.parametrize(("rows", "inner", "columns"), [(60, 61, 960), (3, 2, 7), (1, 1, 1), (700, 700, 5)])
def test_a_product_in_pieces_is_the_product(rows, inner, columns):
    rng = np.random.default_rng(1)
    left, right = rng.normal(size=(rows, inner)), rng.normal(size=(inner, columns))
    assert product(left, right) == pytest.approx(left @ right, rel=1e-12, abs=1e-12)


@given(st.lists(st.integers(0, 50), min_size=1))
def test_keys_are_numbered_as_sorting_would(keys):
    number, found = renumbered(np.array(keys), 51)
    values, inverse = np.unique(keys, return_inverse=True)
    assert found.tolist() == values.tolist()
    assert number.tolist() == inverse.tolist()


def test_beside_a_look_under_way_the_quartiles_of_what_it_leaves_are_the_nearest_of_all_commits():
    graph = merged(3000, 3)
    ends = [
        Boot(commit=commit, values=(level, level * 1.001, level * 0.999), at_s=0.0, purpose=Purpose.GATE)
        for commit, level in [(0, 1000.0), (2999, 700.0)] * 3
    ]
    belief = situation(graph, Evidence(boots=tuple(ends)), Options()).belief
    futures = pending.foresee(graph, belief, {1500: 20.0})
    free = plan.testable(graph, Evidence())
    found = pending.fractions(graph, belief, futures, free)
    inside = graph.ancestors([1500])[0]
    rows = graph.ancestors(np.arange(3000))
    expected = []
    for part in (~inside, inside):
        mass = np.where(part, belief.probability, 0.0)
        share = rows @ mass / mass.sum()
        usable = np.flatnonzero(part & free & graph.candidates)
        expected += [np.abs(share[usable] - fraction).min() for fraction in (0.25, 0.5, 0.75)]
    off = []
    for place, commit in enumerate(found):
        part = ~inside if not inside[commit] else inside
        mass = np.where(part, belief.probability, 0.0)
        off.append(abs(float(rows[commit] @ mass / mass.sum()) - (0.25, 0.5, 0.75)[place % 3]))
    assert sorted(off) == pytest.approx(sorted(expected), abs=1e-8)

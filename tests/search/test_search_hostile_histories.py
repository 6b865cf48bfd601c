"""Whole hunts in histories that deceive: several changes, untestable commits, merges, roots, ends, sizes, weights."""

import numpy as np
import pytest
from hostile import COSTS, Lab, line

from bisector.search import AnswerKind, Graph, Options, Purpose, World, drive
from bisector.search.world import history

LINE = line(200)
SEEDS = (1, 2, 3)


def names_it(answer, first_bad):
    return answer.kind is AnswerKind.COMMIT and answer.commits == (first_bad,) and answer.probability >= 0.99


def forked():
    """A line 0..30, a side branch 31..50 that leaves it at 10, their merge 51, and a line on to 71."""
    side = [(10,), *((i,) for i in range(31, 50))]
    return Graph.from_parents([(), *((i,) for i in range(30)), *side, (30, 50), *((i,) for i in range(51, 71))])


def octopus():
    """Five branches of six commits (2..7, 8..13, .. 26..31) from 1, merged by 32, and a line on to 42."""
    branches = [(1,) if step == 0 else (2 + 6 * branch + step - 1,) for branch in range(5) for step in range(6)]
    heads = tuple(7 + 6 * branch for branch in range(5))
    return Graph.from_parents([(), (0,), *branches, heads, *((i,) for i in range(32, 42))])


def two_roots():
    """A line 0..20, another history 21..40 with a root of its own, their merge 41, and a line on to 61."""
    other = [(), *((i,) for i in range(21, 40))]
    return Graph.from_parents([(), *((i,) for i in range(20)), *other, (20, 40), *((i,) for i in range(41, 61))])


@pytest.mark.parametrize("seed", SEEDS)
def test_two_steps_that_share_the_blame_are_named_one_of_them_with_its_part(seed):
    answer = drive(LINE, Lab(LINE, {40: -6, 150: -6}, seed=seed), COSTS)
    assert answer.kind is AnswerKind.COMMIT
    assert answer.commits[0] in (40, 150)
    assert 0.3 < answer.share < 0.75
    assert "search again on either side" in answer.reason


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(("changes", "worse"), [({40: -12, 150: 4}, 40), ({40: 6, 150: -14}, 150)])
def test_of_two_opposite_steps_the_one_for_the_worse_is_named(changes, worse, seed):
    assert names_it(drive(LINE, Lab(LINE, changes, seed=seed), COSTS), worse)


@pytest.mark.parametrize("seed", SEEDS)
def test_two_steps_that_cancel_each_other_are_not_reproduced(seed):
    answer = drive(LINE, Lab(LINE, {40: -8, 150: 8}, seed=seed), COSTS)
    assert answer.kind is AnswerKind.NOT_REPRODUCED
    assert answer.builds == 2


@pytest.mark.parametrize("seed", SEEDS)
def test_a_change_made_by_twenty_commits_is_said_to_be_gradual_and_its_range_is_named(seed):
    answer = drive(LINE, Lab(LINE, {90 + i: -0.5 for i in range(20)}, seed=seed), COSTS)
    assert answer.kind is AnswerKind.SET
    assert "gradual" in answer.reason
    # The ends of the range are commits that were booted: a few before the first step and after the last may be in it.
    assert set(answer.commits) <= set(range(80, 120))
    assert set(range(97, 102)) <= set(answer.commits)
    assert answer.boots <= 120


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(("higher", "change"), [(True, 8), (False, -8)])
def test_an_improvement_is_found_when_asked_for_and_refused_when_not(higher, change, seed):
    asked = Options(higher_is_better=higher, find_improvement=True)
    assert names_it(drive(LINE, Lab(LINE, {77: change}, seed=seed), COSTS, asked), 77)
    unasked = drive(LINE, Lab(LINE, {77: change}, seed=seed), COSTS, Options(higher_is_better=higher))
    assert unasked.kind is AnswerKind.NOT_REPRODUCED
    assert "search.find=improvement" in unasked.reason


@pytest.mark.parametrize("seed", SEEDS)
def test_ends_that_were_named_the_wrong_way_round_are_told_apart_before_anything_is_built(seed):
    # The older commit is the slow one: between them something was repaired.
    answer = drive(LINE, Lab(LINE, {0: -8, 77: 8}, seed=seed), COSTS)
    assert answer.kind is AnswerKind.NOT_REPRODUCED
    assert "It is better, not worse" in answer.reason
    assert answer.builds == 2


@pytest.mark.parametrize("seed", range(1, 13))
def test_without_a_change_nobody_is_accused(seed):
    answer = drive(LINE, Lab(LINE, {}, seed=seed), COSTS)
    assert answer.kind is AnswerKind.NOT_REPRODUCED
    assert answer.commits == ()


@pytest.mark.parametrize(
    ("broken", "held"),
    [
        ({77}, {77, 78}),
        ({76}, {76, 77}),
        (range(70, 85), set(range(70, 86))),
        (range(60, 77), set(range(60, 78))),
        (range(77, 90), set(range(77, 91))),
        (range(1, 199), set(range(1, 200))),
    ],
    ids=["itself", "its parent", "around it", "before it", "after it", "every commit between the ends"],
)
def test_untestable_commits_at_the_change_leave_exactly_the_set_that_nothing_separates(broken, held):
    answer = drive(LINE, Lab(LINE, {77: -8}, broken=broken), COSTS)
    assert answer.kind is AnswerKind.SET
    assert set(answer.commits) == held
    assert answer.probability >= 0.99


def test_untestable_commits_beside_the_change_do_not_hide_it():
    broken = {*range(60, 76), *range(78, 95)}
    lab = Lab(LINE, {77: -8}, broken=broken)
    assert names_it(drive(LINE, lab, COSTS), 77)
    assert all(lab.asked.count(commit) <= 1 for commit in broken)


@pytest.mark.parametrize("end", [0, 199])
def test_an_end_that_cannot_be_tested_costs_no_other_build(end):
    answer = drive(LINE, Lab(LINE, {77: -8}, broken=[end]), COSTS)
    assert answer.kind is AnswerKind.NONE
    assert f"The {'good' if end == 0 else 'bad'} end cannot be tested" in answer.reason
    assert answer.builds <= 2


@pytest.mark.parametrize("dies_after", [1, 2, 3])
@pytest.mark.parametrize("commit", [76, 77, 78])
def test_a_kernel_that_boots_a_few_times_and_then_no_more_never_ends_in_a_wrong_name(commit, dies_after):
    lab = Lab(LINE, {77: -8})

    def measure(of, boots, runs):
        return None if of == commit and lab.asked.count(of) >= dies_after else lab(of, boots, runs)

    answer = drive(LINE, measure, COSTS)
    assert answer.kind in (AnswerKind.COMMIT, AnswerKind.SET)
    assert 77 in answer.commits
    # It dies in the audit: the range ends at the next kernels that the search happened to build.
    assert len(answer.commits) <= 5


@pytest.mark.parametrize("seed", SEEDS)
def test_boots_that_fail_by_chance_only_widen_the_answer(seed):
    chance = np.random.default_rng(seed)
    lab = Lab(LINE, {77: -8}, seed=seed)

    def measure(commit, boots, runs):
        return None if commit not in (0, 199) and chance.random() < 0.3 else lab(commit, boots, runs)

    answer = drive(LINE, measure, COSTS)
    assert 77 in answer.commits
    assert len(answer.commits) <= 20


@pytest.mark.parametrize(("graph", "merge"), [(forked(), 51), (octopus(), 32), (two_roots(), 41)])
def test_a_merge_itself_can_be_the_first_bad_commit(graph, merge):
    assert names_it(drive(graph, Lab(graph, {merge: -8}), COSTS), merge)


@pytest.mark.parametrize(
    ("graph", "broken", "held"),
    [
        (forked(), {51}, {51, 52}),
        (forked(), {30, 50}, {30, 50, 51}),
        (octopus(), {32}, {32, 33}),
        (octopus(), {7, 13, 19, 25, 31}, {7, 13, 19, 25, 31, 32}),
    ],
    ids=["merge", "parents of a merge", "octopus", "all heads of an octopus"],
)
def test_an_untestable_merge_or_its_parents_end_in_a_set_that_holds_it(graph, broken, held):
    merge = 51 if 51 in held else 32
    answer = drive(graph, Lab(graph, {merge: -8}, broken=broken), COSTS)
    assert answer.kind is AnswerKind.SET
    assert set(answer.commits) == held


@pytest.mark.parametrize("first_bad", [2, 7, 16, 31])
def test_a_commit_of_one_branch_of_an_octopus_is_named(first_bad):
    graph = octopus()
    assert names_it(drive(graph, Lab(graph, {first_bad: -8}), COSTS), first_bad)


@pytest.mark.parametrize("first_bad", [1, 20, 21, 30, 40])
def test_a_commit_of_either_history_of_two_roots_is_named(first_bad):
    graph = two_roots()
    assert names_it(drive(graph, Lab(graph, {first_bad: -8}), COSTS), first_bad)


def test_an_untestable_root_is_held_by_a_set_with_the_first_testable_commit_after_it():
    graph = two_roots()
    answer = drive(graph, Lab(graph, {21: -8}, broken=[21, 22]), COSTS)
    assert answer.kind is AnswerKind.SET
    assert set(answer.commits) == {21, 22, 23}


def test_the_side_branch_that_cannot_be_tested_is_the_answer_as_a_whole():
    graph = forked()
    answer = drive(graph, Lab(graph, {40: -8}, broken=range(31, 51)), COSTS)
    assert answer.kind is AnswerKind.SET
    assert set(answer.commits) == set(range(31, 52))


@pytest.mark.parametrize("count", [2, 3, 4])
def test_the_shortest_ranges_are_solved_for_every_commit(count):
    graph = line(count)
    for first_bad in range(1, count):
        answer = drive(graph, Lab(graph, {first_bad: -8}, seed=first_bad), COSTS)
        assert names_it(answer, first_bad)
        assert answer.builds <= count


@pytest.mark.parametrize("first_bad", [1, 2, 198, 199])
def test_the_first_and_the_last_candidates_are_found_like_any_other(first_bad):
    assert names_it(drive(LINE, Lab(LINE, {first_bad: -8}), COSTS), first_bad)


@pytest.mark.parametrize("first_bad", [51, 120, 180])
def test_a_range_in_the_middle_of_a_longer_history_is_searched_alone(first_bad):
    graph = Graph.from_parents(LINE.parents, good=50, bad=180)
    lab = Lab(graph, {first_bad: -8})
    assert names_it(drive(graph, lab, COSTS), first_bad)
    assert set(lab.asked) <= set(range(50, 181))


def test_a_change_before_the_good_end_is_not_reproduced():
    graph = Graph.from_parents(LINE.parents, good=50, bad=180)
    answer = drive(graph, Lab(graph, {30: -8}), COSTS)
    assert answer.kind is AnswerKind.NOT_REPRODUCED


def test_weights_that_are_right_save_builds_and_wrong_ones_only_cost_some():
    def hunt(first_bad, weights):
        graph = Graph.from_parents(LINE.parents, weights=weights)
        answer = drive(graph, Lab(graph, {first_bad: -8}), COSTS)
        assert names_it(answer, first_bad)
        return answer.builds

    even, here, nowhere = np.ones(200), np.ones(200), np.ones(200)
    here[70:80] = 50.0
    nowhere[77] = 1e-6
    assert hunt(77, here) < hunt(77, even) <= hunt(150, here)
    assert hunt(77, nowhere) <= hunt(77, even) + 5


@pytest.mark.parametrize("merges", [0.0, 0.08])
@pytest.mark.parametrize(("count", "builds"), [(16_000, 20), (200_000, 24)])
def test_a_long_history_is_halved_and_no_more(count, builds, merges):
    graph = history(World(commits=count, merges=merges), np.random.default_rng(1))
    first_bad = count // 3
    answer = drive(graph, Lab(graph, {first_bad: -8}), COSTS)
    assert names_it(answer, first_bad)
    assert answer.builds <= builds
    assert sum(look.purpose is Purpose.SEARCH for look in answer.looks) <= 1.6 * np.log2(count)

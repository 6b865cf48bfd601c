from dataclasses import replace

import numpy as np
import pytest

from bisector.search import AnswerKind, Boot, Costs, Evidence, Finding, Graph, Look, Options, Purpose, drive, propose
from bisector.search.situation import situation

COSTS = Costs(build_s=300.0, boot_s=120.0, run_s=20.0)


def line(count):
    return Graph.from_parents([(), *((i,) for i in range(count - 1))])


def boot(commit, *values, purpose=Purpose.GATE, at_s=0.0):
    return Boot(commit=commit, values=values, at_s=at_s, purpose=purpose)


def gate_passed(bad, slow=700.0):
    """Three pairs of the ends, 1000 against `slow`."""
    boots = [boot(end, level, level + 1, level - 1) for _ in range(3) for end, level in ((0, 1000.0), (bad, slow))]
    return Evidence(boots=tuple(boots), built=frozenset({0, bad}))


def seen(evidence, commit, level, purpose=Purpose.SEARCH, times=1):
    more = tuple(boot(commit, level, level + 1, level - 1, purpose=purpose) for _ in range(times))
    return replace(evidence, boots=evidence.boots + more, built=evidence.built | {commit})


def test_the_first_step_is_a_boot_of_an_end():
    look = propose(line(10), Evidence(), COSTS, Options())
    assert isinstance(look, Look)
    assert look.purpose is Purpose.GATE
    assert look.commit in (0, 9)


def test_an_end_that_is_built_already_is_booted_first():
    look = propose(line(10), Evidence(built=frozenset({9})), COSTS, Options())
    assert look.commit == 9


def test_after_the_gate_the_middle_is_looked_at():
    look = propose(line(101), gate_passed(100), COSTS, Options())
    assert look.purpose is Purpose.SEARCH
    assert look.commit == 50
    assert "50/50" in look.reason
    assert "must be built" in look.reason


def test_a_skipped_proposal_is_replaced_by_its_neighbour():
    evidence = gate_passed(100)
    skipped = set()
    for _ in range(20):
        look = propose(line(101), replace(evidence, skipped=frozenset(skipped)), COSTS, Options())
        assert look.commit not in skipped
        skipped.add(look.commit)
    assert max(abs(commit - 50) for commit in skipped) <= 20


def test_the_same_evidence_gives_the_same_step():
    evidence = seen(gate_passed(100), 50, 1000.0)
    assert propose(line(101), evidence, COSTS, Options()) == propose(line(101), evidence, COSTS, Options())


@pytest.mark.parametrize(("end", "name"), [(0, "good"), (9, "bad")])
def test_an_end_that_cannot_be_tested_ends_the_hunt_and_says_so(end, name):
    finding = propose(line(10), Evidence(skipped=frozenset({end})), COSTS, Options())
    assert isinstance(finding, Finding)
    assert finding.kind is AnswerKind.NONE
    assert f"The {name} end cannot be tested" in finding.reason


def test_an_end_that_crashes_late_does_not_take_back_what_it_showed():
    evidence = replace(seen(gate_passed(100), 50, 1000.0), skipped=frozenset({100}))
    look = propose(line(101), evidence, COSTS, Options())
    assert isinstance(look, Look)
    assert look.commit not in (50, 100)


def test_two_ends_with_one_image_are_never_measured():
    evidence = Evidence(built=frozenset({0, 9}), signatures={0: "same", 9: "same"})
    finding = propose(line(10), evidence, COSTS, Options())
    assert finding.kind is AnswerKind.NOT_REPRODUCED
    assert "same kernel image" in finding.reason


def test_a_commit_with_its_parents_image_is_never_accused():
    # 5 jumps against 4 in the values, but both are one image: the lab has lied, the commit is innocent.
    evidence = seen(seen(gate_passed(9), 4, 1000.0, times=3), 5, 700.0, times=3)
    accused = situation(line(10), evidence, Options()).belief.probability
    assert accused[5] > 0.99
    guarded = replace(evidence, signatures={4: "a", 5: "a"})
    assert situation(line(10), guarded, Options()).belief.probability[5] < 1e-6
    step = propose(line(10), guarded, COSTS, Options())
    assert not (isinstance(step, Finding) and 5 in step.commits and step.kind is AnswerKind.COMMIT)


def test_commits_with_one_image_share_their_boots():
    evidence = seen(gate_passed(100), 50, 1000.0, times=2)
    shared = replace(evidence, built=evidence.built | {60}, signatures={50: "a", 60: "a"})
    probability = situation(line(101), shared, Options()).belief.probability
    assert probability[:61].sum() < 1e-3
    assert propose(line(101), shared, COSTS, Options()).commit == 80


def test_a_merge_with_the_image_of_its_first_parent_clears_the_side_branch():
    parents = [(), (0,), (1,), (1,), (3,), (2, 4), (5,), (6,)]
    graph = Graph.from_parents(parents)
    evidence = replace(gate_passed(7), built=frozenset({0, 2, 5, 7}), signatures={2: "a", 5: "a"})
    probability = situation(graph, evidence, Options()).belief.probability
    assert probability[[3, 4, 5]].sum() < 1e-6
    assert probability[[1, 2, 6, 7]].sum() == pytest.approx(1.0)


def test_a_persons_marks_settle_a_commit_without_a_boot():
    evidence = replace(gate_passed(100), marked_good=frozenset({40}), marked_bad=frozenset({60}))
    probability = situation(line(101), evidence, Options()).belief.probability
    assert probability[41:61].sum() == pytest.approx(1.0)
    assert propose(line(101), evidence, COSTS, Options()).commit == 50


def test_marks_that_contradict_each_other_end_the_hunt_and_say_so():
    evidence = replace(gate_passed(100), marked_good=frozenset({60}), marked_bad=frozenset({40}))
    finding = propose(line(101), evidence, COSTS, Options())
    assert finding.kind is AnswerKind.NONE
    assert "take back a mark" in finding.reason


def test_a_spent_budget_of_boots_ends_with_the_commits_that_remain_possible():
    evidence = seen(gate_passed(100), 50, 1000.0)
    finding = propose(line(101), evidence, COSTS, Options(max_boots=len(evidence.boots)))
    assert finding.kind is AnswerKind.SET
    assert set(finding.commits) >= set(range(52, 100))
    assert finding.probability >= 0.99
    assert "budget of 7 boots" in finding.reason


def test_a_spent_budget_of_time_ends_the_hunt():
    evidence = replace(seen(gate_passed(100), 50, 1000.0), now_s=7200.0)
    finding = propose(line(101), evidence, COSTS, Options(budget_s=7000.0))
    assert finding.kind is AnswerKind.SET
    assert "spent" in finding.reason


def test_a_budget_that_ends_inside_the_gate_says_what_it_would_take():
    boots = tuple(boot(end, v, v * 1.03, v * 0.97) for end, v in ((0, 1000.0), (9, 1001.0)))
    finding = propose(line(10), Evidence(boots=boots), COSTS, Options(max_boots=2))
    assert finding.kind is AnswerKind.NOT_REPRODUCED
    assert "boots of" in finding.reason


def test_an_accusation_is_preceded_by_fresh_pairs_of_the_commit_and_its_parent():
    evidence = seen(seen(gate_passed(9), 4, 1000.0, times=3), 5, 700.0, times=3)
    order = []
    step = propose(line(10), evidence, COSTS, Options())
    while isinstance(step, Look):
        assert step.purpose is Purpose.AUDIT
        order.append(step.commit)
        evidence = seen(evidence, step.commit, 700.0 if step.commit == 5 else 1000.0, Purpose.AUDIT)
        step = propose(line(10), evidence, COSTS, Options())
    assert order == [4, 5, 4]
    assert step.kind is AnswerKind.COMMIT
    assert step.commits == (5,)
    assert step.share == 1.0


def test_without_an_audit_the_accusation_stands_on_the_search_alone():
    evidence = seen(seen(gate_passed(9), 4, 1000.0, times=3), 5, 700.0, times=3)
    finding = propose(line(10), evidence, COSTS, Options(audit=False))
    assert finding.kind is AnswerKind.COMMIT
    assert finding.commits == (5,)


def test_fresh_pairs_without_a_jump_leave_a_range_and_no_name():
    evidence = seen(seen(gate_passed(9), 4, 1000.0, times=3), 5, 700.0, times=3)
    step = propose(line(10), evidence, COSTS, Options())
    while isinstance(step, Look) and step.purpose is Purpose.AUDIT:
        evidence = seen(evidence, step.commit, 700.0, Purpose.AUDIT)
        step = propose(line(10), evidence, COSTS, Options())
    assert not (isinstance(step, Finding) and step.kind is AnswerKind.COMMIT)


def test_an_accused_that_no_longer_boots_is_reported_as_a_range():
    evidence = seen(seen(gate_passed(9), 4, 1000.0, times=3), 5, 700.0, times=3)
    finding = propose(line(10), replace(evidence, skipped=frozenset({5})), COSTS, Options())
    assert finding.kind is AnswerKind.SET
    assert 5 in finding.commits
    assert len(finding.commits) > 1


def test_a_long_silence_of_the_ends_is_broken_by_a_reference_boot():
    evidence = seen(gate_passed(100), 50, 1000.0)
    look = propose(line(101), replace(evidence, now_s=3600.0), COSTS, Options())
    assert look.purpose is Purpose.REFERENCE
    assert look.commit in (0, 100)


def test_a_range_of_two_commits_needs_no_search(tiny_lab):
    graph = line(2)
    answer = drive(graph, tiny_lab(graph, 1), COSTS)
    assert answer.kind is AnswerKind.COMMIT
    assert answer.commits == (1,)
    assert {look.purpose for look in answer.looks} == {Purpose.GATE, Purpose.AUDIT}


def test_when_nothing_in_between_can_be_tested_the_whole_range_is_the_answer(tiny_lab):
    graph = line(10)
    answer = drive(graph, tiny_lab(graph, 4, broken=frozenset(range(1, 9))), COSTS)
    assert answer.kind is AnswerKind.SET
    assert set(answer.commits) == set(range(1, 10))
    assert answer.probability == pytest.approx(1.0)


def test_parallel_untestable_commits_are_told_apart_by_a_child_outside_their_class(tiny_lab):
    # 2 and 3 are untestable heads of two branches; only their children 4 and 5 tell which one it was.
    parents = [(), (0,), (1,), (1,), (2,), (3,), (4, 5), (6,)]
    graph = Graph.from_parents(parents)
    answer = drive(graph, tiny_lab(graph, 2, broken=frozenset({2, 3})), COSTS)
    assert answer.kind is AnswerKind.SET
    assert set(answer.commits) == {2, 4}


@pytest.mark.parametrize(("first_bad", "suspects"), [(1, {1}), (2, {2, 3})])
def test_parallel_untestable_commits_whose_merge_is_bad_are_told_apart_by_a_child_of_one(tiny_lab, first_bad, suspects):
    # 3 merges 1 and 2, which nobody can test; 4 has only 1 below it and is itself no suspect once 3 is bad.
    graph = Graph.from_parents([(), (0,), (0,), (1, 2), (1,), (3,), (5,), (6,), (4, 7)])
    answer = drive(graph, tiny_lab(graph, first_bad, broken=frozenset({1, 2})), COSTS)
    assert set(answer.commits) == suspects


def test_a_root_of_another_history_can_be_the_first_bad_commit(tiny_lab):
    parents = [(), (0,), (), (2,), (1, 3), (4,)]
    graph = Graph.from_parents(parents)
    answer = drive(graph, tiny_lab(graph, 2), COSTS)
    assert answer.kind is AnswerKind.COMMIT
    assert answer.commits == (2,)


def test_a_commit_outside_the_graph_is_refused():
    with pytest.raises(ValueError, match="commit 12"):
        propose(line(10), Evidence(skipped=frozenset({12})), COSTS, Options())


def test_measuring_nothing_is_refused():
    with pytest.raises(ValueError, match="returned no boot"):
        drive(line(5), lambda commit, boots, runs: [], COSTS)


def test_a_change_in_many_small_steps_ends_without_a_name():
    graph = line(400)
    rng = np.random.default_rng(3)

    def ramp(commit, boots, runs):
        level = -5.0 * float(np.clip((commit - 190) / 20, 0, 1))
        return [list(1000 * np.exp((level + rng.normal(0, 1) + rng.normal(0, 3, runs)) / 100)) for _ in range(boots)]

    answer = drive(graph, ramp, COSTS)
    if answer.kind is AnswerKind.COMMIT:
        assert 190 <= answer.commits[0] <= 211
        assert answer.share < 1
    assert answer.boots <= 140

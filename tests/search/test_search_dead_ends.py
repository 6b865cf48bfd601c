"""What the search does when little is left: kernels that no longer boot, audits that fail, looks that teach nothing."""

import re
from dataclasses import replace

import pytest
from hostile import COSTS, Lab, line

from bisector.search import (
    AnswerKind,
    Boot,
    Evidence,
    Finding,
    Graph,
    Look,
    Options,
    Purpose,
    assess,
    drive,
    propose,
)


def boots(commit, level, times=1, purpose=Purpose.SEARCH, spread=1.0):
    values = (level, level + spread, level - spread)
    return tuple(Boot(commit=commit, values=values, at_s=0.0, purpose=purpose) for _ in range(times))


def gate(last, good=1000.0, bad=700.0, spread=1.0, pairs=3):
    ends = boots(0, good, pairs, Purpose.GATE, spread) + boots(last, bad, pairs, Purpose.GATE, spread)
    return Evidence(boots=ends, built=frozenset({0, last}))


def with_boots(evidence, *more):
    new = tuple(boot for group in more for boot in group)
    return replace(evidence, boots=evidence.boots + new, built=evidence.built | {boot.commit for boot in new})


def test_a_search_whose_ends_both_died_goes_on_without_reference_boots():
    evidence = replace(with_boots(gate(100), boots(50, 1000.0)), skipped=frozenset({0, 100}), now_s=1e5)
    look = propose(line(101), evidence, COSTS, Options())
    assert look.purpose is Purpose.SEARCH
    assert look.commit not in (0, 50, 100)


def test_when_no_kernel_boots_any_more_what_remains_possible_is_the_answer():
    evidence = with_boots(gate(4), boots(2, 840.0))
    finding = propose(line(5), replace(evidence, skipped=frozenset(range(5))), COSTS, Options())
    assert finding.kind is AnswerKind.SET
    assert set(finding.commits) == {1, 2, 3, 4}
    assert "would tell more" in finding.reason


def undecided(times):
    """As many pairs of boots of one commit that show now one side and now the other, in a noisy lab."""
    either = [boots(50, level, spread=30.0)[0] for level in (1000.0, 700.0)] * times
    return with_boots(gate(100, spread=30.0), tuple(either))


@pytest.mark.parametrize(("times", "most", "stalled"), [(42, 100, 80), (62, 400, 120)])
def test_a_search_that_learns_nothing_blames_the_lab_keeps_every_commit_and_says_what_it_would_take(
    times, most, stalled
):
    finding = propose(line(101), undecided(times), COSTS, Options(max_boots=most))
    assert isinstance(finding, Finding)
    assert f"The last {stalled} boots told nearly nothing: the lab is too noisy" in finding.reason
    assert re.search(r"The ends differ by -[\d.]+ %; .* about \d+ more are needed \([\d.]+ (min|h)\)", finding.reason)
    assert len(finding.commits) >= 98


def test_a_search_that_learns_little_goes_on_while_the_budget_could_still_do_it():
    assert isinstance(propose(line(101), undecided(42), COSTS, Options()), Look)


def test_a_spent_budget_with_nothing_left_to_boot_makes_no_promise():
    evidence = replace(undecided(42), skipped=frozenset(range(101)))
    finding = propose(line(101), evidence, COSTS, Options(max_boots=80))
    assert finding.reason == "The budget of 80 boots is spent: 100 commits remain possible."


def test_ends_that_are_no_longer_clearly_apart_are_booted_again_before_anything_else():
    # A gate passed by luck: later boots of the ends show a third of what it did.
    lucky = with_boots(gate(100, good=1000.0, bad=950.0, pairs=2), boots(50, 1000.0))
    assert propose(line(101), lucky, COSTS, Options()).purpose is Purpose.SEARCH
    wobble = [boots(0, level)[0] for level in (960.0, 1010.0)] + [boots(100, level)[0] for level in (1000.0, 955.0)]
    look = propose(line(101), with_boots(lucky, tuple(wobble)), COSTS, Options())
    assert (look.purpose, look.commit) in {(Purpose.GATE, 0), (Purpose.GATE, 100)}
    assert "end again: all else is measured against the ends" in look.reason
    assert "standard errors so far only" not in look.reason


def audited(graph, evidence, options, level):
    """The step after an audit whose fresh boots all show `level`, and the evidence then."""
    step = propose(graph, evidence, COSTS, options)
    while isinstance(step, Look) and step.purpose is Purpose.AUDIT:
        evidence = with_boots(evidence, boots(step.commit, level, 1, Purpose.AUDIT))
        step = propose(graph, evidence, COSTS, options)
    return step, evidence


@pytest.mark.parametrize(("level", "doubtful"), [(700.0, {1, 2, 3}), (1000.0, {7, 8, 9})])
def test_fresh_pairs_that_show_no_jump_beside_a_set_widen_it_to_both_sides(level, doubtful):
    # 4 and 5 do not build; 3 was fast and 6 slow while the search went on, and in fresh pairs they are alike.
    evidence = with_boots(gate(9), boots(3, 1000.0, 3), boots(6, 700.0, 3))
    evidence = replace(evidence, skipped=frozenset({4, 5}))
    finding, evidence = audited(line(10), evidence, Options(), level)
    assert finding.kind is AnswerKind.SET
    assert set(finding.commits) >= {4, 5, 6} | doubtful
    assert finding.commits[:3] == (4, 5, 6)
    assert "fresh pairs of the kernels on both sides show" in finding.reason
    assert assess(line(10), evidence, Options()).audit.startswith("refuted: ")


def test_a_refuted_set_next_to_the_good_end_does_not_name_that_end():
    evidence = with_boots(gate(9, pairs=4), boots(3, 700.0, 4))
    evidence = replace(evidence, skipped=frozenset({1, 2}))
    finding, _ = audited(line(10), evidence, Options(), 700.0)
    assert finding.kind is AnswerKind.SET
    assert 0 not in finding.commits
    assert set(finding.commits) >= {1, 2, 3}


def test_the_state_of_an_audit_beside_a_set_is_reported():
    graph = line(40)
    answer = drive(graph, Lab(graph, {11: -8}, broken={10, 11}), COSTS)
    assert answer.kind is AnswerKind.SET
    report = assess(graph, answer.evidence, Options())
    assert report.audit.startswith("confirmed: ")


def test_a_set_in_a_history_with_a_root_of_its_own_is_audited_against_the_good_end():
    graph = Graph.from_parents([(), (0,), (1,), (), (3,), (4,), (2, 5), (6,)])
    answer = drive(graph, Lab(graph, {3: -8}, broken={3, 4}), COSTS)
    assert answer.kind is AnswerKind.SET
    assert set(answer.commits) == {3, 4, 5}
    assert {look.commit for look in answer.looks if look.purpose is Purpose.AUDIT} == {0, 5}


@pytest.mark.parametrize("end", [0, 9])
def test_an_assessment_after_boots_of_one_end_shows_its_level_and_no_effect(end):
    report = assess(line(10), Evidence(boots=boots(end, 1000.0, 2, Purpose.GATE)), Options())
    levels = (report.good_level, report.bad_level) if end == 0 else (report.bad_level, report.good_level)
    assert levels == (pytest.approx(1000.0, rel=1e-3), None)
    assert report.effect_percent is None
    assert report.detectable_percent is None


def test_a_refuted_audit_of_a_commit_that_is_not_yet_certain_leads_back_to_the_search():
    evidence = with_boots(gate(9), boots(4, 1000.0, 3), boots(5, 700.0, 3))
    certain, _ = audited(line(10), evidence, Options(confidence=0.99), 700.0)
    assert isinstance(certain, Finding)
    assert "fresh pairs" in certain.reason
    uncertain, evidence = audited(line(10), evidence, Options(confidence=1 - 1e-6), 700.0)
    assert assess(line(10), evidence, Options()).audit.startswith("refuted: ")
    assert isinstance(uncertain, Look)
    assert uncertain.purpose is Purpose.SEARCH


def test_an_audit_with_half_a_pair_is_only_begun():
    evidence = with_boots(gate(9), boots(4, 1000.0, 3), boots(5, 700.0, 3))
    assert assess(line(10), evidence, Options()).audit == "not begun"
    evidence = with_boots(evidence, boots(4, 1000.0, 1, Purpose.AUDIT))
    assert assess(line(10), evidence, Options()).audit == "begun"


def test_all_slow_children_of_a_commit_that_cannot_be_audited_bound_its_range():
    # 1 does not build; 3 and 4 are children of 2 and both slow: whichever is listed first, neither is in doubt.
    for parents in ([(), (0,), (1,), (2,), (2,), (3, 4)], [(), (0,), (1,), (2,), (2,), (4, 3)]):
        graph = Graph.from_parents(parents)
        evidence = with_boots(gate(5), boots(2, 700.0, 3), boots(3, 700.0, 3), boots(4, 700.0, 3))
        evidence = replace(evidence, skipped=frozenset({1}), marked_good=frozenset({1}))
        finding = propose(graph, evidence, COSTS, Options())
        assert finding.kind is AnswerKind.SET
        assert set(finding.commits) == {2}


def test_of_equally_likely_commits_none_is_left_out_of_a_spent_budgets_answer():
    evidence = with_boots(gate(100), boots(50, 1000.0, 3))
    finding = propose(line(101), evidence, COSTS, Options(max_boots=len(evidence.boots)))
    assert set(finding.commits) == set(range(51, 101))

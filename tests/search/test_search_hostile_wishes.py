"""Whole hunts under hostile wishes: budgets that end anywhere, marks against the data, images, figures out of range."""

import math
from dataclasses import replace

import pytest
from hostile import COSTS, Lab, line

from bisector.search import AnswerKind, Costs, Options, Purpose, assess, drive, propose

LINE = line(200)
LAST = len(LINE) - 1


def hunt(lab, options=None, **known):
    """A hunt whose evidence holds `known` beside what was measured; a function of the evidence gives its value."""

    def step(graph, evidence, costs, options):
        said = {name: of(evidence) if callable(of) else frozenset(of) for name, of in known.items()}
        return propose(graph, replace(evidence, **said), costs, options)

    return drive(LINE, lab, COSTS, options, step=step)


def one_image(commits):
    return lambda evidence: {built: "one" if built in commits else f"own {built}" for built in evidence.built}


FULL = drive(LINE, Lab(LINE, {77: -8}), COSTS)


@pytest.mark.parametrize("boots", range(FULL.boots))
def test_a_budget_of_boots_may_end_at_any_moment_and_the_first_bad_commit_is_still_in_the_answer(boots):
    options = Options(max_boots=boots)
    answer = drive(LINE, Lab(LINE, {77: -8}), COSTS, options)
    assert answer.boots == boots
    if answer.kind is AnswerKind.NOT_REPRODUCED:
        assert boots <= 4
        return
    assert answer.kind is AnswerKind.SET
    assert 77 in answer.commits
    assert answer.probability >= 0.99
    assert f"The budget of {boots} boots is spent" in answer.reason
    assert sum(assess(LINE, answer.evidence, options).probability) == pytest.approx(1.0)


@pytest.mark.parametrize("share", [0.0, 0.1, 0.3, 0.5, 0.7, 0.9])
def test_a_budget_of_time_may_end_at_any_moment_and_is_overrun_by_one_look_at_most(share):
    budget_s = share * FULL.machine_s
    answer = drive(LINE, Lab(LINE, {77: -8}), COSTS, Options(budget_s=budget_s))
    assert answer.kind in (AnswerKind.SET, AnswerKind.NOT_REPRODUCED)
    assert answer.kind is AnswerKind.NOT_REPRODUCED or 77 in answer.commits
    assert "budget" in answer.reason.lower()
    last_look_s = COSTS.build_s + COSTS.boot_s + 16 * COSTS.run_s
    assert answer.machine_s <= budget_s + last_look_s


def test_a_budget_that_ends_within_the_gate_says_how_many_boots_would_tell():
    answer = drive(LINE, Lab(LINE, {77: -1}), COSTS, Options(max_boots=4, min_effect_percent=0.5))
    assert answer.kind is AnswerKind.NOT_REPRODUCED
    assert "Too little to tell" in answer.reason


def test_right_marks_save_builds():
    answer = hunt(Lab(LINE, {77: -8}), marked_good={70}, marked_bad={80})
    assert answer.commits == (77,)
    assert answer.builds <= FULL.builds - 4


@pytest.mark.parametrize(
    "marks",
    [
        {"marked_good": {90}},
        {"marked_bad": {50}},
        {"marked_good": {77}},
        {"marked_bad": {76}},
        {"marked_good": {90}, "marked_bad": {100}},
        {"marked_good": {100}, "marked_bad": {101}},
    ],
    ids=["good too late", "bad too early", "the first bad one good", "its parent bad", "both too late", "neighbours"],
)
@pytest.mark.parametrize("seed", [1, 2])
def test_a_mark_that_the_boots_contradict_accuses_nobody_and_leaves_a_range_that_holds_the_truth(marks, seed):
    answer = hunt(Lab(LINE, {77: -8}, seed=seed), **marks)
    assert answer.kind is AnswerKind.SET
    assert 77 in answer.commits
    assert "fresh pairs" in answer.reason


@pytest.mark.parametrize(
    "marks", [{"marked_good": {LAST}}, {"marked_bad": {0}}, {"marked_good": {9}, "marked_bad": {8}}]
)
def test_marks_that_leave_no_commit_end_the_hunt_before_a_boot(marks):
    answer = hunt(Lab(LINE, {77: -8}), **marks)
    assert answer.kind is AnswerKind.NONE
    assert answer.boots == 0
    assert "take back a mark" in answer.reason


@pytest.mark.parametrize(
    ("broken", "marks", "held"),
    [
        ({76, 77}, {"marked_good": {76}, "marked_bad": {77}}, {77}),
        ({76}, {"marked_good": {76}}, {77, 78}),
        ({77}, {"marked_bad": {77}}, {76, 77}),
    ],
    ids=["both marked", "the parent marked good", "the first bad one marked bad"],
)
def test_where_no_pair_can_be_booted_a_persons_marks_bound_the_range(broken, marks, held):
    answer = hunt(Lab(LINE, {77: -8}, broken=broken), **marks)
    assert answer.kind is AnswerKind.SET
    assert set(answer.commits) == held


@pytest.mark.parametrize("commits", [range(77, 81), range(70, 77), range(77, 200), range(77)])
def test_kernels_that_are_one_image_on_either_side_of_the_change_do_not_hide_it(commits):
    answer = hunt(Lab(LINE, {77: -8}), signatures=one_image(commits))
    assert answer.kind is AnswerKind.COMMIT
    assert answer.commits == (77,)


def test_a_change_that_was_taken_back_to_the_very_image_of_the_good_end_is_not_lost():
    lab = Lab(LINE, {77: -8, 150: 8, 160: -8})
    answer = hunt(lab, signatures=one_image({0, *range(150, 160)}))
    assert answer.kind is AnswerKind.COMMIT
    assert answer.commits[0] in (77, 160)


def test_a_lab_that_measures_one_image_as_two_accuses_neither_of_its_commits():
    answer = hunt(Lab(LINE, {77: -8}), signatures=one_image({76, 77}))
    assert answer.kind is AnswerKind.SET
    assert "fresh pairs" in answer.reason


def test_ends_with_one_image_are_told_before_they_are_measured_again():
    answer = hunt(Lab(LINE, {77: -8}), signatures=one_image({0, LAST}))
    assert answer.kind is AnswerKind.NOT_REPRODUCED
    assert answer.boots == 2


@pytest.mark.parametrize(
    "costs",
    [
        Costs(build_s=0, boot_s=0, run_s=0),
        Costs(build_s=0, boot_s=1, run_s=0),
        Costs(build_s=1e9, boot_s=1, run_s=1),
        Costs(build_s=1, boot_s=0, run_s=1e6),
    ],
    ids=["all free", "free builds and runs", "a build is everything", "a run is everything"],
)
def test_any_costs_lead_to_the_answer(costs):
    answer = drive(LINE, Lab(LINE, {77: -8}), costs)
    assert answer.kind is AnswerKind.COMMIT
    assert answer.commits == (77,)


@pytest.mark.parametrize("build_s", [1e4, 1e6])
def test_dear_builds_are_paid_for_with_boots_and_never_put_off_for_ever(build_s):
    dear = drive(LINE, Lab(LINE, {77: -4}, seed=2), Costs(build_s=build_s, boot_s=1, run_s=1))
    cheap = drive(LINE, Lab(LINE, {77: -4}, seed=2), Costs(build_s=1, boot_s=100, run_s=100))
    assert dear.commits == cheap.commits == (77,)
    assert dear.builds <= cheap.builds
    assert cheap.boots < dear.boots <= 60


@pytest.mark.parametrize("name", ["build_s", "boot_s", "run_s"])
@pytest.mark.parametrize("cost_s", [-1.0, math.nan, math.inf])
def test_a_cost_that_is_none_is_refused(name, cost_s):
    with pytest.raises(ValueError, match=f"{name} must be finite"):
        replace(COSTS, **{name: cost_s})


@pytest.mark.parametrize("confidence", [0.0, 1.0, -0.5, 99.0, math.nan])
def test_a_confidence_that_is_no_probability_short_of_certainty_is_refused(confidence):
    with pytest.raises(ValueError, match="confidence must lie between 0 and 1"):
        Options(confidence=confidence)


@pytest.mark.parametrize("percent", [0.0, -1.0, math.nan, math.inf])
def test_a_smallest_effect_that_no_boots_could_exclude_is_refused(percent):
    with pytest.raises(ValueError, match="min_effect_percent must be finite and > 0"):
        Options(min_effect_percent=percent)


def test_the_highest_confidence_is_reached_or_the_answer_says_why_not():
    sure = drive(LINE, Lab(LINE, {77: -8}), COSTS, Options(confidence=1 - 1e-9))
    assert sure.commits == (77,)
    assert sure.probability >= 1 - 1e-9
    beyond = drive(LINE, Lab(LINE, {77: -8}), COSTS, Options(confidence=1 - 1e-15))
    assert beyond.kind is AnswerKind.SET
    assert beyond.commits[0] == 77
    assert "would tell more" in beyond.reason


def test_without_the_audit_the_same_commit_is_named_for_less():
    options = Options(audit=False)
    answer = drive(LINE, Lab(LINE, {77: -8}), COSTS, options)
    assert answer.commits == (77,)
    assert answer.boots < FULL.boots
    assert assess(LINE, answer.evidence, options).audit == "not asked for"
    assert not [look for look in answer.looks if look.purpose is Purpose.AUDIT]

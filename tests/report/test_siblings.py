import math

import pytest
from scipy import stats
from story import Story, assessment, bad_runs, counting, good_runs, recipe, run_of

from bisector.recipe.load import canonical_text, parse_recipe
from bisector.report.as_json import report_document
from bisector.report.siblings import Movement, sibling_changes, welch_interval
from bisector.report.summary import summarise
from bisector.report.text import report_text


def changes_of(story):
    state = story.state
    return {c.test: c for c in sibling_changes(state, assessment(state), parse_recipe(state.recipe_text))}


def test_welchs_interval_is_the_one_scipy_gives():
    good, bad = [4.0, 4.2, 3.9, 4.4], [3.1, 3.6, 2.9]
    difference, low, high = welch_interval(good, bad)
    expected = stats.ttest_ind(bad, good, equal_var=False).confidence_interval(0.95)
    assert difference == pytest.approx(sum(bad) / 3 - sum(good) / 4)
    assert (low, high) == pytest.approx((expected.low, expected.high))


def test_one_boot_on_a_side_says_nothing():
    assert welch_interval([1.0], [2.0, 3.0]) is None


def test_constant_boots_give_an_interval_without_width():
    assert welch_interval([2.0, 2.0], [3.0, 3.0]) == (1.0, 1.0, 1.0)


def test_a_sibling_that_fell_with_the_metric_moved_and_one_that_stood_is_unchanged():
    story = Story().build(0).build(9)
    for _ in range(3):
        story.look(0, good_runs()).look(9, bad_runs())
    changes = changes_of(story)
    assert changes["fork_test"].movement is Movement.MOVED
    assert changes["fork_test"].effect_percent == pytest.approx(100 * (107 / 120 - 1), abs=0.05)
    assert changes["brk_test"].movement is Movement.UNCHANGED
    assert changes["brk_test"].good_boots == changes["brk_test"].bad_boots == 3


def test_the_boot_is_the_unit_not_the_run():
    # Forty runs of two boots that disagree: with runs as units this would look certain.
    story = Story().build(0).build(9)
    for level in (100.0, 110.0):
        story.look(0, [run_of(page_test=43.7, brk_test=level, fork_test=1.0, exec_test=1.0)] * 20)
        story.look(9, [run_of(page_test=38.1, brk_test=level - 5, fork_test=1.0, exec_test=1.0)] * 20)
    assert changes_of(story)["brk_test"].movement is Movement.UNCLEAR


def test_a_change_too_small_to_be_of_interest_is_unchanged_however_certain():
    story = Story().build(0).build(9)
    for _ in range(3):
        story.look(0, [run_of(page_test=43.7, brk_test=100.0, fork_test=1.0, exec_test=1.0)])
        story.look(9, [run_of(page_test=38.1, brk_test=99.9, fork_test=1.0, exec_test=1.0)])
    change = changes_of(story)["brk_test"]
    assert change.movement is Movement.UNCHANGED
    assert change.effect_percent == pytest.approx(-0.1)


def test_a_test_that_was_never_run_is_unclear_without_figures():
    story = Story().build(0).build(9)
    for _ in range(2):
        story.look(0, [run_of(page_test=43.7)]).look(9, [run_of(page_test=38.1)])
    change = changes_of(story)["exec_test"]
    assert (change.movement, change.effect_percent, change.good_value) == (Movement.UNCLEAR, None, None)


def test_a_phase_is_reported_beside_the_test_though_nobody_asked_for_it():
    story = Story().build(0).build(9)
    for _ in range(2):
        story.look(0, [run_of(page_test=43.7, **{"page_test.push": 80.0, "page_test.pop": 96.0})])
        story.look(9, [run_of(page_test=38.1, **{"page_test.push": 60.0, "page_test.pop": 96.0})])
    changes = changes_of(story)
    assert "page_test" not in changes
    assert changes["page_test.push"].effect_percent == pytest.approx(-25)
    assert (changes["page_test.push"].movement, changes["page_test.pop"].movement) == (
        Movement.MOVED,
        Movement.UNCHANGED,
    )
    assert list(changes)[:3] == ["brk_test", "fork_test", "exec_test"]


def test_undecided_commits_belong_to_no_side():
    story = Story().build(0).build(9).build(5)
    for _ in range(2):
        story.look(0, good_runs()).look(9, bad_runs())
    before = changes_of(story)["fork_test"]
    story.look(5, [run_of(page_test=40.9, brk_test=1.0, fork_test=1.0, exec_test=1.0)])
    after = changes_of(story)["fork_test"]
    assert after == before
    assert math.isfinite(after.low_percent)


WITH_COUNTERS = canonical_text(
    recipe().model_copy(
        update={
            "benchmark": recipe().benchmark.model_copy(
                update={"also": ("brk_test",), "counters": ("page-faults", "cpu-migrations", "cycles:k")}
            )
        }
    )
)


def counted_story(*, migrations=(0, 0, 0)):
    """Three boots a side; the bad kernel takes a fifth more faults."""
    story = Story(text=WITH_COUNTERS).build(0).build(9)
    missing = {"cycles:k": "not supported"}
    for boot, moved in enumerate(migrations):
        good, bad = run_of(page_test=43.7, brk_test=100.0), run_of(page_test=38.1, brk_test=100.0)
        story.look(0, [counting(good, missing, page_faults=1600 + boot, cpu_migrations=moved)])
        story.look(9, [counting(bad, missing, page_faults=1920 + boot, cpu_migrations=0)])
    return story


def test_counters_are_siblings_by_operation_and_less_is_better():
    changes = changes_of(counted_story())
    faults = changes["page_test page-faults"]
    assert (faults.movement, faults.unit, faults.higher_is_better) == (Movement.MOVED, "per op", False)
    assert faults.effect_percent == pytest.approx(20, abs=0.1)
    assert faults.good_value == pytest.approx(1601 / 1700, rel=1e-4)
    assert faults.label == "page_test page-faults per op"
    assert {"brk_test", "brk_test page-faults"} <= changes.keys()


def test_what_was_counted_as_zero_is_unchanged_if_it_always_was_and_unclear_if_not():
    still = changes_of(counted_story())["page_test cpu-migrations"]
    assert (still.movement, still.good_value, still.effect_percent) == (Movement.UNCHANGED, 0, None)
    now_and_then = changes_of(counted_story(migrations=(0, 17, 0)))["page_test cpu-migrations"]
    assert (now_and_then.movement, now_and_then.effect_percent) == (Movement.UNCLEAR, None)
    assert now_and_then.good_value == pytest.approx(17 / 1700 / 3)


def test_a_counter_that_the_machine_does_not_have_is_no_row_of_zeros_and_said_once():
    story = counted_story()
    assert not [label for label in changes_of(story) if "cycles" in label]
    summary = summarise(story.state, assessment(story.state))
    text = report_text(summary)
    assert text.count("cycles:k") == 1
    assert "Not available on this machine: cycles:k (not supported)." in text
    assert "page_test page-faults per op" in text
    document = report_document(summary)
    assert document["missing_counters"] == [{"name": "cycles:k", "reason": "not supported", "samples": 12, "of": 12}]
    told = {change["test"]: change for change in document["siblings"]}
    assert told["page_test page-faults"]["unit"] == "per op"


def test_a_counter_that_is_missing_now_and_then_is_told_with_how_often():
    story = counted_story()
    story.look(0, [counting(run_of(page_test=43.7, brk_test=100.0), {"page-faults": "it never ran"})])
    summary = summarise(story.state, assessment(story.state))
    assert "page-faults is missing in 2 of 14 samples (it never ran)." in " ".join(report_text(summary).split())
    assert changes_of(story)["page_test page-faults"].good_boots == 3

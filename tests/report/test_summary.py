import math

import numpy as np
import pytest
from story import IDS, RANGE, Story, assessment, bad_runs, found, good_runs, image, running

from bisector.model.errors import RecipeError
from bisector.model.events import BuildStarted, KernelBuilt, Marked
from bisector.model.outcome import AnswerKind, Outcome, Verdict
from bisector.report.summary import summarise


def rows_of(story, **changes):
    state = story.state
    return {row.commit.index: row for row in summarise(state, assessment(state, **changes)).rows}


def test_rows_tell_outcome_verdict_effect_and_reason():
    rows = rows_of(found())
    assert set(rows) == {0, 2, 3, 4, 6, 7, 9}
    accused = rows[4]
    assert (accused.outcome, accused.verdict, accused.boots, accused.runs) == (Outcome.MEASURED, Verdict.BAD, 2, 8)
    assert accused.effect.percent == pytest.approx(100 * (38.1 / 43.75 - 1))
    assert accused.why == "71e3aac0724f splits the belief 50/50: 0.82 bit for 96 s"
    assert (rows[6].outcome, rows[6].verdict) == (Outcome.BUILD_FAILED, Verdict.SKIPPED)
    assert rows[6].reason == "mm/memory.c:3201:2: error: 'pmdp' undeclared"
    assert rows[6].artefact == "build-600000000000-1.log"
    assert (rows[7].outcome, rows[7].verdict, rows[7].boots) == (Outcome.CRASHED, Verdict.SKIPPED, 0)


def test_rows_stand_in_the_order_in_which_commits_were_first_touched():
    state = found().state
    assert [row.commit.index for row in summarise(state, None).rows] == [0, 9, 2, 6, 4, 7, 3]


def test_one_crash_is_no_skip_yet():
    rows = rows_of(Story().build(0).build(7).look(0, good_runs()).crash(7))
    assert (rows[7].outcome, rows[7].verdict) == (Outcome.CRASHED, Verdict.UNDECIDED)


def test_a_look_that_goes_on_has_no_outcome():
    rows = rows_of(running())
    assert (rows[3].outcome, rows[3].verdict, rows[3].runs) == (None, Verdict.UNDECIDED, 0)


def test_a_persons_mark_is_the_verdict_and_says_so():
    story = Story().build(0).look(0, good_runs()).tell(Marked(commit=IDS[0], verdict=Verdict.BAD))
    story.tell(Marked(commit=IDS[5], verdict=Verdict.SKIPPED))
    rows = rows_of(story)
    assert (rows[0].verdict, rows[0].reason) == (Verdict.BAD, "marked bad by hand")
    assert (rows[5].verdict, rows[5].outcome, rows[5].reason) == (Verdict.SKIPPED, None, "marked skipped by hand")


def test_a_forgotten_commit_has_no_row():
    story = Story().build(2).look(2, good_runs()).tell(Marked(commit=IDS[2], verdict=None))
    assert rows_of(story) == {}


def test_subjects_and_reasons_are_safe_to_print():
    rows = rows_of(found())
    assert rows[7].reason == "Kernel panic - not syncing: \\x1b[31mAttempted to kill init!"


def test_the_suspects_left_are_the_fewest_that_hold_the_confidence_asked_for():
    state = running().state
    seen = summarise(state, assessment(state)).belief
    # 71.2 + 18.9 + 6.0 = 96.1, with 3.0 it is 99.1 %.
    assert seen.suspects_left == 4
    assert [suspect.commit.index for suspect in seen.suspects[:3]] == [4, 3, 5]


def test_probabilities_may_come_as_an_array():
    state = running().state
    array = np.array(assessment(state).probability)
    assert summarise(state, assessment(state, probability=array.tolist())) == summarise(
        state,
        assessment(state, probability=array),  # type: ignore[arg-type]
    )


def test_what_is_no_number_becomes_nothing():
    state = running().state
    seen = summarise(state, assessment(state, remaining_boots=math.inf, boot_sd_percent=math.nan)).belief
    assert (seen.remaining_boots, seen.remaining_s, seen.boot_sd_percent) == (None, None, None)


def test_each_suspect_of_a_set_says_why_it_could_not_be_told_apart():
    story = found()
    story.entries.pop()
    story.tell(BuildStarted(commit=IDS[8], ahead=True, reason=""))
    story.tell(KernelBuilt(commit=IDS[8], image=image(8, signature=IDS[4])), 1.0)
    story.build(1, ahead=True)
    story.finish(AnswerKind.SET, (4, 6, 8, 1, 5), 0.99, "no more can be told")
    state = story.state
    notes = [suspect.note for suspect in summarise(state, assessment(state)).answer.suspects]
    assert notes == [
        "the same code and data as 800000000000",
        "cannot be tested: mm/memory.c:3201:2: error: 'pmdp' undeclared",
        "the same code and data as 71e3aac0724f",
        "built, but never booted",
        "never looked at",
    ]


def test_without_an_assessment_the_state_alone_is_told():
    summary = summarise(found().state, None)
    assert summary.belief is None
    assert summary.siblings == ()
    assert summary.answer.suspects[0].probability == pytest.approx(0.9941)


def test_an_empty_session_has_a_summary():
    summary = summarise(Story().state, None)
    assert (summary.rows, summary.answer, summary.counts.kernels) == ((), None, 0)
    assert (summary.good.id, summary.bad.id, summary.commits) == (IDS[0], IDS[-1], len(RANGE))


def test_a_session_whose_recipe_is_none_is_refused_with_the_place():
    with pytest.raises(RecipeError, match="<recipe>:1:1"):
        summarise(Story(text="name: x\n").state, None)


def test_the_time_worked_leaves_out_pauses():
    story = Story().build(0).look(0, bad_runs())
    worked = summarise(story.state, None).worked_s
    assert worked == 40.0 + 9.0 + 40.0

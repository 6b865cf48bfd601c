import time
from datetime import UTC

import pytest
from golden import assert_golden
from story import IDS, Story, assessment, bad_runs, found, good_runs, recipe, running

from bisector.model.commit import Commit, CommitRange
from bisector.model.events import (
    BatchesCalibrated,
    BuilderTrouble,
    MachineTrouble,
    Marked,
    RunFailed,
    SessionPaused,
    SessionResumed,
    Undone,
)
from bisector.model.outcome import AnswerKind, Outcome, Verdict
from bisector.recipe.load import canonical_text
from bisector.report.events import EventLines
from bisector.report.status import status_text, why_text
from bisector.report.summary import summarise
from bisector.report.text import answer_line, ending_text, report_text
from bisector.report.words import cells

SURE = (0.0, 0.0, 0.0001, 0.0040, 0.9941, 0.0018, 0.0, 0.0, 0.0, 0.0)
AUDIT = "confirmed: 4 pairs, -12.70 %, odds 10^3.2"


@pytest.fixture(autouse=True)
def utc(monkeypatch):
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def told(story, probability=None, *, files=(), **changes):
    state = story.state
    return summarise(state, assessment(state, probability, **changes), files=files)


def ended(kind, commits, probability, reason, **rest):
    story = found()
    story.entries.pop()
    return story.finish(kind, commits, probability, reason, **rest)


def paused(reason="lab-01 does not answer since 14:07", resolution="Check its console."):
    return running().tell(SessionPaused(reason=reason, resolution=resolution), 30.0)


def gradual():
    return told(
        ended(AnswerKind.NONE, (), 0.2, "gradual: no single commit explains more than 20 % of the difference"),
        (0.0, 0.1, 0.2, 0.1, 0.2, 0.1, 0.1, 0.1, 0.1, 0.0),
    )


def not_reproduced():
    story = Story().build(0).build(9)
    for shift in (0.0, 0.1, 0.2):
        story.look(0, good_runs(shift)).look(9, good_runs(shift))
    story.finish(
        AnswerKind.NOT_REPRODUCED,
        (),
        0.98,
        "The bad end shows -0.40 % against the good end (95 % interval -1.5 % to +0.70 %) in 6 boots; deviation 2.7 % "
        "within a boot, 0.9 % between boots. Too little to tell: about 22 boots of 4 runs would show the smallest "
        "effect of interest, 1 %.",
    )
    return told(
        story,
        bad_level=43.55,
        effect_percent=-0.4,
        effect_interval_percent=(-1.5, 0.7),
        threshold=None,
        verdicts=(),
    )


def a_set():
    return told(
        ended(AnswerKind.SET, (4, 6, 5), 0.992, "one of them cannot be tested, one was never looked at"),
        (0.0, 0.0, 0.0, 0.004, 0.6, 0.1, 0.292, 0.004, 0.0, 0.0),
    )


TEXTS = {
    "found": lambda: report_text(
        told(found(), SURE, files=("mm/huge_memory.c", "include/linux/huge_mm.h"), audit=AUDIT)
    ),
    "set": lambda: ending_text(a_set()),
    "not-reproduced": lambda: ending_text(not_reproduced()),
    "gradual": lambda: ending_text(gradual()),
    "paused": lambda: ending_text(told(paused())),
    "nothing-yet": lambda: report_text(summarise(Story().state, None)),
    "status-running": lambda: status_text(told(running())) + "\n" + why_text(told(running()), running().state),
    "status-paused": lambda: status_text(told(paused())),
    "status-found": lambda: status_text(told(found(), SURE)),
    "status-new": lambda: (
        status_text(summarise(Story().state, None)) + "\n" + why_text(summarise(Story().state, None), Story().state)
    ),
    "events": lambda: "\n".join(EventLines(zone=UTC).lines(found().entries)),
}


@pytest.mark.parametrize("name", TEXTS)
def test_the_text_is_the_one_that_was_looked_at(name):
    assert_golden(name, TEXTS[name]())


@pytest.mark.parametrize("name", [name for name in TEXTS if name != "events"])
def test_no_line_is_wider_than_a_hundred_columns(name):
    assert [line for line in TEXTS[name]().splitlines() if cells(line) > 100] == []


def test_a_merge_that_stands_for_what_it_brought_in_says_how_to_go_inside():
    state = found().state
    state.recipe_text = canonical_text(recipe().model_copy(update={"first_parent": True}))
    parents = (IDS[3], "b" * 40)
    text = ending_text(summarise(state, assessment(state, SURE), parents=parents))
    assert "A merge: only first parents were walked" in text
    assert f"--good {IDS[3][:12]} --bad {IDS[4][:12]}" in " ".join(text.split())
    alone = summarise(state, assessment(state, SURE), parents=parents[:1])
    assert "A merge" not in ending_text(alone)


def test_the_accused_is_named_in_full_with_subject_date_files_and_audit():
    text = ending_text(told(found(), SURE, files=tuple(f"mm/{i}.c" for i in range(9)), audit=AUDIT))
    for part in (
        f"First bad commit: {IDS[4]}  (99.4 %)",
        "thp: transparent hugepage core",
        "2011-01-17",
        "touches mm/0.c",
        "and 3 more",
        "43.70 -> 38.12 ops/s   -12.8 % [-13.5, -12.1]",
        AUDIT,
        "also moved: fork_test",
    ):
        assert part in text


def test_the_three_questions_are_answered():
    text = " ".join(ending_text(told(found(), SURE)).split())
    assert "1 to 2 boots a commit, 4 runs a boot, between boots 0.9 %, within 2.7 %, pinned to CPU 3" in text
    assert "Smallest effect this hunt could have seen: 1.6 %" in text


def test_a_clock_that_counts_instructions_is_told():
    embedded = recipe().model_copy(
        update={"machines": (recipe().machines[0].model_copy(update={"clock": "instructions"}),)}
    )
    story = Story(text=canonical_text(embedded)).build(0).look(0, good_runs())
    assert "counts instructions, not time or cache misses" in " ".join(ending_text(told(story)).split())
    assert "counts instructions" not in ending_text(told(found(), SURE))


def test_an_audit_that_never_began_is_no_line_of_the_ending():
    assert "audit against its parent: confirmed: 4 pairs" in ending_text(told(found(), SURE, audit=AUDIT))
    assert "audit" not in ending_text(told(found(), SURE, audit="not begun"))
    assert "Audit of the leading suspect against its parent: not begun." in why_text(told(running()), running().state)


def test_a_hunt_for_an_improvement_accuses_nobody_of_being_bad():
    story = Story(text=canonical_text(recipe(find="improvement"))).build(0).look(0, bad_runs())
    story.finish(AnswerKind.COMMIT, (4,), 0.995, "")
    text = ending_text(told(story, SURE))
    assert text.startswith(f"First better commit: {IDS[4]}")


def test_skipped_commits_that_may_be_the_first_bad_one_are_told_with_their_mass():
    assert "may be the first bad commit: 29.6 %" in " ".join(ending_text(a_set()).split())
    assert "(none can be the first bad commit)" in " ".join(ending_text(told(found(), SURE)).split())


def test_a_pause_says_what_to_do_and_then_resume():
    text = ending_text(told(paused()))
    assert "Check its console; then: bisector resume page-test-hunt" in " ".join(text.split())
    ready = ending_text(told(paused(resolution="Go on: bisector resume page-test-hunt")))
    assert " ".join(ready.split()).count("bisector resume page-test-hunt") == 2


@pytest.mark.parametrize(
    ("summary", "line"),
    [
        (lambda: told(found(), SURE), IDS[4]),
        (a_set, "\n".join([IDS[4], IDS[6], IDS[5]])),
        (gradual, "gradual: no single commit explains more than 20 % of the difference"),
    ],
)
def test_quiet_leaves_only_the_answer(summary, line):
    assert answer_line(summary()) == line


def test_hostile_subjects_and_file_names_reach_no_terminal():
    commits = CommitRange(
        commits=tuple(
            Commit(
                id=id_, parents=(i - 1,) if i else (), subject="\x1b]0;pwned\x07\u202e\n漢" * 20, author_date="\x1b[5m"
            )
            for i, id_ in enumerate(IDS)
        )
    )
    story = Story(commits=commits).build(0).look(0, good_runs(), why="\x1b[8m").build(4).look(4, bad_runs())
    story.fail_build(6).finish(AnswerKind.COMMIT, (4,), 0.99, "\x1b[1m")
    summary = told(story, SURE, files=("mm/\x1b[2J.c",), audit="")
    texts = [report_text(summary), status_text(summary), why_text(summary, story.state), answer_line(summary)]
    for text in [*texts, *EventLines(zone=UTC).lines(story.entries)]:
        assert not any(character in text for character in "\x1b\x07\u202e")
    for line in "\n".join(texts).splitlines():
        assert cells(line) <= 100


def line_of(event, before=()):
    lines = EventLines(zone=UTC)
    for entry in before:
        lines.line(entry.at, entry.event)
    return lines.line(1_700_000_000.0, event)


def test_the_end_of_a_boot_tells_mean_runs_and_deviation():
    story = Story().build(4).look(4, bad_runs())
    assert EventLines(zone=UTC).lines(story.entries)[-1] == (
        "22:14:49 lab-01 measured 71e3aac0724f boot 1: 38.10 ops/s (4 runs, sd 0.5 %)"
    )


def test_lines_that_begin_in_the_middle_know_what_went_before():
    story = running()
    lines = EventLines(zone=UTC)
    lines.know(story.state)
    story.end_look(3, "paused")
    assert lines.line(story.at, story.entries[-1].event) == (
        "2023-11-14 22:27:27 lab-01 measured 4e6af67e9caf boot 10: 43.50 ops/s (1 run); paused"
    )


def test_the_date_stands_where_the_day_changes():
    lines = EventLines(zone=UTC)
    event = SessionResumed(program="bisector 1")
    day = 86_400.0
    assert [lines.line(at, event).split(" session")[0] for at in (0.0, 10.0, day, day + 1)] == [
        "1970-01-01 00:00:00",
        "00:00:10",
        "1970-01-02 00:00:00",
        "00:00:01",
    ]


@pytest.mark.parametrize(
    ("event", "part"),
    [
        (
            MachineTrouble(machine="lab-01", commit=IDS[4], boot=3, reason="no answer", resolution="check the console"),
            "lab-01 trouble during boot 3 of 71e3aac0724f, no verdict: no answer; check the console",
        ),
        (
            MachineTrouble(machine="lab-01", commit="", boot=0, reason="busy", resolution=""),
            "lab-01 trouble, no verdict: busy",
        ),
        (BuilderTrouble(commit=IDS[4], reason="disk full", resolution="free 9 GB"), "no verdict: disk full; free 9 GB"),
        (Marked(commit=IDS[4], verdict=Verdict.GOOD), "session takes 71e3aac0724f as good, marked by hand"),
        (Marked(commit=IDS[4], verdict=None), "session forgets what was said and seen of 71e3aac0724f"),
        (Undone(seq=7), "session undoes event 7"),
        (BatchesCalibrated(machine="lab-01", batches=(("page_test", 1700),)), "operations a sample: page_test 1700"),
        (
            RunFailed(
                boot=1, run=2, machine="lab-01", commit=IDS[4], outcome=Outcome.CRASHED, reason="oops", artefact="a.log"
            ),
            "lab-01 lost run 2 of 71e3aac0724f boot 1, it crashes: oops [a.log]",
        ),
    ],
)
def test_every_kind_of_event_has_its_line(event, part):
    assert part in line_of(event)


def test_a_log_is_readable_though_its_recipe_is_not():
    story = Story(text="of the future: yes\n").build(0).look(0, good_runs())
    assert EventLines(zone=UTC).lines(story.entries)[-1].endswith("43.70 ops/s (4 runs, sd 0.4 %)")

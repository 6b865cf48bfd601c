import io
import time

import pytest
from golden import assert_golden
from rich.console import Console
from story import IDS, Story, assessment, bad_runs, found, good_runs, run_of, running

from bisector.cli.display import LiveView, PlainLines, Silence, make_observer
from bisector.model.commit import Commit, CommitRange
from bisector.model.events import BuildStarted, MachineLeft, SessionPaused, SessionResumed
from bisector.model.progress import Progress
from bisector.report.words import cells


@pytest.fixture(autouse=True)
def utc(monkeypatch):
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def terminal(width=100, height=30, colours=None):
    return Console(
        file=io.StringIO(), width=width, height=height, force_terminal=True, color_system=colours, _environ={}
    )


def pipe():
    return Console(file=io.StringIO(), width=80, force_terminal=False, _environ={})


def current_of(story, **changes):
    def current():
        state = story.state
        return state, assessment(state, **changes)

    return current


def picture(view, width=100, height=30):
    console = terminal(width, height)
    console.print(view.frame)
    return console.file.getvalue()


def watched(story, events=5, **changes):
    """A view that was opened before the story's last events."""
    entries, story.entries = story.entries, story.entries[:-events]
    at = story.at + 46.0
    view = LiveView(terminal(), current_of(story, **changes), now=lambda: at)
    with view:
        for entry in entries[-events:]:
            story.entries.append(entry)
            view.happened(entry.seq, entry.at, entry.event)
    return view


def test_a_running_hunt_in_a_hundred_columns_is_the_picture_that_was_looked_at():
    view = watched(running())
    view.progressed("builder", Progress(fraction=0.61, text="CC mm/memory.o"))
    view.progressed("lab-01", Progress(fraction=None, text="page_test"))
    assert_golden("live-100", picture(view).rstrip("\n"))


def test_a_narrow_and_low_terminal_still_shows_who_does_what():
    view = watched(running())
    view.progressed("builder", Progress(fraction=0.61, text="CC mm/memory.o"))
    assert_golden("live-60", picture(view, 60, 20).rstrip("\n"))


@pytest.mark.parametrize(("width", "height"), [(100, 30), (60, 24), (60, 12), (30, 8), (200, 60), (20, 5)])
def test_the_picture_fits_whatever_the_terminal_is_resized_to(width, height):
    lines = picture(watched(running()), width, height).splitlines()
    assert len(lines) <= max(6, height - 1)
    assert all(cells(line) <= width for line in lines)


def test_the_picture_tells_range_suspects_workers_samples_time_and_reason():
    text = picture(watched(running()))
    for part in (
        "v2.6.37..v2.6.38   10 commits, 4 suspects left (99 % of the belief)",
        "14 m 53 s so far, about 6 boots and",
        "71.2 %  71e3aac0724f",
        "lab-01    measuring 4e6af67e9caf boot 10 run 2 of 4  56 s",
        "builder   building  500000000000 (ahead)  46 s",
        "samples   43.50  ops/s of 4e6af67e9caf boot 10",
        "why: 4e6af67e9caf splits the belief 71/29 and its kernel is ready: 0.82 bit for 96 s",
    ):
        assert part in text


@pytest.mark.parametrize("width", [100, 60])
def test_the_picture_names_a_machine_that_was_not_given_back_and_what_to_type(width):
    mend = "Reset it by hand. Then: bisector lab release lab-01 --force"
    story = running().tell(MachineLeft(machine="lab-01", reason="it does not answer", resolution=mend))
    text = picture(watched(story), width, 40)
    assert f"lab-01 was not given back: it does not answer; {mend}" in " ".join(text.split())
    assert all(cells(line) <= width for line in text.splitlines())
    story.tell(SessionPaused(reason="lab trouble", resolution="")).tell(SessionResumed(program="p"))
    assert "was not given back" not in picture(watched(story), width, 40)


def test_plain_lines_tell_of_a_machine_that_was_not_given_back():
    story = running().tell(MachineLeft(machine="lab-01", reason="it does not answer", resolution="Reset it by hand"))
    console = pipe()
    with PlainLines(console, current_of(story)) as lines:
        entry = story.entries[-1]
        lines.happened(entry.seq, entry.at, entry.event)
    told = " ".join(console.file.getvalue().split())
    assert told.endswith("lab-01 was not given back: it does not answer; Reset it by hand")


def test_progress_stays_while_a_worker_does_the_same_and_goes_with_it():
    story = running()
    view = watched(story)
    view.progressed("builder", Progress(fraction=0.5, text="half"))
    story.run(3, 2, run_of(page_test=43.6, brk_test=1.0, fork_test=1.0, exec_test=1.0))
    view.happened(story.entries[-1].seq, story.at, story.entries[-1].event)
    assert "[#######-------]  50 %" in picture(view)
    assert "samples   43.50 43.60  ops/s" in picture(view)
    story.build(5)
    view.happened(story.entries[-1].seq, story.at, story.entries[-1].event)
    assert "50 %" not in picture(view).split("builder")[1]
    assert "builder   idle, 1 kernel in stock" in picture(view)


def test_a_machine_that_waits_for_its_kernel_says_so():
    story = Story().tell(BuildStarted(commit=IDS[0], ahead=False, reason="the ends first"))
    view = LiveView(terminal(), lambda: (story.state, None), now=lambda: story.at)
    with view:
        assert "lab-01    waits for the builder" in picture(view)


def test_the_view_opens_before_anything_was_measured():
    story = Story()
    with LiveView(terminal(), lambda: (story.state, None), now=lambda: story.at) as view:
        assert "10 commits" in picture(view)


def test_hostile_subjects_are_neither_obeyed_nor_taken_for_markup():
    subject = "[red]markup[/red] [/bold] \x1b[2J\x07 \u202e bad 漢字"
    commits = CommitRange(
        commits=tuple(
            Commit(id=id_, parents=(i - 1,) if i else (), subject=subject, author_date="") for i, id_ in enumerate(IDS)
        )
    )
    story = Story(commits=commits).build(0).look(0, good_runs(), why="\x1b[8m[blink]").build(4).look(4, bad_runs())
    story.start_boot(4, why="[link=evil]\x1b[8m")
    view = watched(story, 1)
    view.progressed("lab-01", Progress(fraction=0.1, text="[red]\x1b]0;x\x07"))
    for width in (60, 100, 160):
        text = picture(view, width)
        assert not any(character in text for character in "\x1b\x07\u202e")
        assert all(cells(line) <= width for line in text.splitlines())
    assert "[red]markup[/red]" in picture(view, 160)
    assert "[link=evil]" in picture(view)


def test_colour_only_repeats_a_word_that_is_there():
    view = watched(running())
    coloured = Console(
        file=io.StringIO(), width=100, height=30, force_terminal=True, color_system="standard", _environ={}
    )
    coloured.print(view.frame)
    assert "\x1b[31mbad\x1b[0m" in coloured.file.getvalue()
    assert "bad " in picture(view)


def test_the_live_view_leaves_an_empty_screen_behind_for_the_report():
    story = running()
    console = terminal()
    with LiveView(console, current_of(story), now=lambda: story.at):
        pass
    written = console.file.getvalue()
    assert "page-test-hunt" in written
    # The cursor is shown again, and what was drawn is erased line by line.
    assert written.rstrip("\n").endswith("\x1b[2K")
    assert "\x1b[?25h" in written


class DeadTerminal(io.StringIO):
    dead = False

    def write(self, text):
        if self.dead:
            raise BrokenPipeError(32, "Broken pipe")
        return super().write(text)

    def flush(self):
        if self.dead:
            raise BrokenPipeError(32, "Broken pipe")


@pytest.mark.parametrize("kind", [LiveView, PlainLines])
def test_a_terminal_that_goes_away_does_not_end_the_hunt(kind):
    story, file = running(), DeadTerminal()
    console = Console(file=file, width=100, height=30, force_terminal=kind is LiveView, _environ={})
    with kind(console, current_of(story)) as observer:
        file.dead = True
        for _ in range(3):
            observer.happened(story.entries[-1].seq, story.at, story.entries[-1].event)
            observer.progressed("builder", Progress(fraction=0.5, text="half"))


def test_an_ascii_terminal_gets_question_marks_instead_of_an_error():
    raw = io.BytesIO()
    file = io.TextIOWrapper(raw, encoding="ascii", write_through=True)
    story = Story().build(0).look(0, good_runs(), why="± 漢字")
    with PlainLines(Console(file=file, force_terminal=False, _environ={}), current_of(story)) as lines:
        for entry in story.entries:
            lines.happened(entry.seq, entry.at, entry.event)
    assert b"? ??" in raw.getvalue()
    view = watched(Story().build(0).start_boot(0, why="± 漢字"), 1)
    console = Console(file=file, width=100, height=30, force_terminal=False, _environ={})
    console.print(view.frame)
    assert b"why: ? ??" in raw.getvalue()


def test_without_a_terminal_every_event_is_one_plain_line():
    story, console = found(), pipe()
    entries, story.entries = story.entries, story.entries[:1]
    with make_observer(console, current_of(story)) as observer:
        assert isinstance(observer, PlainLines)
        for entry in entries[1:]:
            story.entries.append(entry)
            observer.happened(entry.seq, entry.at, entry.event)
            observer.progressed("builder", Progress(fraction=0.5, text="half"))
    assert_golden("plain-lines", console.file.getvalue().rstrip("\n"))
    assert "\x1b" not in console.file.getvalue()


def test_the_end_of_a_boot_tells_what_it_did_to_the_belief():
    story, console = Story().build(4).look(4, bad_runs()), pipe()
    before = (0.0, 0.0, 0.1, 0.1, 0.5, 0.1, 0.1, 0.0, 0.1, 0.0)
    after = (0.0, 0.0, 0.01, 0.01, 0.934, 0.01, 0.02, 0.0, 0.01, 0.006)
    beliefs = iter([None, before, after])
    current = lambda: (story.state, assessment(story.state, next(beliefs)))  # noqa: E731
    end = story.entries[-1]
    with PlainLines(console, current) as lines:
        lines.happened(end.seq, end.at, end.event)
        lines.happened(end.seq, end.at, end.event)
    first, second = console.file.getvalue().splitlines()
    assert first.endswith("  belief in 71e3aac0724f 50.0 %")
    assert second.endswith("  belief in 71e3aac0724f 50.0 -> 93.4 %")


def test_verbose_adds_the_beginning_of_runs_and_every_test():
    story = Story().build(0).look(0, good_runs())
    texts = []
    for verbose in (False, True):
        console = pipe()
        with make_observer(console, current_of(story), verbose=verbose) as lines:
            for entry in story.entries:
                lines.happened(entry.seq, entry.at, entry.event)
        texts.append(console.file.getvalue())
    assert "measuring run 1 of 4" not in texts[0]
    assert "brk_test" not in texts[0]
    assert "measuring run 1 of 4" in texts[1]
    assert "brk_test 900.1 ops/s" in texts[1]


def test_the_observer_is_chosen_by_where_it_writes():
    current = current_of(Story())
    assert isinstance(make_observer(terminal(), current), LiveView)
    assert isinstance(make_observer(pipe(), current), PlainLines)
    assert isinstance(make_observer(terminal(), current, verbose=True), PlainLines)
    dumb = Console(file=io.StringIO(), force_terminal=True, _environ={"TERM": "dumb"})
    assert isinstance(make_observer(dumb, current), PlainLines)
    assert isinstance(make_observer(terminal(), current, quiet=True), Silence)


def test_quiet_says_nothing():
    story, console = found(), pipe()
    with make_observer(console, current_of(story), quiet=True) as observer:
        for entry in story.entries:
            observer.happened(entry.seq, entry.at, entry.event)
            observer.progressed("builder", Progress(fraction=0.5, text="half"))
    assert console.file.getvalue() == ""

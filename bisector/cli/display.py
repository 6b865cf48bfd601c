"""What a running hunt looks like: a live view on a terminal, plain lines elsewhere. The only importer of rich.

Nothing is ever shown here alone: every fact also stands in `bisector log`, `status` or `report`. Output is best
effort: a terminal that went away must not cost a hunt.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Protocol, Self

from rich.console import Console, ConsoleOptions, RenderResult
from rich.live import Live
from rich.text import Text

from bisector.model.events import BootEnded, Event, RunFinished, RunStarted
from bisector.model.outcome import Outcome
from bisector.model.progress import Progress
from bisector.report.events import EventLines
from bisector.report.status import expected, headline, looked_at, metric_lines
from bisector.report.summary import Summary, Suspect, summarise
from bisector.report.text import CLEARED
from bisector.report.words import belief, clip, count, duration, number, pad, plain, wrap
from bisector.search.types import Assessment
from bisector.session.machines import set_aside
from bisector.session.ports import Observer
from bisector.session.state import BUILDER, SessionState, Status

Current = Callable[[], tuple[SessionState, Assessment | None]]

REFRESHES_PER_S = 4
SUSPECTS_SHOWN = 8
SAMPLES_SHOWN = 8
BAR = 14
NARROW = 80
"""Columns below which the table tells how a suspect looked in two words."""

_STYLES = {"good": "green", "bad": "red", "undecided": "yellow", "skipped": "dim"}


class Display(Observer, Protocol):
    """An observer with a beginning and an end."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


def make_observer(
    console: Console, current: Current, *, plain: bool = False, quiet: bool = False, verbose: bool = False
) -> Display:
    """Return what watches a hunt: the live view on a terminal, plain lines elsewhere, nothing if `quiet`.

    `plain` asks for lines on a terminal too; `verbose` does as well, and adds each run's beginning and every test.

    `current` gives the session's state and the search's assessment of it, at any time, on the controller's thread.
    """
    if quiet:
        return Silence()
    if console.is_terminal and not console.is_dumb_terminal and not plain and not verbose:
        return LiveView(console, current)
    return PlainLines(console, current, verbose=verbose)


class Silence:
    """Nobody watches."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass

    def happened(self, seq: int, at: float, event: Event) -> None:
        """Say nothing."""

    def progressed(self, worker: str, progress: Progress) -> None:
        """Say nothing."""


class PlainLines:
    """One line an event, no colour, no spinner; with `verbose` the beginning of every run too."""

    def __init__(self, console: Console, current: Current, *, verbose: bool = False) -> None:
        self._console = console
        self._current = current
        self._verbose = verbose
        self._lines = EventLines(every_test=verbose)
        self._leading: tuple[str, float] | None = None
        self._gone = False

    def __enter__(self) -> Self:
        # A resumed hunt begins in the middle: what the session is about is told to the lines, and not printed again.
        state, _ = self._current()
        self._lines.know(state)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass

    def happened(self, seq: int, at: float, event: Event) -> None:
        """Print the event's line; after a boot also what it did to the belief."""
        del seq
        line = self._lines.line(at, event)
        if isinstance(event, RunStarted) and not self._verbose:
            return
        if isinstance(event, BootEnded):
            line += self._belief_change()
        self._print(line)

    def progressed(self, worker: str, progress: Progress) -> None:
        """Say nothing: progress is for eyes that watch."""

    def _belief_change(self) -> str:
        state, assessment = self._current()
        if assessment is None:
            return ""
        probability = [float(value) for value in assessment.probability]
        first = max(range(len(probability)), key=probability.__getitem__)
        before, self._leading = self._leading, (state.range.commits[first].short, probability[first])
        name, now = self._leading
        was = f"{100 * before[1]:.1f} -> " if before is not None and before[0] == name else ""
        return f"  belief in {name} {was}{belief(now)}"

    def _print(self, line: str) -> None:
        if self._gone:
            return
        try:
            self._console.print(_encodable(self._console, line), markup=False, highlight=False, soft_wrap=True)
        except (OSError, ValueError, SystemExit):
            # rich answers a broken pipe with SystemExit. The journal is the record; nobody listens here any more.
            self._gone = True


@dataclass(frozen=True, slots=True)
class Doing:
    """What one worker does: a sentence, since when, and how far it says it is."""

    worker: str
    text: str
    since: float | None = None
    fraction: float | None = None
    note: str = ""


@dataclass(frozen=True, slots=True)
class Frame:
    """Everything one picture needs, frozen: made on the controller's thread, drawn on rich's."""

    summary: Summary
    doings: tuple[Doing, ...]
    samples: tuple[str, ...]
    samples_of: str
    now: Callable[[], float]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield lines that fit the terminal as it is at this moment."""
        width = max(20, options.max_width)
        height = max(6, console.size.height - 1)
        for line in self.lines(width, height):
            yield _styled(_encodable(console, clip(line, width)))

    def lines(self, width: int, height: int) -> list[str]:
        """The picture as text: suspects give way first when the terminal is low."""
        above = [clip(line, width) for line in self._above(width)]
        below = [clip(line, width) for line in self._below(width)]
        room = height - len(above) - len(below)
        middle = list(self._suspects(width, min(SUSPECTS_SHOWN, room - 3))) if room >= 4 else []
        return (above + middle + below)[:height]

    def _above(self, width: int) -> Iterator[str]:
        summary = self.summary
        worked_s = summary.worked_s
        if summary.status is Status.RUNNING:
            worked_s += max(0.0, self.now() - summary.last_at)
        yield headline(summary)
        yield f"{duration(worked_s)} so far{expected(summary)}"
        for line in metric_lines(summary):
            yield from wrap(line, indent="    ", first="", width=width)

    def _suspects(self, width: int, most: int) -> Iterator[str]:
        seen = self.summary.belief
        if seen is None:
            return
        named = [suspect for suspect in seen.suspects if suspect.probability >= CLEARED][:most]
        looks = [_looked_at(suspect, width) for suspect in named]
        look_width = max([len("looked at"), *map(len, looks)])
        subject_width = max(6, width - 28 - look_width)
        yield ""
        yield f"  {'belief':>8}  {pad('commit', 12)}  {pad('subject', subject_width)}  looked at"
        for suspect, look in zip(named, looks, strict=True):
            subject = pad(suspect.commit.subject, subject_width)
            yield f"  {belief(suspect.probability):>8}  {suspect.commit.short}  {subject}  {look}"
        rest = 1.0 - sum(suspect.probability for suspect in named)
        if rest >= CLEARED:
            yield f"  {belief(rest):>8}  {count(self.summary.commits - 1 - len(named), 'other')}"

    def _below(self, width: int) -> Iterator[str]:
        yield ""
        name_width = max(8, *(len(doing.worker) for doing in self.doings)) if self.doings else 8
        for doing in self.doings:
            yield f"  {pad(doing.worker, name_width)}  {self._doing(doing)}"
        if self.samples:
            yield f"  {pad('samples', name_width)}  {' '.join(self.samples)}  {self.samples_of}"
        for left in self.summary.not_given_back:
            yield from wrap(left.sentence, indent="    ", first="  ", width=width)
        yield ""
        if self.summary.next_why:
            yield from wrap(self.summary.next_why, indent="       ", first="  why: ", width=width)[:3]
        yield f"  Ctrl-C pauses   bisector status {self.summary.session} --why"

    def _doing(self, doing: Doing) -> str:
        parts = [doing.text]
        if doing.fraction is not None:
            filled = round(BAR * min(1.0, max(0.0, doing.fraction)))
            parts.append(f"[{'#' * filled}{'-' * (BAR - filled)}] {100 * doing.fraction:3.0f} %")
        if doing.since is not None:
            parts.append(duration(self.now() - doing.since))
        if doing.note:
            parts.append(doing.note)
        return "  ".join(parts)


class LiveView:
    """The picture of a running hunt, redrawn in place. Its methods are called on the controller's thread only."""

    def __init__(self, console: Console, current: Current, *, now: Callable[[], float] = time.time) -> None:
        self._console = console
        self._current = current
        self._now = now
        self._frame: Frame | None = None
        self._samples: list[str] = []
        self._samples_of = ""
        # What get_renderable draws is one attribute that is replaced whole, so rich's thread never sees a half.
        self._live = _BestEffortLive(
            console=console,
            get_renderable=lambda: self._frame or Text("starting"),
            refresh_per_second=REFRESHES_PER_S,
            transient=True,
        )

    def __enter__(self) -> Self:
        self._redraw()
        self._live.start(refresh=True)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.stop()

    @property
    def frame(self) -> Frame | None:
        """The picture as it is now."""
        return self._frame

    def happened(self, seq: int, at: float, event: Event) -> None:
        """Take the event into the picture."""
        del seq, at
        match event:
            case RunFinished(boot=boot, commit=commit, record=record):
                of = f"of {commit[:12]} boot {boot}"
                if of != self._samples_of:
                    self._samples, self._samples_of = [], of
                test = self._frame.summary.recipe.benchmark.test if self._frame else record.samples[0].test
                self._samples = [*self._samples, number(record.value_of(test))][-SAMPLES_SHOWN:]
            case _:
                pass
        self._redraw()

    def progressed(self, worker: str, progress: Progress) -> None:
        """Show how far a worker is."""
        if self._frame is not None:
            doings = tuple(
                replace(doing, fraction=progress.fraction, note=plain(progress.text))
                if doing.worker == worker
                else doing
                for doing in self._frame.doings
            )
            self._frame = replace(self._frame, doings=doings)

    def _redraw(self) -> None:
        state, assessment = self._current()
        summary = summarise(state, assessment, siblings=False)
        before = {doing.worker: doing for doing in self._frame.doings} if self._frame else {}
        doings = []
        for doing in _doings(state):
            old = before.get(doing.worker)
            same = old is not None and old.text == doing.text
            doings.append(replace(doing, fraction=old.fraction, note=old.note) if same and old else doing)
        self._frame = Frame(
            summary=summary,
            doings=tuple(doings),
            samples=tuple(self._samples),
            samples_of=f"{summary.unit} {self._samples_of}",
            now=self._now,
        )


class _BestEffortLive(Live):
    """A live display that outlives its terminal: rich answers a broken pipe with SystemExit, a closed file raises."""

    def refresh(self) -> None:
        try:
            super().refresh()
        except (OSError, ValueError, SystemExit):
            self._gone()

    def stop(self) -> None:
        try:
            super().stop()
        except (OSError, ValueError, SystemExit):
            self._gone()

    def _gone(self) -> None:
        self.console.quiet = True


def _doings(state: SessionState) -> Iterator[Doing]:
    building = [build for build in state.builds.values() if build.outcome is None]
    aside = set_aside(state)
    for machine in state.machines:
        look = state.live_look(machine)
        if look is None:
            waits = any(not build.ahead for build in building)
            idle = "waits for the builder" if waits else "idle"
            yield Doing(machine, "set aside: it failed" if machine in aside else idle)
            continue
        name = state.range.commits[look.commit].short
        if look.record is None:
            yield Doing(machine, f"booting   {name} boot {look.number}", look.started_at)
        else:
            run = min(len(look.runs) + 1, look.planned_runs)
            yield Doing(
                machine, f"measuring {name} boot {look.number} run {run} of {look.planned_runs}", look.booted_at
            )
    if not building:
        stock = _in_stock(state)
        yield Doing(BUILDER, f"idle, {count(stock, 'kernel')} in stock" if stock else "idle")
    for build in building:
        ahead = " (ahead)" if build.ahead else ""
        yield Doing(BUILDER, f"building  {state.range.commits[build.commit].short}{ahead}", build.started_at)


def _in_stock(state: SessionState) -> int:
    looked_at_commits = {look.commit for look in state.looks}
    return sum(
        build.outcome is Outcome.MEASURED and commit not in looked_at_commits for commit, build in state.builds.items()
    )


def _looked_at(suspect: Suspect, width: int) -> str:
    row = suspect.row
    if width >= NARROW or row is None or row.effect is None:
        return looked_at(row)
    return f"{row.verdict} {count(row.boots, 'boot')}"


def _styled(line: str) -> Text:
    """The line with its verdict words coloured. Text, never markup: a subject may hold "[red]"."""
    text = Text(line, no_wrap=True, overflow="crop", end="\n")
    if line.startswith(("  why:", "  Ctrl-C")):
        text.stylize("dim")
    for word, style in _STYLES.items():
        _colour(text, line, word, style)
    return text


def _colour(text: Text, line: str, word: str, style: str) -> None:
    # Only in the verdict's column, which follows two spaces: "bad" in a subject stays as it is.
    at = line.rfind(f"  {word} ")
    if at >= 0:
        text.stylize(style, at + 2, at + 2 + len(word))


def _encodable(console: Console, line: str) -> str:
    """The line with what the terminal's encoding cannot say replaced: an ASCII terminal gets "?" for "±"."""
    return line.encode(console.encoding, "replace").decode(console.encoding)

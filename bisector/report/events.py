"""One plain line for each event: the output without a terminal, and `bisector log`."""

from collections.abc import Iterable
from datetime import tzinfo
from statistics import mean, stdev

from bisector.model.answer import Answer
from bisector.model.errors import RecipeError
from bisector.model.events import (
    BatchesCalibrated,
    Booted,
    BootEnded,
    BootFailed,
    BootStarted,
    BuilderTrouble,
    BuildFailed,
    BuildStarted,
    Event,
    KernelBuilt,
    MachineLeft,
    MachineTrouble,
    Marked,
    RunFailed,
    RunFinished,
    RunStarted,
    SessionFinished,
    SessionPaused,
    SessionResumed,
    SessionStarted,
    Undone,
)
from bisector.model.outcome import AnswerKind
from bisector.model.sample import RunRecord
from bisector.recipe.load import parse_recipe
from bisector.report.text import OUTCOME_WORDS, deviation
from bisector.report.words import belief, clip, clock, count, day, duration, number, plain
from bisector.session.state import ALL_RUNS_IN, Entry, SessionState

SUBJECT_WIDTH = 50


class EventLines:
    """Makes the lines. It remembers what it was shown, so that the end of a boot can tell of its runs."""

    def __init__(self, *, zone: tzinfo | None = None, every_test: bool = False) -> None:
        self._zone = zone
        self._every_test = every_test
        self._test = ""
        self._subjects: dict[str, str] = {}
        self._runs: dict[int, list[RunRecord]] = {}
        self._planned: dict[int, int] = {}
        self._day = ""

    def know(self, state: SessionState) -> None:
        """Take in what a session is about and which looks go on, for lines that begin in the middle of its journal."""
        self._subjects = {commit.id: commit.subject for commit in state.range.commits}
        self._test = _test_of(state.recipe_text)
        for look in state.looks:
            if look.ended_at is None:
                self._planned[look.number], self._runs[look.number] = look.planned_runs, list(look.runs)

    def lines(self, entries: Iterable[Entry]) -> list[str]:
        """One line for each entry of a journal."""
        return [self.line(entry.at, entry.event) for entry in entries]

    def line(self, at: float, event: Event) -> str:
        """The line of one event: its time in the user's zone (with the date where that changes), who, what.

        Always one line without control characters, whatever commits and consoles say.
        """
        today = day(at, self._zone)
        date = "" if today == self._day else f"{today} "
        self._day = today
        return plain(f"{date}{clock(at, self._zone)} {self._text(event)}")

    def _text(self, event: Event) -> str:
        match event:
            case BuildStarted() | KernelBuilt() | BuildFailed() | BuilderTrouble():
                return f"builder {self._build(event)}"
            case BootStarted() | Booted() | BootFailed() | BootEnded():
                return f"{event.machine} {self._boot(event)}"
            case RunStarted() | RunFinished() | RunFailed():
                return f"{event.machine} {self._run(event)}"
            case MachineTrouble():
                during = f" during boot {event.boot} of {event.commit[:12]}" if event.boot else ""
                return f"{event.machine} trouble{during}, no verdict: {_with_mend(event.reason, event.resolution)}"
            case MachineLeft():
                return f"{event.machine} was not given back: {_with_mend(event.reason, event.resolution)}"
            case BatchesCalibrated():
                batches = ", ".join(f"{test} {operations}" for test, operations in event.batches)
                return f"{event.machine} calibrated, operations a sample: {batches}"
            case _:
                return f"session {self._session(event)}"

    def _build(self, event: BuildStarted | KernelBuilt | BuildFailed | BuilderTrouble) -> str:
        name = event.commit[:12]
        match event:
            case BuildStarted():
                ahead = " ahead" if event.ahead else ""
                return f"building {self._named(event.commit)}{ahead}: {event.reason}"
            case KernelBuilt(image=image) if image.from_cache:
                return f"found {name} in the cache: {image.release}"
            case KernelBuilt(image=image):
                fixed = f" with {', '.join(image.fixups)}" if image.fixups else ""
                took = f"in {duration(image.duration_s)}"
                return f"built {name}{fixed} {took}: {image.release}, build id {image.build_id[:12]}"
            case BuildFailed():
                words = OUTCOME_WORDS[event.outcome]
                return f"skips {name}, it {words} ({duration(event.duration_s)}): {event.reason} [{event.artefact}]"
            case BuilderTrouble():
                return f"trouble at {name}, no verdict: {_with_mend(event.reason, event.resolution)}"

    def _boot(self, event: BootStarted | Booted | BootFailed | BootEnded) -> str:
        name = event.commit[:12]
        match event:
            case BootStarted():
                self._planned[event.boot], self._runs[event.boot] = event.runs, []
                order = f"boot {event.boot} for {count(event.runs, 'run')} ({event.purpose})"
                return f"booting {self._named(event.commit)} {order}: {event.reason}"
            case Booted():
                took = duration(event.record.duration_s)
                return f"booted {name} boot {event.boot} in {took}, proven: {event.record.release}"
            case BootFailed():
                words = OUTCOME_WORDS[event.outcome]
                return f"lost {name} boot {event.boot}, it {words}: {event.reason} [{event.artefact}]"
            case BootEnded():
                return self._ended(event)

    def _ended(self, event: BootEnded) -> str:
        why = "" if event.reason in ("", ALL_RUNS_IN) else f"; {event.reason}"
        runs = self._runs.pop(event.boot, [])
        samples = [s for run in runs for s in run.samples if s.test == (self._test or run.samples[0].test)]
        if not samples:
            return f"measured nothing of {event.commit[:12]} boot {event.boot}{why}"
        values = [sample.value for sample in samples]
        middle = mean(values)
        spread = f", sd {deviation(100 * stdev(values) / middle)}" if len(values) > 1 else ""
        result = f"{number(middle)} {samples[0].unit} ({count(len(values), 'run')}{spread})"
        return f"measured {event.commit[:12]} boot {event.boot}: {result}{why}"

    def _run(self, event: RunStarted | RunFinished | RunFailed) -> str:
        planned = self._planned.get(event.boot)
        of = f"run {event.run}" + (f" of {planned}" if planned else "")
        where = f"{of} of {event.commit[:12]} boot {event.boot}"
        match event:
            case RunStarted():
                return f"measuring {where}"
            case RunFinished(record=record):
                self._runs.setdefault(event.boot, []).append(record)
                return f"finished {where}: {self._values(record)}"
            case RunFailed():
                words = OUTCOME_WORDS[event.outcome]
                return f"lost {where}, it {words}: {event.reason} [{event.artefact}]"

    def _values(self, record: RunRecord) -> str:
        if self._every_test:
            return ", ".join(f"{s.test} {number(s.value)} {s.unit}" for s in record.samples)
        deciding = [s for s in record.samples if s.test == (self._test or record.samples[0].test)]
        return ", ".join(f"{number(s.value)} {s.unit}" for s in deciding)

    def _session(self, event: Event) -> str:
        match event:
            case SessionStarted():
                return self._started(event)
            case SessionPaused():
                return f"paused: {_with_mend(event.reason, event.resolution)}"
            case SessionResumed():
                return f"resumed by {event.program}"
            case SessionFinished(answer=answer):
                return f"finished: {self._answer(answer)}"
            case Marked(verdict=None):
                return f"forgets what was said and seen of {event.commit[:12]}"
            case Marked():
                return f"takes {event.commit[:12]} as {event.verdict}, marked by hand"
            case Undone():
                return f"undoes event {event.seq}"
            case _:
                raise AssertionError(f"no line for {event.kind}")

    def _started(self, event: SessionStarted) -> str:
        self._subjects = {commit.id: commit.subject for commit in event.range.commits}
        self._test = _test_of(event.recipe)
        ends = f"{event.range.good.short}..{event.range.bad.short}"
        return f"{event.session} started: {count(len(event.range), 'commit')} {ends} on {', '.join(event.machines)}"

    def _answer(self, answer: Answer) -> str:
        words = {AnswerKind.NOT_REPRODUCED: "not reproduced", AnswerKind.NONE: "no single commit"}
        if answer.commits:
            sure = belief(answer.probability)
            if answer.kind is AnswerKind.COMMIT:
                return f"first bad commit {answer.commits[0]} ({sure}): {answer.reason}"
            return f"one of {len(answer.commits)} commits ({sure}): {answer.reason}"
        return f"{words.get(answer.kind, str(answer.kind))}: {answer.reason}"

    def _named(self, commit: str) -> str:
        subject = plain(self._subjects.get(commit, ""))
        return f"{commit[:12]} '{clip(subject, SUBJECT_WIDTH)}'" if subject else commit[:12]


def _test_of(recipe: str) -> str:
    try:
        return parse_recipe(recipe).benchmark.test
    except RecipeError:
        # A log must be readable though its recipe was written by a newer program: the first test is shown then.
        return ""


def _with_mend(reason: str, resolution: str) -> str:
    return "; ".join(part for part in (reason, resolution) if part)

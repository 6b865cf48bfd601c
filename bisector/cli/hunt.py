"""Launching, driving and ending a hunt: what `start`, `resume` and `demo` share."""

import json
import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from bisector import __version__
from bisector.cli.display import Current, Display
from bisector.model.commit import CommitRange
from bisector.model.errors import UsageError
from bisector.model.events import Marked, SessionResumed, SessionStarted
from bisector.model.outcome import AnswerKind, Verdict
from bisector.recipe.load import LoadedRecipe, load_recipe, parse_recipe, text_override, with_fixups
from bisector.search.types import Assessment
from bisector.session.controller import Controller, StopRequest
from bisector.session.home import Home
from bisector.session.journal import Journal
from bisector.session.outlook import Outlook
from bisector.session.state import SessionState, Status, fold

EXIT_FOUND = 0
EXIT_NO_SINGLE_COMMIT = 1
EXIT_PAUSED = 3
EXIT_INTERRUPTED = 130

_VERDICTS = {"good": Verdict.GOOD, "bad": Verdict.BAD, "skip": Verdict.SKIPPED}

INTERRUPTED = "interrupted from the terminal"

RETRY_PAUSE_S = 30.0
"""After trouble of a machine or the builder; then two minutes, eight, and half an hour, as long as `limits` allows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A hunt that can start: everything was checked, nothing was written."""

    loaded: LoadedRecipe
    range: CommitRange
    marks: tuple[Marked, ...] = ()

    @property
    def name(self) -> str:
        """The session's name."""
        return self.loaded.recipe.name

    def started(self) -> SessionStarted:
        """The session's first event."""
        recipe = self.loaded.recipe
        return SessionStarted(
            session=self.name,
            recipe=self.loaded.text,
            recipe_digest=self.loaded.digest,
            repo=recipe.repo,
            range=self.range,
            machines=tuple(machine.name for machine in recipe.machines),
            seed=recipe.search.seed,
            program=f"bisector {__version__}",
        )


def prepare(
    home: Home,
    recipe: Path,
    overrides: Sequence[str],
    *,
    machines: Sequence[str] = (),
    bisect_log: Path | None = None,
) -> Prepared:
    """Check everything that can be checked before anything is written.

    `bisect_log` is a hunt that people began with git: its ends take the place of the recipe's, its other words become
    marks. Raises RecipeError, RevisionError, MissingPackageError or UsageError.
    """
    from bisector.cli.wiring import check_lab, check_tests
    from bisector.history.fixups import resolve_fixups
    from bisector.history.replay import read_bisect_log, take_up
    from bisector.history.repository import Repository

    changes = (*overrides, *_machine_override(recipe, machines))
    loaded = load_recipe(recipe, overrides=changes)
    home.free_name(loaded.recipe.name)
    repository = Repository.open(Path(loaded.recipe.repo))
    marks: tuple[Marked, ...] = ()
    if bisect_log is not None:
        begun = read_bisect_log(_text_of(bisect_log), str(bisect_log))
        taken = take_up(repository, begun, first_parent=begun.first_parent or loaded.recipe.first_parent)
        line = ("first_parent=true",) if begun.first_parent else ()
        ends = (text_override("good", taken.good), text_override("bad", taken.bad), *line)
        loaded = load_recipe(recipe, overrides=(*changes, *ends))
        marks = tuple(Marked(commit=commit, verdict=_VERDICTS[word]) for commit, word in taken.marks)
    asked = loaded.recipe
    commits = repository.read_range(asked.good, asked.bad, first_parent=asked.first_parent)
    loaded = with_fixups(loaded, resolve_fixups(repository, asked.kernel.fixups))
    check_lab(loaded.recipe)
    check_tests(home, loaded.recipe)
    return Prepared(loaded=loaded, range=commits, marks=marks)


def _text_of(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise UsageError(
            f"{path}: cannot be read: {error.strerror}",
            resolution="Write one in the hunt's checkout: git bisect log > bisect.log",
        ) from error


def _machine_override(recipe: Path, machines: Sequence[str]) -> tuple[str, ...]:
    if not machines:
        return ()
    known = {machine.name: machine for machine in load_recipe(recipe).recipe.machines}
    unknown = [name for name in machines if name not in known]
    if unknown:
        raise UsageError(
            f"--machine {unknown[0]}: the recipe has no machine of that name",
            details=f"It has: {', '.join(known)}.",
            resolution=f"See machines: in {recipe}",
        )
    kept = [known[name].model_dump(mode="json") for name in machines]
    return (f"machines={json.dumps(kept)}",)


def drive(home: Home, name: str, watch: Callable[[Current], Display], tell: Callable[[SessionState], None]) -> int:
    """Drive a session until it ends, pauses or is interrupted; return the exit code.

    `watch` makes the observer; `tell` prints how it ended, before the builder's files are removed.
    Raises SessionLockedError if another controller drives it, and what `wire` raises.
    """
    from bisector.cli import profiling
    from bisector.cli.wiring import wire

    with home.drive(name) as journal:
        state = fold(journal.entries)
        if state.status is Status.FINISHED:
            return _finished(home, journal, watch, tell)
        recipe = parse_recipe(state.recipe_text)
        outlook = Outlook(state, recipe)
        rig = wire(home, state, recipe)
        stop = StopRequest()

        def current() -> tuple[SessionState, Assessment | None]:
            return controller.state, outlook.assessment(controller.state)

        display = watch(current)
        controller = Controller(
            journal,
            home.session_folder(name),
            recipe,
            builder=rig.builder,
            machines=rig.machines,
            higher_is_better=rig.higher_is_better,
            observer=display,
            stop=stop,
            retry_pause_s=RETRY_PAUSE_S,
        )
        with signals_stop(stop, f"bisector resume {name}"), display:
            controller.run()
            trouble = profiling.complete(
                journal, recipe, rig.machines, home.session_folder(name), watching=display, stop=stop
            )
        state = fold(journal.entries)
        tell(state)
        if trouble:
            sys.stderr.write(f"{trouble}\n")
        if state.status is Status.FINISHED:
            rig.dispose()
    return exit_code(state)


def _finished(
    home: Home, journal: Journal, watch: Callable[[Current], Display], tell: Callable[[SessionState], None]
) -> int:
    """Tell of a hunt that has ended; first the profiles, if it was interrupted before it had them."""
    from bisector.cli import profiling
    from bisector.cli.wiring import measuring_machines

    state = fold(journal.entries)
    recipe, folder = parse_recipe(state.recipe_text), home.session_folder(state.name)
    trouble = ""
    if profiling.missing(state, recipe, folder):
        outlook, stop = Outlook(state, recipe), StopRequest()

        def current() -> tuple[SessionState, Assessment | None]:
            now = fold(journal.entries)
            return now, outlook.assessment(now)

        machines = measuring_machines(home, state, recipe)
        display = watch(current)
        with signals_stop(stop, f"bisector resume {state.name}"), display:
            resumed = journal.append(SessionResumed(program=f"bisector {__version__}"))
            display.happened(resumed.seq, resumed.at, resumed.event)
            trouble = profiling.complete(journal, recipe, machines, folder, watching=display, stop=stop)
    state = fold(journal.entries)
    tell(state)
    if trouble:
        sys.stderr.write(f"{trouble}\n")
    return exit_code(state)


def exit_code(state: SessionState) -> int:
    """0 = one first bad commit, 1 = ended otherwise, 3 = paused by trouble, 130 = interrupted."""
    if state.status is Status.FINISHED and state.answer is not None:
        return EXIT_FOUND if state.answer.kind is AnswerKind.COMMIT else EXIT_NO_SINGLE_COMMIT
    return EXIT_INTERRUPTED if state.pause_reason.startswith(INTERRUPTED) else EXIT_PAUSED


@contextmanager
def signals_stop(stop: StopRequest, go_on: str) -> Iterator[None]:
    """First Ctrl-C (or SIGTERM): finish the step, pause. Second: leave at once; the journal is whole at any moment.

    `go_on` is the command that goes on.
    """

    def handler(number: int, frame: FrameType | None) -> None:
        del frame
        if stop.reason:
            # What we started dies with us (pdeathsig); nothing is held only in memory.
            os.write(2, f"\nleft at once; go on: {go_on}\n".encode())
            os._exit(EXIT_INTERRUPTED)
        stop.reason = f"{INTERRUPTED} ({signal.Signals(number).name})"
        os.write(2, b"\npausing: the step in hand is finished first; Ctrl-C again leaves at once\n")

    before = {number: signal.signal(number, handler) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, old)

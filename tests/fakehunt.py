"""A whole hunt on fakes: the real controller with a journal of its own, begun or gone on with."""

from pathlib import Path

from fakes import RECIPE, FakeBuilder, FakeLab, FakeMachine, Watcher, recipe_for, session_started

from bisector.model.outcome import AnswerKind
from bisector.recipe.schema import LimitsPart, Recipe
from bisector.session.controller import Controller, StopRequest
from bisector.session.journal import create_journal, open_journal
from bisector.session.state import SessionState


def controller(
    folder: Path,
    lab: FakeLab,
    *machines: FakeMachine,
    builder: FakeBuilder | None = None,
    recipe: Recipe | None = None,
    limits: LimitsPart = RECIPE.limits,
    stop: StopRequest | None = None,
    retry_pause_s: float = 0.0,
) -> Controller:
    """Of the session in `folder`, which begins if there is none; with one machine, lab-01, if none is given."""
    machines = machines or (FakeMachine(lab),)
    names = tuple(machine.name for machine in machines)
    if (folder / "journal.sqlite3").exists():
        journal = open_journal(folder, writer=True)
    else:
        journal = create_journal(folder)
        journal.append(session_started(lab.commits, machines=names, limits=limits))
    return Controller(
        journal,
        folder,
        recipe or recipe_for(*names),
        builder=builder or FakeBuilder(lab),
        machines={machine.name: machine for machine in machines},
        higher_is_better=True,
        observer=Watcher(),
        stop=stop or StopRequest(),
        retry_pause_s=retry_pause_s,
    )


def answer_of(state: SessionState) -> tuple[AnswerKind, tuple[str, ...]]:
    assert state.answer is not None
    return state.answer.kind, state.answer.commits

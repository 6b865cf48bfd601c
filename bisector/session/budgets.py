"""What may fail in a row before people are asked. Pure: read off the journal's state.

A commit that cannot be tested is left out, and the search goes around it; but a whole block of them, or a broken
base, would eat the night one build at a time. So each kind of failure has a budget of its own (`limits` in the
recipe), and the session pauses when one is spent: never a verdict, and never where the answer is there without it.
The builder and each machine have one for errors of their own; a machine that spent it is set aside, and the session
pauses with the last one. A success of the same kind ends a row, and a resume begins a new one. Source: lab failure
scenario 12, "per-kind failure budget pauses".
"""

from collections.abc import Callable
from dataclasses import dataclass

from bisector.model.outcome import Outcome, Purpose
from bisector.recipe.load import parse_recipe
from bisector.recipe.schema import LimitsPart
from bisector.session.blame import KERNEL_FAILED
from bisector.session.state import BUILDER, SessionState


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """What one kind of failure may cost: `used` of `allowed` in a row; `last` is the last one's reason.

    `kind` is the recipe's key below `limits`, `words` say it to people.
    """

    kind: str
    words: str
    used: int
    allowed: int
    last: str

    @property
    def spent(self) -> bool:
        """Is nothing of it left?"""
        return self.used >= self.allowed

    @property
    def limit(self) -> str:
        """Which key of the recipe allows how many."""
        return f"limits.{self.kind} is {self.allowed}"


def budgets_of(state: SessionState) -> tuple[Budget, ...]:
    """Every budget of commits as it stands, counted since the last resume."""
    limits = _limits(state)
    found = []
    for kind, words, counted in _OF_COMMITS:
        used, last = counted(state)
        found.append(Budget(kind=kind, words=words, used=used, allowed=getattr(limits, kind), last=last))
    return tuple(found)


def errors_of(state: SessionState, worker: str) -> Budget:
    """The budget of a machine, or of the builder, for errors of its own."""
    kind = "builder_errors" if worker == BUILDER else "machine_errors"
    used = state.troubles.get(worker, 0)
    return Budget(
        kind=kind,
        words=f"errors of {'the builder' if worker == BUILDER else worker}",
        used=used,
        allowed=getattr(_limits(state), kind),
        last=state.last_trouble[worker].reason if used else "",
    )


def spent_budget(state: SessionState) -> Budget | None:
    """The first budget of commits of which nothing is left, or None."""
    return next((budget for budget in budgets_of(state) if budget.spent), None)


def _limits(state: SessionState) -> LimitsPart:
    return parse_recipe(state.recipe_text).limits


def _failed_builds(state: SessionState) -> tuple[int, str]:
    ended = [
        build
        for build in state.builds.values()
        if build.outcome is not None and build.ended_at is not None and build.started_at >= state.resumed_at
    ]
    count, reason = 0, ""
    for build in sorted(ended, key=lambda build: build.ended_at or 0.0):
        if build.outcome is Outcome.MEASURED:
            count, reason = 0, ""
        else:
            count, reason = count + 1, build.reason
    return count, reason


def _failed_boots(state: SessionState, outcomes: tuple[Outcome, ...]) -> tuple[int, str]:
    """Commits, not looks: each is tried twice. A control that comes up between them does not end the row."""
    failed: set[int] = set()
    reason = ""
    for look in state.looks:
        if look.ended_at is None or look.forgotten or look.started_at < state.resumed_at:
            continue
        if look.outcome in outcomes:
            failed.add(look.commit)
            reason = look.reason
        elif look.runs and (look.purpose is Purpose.SEARCH or look.commit in failed):
            failed.clear()
            reason = ""
    return len(failed), reason


_OF_COMMITS: tuple[tuple[str, str, Callable[[SessionState], tuple[int, str]]], ...] = (
    ("failed_builds", "commits in a row did not build", _failed_builds),
    (
        "failed_boots",
        "commits in a row did not come up or crashed",
        lambda state: _failed_boots(state, KERNEL_FAILED),
    ),
    (
        "wrong_kernels",
        "commits in a row came up as another kernel",
        lambda state: _failed_boots(state, (Outcome.WRONG_KERNEL,)),
    ),
)

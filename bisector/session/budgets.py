"""How many commits in a row may come to nothing before people are asked. Pure: read off the journal's state.

A commit that cannot be tested is left out, and the search goes around it; but a whole block of them, or a broken
base, would eat the night one build at a time. So each kind of failure has a budget of its own (`limits` in the
recipe), and the session pauses when one is spent: never a verdict, and never where the answer is there without it.
A success of the same kind ends a row, and a resume begins a new one. Source: lab failure scenario 12, "per-kind
failure budget pauses". Trouble of a machine or of the builder has its own rule (`machines.given_up`).
"""

from dataclasses import dataclass

from bisector.model.outcome import Outcome, Purpose
from bisector.recipe.schema import LimitsPart
from bisector.session.blame import KERNEL_FAILED
from bisector.session.state import SessionState


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """What one kind of failure may cost: `used` of `allowed` commits in a row; `last` is the last one's reason.

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


def budgets_of(state: SessionState, limits: LimitsPart) -> tuple[Budget, ...]:
    """Every budget as it stands, counted since the last resume."""
    builds, build_reason = _failed_builds(state)
    boots, boot_reason = _failed_boots(state, KERNEL_FAILED)
    wrong, wrong_reason = _failed_boots(state, (Outcome.WRONG_KERNEL,))
    return (
        Budget(
            kind="failed_builds",
            words="commits in a row did not build",
            used=builds,
            allowed=limits.failed_builds,
            last=build_reason,
        ),
        Budget(
            kind="failed_boots",
            words="commits in a row did not come up or crashed",
            used=boots,
            allowed=limits.failed_boots,
            last=boot_reason,
        ),
        Budget(
            kind="wrong_kernels",
            words="commits in a row came up as another kernel",
            used=wrong,
            allowed=limits.wrong_kernels,
            last=wrong_reason,
        ),
    )


def spent_budget(state: SessionState, limits: LimitsPart) -> Budget | None:
    """The first budget of which nothing is left, or None."""
    return next((budget for budget in budgets_of(state, limits) if budget.spent), None)


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

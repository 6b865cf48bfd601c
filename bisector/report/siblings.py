"""What happened to the tests that were measured beside the one that decides: did they move with it?"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from bisector.model.outcome import Verdict
from bisector.model.sample import RunRecord, Sample
from bisector.recipe.schema import Recipe
from bisector.search.types import Assessment
from bisector.session.evidence import measured_looks
from bisector.session.state import SessionState

LEVEL = 0.95


class Movement(StrEnum):
    """What can be said of a sibling. `UNCLEAR`: neither a change of interest nor its absence is shown."""

    MOVED = "moved"
    UNCHANGED = "unchanged"
    UNCLEAR = "unclear"


@dataclass(frozen=True, slots=True, kw_only=True)
class SiblingChange:
    """The change of one test from the good side to the bad side, in percent, with its 95 % interval.

    `good_value` and `bad_value` are geometric means of boot means in `unit`; None (as the effect) where a side has
    fewer than two boots.
    """

    test: str
    unit: str
    movement: Movement
    good_value: float | None
    bad_value: float | None
    effect_percent: float | None
    low_percent: float | None
    high_percent: float | None
    good_boots: int
    bad_boots: int


def sibling_changes(state: SessionState, assessment: Assessment, recipe: Recipe) -> tuple[SiblingChange, ...]:
    """Return the change of every test but the deciding one between the settled good and the settled bad commits.

    They are the recipe's `also` tests, and phases of tests: those are measured whether they were asked for or not.

    The boot is the unit (runs of one boot share its layout and caches), so each boot enters as the mean of its runs.
    A test moved if its interval leaves out zero and its effect is of interest (`smallest_effect_percent`); it is
    unchanged if the whole interval is too small to be of interest.
    """
    side = {verdict.commit: verdict.verdict for verdict in assessment.verdicts}
    smallest = recipe.search.smallest_effect_percent
    measured = (sample.test for look in measured_looks(state) for run in look.runs for sample in run.samples)
    beside = dict.fromkeys(name for name in (*recipe.benchmark.also, *measured) if name != recipe.benchmark.test)
    changes = []
    for test in beside:
        logs: dict[Verdict, list[float]] = {Verdict.GOOD: [], Verdict.BAD: []}
        unit = ""
        for look in measured_looks(state):
            samples = [sample for run in look.runs if (sample := _sample(run, test)) is not None]
            if samples and (verdict := side.get(look.commit)) in logs:
                unit = samples[0].unit
                logs[verdict].append(100 * math.log(sum(sample.value for sample in samples) / len(samples)))
        changes.append(_change(test, unit, logs[Verdict.GOOD], logs[Verdict.BAD], smallest))
    return tuple(changes)


def _sample(run: RunRecord, test: str) -> Sample | None:
    return next((sample for sample in run.samples if sample.test == test), None)


def _change(test: str, unit: str, good: list[float], bad: list[float], smallest_percent: float) -> SiblingChange:
    interval = welch_interval(good, bad)
    if interval is None:
        movement, effect, low, high = Movement.UNCLEAR, None, None, None
    else:
        effect, low, high = (100 * math.expm1(end / 100) for end in interval)
        if not low <= 0 <= high and abs(effect) >= smallest_percent:
            movement = Movement.MOVED
        elif max(abs(low), abs(high)) < smallest_percent:
            movement = Movement.UNCHANGED
        else:
            movement = Movement.UNCLEAR
    return SiblingChange(
        test=test,
        unit=unit,
        movement=movement,
        good_value=math.exp(_mean(good) / 100) if good else None,
        bad_value=math.exp(_mean(bad) / 100) if bad else None,
        effect_percent=effect,
        low_percent=low,
        high_percent=high,
        good_boots=len(good),
        bad_boots=len(bad),
    )


def welch_interval(first: Sequence[float], second: Sequence[float]) -> tuple[float, float, float] | None:
    """Return mean(second) - mean(first) and its 95 % interval, or None if either has fewer than two values.

    Unequal variances; degrees of freedom after Welch 1947 and Satterthwaite 1946. Constant values are legal (a clock
    that counts instructions repeats to the last digit): the interval then has no width.
    """
    if len(first) < 2 or len(second) < 2:
        return None
    a, b = (_variance(values) / len(values) for values in (first, second))
    difference = _mean(second) - _mean(first)
    if a + b <= 0:
        return difference, difference, difference
    # scipy.special, not scipy.stats: the latter takes most of a second to import.
    from scipy.special import stdtrit

    freedom = (a + b) ** 2 / (a**2 / (len(first) - 1) + b**2 / (len(second) - 1))
    half = float(stdtrit(freedom, 0.5 + LEVEL / 2)) * math.sqrt(a + b)
    return difference, difference - half, difference + half


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _variance(values: Sequence[float]) -> float:
    middle = _mean(values)
    return sum((value - middle) ** 2 for value in values) / (len(values) - 1)

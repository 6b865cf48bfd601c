"""What happened to the tests and counters that were measured beside the metric that decides: did they move with it?"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from bisector.model.outcome import Verdict
from bisector.model.sample import RunRecord, Sample
from bisector.recipe.schema import Recipe
from bisector.search.types import Assessment
from bisector.session.evidence import measured_looks
from bisector.session.state import SessionState

LEVEL = 0.95
PER_OP = "per op"


class Movement(StrEnum):
    """What can be said of a sibling. `UNCLEAR`: neither a change of interest nor its absence is shown."""

    MOVED = "moved"
    UNCHANGED = "unchanged"
    UNCLEAR = "unclear"


@dataclass(frozen=True, slots=True, kw_only=True)
class SiblingChange:
    """The change of one test from the good side to the bad side, in percent, with its 95 % interval.

    `good_value` and `bad_value` are geometric means of boot means in `unit`; None (as the effect) where a side has
    fewer than two boots. For a counter `test` is "page_test instructions:k", `unit` "per op", and less is better; where
    it counted nothing in a boot there is no percentage, and the values are plain means.
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
    higher_is_better: bool = True

    @property
    def label(self) -> str:
        """What was measured, for people."""
        return f"{self.test} {self.unit}" if self.unit == PER_OP else self.test


def sibling_changes(state: SessionState, assessment: Assessment, recipe: Recipe) -> tuple[SiblingChange, ...]:
    """Return the change of every test but the deciding one, and of every counter, from the good side to the bad side.

    The tests are the recipe's `also` tests, and phases of tests: those are measured whether they were asked for or not.

    The boot is the unit (runs of one boot share its layout and caches), so each boot enters as the mean of its runs.
    A test moved if its interval leaves out zero and its effect is of interest (`smallest_effect_percent`); it is
    unchanged if the whole interval is too small to be of interest. A counter that no sample has is left out.
    """
    smallest = recipe.search.smallest_effect_percent
    measured = (sample.test for look in measured_looks(state) for run in look.runs for sample in run.samples)
    beside = dict.fromkeys(name for name in (*recipe.benchmark.also, *measured) if name != recipe.benchmark.test)
    counted = [(test, name) for test in (recipe.benchmark.test, *beside) for name in recipe.benchmark.counters]
    changes = [_change(test, _seen(state, assessment, test, None), smallest) for test in beside]
    counters = [(f"{test} {name}", _seen(state, assessment, test, name)) for test, name in counted]
    return (*changes, *(_change(label, seen, smallest) for label, seen in counters if seen.good or seen.bad))


@dataclass(slots=True, kw_only=True)
class _Seen:
    """The means of boots on either side."""

    good: list[float] = field(default_factory=list)
    bad: list[float] = field(default_factory=list)
    unit: str = ""
    higher_is_better: bool = True


def _seen(state: SessionState, assessment: Assessment, test: str, counter: str | None) -> _Seen:
    side = {verdict.commit: verdict.verdict for verdict in assessment.verdicts}
    seen = _Seen() if counter is None else _Seen(unit=PER_OP, higher_is_better=False)
    boots = {Verdict.GOOD: seen.good, Verdict.BAD: seen.bad}
    for look in measured_looks(state):
        samples = [sample for run in look.runs if (sample := _sample(run, test)) is not None]
        found = [sample.value if counter is None else sample.per_op(counter) for sample in samples]
        values = [value for value in found if value is not None]
        if values and (verdict := side.get(look.commit)) in boots:
            boots[verdict].append(_mean(values))
            if counter is None:
                seen.unit, seen.higher_is_better = samples[0].unit, samples[0].higher_is_better
    return seen


def _sample(run: RunRecord, test: str) -> Sample | None:
    return next((sample for sample in run.samples if sample.test == test), None)


def _change(test: str, seen: _Seen, smallest_percent: float) -> SiblingChange:
    ratios = all(value > 0 for value in (*seen.good, *seen.bad))
    good, bad = ([100 * math.log(value) for value in side] if ratios else [] for side in (seen.good, seen.bad))
    interval = welch_interval(good, bad)
    effect: float | None = None
    low = high = effect
    if interval is None:
        nothing = bool(seen.good and seen.bad) and not any((*seen.good, *seen.bad))
        movement = Movement.UNCHANGED if nothing else Movement.UNCLEAR
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
        unit=seen.unit,
        movement=movement,
        good_value=_middle(seen.good, ratios=ratios),
        bad_value=_middle(seen.bad, ratios=ratios),
        effect_percent=effect,
        low_percent=low,
        high_percent=high,
        good_boots=len(seen.good),
        bad_boots=len(seen.bad),
        higher_is_better=seen.higher_is_better,
    )


def _middle(values: Sequence[float], *, ratios: bool) -> float | None:
    if not values:
        return None
    return math.exp(_mean([math.log(value) for value in values])) if ratios else _mean(values)


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

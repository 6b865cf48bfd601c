"""Small tables of plain ratios and differences, with the roundings that people's published tables have.

A table that cuts its figures off after some digits prints 1.947 for 1.9479: whoever compares with one must cut too.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import ROUND_DOWN, Decimal

from bisector.report.words import pad, plain

_NAME = 24
_FIGURE = 11


def cut(value: float, digits: int) -> str:
    """The value with that many digits behind the point, the others cut off, not rounded: 1.9479 is "1.947"."""
    return str(Decimal(repr(value)).quantize(Decimal(1).scaleb(-digits), rounding=ROUND_DOWN))


def cut_percent(base: float, new: float, digits: int = 2) -> str:
    """The change from `base` to `new` in percent of the base, with its sign, cut off: "+0.97"."""
    # In decimals throughout: 100 * (new / base - 1) in binary may fall just below a digit that it reaches.
    change = 100 * (Decimal(repr(new)) - Decimal(repr(base))) / Decimal(repr(base))
    return f"{change.quantize(Decimal(1).scaleb(-digits), rounding=ROUND_DOWN):+}"


def cut_ratio(base: float, new: float, digits: int = 3) -> str:
    """`new` as a multiple of `base`, cut off: "1.431"."""
    ratio = Decimal(repr(new)) / Decimal(repr(base))
    return str(ratio.quantize(Decimal(1).scaleb(-digits), rounding=ROUND_DOWN))


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One step of a stack of changes: what was measured, and the step that it is compared with (None: the first)."""

    name: str
    value: float
    base: float
    previous: float | None


def steps_text(steps: Sequence[Step], unit: str) -> str:
    """A table of steps: the value, its ratio to the base, and to the step before; ratios cut after three digits."""
    lines = [f"{pad('step', _NAME)}{unit.rjust(_FIGURE)}{'vs base'.rjust(_FIGURE)}{'vs prev'.rjust(_FIGURE)}"]
    for step in steps:
        previous = "-" if step.previous is None else cut_ratio(step.previous, step.value)
        value = f"{step.value:.3f}".rjust(_FIGURE) + cut_ratio(step.base, step.value).rjust(_FIGURE)
        lines.append(f"{pad(plain(step.name), _NAME)}{value}{previous.rjust(_FIGURE)}")
    return "\n".join(lines)

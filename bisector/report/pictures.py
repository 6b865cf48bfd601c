"""Pictures in a line of text: where runs lie, and what an interval covers. ASCII, so that any mail carries them."""

from collections.abc import Sequence

MARKS = ".:#"
"""One value in a cell, two, more."""


def strip(deviations: Sequence[float], reach: float, *, width: int = 31) -> str:
    """Values on a line from -`reach` to +`reach`, whose middle is 0: "  .  :|#.   ". Beyond it they stand at its ends.

    A cell with a value shows how many lie there; the middle one is "|" when none does.
    """
    found = [0] * width
    for value in deviations:
        found[_cell(value, reach, width)] += 1
    drawn = [MARKS[min(amount, len(MARKS)) - 1] if amount else " " for amount in found]
    if drawn[width // 2] == " ":
        drawn[width // 2] = "|"
    return "".join(drawn)


def span(low: float, at: float, high: float, reach: float, *, width: int = 41) -> str:
    """An interval on a line from -`reach` to +`reach`: "   [--o--]  |        ". The middle, "|", is no difference."""
    drawn = [" "] * width
    drawn[width // 2] = "|"
    first, middle, last = (_cell(value, reach, width) for value in (low, at, high))
    drawn[first : last + 1] = "-" * (last + 1 - first)
    drawn[first], drawn[last] = "[", "]"
    drawn[middle] = "o"
    return "".join(drawn)


def round_up(reach: float) -> float:
    """The next of 0.1, 0.2, 0.5, 1, 2, 5, ... percent: the end of a scale that people can read."""
    step = 0.1
    while True:
        for factor in (1, 2, 5):
            if reach <= step * factor:
                return step * factor
        step *= 10


def _cell(value: float, reach: float, width: int) -> int:
    middle = width // 2
    return max(0, min(width - 1, middle + round(value / reach * middle)))

"""Two profiles beside each other: the functions whose time moved most, normalised before they were compared."""

from bisector.bench.profile import Mover, Movers
from bisector.report.words import clip, pad, plain, wrap

TOP = 12
_NAME = 34
_FIGURE = 13


def movers_text(found: Movers, names: tuple[str, str], *, top: int = TOP) -> str:
    """A table of the `top` movers: each function before and after, and by how much it moved.

    A function that a profile does not list shows as "<" the list's smallest row, and its change as "at least".
    """
    width = max([_NAME, *(len(plain(row.symbol)) for row in found.rows[:top])])
    width = min(width, 60)
    heads = "".join(clip(plain(name), _FIGURE - 1).rjust(_FIGURE) for name in names)
    lines = [f"{pad('function', width)}{heads}{'change'.rjust(_FIGURE)}  {found.unit}"]
    lines += [_row(row, found, width) for row in found.rows[:top]]
    totals = f"{found.base_total:{_FIGURE}.2f}{found.new_total:{_FIGURE}.2f}"
    lines.append(f"{pad('total', width)}{totals}{found.new_total - found.base_total:+{_FIGURE}.2f}")
    told = _how(found)
    return "\n".join([*lines, "", *wrap(told)])


def _row(row: Mover, found: Movers, width: int) -> str:
    low, high = found.unlisted_below
    base, new = _figure(row.base, low), _figure(row.new, high)
    change = f"{row.change:+.2f}"
    if row.base is None or row.new is None:
        change = ("≥ " if row.change >= 0 else "≤ ") + change
    return f"{pad(plain(row.symbol), width)}{base.rjust(_FIGURE)}{new.rjust(_FIGURE)}{change.rjust(_FIGURE)}"


def _figure(value: float | None, limit: float) -> str:
    return f"<{limit:.2f}" if value is None else f"{value:.2f}"


def _how(found: Movers) -> str:
    if found.unit == "s":
        told = "Seconds: ticks divided by the timer's frequency, or the clock that was sampled."
    else:
        told = "Shares of each profile's own total: a share also moves when something else takes more or less."
    if any(found.unlisted_below):
        told += ' "<": below the smallest function that the profile lists.'
    return told

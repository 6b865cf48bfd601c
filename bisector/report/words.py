"""How numbers, times and other people's text are written: short, with units, and harmless to a terminal."""

import re
import textwrap
import unicodedata
from datetime import UTC, datetime, tzinfo

WIDTH = 100

_STUCK = re.compile(r"(?<=\d) (?=%)|(?<=%) (?=\[)|(?<=,) (?=[-+][\d.]+\])|(?<=\d) (?=[smhd]\b)")
"""Blanks at which a line is not broken: "-12.8 % [-13.5, -12.1]", "41 s"."""

_SPACES = {ord(character): " " for character in "\t\n\v\f\r\x85\u2028\u2029"}
_UNSAFE = ("Cc", "Cs", "Co", "Cn")
_BIDI = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


def plain(text: str) -> str:
    """The text in one line with control characters and writing-direction marks shown as escapes, never sent.

    Commit subjects, console lines and compiler messages are other people's text: an escape sequence in one must not
    move the cursor, and a direction mark must not make an id read backwards.
    """
    text = text.translate(_SPACES)
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        character.encode("unicode_escape").decode("ascii")
        if character in _BIDI or unicodedata.category(character) in _UNSAFE
        else character
        for character in text
    )


def cells(text: str) -> int:
    """How many columns of a terminal a text takes: wide characters two, combining ones none."""
    if text.isascii():
        return len(text)
    return sum(_width(character) for character in text)


def clip(text: str, width: int) -> str:
    """The text, cut to `width` columns with an ellipsis."""
    if cells(text) <= width:
        return text
    kept, used = [], 0
    for character in text:
        used += _width(character)
        if used > width - 1:
            break
        kept.append(character)
    return "".join(kept).rstrip() + "…" if width > 0 else ""


def pad(text: str, width: int) -> str:
    """The text, cut or filled to exactly `width` columns."""
    text = clip(text, width)
    return text + " " * (width - cells(text))


def wrap(text: str, *, indent: str = "", first: str | None = None, width: int = WIDTH) -> list[str]:
    """The text in lines of at most `width` columns; `first` begins the first line, `indent` the others."""
    lines = textwrap.wrap(
        _STUCK.sub("\N{NO-BREAK SPACE}", plain(text)),
        width=max(width, len(indent) + 20),
        initial_indent=indent if first is None else first,
        subsequent_indent=indent,
        break_on_hyphens=False,
    )
    lines = [line.replace("\N{NO-BREAK SPACE}", " ") for line in lines]
    return [clip(line, max(width, len(indent) + 20)) for line in lines] or [(first or indent).rstrip()]


def percent(value: float, *, digits: int = 1) -> str:
    """A share or deviation, "2.7 %"."""
    return f"{value:.{digits}f} %"


def signed(value: float) -> str:
    """An effect, "-12.8 %": negative means a lower value than the good end's."""
    return f"{_without_minus_zero(value):+.1f} %"


def interval(low: float, high: float) -> str:
    """The two ends of an interval in percent, "[-13.5, -12.1]"."""
    return f"[{_without_minus_zero(low):+.1f}, {_without_minus_zero(high):+.1f}]"


def belief(probability: float) -> str:
    """A probability in percent that never rounds to certainty: "> 99.9 %" is not "100 %"."""
    if 0.9995 <= probability < 1:
        return "> 99.9 %"
    if 0 < probability < 0.0005:
        return "< 0.1 %"
    return f"{100 * probability:.1f} %"


def number(value: float) -> str:
    """A measured value with four significant digits, never as an exponent below a billion."""
    if value == 0:
        return "0"
    if abs(value) >= 1e9 or abs(value) < 1e-3:
        return f"{value:.3e}"
    digits = max(0, 3 - len(str(int(abs(value)))) + 1) if abs(value) >= 1 else 4
    return f"{value:.{digits}f}"


def duration(seconds: float) -> str:
    """Two units at most: "41 s", "3 m 20 s", "2 h 11 m", "3 d 4 h"."""
    whole = max(0, round(seconds))
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        minutes, rest = divmod(whole, 60)
        return f"{minutes} m {rest} s" if rest else f"{minutes} m"
    minutes = round(whole / 60)
    if minutes < 24 * 60:
        return f"{minutes // 60} h {minutes % 60} m" if minutes % 60 else f"{minutes // 60} h"
    hours = round(whole / 3600)
    return f"{hours // 24} d {hours % 24} h" if hours % 24 else f"{hours // 24} d"


def clock(at: float, zone: tzinfo | None = None) -> str:
    """The time of day in a zone, the user's if none is given."""
    return datetime.fromtimestamp(at, zone).astimezone(zone).strftime("%H:%M:%S")


def day(at: float, zone: tzinfo | None = None) -> str:
    """The date in a zone, the user's if none is given."""
    return datetime.fromtimestamp(at, zone).astimezone(zone).strftime("%Y-%m-%d")


def iso(at: float) -> str:
    """A time for machines: ISO 8601 in UTC, milliseconds."""
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds")


def count(amount: int, one: str, many: str | None = None) -> str:
    """ "1 boot", "3 boots", "1 234 commits"."""
    return f"{amount:,}".replace(",", " ") + f" {one if amount == 1 else many or one + 's'}"


def between(low: int, high: int, one: str) -> str:
    """ "1 boot", "3 boots" or "2 to 4 boots"."""
    return count(low, one) if low == high else f"{low} to {count(high, one)}"


def _without_minus_zero(value: float) -> float:
    return 0.0 if round(value, 1) == 0 else value


def _width(character: str) -> int:
    if unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1

"""What every importer gives, and the only ways by which it reads lines and numbers.

A reading is one number as it was printed; nothing is averaged or converted here. What a program could not measure
("<not supported>", nan) is `Missing`, never zero, and an error for whoever asks for it.
"""

import math
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass

HIGHER = True
LOWER = False

_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?", re.ASCII)
_DECIMAL_COMMA = re.compile(r"[+-]?[0-9]{1,3}([.' ][0-9]{3})*,[0-9]+|[0-9]+,[0-9]+([eE][+-]?[0-9]+)?", re.ASCII)
_SHOWN = 60

COMMA_HINT = "a decimal comma or a thousands separator: run the program with LC_ALL=C"


class FormatError(ValueError):
    """This is not the complete output of such a program, or not what was asked for; `line` (from 1) shows it."""

    def __init__(self, reason: str, *, line: int) -> None:
        super().__init__(f"line {line}: {reason}")
        self.reason = reason
        self.line = line


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """One number of an output, finite. None: this format does not say it, so whoever asks must.

    `counted_percent` is for how much of the time a counter ran; below 100 its value was extrapolated.
    """

    metric: str
    value: float
    line: int
    unit: str | None = None
    higher_is_better: bool | None = None
    counted_percent: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Missing:
    """A metric that the output names without a number that counts, and why."""

    metric: str
    reason: str
    line: int


Item = Reading | Missing


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """All that an output says, in its order."""

    readings: tuple[Reading, ...]
    missing: tuple[Missing, ...] = ()


Line = tuple[int, str]
"""Its number, from 1, and its text without the line feed."""


def decoded(data: bytes) -> str:
    """An output as text. Raises FormatError if it is empty or not UTF-8."""
    if not data.strip():
        raise FormatError("there is no output", line=1)
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        at = data[: error.start].count(b"\n") + 1
        raise FormatError(f"byte {data[error.start]:#04x} is not UTF-8 text", line=at) from None


def text_lines(data: bytes) -> list[Line]:
    """The lines of an output, all of them whole. Raises FormatError: empty, not UTF-8, cut off within its last line."""
    lines = decoded(data).split("\n")
    if lines[-1]:
        raise FormatError(f"cut off in the middle of a line: {shown(lines[-1])}", line=len(lines))
    return [(at, line.rstrip("\r")) for at, line in enumerate(lines[:-1], start=1)]


def number(text: str, *, line: int, what: str) -> float:
    """A printed number, finite. Raises FormatError, which says if a locale's decimal comma is the reason."""
    text = text.strip()
    if _NUMBER.fullmatch(text):
        value = float(text)
        if math.isfinite(value):
            return value
        raise FormatError(f"{what} is beyond any number: {shown(text)}", line=line)
    if _DECIMAL_COMMA.fullmatch(text):
        raise FormatError(f"{what} is {shown(text)}: {COMMA_HINT}", line=line)
    if not text:
        raise FormatError(f"{what} is missing", line=line)
    raise FormatError(f"{what} must be a number, got {shown(text)}", line=line)


def is_number(text: str) -> bool:
    """Does this read as a number, finite or not?"""
    return _NUMBER.fullmatch(text) is not None


def reading_or_missing(
    metric: str, text: str, *, line: int, unit: str | None = None, higher_is_better: bool | None = None
) -> Reading | Missing:
    """A reading, or for text that is no number the Missing that says so: for outputs that mix both."""
    try:
        value = number(text, line=line, what=metric)
    except FormatError as error:
        return Missing(metric=metric, reason=error.reason, line=line)
    return Reading(metric=metric, value=value, line=line, unit=unit, higher_is_better=higher_is_better)


def output_of(found: list[Item], *, nothing: str, last_line: int) -> Output:
    """Sort what was found. Raises FormatError saying `nothing` if there is none of either."""
    if not found:
        raise FormatError(nothing, line=last_line)
    return Output(
        readings=tuple(item for item in found if isinstance(item, Reading)),
        missing=tuple(item for item in found if isinstance(item, Missing)),
    )


def read_lines(data: bytes, find: Callable[[list[Line]], Iterable[Item]], *, nothing: str) -> Output:
    """What `find` gives for the lines of an output, sorted. Raises FormatError as `text_lines` and `output_of` do."""
    lines = text_lines(data)
    return output_of(list(find(lines)), nothing=nothing, last_line=len(lines))


def shown(text: str) -> str:
    """Quoted, cut to a line."""
    return repr(text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "...")

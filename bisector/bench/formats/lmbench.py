"""lmbench: lines like `Simple stat: 0.70 microseconds` or `Pipe bandwidth: 18.7 MB/sec`, from standard error.

Its tables without labels ("0.524288 141") are passed over: they do not say what they are.
"""

import re
from collections.abc import Iterator

from bisector.bench.formats.reading import (
    HIGHER,
    LOWER,
    FormatError,
    Item,
    Line,
    Output,
    Reading,
    number,
    read_lines,
    shown,
)

_DIRECTIONS = {
    "microseconds": LOWER,
    "nanoseconds": LOWER,
    "milliseconds": LOWER,
    "usecs": LOWER,
    "KB/sec": HIGHER,
    "MB/sec": HIGHER,
}
_LINE = re.compile(rf"(\S.*?):\s*(\S+)\s+({'|'.join(_DIRECTIONS)})")
_LABELS = ("Simple ", "Select on ", "Signal handler ", "Protection fault", "Pipe ", "Process ", "Pagefaults on ")


def read(data: bytes) -> Output:
    """A reading for each line with a label, a number and a unit. Raises FormatError for a known label without those."""
    return read_lines(data, _items, nothing="there is no line of lmbench")


def _items(lines: list[Line]) -> Iterator[Item]:
    for at, line in lines:
        text = line.strip()
        if match := _LINE.fullmatch(text):
            label, written, unit = match.groups()
            value = number(written, line=at, what=label)
            yield Reading(metric=label, value=value, unit=unit, higher_is_better=_DIRECTIONS[unit], line=at)
        elif text.startswith(_LABELS) and ":" in text:
            raise FormatError(f"no number and unit behind the label: {shown(text)}", line=at)

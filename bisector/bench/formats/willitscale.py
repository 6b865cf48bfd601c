"""will-it-scale: the table of runtest.py, and the console of one test program.

A table's values are operations a second of all tasks together; a count that was not run is printed as 0.
"""

import re
from collections.abc import Iterator

from bisector.bench.formats.reading import (
    HIGHER,
    FormatError,
    Item,
    Line,
    Missing,
    Output,
    Reading,
    number,
    read_lines,
    shown,
)

HEADER = "tasks,processes,processes_idle,threads,threads_idle,linear"
UNIT = "ops/s"
_AVERAGE = re.compile(r"average:(.*)")
_TESTCASE = re.compile(r"testcase:(.*)")


def read(data: bytes) -> Output:
    """`processes N` and `threads N` of a table, `average` of a console. Raises FormatError."""
    return read_lines(data, _items, nothing=f"neither the line {HEADER!r} with rows nor an average")


def _items(lines: list[Line]) -> Iterator[Item]:
    in_table, measuring = False, 0
    for at, line in lines:
        text = line.strip()
        if text == HEADER:
            in_table = True
        elif in_table and text:
            yield from _row(text, at)
        elif _TESTCASE.fullmatch(text):
            measuring = at
        elif match := _AVERAGE.fullmatch(text):
            value = number(match[1], line=at, what="average")
            yield Reading(metric="average", value=value, unit=UNIT, higher_is_better=HIGHER, line=at)
            measuring = 0
    if measuring:
        raise FormatError("incomplete: no average follows the testcase", line=measuring)


def _row(text: str, line: int) -> Iterator[Item]:
    fields = text.split(",")
    if len(fields) != 6:
        raise FormatError(f"a row must have 6 columns, got {len(fields)}: {shown(text)}", line=line)
    tasks, processes, _, threads, _, _ = (number(field, line=line, what=shown(text)) for field in fields)
    if tasks == 0:
        return  # the first row, for plots: idle is 100 % without any task
    for kind, value in (("processes", processes), ("threads", threads)):
        metric = f"{kind} {tasks:g}"
        if value == 0:
            yield Missing(metric=metric, reason=f"{kind} were not run (0)", line=line)
        else:
            yield Reading(metric=metric, value=value, unit=UNIT, higher_is_better=HIGHER, line=line)

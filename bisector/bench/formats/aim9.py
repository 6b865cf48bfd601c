"""AIM9 itself: the table on its console, and the two files it leaves (suite9.ss, logfile.suite9).

A test's rate in operations a second is `NAME`, its rate in calls of the test function `NAME loops`: published tables
hold the one or the other, and they differ by the test's factor. Layouts: singleuser.c of the suite, version 1.1.
"""

import re

from bisector.bench.formats.reading import (
    HIGHER,
    FormatError,
    Missing,
    Output,
    Reading,
    number,
    output_of,
    shown,
    text_lines,
)

OPS_UNIT = "ops/s"
LOOPS_UNIT = "loops/s"

_ROW = re.compile(r"\s*[0-9]+\s+([a-z]\S*)(?:\s+(\S.*))?")
_ENDS = ("Actual Completion time", "Testing over")
_PER_SECOND = "/second"
CLOCK_S = 0.01
"""AIM9 counts ticks of times(2), and prints hundredths of a second."""


def read_console(data: bytes) -> Output:
    """The rows of the console's table. Raises FormatError if one is broken, or if the closing lines are not there."""
    lines = text_lines(data)
    found: list[Reading | Missing] = []
    ended = False
    for at, line in lines:
        if match := _ROW.fullmatch(line):
            found += _console_row(match[1], (match[2] or "").split(), at)
        ended = ended or line.strip().startswith(_ENDS)
    output = output_of(found, nothing="there is no row of AIM9's table", last_line=len(lines))
    if not ended:
        raise FormatError(f"incomplete: no line begins with {_ENDS[0]!r}", line=len(lines))
    return output


def _console_row(test: str, fields: list[str], line: int) -> list[Reading | Missing]:
    loops = f"{test} loops"
    if fields[:1] == ["Skipping"]:
        return [Missing(metric=metric, reason="AIM9 could not execute it", line=line) for metric in (test, loops)]
    if len(fields) < 5 or not fields[-1].endswith(_PER_SECOND):
        raise FormatError(f"the row of {test} is not complete: {shown(' '.join(fields))}", line=line)
    elapsed_s, calls, rate = (number(fields[i], line=line, what=f"column {i + 3} of {test}") for i in range(3))
    # Printed to five digits from milliseconds of which we see hundredths of a second.
    if elapsed_s <= 0 or abs(calls / elapsed_s - rate) > rate * CLOCK_S / elapsed_s + 1e-4:
        raise FormatError(f"{test}: {calls:g} calls in {elapsed_s:g} s are not {rate:g} loops/s", line=line)
    readings: list[Reading | Missing] = [
        Reading(metric=loops, value=rate, unit=LOOPS_UNIT, higher_is_better=HIGHER, line=line)
    ]
    if fields[3].startswith("<"):
        return [*readings, Missing(metric=test, reason=f"AIM9 says {fields[3]}", line=line)]
    value = number(fields[3], line=line, what=f"{test} in ops/s")
    return [*readings, Reading(metric=test, value=value, unit=OPS_UNIT, higher_is_better=HIGHER, line=line)]


def read_summary(data: bytes) -> Output:
    """The rows of suite9.ss: name, whole operations a second, unit, with tabs between. Raises FormatError."""
    lines = text_lines(data)
    found: list[Reading | Missing] = []
    for at, line in lines:
        fields = line.split("\t")
        if len(fields) == 3 and fields[2].endswith(" per second"):
            found.append(_rate(fields[0].strip(), fields[1], at))
        elif found and line.strip():
            raise FormatError(f"not a row of suite9.ss: {shown(line)}", line=at)
    return output_of(found, nothing="there is no row of suite9.ss (name, rate, unit)", last_line=len(lines))


def read_logfile(data: bytes) -> Output:
    """The rows of logfile.suite9: name, milliseconds, loops/s, ops/s, unit. Raises FormatError."""
    lines = text_lines(data)
    found: list[Reading | Missing] = []
    for at, line in lines:
        if not line.strip():
            continue
        fields = line.split()
        if len(fields) < 5:
            raise FormatError(f"not a row of logfile.suite9: {shown(line)}", line=at)
        loops = number(fields[2], line=at, what=f"{fields[0]} in loops/s")
        found.append(
            Reading(metric=f"{fields[0]} loops", value=loops, unit=LOOPS_UNIT, higher_is_better=HIGHER, line=at)
        )
        found.append(_rate(fields[0], fields[3], at))
    return output_of(found, nothing="there is no row of logfile.suite9", last_line=len(lines))


def _rate(test: str, text: str, line: int) -> Reading:
    value = number(text, line=line, what=f"{test} in ops/s")
    return Reading(metric=test, value=value, unit=OPS_UNIT, higher_is_better=HIGHER, line=line)

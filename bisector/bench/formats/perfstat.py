"""`perf stat -x SEP` and `perf stat -j`, with or without `-r N`, of one machine, of each CPU, socket or core type.

Source: perf-stat(1), and what perf 6.1 prints. The lines are no real CSV: nothing is quoted, and the names of raw
events hold commas, so an event ends where the running time and the percentage of it begin. With -r the spread stands
in between. An event with its PMU ("cpu_core/cycles/") or modifier ("cycles:u") is a metric of its own.
"""

import re

from bisector.bench.formats.jsontext import Node, read_json
from bisector.bench.formats.reading import (
    COMMA_HINT,
    LOWER,
    FormatError,
    Line,
    Missing,
    Output,
    Reading,
    number,
    output_of,
    shown,
    text_lines,
)

_COUNT_UNIT = "events"
_TIMES = ("msec", "ns", "sec")
_PLACE = re.compile(r"(CPU[0-9]+|[SDNC][0-9]+(-[A-Z]+[0-9]+)*)")
_UNCOUNTED = re.compile(r"<not (supported|counted)>")
_SPREAD = re.compile(r"-?([0-9]+\.[0-9]+|nan)%", re.ASCII)
_PERCENT = re.compile(r"[0-9]+\.[0-9]+", re.ASCII)
_INTERVAL = "this was printed each interval (-I): a run needs one count, so leave -I out"
_PLACE_KEYS = ("cpu", "socket", "die", "core", "node", "thread")


def read_csv(data: bytes) -> Output:
    """One reading for each event (and CPU or socket). Raises FormatError for a line that is broken."""
    lines = text_lines(data)
    rows = [(at, line) for at, line in lines if line.strip() and not line.startswith("#")]
    found: list[Reading | Missing] = []
    for row in rows:
        found += _row(row, _separator(row[1]))
    return output_of(found, nothing="there is no counter", last_line=len(lines))


def _separator(line: str) -> str:
    return next((mark for mark in (";", "\t", "|") if mark in line), ",")


def _row(row: Line, separator: str) -> list[Reading | Missing]:
    at, line = row
    fields = line.split(separator)
    if line[0] == " ":
        raise FormatError(_INTERVAL, line=at)
    place = ""
    if _PLACE.fullmatch(fields[0]):
        place = f" [{fields[0]}]"
        # What follows a socket or core is how many CPUs were added up; a CPU is itself.
        fields = fields[1 if fields[0].startswith("CPU") else 2 :]
    if fields[:3] == ["", "", ""]:
        return []  # a metric that perf derived, without a counter
    if len(fields) < 3:
        raise FormatError(f"not a value, a unit and an event: {shown(line)}", line=at)
    value, unit, *rest = fields
    if re.fullmatch(r"[0-9]+", unit):
        raise FormatError(f"the unit is {shown(unit)}: {COMMA_HINT}, or separate by ; (-x ';')", line=at)
    event, percent = _event(rest, separator, at)
    return [_counter(event + place, value, unit, percent, at)]


def _event(rest: list[str], separator: str, line: int) -> tuple[str, float | None]:
    """The event's name, and for how much of the time it was counted (None: printed by a perf that does not say)."""
    for end in range(1, len(rest) - 1):
        runtime, percent = rest[end], rest[end + 1]
        if runtime.isascii() and runtime.isdecimal():
            if not _PERCENT.fullmatch(percent):
                raise FormatError(f"the percentage of the time counted is {shown(percent)}: {COMMA_HINT}", line=line)
            name = rest[: end - 1] if end > 1 and _SPREAD.fullmatch(rest[end - 1]) else rest[:end]
            return separator.join(name), float(percent)
    if len(rest) == 1 and rest[0]:
        return rest[0], None
    raise FormatError(f"no running time and percentage behind the event: {shown(separator.join(rest))}", line=line)


def read_json_lines(data: bytes) -> Output:
    """One reading for each object, one object a line, as `perf stat -j` prints them. Raises FormatError."""
    lines = text_lines(data)
    found: list[Reading | Missing] = []
    for at, line in lines:
        if not line.strip() or line.startswith("#"):
            continue
        node = read_json(line, first_line=at)
        if node.get("interval") is not None or node.get("timestamp") is not None:
            raise FormatError(_INTERVAL, line=at)
        if node.get("counter-value") is not None:
            found.append(_object(node))
        elif node.get("metric-value") is None:
            raise FormatError('neither "counter-value" nor "metric-value"', line=at)
    return output_of(found, nothing="there is no counter", last_line=len(lines))


def _object(node: Node) -> Reading | Missing:
    event = node.need("event").text("event")
    unit = node.need("unit").text("unit")
    places = [place for key in _PLACE_KEYS if (place := node.get(key)) is not None]
    name = event + "".join(f" [{place.value}]" for place in places if isinstance(place.value, str))
    value = node.need("counter-value")
    text = value.value if isinstance(value.value, str) else repr(value.number("counter-value"))
    percent = node.get("pcnt-running")
    return _counter(name, text, unit, None if percent is None else percent.number("pcnt-running"), node.line)


def _counter(event: str, value: str, unit: str, percent: float | None, line: int) -> Reading | Missing:
    if _UNCOUNTED.fullmatch(value.strip()):
        return Missing(metric=event, reason=f"perf says {value.strip()}", line=line)
    return Reading(
        metric=event,
        value=number(value, line=line, what=event),
        unit=unit or _COUNT_UNIT,
        higher_is_better=LOWER if unit in _TIMES else None,
        counted_percent=percent,
        line=line,
    )

"""sysbench 1.0: what stands under "General statistics", "Throughput", "Latency", and the rates above them."""

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

_OPERATIONS = re.compile(r"Total operations: \S+ \((.*) per second\)")
_TRANSFERRED = re.compile(r"\S+ MiB transferred \((.*) MiB/sec\)")
_EVENTS = re.compile(r"events per second:(.*)")
_TOTAL = re.compile(r"total time:\s*(\S*?)(s?)")
_FILE = re.compile(r"(reads/s|writes/s|fsyncs/s|read, MiB/s|written, MiB/s):(.*)")
_LATENCY = re.compile(r"(min|avg|max|[0-9]+th percentile):(.*)")
_LAST = "Threads fairness:"


def read(data: bytes) -> Output:
    """`events`, `operations`, `transferred` as rates, `total time` in s, `latency avg` and so on in ms.

    `total time` has no direction: a run ends by time or by the number of events. Raises FormatError.
    """
    return read_lines(data, _items, nothing="there is no result of sysbench")


def _items(lines: list[Line]) -> Iterator[Item]:
    in_latency, begun, ended = False, False, False
    for at, line in lines:
        text = line.strip()
        in_latency = text.startswith("Latency (ms)") or (in_latency and bool(text))
        ended = ended or text == _LAST
        if text.startswith("FATAL:"):
            raise FormatError(f"sysbench failed: {shown(text)}", line=at)
        if in_latency and (match := _LATENCY.fullmatch(text)):
            item: Item | None = _reading(f"latency {match[1]}", match[2], "ms", LOWER, at)
        else:
            item = _rate(text, at)
        if item is not None:
            begun = True
            yield item
    if begun and not ended:
        raise FormatError(f"incomplete: the section {_LAST!r} is missing", line=len(lines))


def _rate(text: str, line: int) -> Reading | None:
    if match := _EVENTS.fullmatch(text):
        return _reading("events", match[1], "events/s", HIGHER, line)
    if match := _OPERATIONS.fullmatch(text):
        return _reading("operations", match[1], "ops/s", HIGHER, line)
    if match := _TRANSFERRED.fullmatch(text):
        return _reading("transferred", match[1], "MiB/s", HIGHER, line)
    if match := _TOTAL.fullmatch(text):
        if not match[2]:
            raise FormatError(f"the unit is missing behind the total time: {shown(text)}", line=line)
        return _reading("total time", match[1], "s", None, line)
    if match := _FILE.fullmatch(text):
        unit = "MiB/s" if "MiB" in match[1] else "ops/s"
        return _reading(match[1].removesuffix(", MiB/s"), match[2], unit, HIGHER, line)
    return None


def _reading(metric: str, text: str, unit: str, better: bool | None, line: int) -> Reading:  # noqa: FBT001
    value = number(text, line=line, what=metric)
    return Reading(metric=metric, value=value, unit=unit, higher_is_better=better, line=line)

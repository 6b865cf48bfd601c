"""Profiles of the kernel: readprofile's rows, `perf report --stdio`, `perf script`, and folded stacks.

A function counts for itself only ("self"), never for those it called.
"""

import re
from collections.abc import Callable

from bisector.bench.formats.reading import FormatError, Line, number, shown, text_lines
from bisector.bench.profile import Profile

NS_PER_S = 1e9
_CLOCKS = ("cpu-clock", "task-clock")
"""Software events that count nanoseconds."""

_TICKS = re.compile(r"(?:([0-9a-f]{6,16})\s+)?(\S+)\s+(\S+)\s+(\S+)", re.ASCII)
_TOTAL = "total"
_HZ = re.compile(r"# CONFIG_HZ=([1-9][0-9]{0,5})", re.ASCII)
_EVENT = re.compile(r"# Samples: \S+ +of events? '([^']+)'.*")
_COUNT = re.compile(r"# Event count \(approx\.\): (\S+)")
_COLUMNS = re.compile(r"# +(Overhead|Children +Self)\b.*\bSymbol\b.*")
_ROW = re.compile(r"(\S+)%\s+(?:(\S+)%\s+)?.*?\[[.kguH]\] (\S.*?)(?:  .*)?")
_SAMPLE = re.compile(
    r"\S.*\s[0-9]+(?:/[0-9]+)?\s+(?:\[[0-9]+\]\s+)?[0-9]+\.[0-9]+:\s+(?:([0-9]+)\s+)?(\S+?):.*", re.ASCII
)
_FRAME = re.compile(r"\s+[0-9a-f]+ (.+?)(?:\+0x[0-9a-f]+)? \(.*\)", re.ASCII)
_FOLDED = re.compile(r"(\S.*) ([0-9]+)", re.ASCII)


def read_ticks(data: bytes) -> Profile:
    """readprofile's rows (symbol, ticks, load, with -v an address before them), in any order, and the row `total`.

    A line `# CONFIG_HZ=250` says how many ticks make a second. Raises FormatError, also if the listed ticks are more
    than the total.
    """
    lines = text_lines(data)
    weights: dict[str, float] = {}
    total: float | None = None
    hz: float | None = None
    for at, line in lines:
        if not line.strip():
            continue
        if said := _HZ.fullmatch(line.strip()):
            hz = number(said[1], line=at, what="HZ")
            continue
        match = _TICKS.fullmatch(line.strip())
        if match is None:
            raise FormatError(f"not a row of readprofile: {shown(line)}", line=at)
        # With -v: address, symbol, ticks, load. Without: ticks, symbol, load.
        symbol, ticks = (match[2], match[3]) if match[1] else (match[3], match[2])
        value = number(ticks, line=at, what=f"the ticks of {symbol}")
        if symbol == _TOTAL:
            total = value
        else:
            weights[symbol] = weights.get(symbol, 0.0) + value
    if total is None:
        raise FormatError("incomplete: the row `total` is missing", line=len(lines))
    listed = _listed(weights, total, line=len(lines))
    return listed if hz is None else listed.with_hz(hz)


def read_report(data: bytes) -> Profile:
    """`perf report --stdio` of one event: the Self column if there is one beside Children, else Overhead.

    Raises FormatError. With a clock as the event, or a count that perf tells, seconds or events are known.
    """
    weights: dict[str, float] = {}
    event, count, selves, columns = "", 0.0, False, 0
    lines = text_lines(data)
    for at, line in lines:
        if match := _EVENT.fullmatch(line):
            if event:
                raise FormatError(f"a second event, {match[1]}: report one alone", line=at)
            event = match[1]
        elif match := _COUNT.fullmatch(line):
            count = number(match[1], line=at, what="the event count")
        elif match := _COLUMNS.fullmatch(line):
            columns, selves = at, match[1] != "Overhead"
        elif columns and line.strip() and not line.startswith("#") and "%" in line:
            symbol, value = _row((at, line), selves=selves)
            weights[symbol] = weights.get(symbol, 0.0) + value
    if not columns:
        raise FormatError("no line with the columns Overhead (or Children and Self) and Symbol", line=1)
    per_s = 100 * NS_PER_S / count if event.split(":")[0] in _CLOCKS and count > 0 else None
    listed = _listed(weights, 100.0, line=len(lines), slack=0.005 * len(weights) + 0.005)
    return Profile(weights=listed.weights, total=100.0, per_s=per_s, unlisted_below=listed.unlisted_below)


def _row(row: Line, *, selves: bool) -> tuple[str, float]:
    at, line = row
    match = _ROW.fullmatch(line.strip())
    if match is None or (selves and match[2] is None):
        raise FormatError(f"not a row of perf report: {shown(line)}", line=at)
    return match[3], number(match[2] if selves else match[1], line=at, what=f"the share of {match[3]}")


def read_script(data: bytes) -> Profile:
    """`perf script` with call chains or without: each sample counts with its period for its innermost function.

    Raises FormatError.
    """
    lines = text_lines(data)
    weights: dict[str, float] = {}
    events: set[str] = set()
    waiting, since = 0.0, 0
    for at, line in lines:
        if since and (frame := _FRAME.fullmatch(line)):
            weights[frame[1]] = weights.get(frame[1], 0.0) + waiting
            since = 0
        elif match := _SAMPLE.fullmatch(line):
            _check_frame(since)
            waiting, since = float(match[1] or 1), at
            events.add(match[2].split(":")[0])
        elif line.strip() and not line.startswith(("\t", " ", "#")):
            raise FormatError(f"not a line of perf script: {shown(line)}", line=at)
    _check_frame(since)
    clock = len(events) == 1 and events <= set(_CLOCKS) and waiting > 1
    complete = _listed(weights, sum(weights.values()), line=len(lines))
    return Profile(weights=complete.weights, total=complete.total, per_s=NS_PER_S if clock else None)


def _check_frame(since: int) -> None:
    if since:
        raise FormatError("no function follows this sample", line=since)


def read_folded(data: bytes) -> Profile:
    """Folded stacks: `outer;inner;innermost COUNT`, one a line. Raises FormatError."""
    lines = text_lines(data)
    weights: dict[str, float] = {}
    for at, line in lines:
        if not line.strip():
            continue
        match = _FOLDED.fullmatch(line.strip())
        if match is None:
            raise FormatError(f"not a folded stack and its count: {shown(line)}", line=at)
        leaf = match[1].rpartition(";")[2]
        weights[leaf] = weights.get(leaf, 0.0) + number(match[2], line=at, what="the count")
    return _listed(weights, sum(weights.values()), line=len(lines))


def _listed(weights: dict[str, float], total: float, *, line: int, slack: float = 0.0) -> Profile:
    """A profile whose list may have been cut at its smallest row. Raises FormatError if nothing adds up."""
    if not weights:
        raise FormatError("there is no function in it", line=line)
    listed = sum(weights.values())
    if not total > 0 or min(weights.values()) < 0 or listed > total + slack:
        raise FormatError(f"the listed functions took {listed:g} of a total of {total:g}", line=line)
    cut = listed < total - slack
    return Profile(weights=weights, total=total, unlisted_below=min(weights.values()) if cut else 0.0)


PROFILES: dict[str, Callable[[bytes], Profile]] = {
    "readprofile": read_ticks,
    "perf-report": read_report,
    "perf-script": read_script,
    "folded": read_folded,
}
"""Readers by the name of their format."""

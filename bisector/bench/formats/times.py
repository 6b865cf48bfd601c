"""Time of a command: GNU time (-v, -p and its default line) and the shells' keyword `time`.

Metrics `elapsed`, `user` and `system` in s; with GNU time also `max_rss` and the counts of faults and switches. A
command that ended badly has no time.
"""

import re
from collections.abc import Iterator

from bisector.bench.formats.reading import (
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

_FAILED = re.compile(r"Command (exited with non-zero status|terminated by signal|stopped by signal) [0-9]+")
_VERBOSE = {
    "User time (seconds)": ("user", "s"),
    "System time (seconds)": ("system", "s"),
    "Elapsed (wall clock) time (h:mm:ss or m:ss)": ("elapsed", "s"),
    "Maximum resident set size (kbytes)": ("max_rss", "KiB"),
    "Major (requiring I/O) page faults": ("major_faults", "events"),
    "Minor (reclaiming a frame) page faults": ("minor_faults", "events"),
    "Voluntary context switches": ("voluntary_switches", "events"),
    "Involuntary context switches": ("involuntary_switches", "events"),
}
_LAST_VERBOSE = "Exit status"
_DEFAULT = re.compile(r"(\S+)user (\S+)system (\S+)elapsed .*")
_KEYWORD = re.compile(r"(real|user|sys)\s+(\S+(?: \S+){0,2})")
_KEYWORDS = {"real": "elapsed", "user": "user", "sys": "system"}
_MINUTES = re.compile(r"(?:([0-9]+)h )?([0-9]+)m ?(.+)s", re.ASCII)
"""Of bash, "0m1.500s"; of busybox, "0m 1.50s" and "1h 0m 01s"."""


def read(data: bytes) -> Output:
    """The times of every report in the output. Raises FormatError if one is broken, cut off, or of a failed command."""
    return read_lines(data, _items, nothing="there is no report of a time command")


def _items(lines: list[Line]) -> Iterator[Item]:
    open_since = 0
    for at, line in lines:
        text = line.strip()
        if _FAILED.fullmatch(text):
            raise FormatError(f"the command failed: {text}", line=at)
        if match := _DEFAULT.fullmatch(text):
            for metric, written in zip(("user", "system", "elapsed"), match.groups(), strict=True):
                yield _seconds(metric, written, at)
        elif match := _KEYWORD.fullmatch(text):
            yield _seconds(_KEYWORDS[match[1]], match[2], at)
        elif line.startswith("\t") and ": " in text:
            # The elapsed time's label holds colons itself.
            label, _, written = text.rpartition("): " if "): " in text else ": ")
            label += ")" if "): " in text else ""
            open_since = 0 if label == _LAST_VERBOSE else open_since or at
            yield from _verbose(label, written, at)
    if open_since:
        raise FormatError(f"incomplete: no line {_LAST_VERBOSE!r} after line {open_since}", line=len(lines))


def _verbose(label: str, written: str, line: int) -> list[Reading]:
    if label == _LAST_VERBOSE and written != "0":
        raise FormatError(f"the command failed: {label} {shown(written)}", line=line)
    if label not in _VERBOSE:
        return []
    metric, unit = _VERBOSE[label]
    if unit == "s":
        return [_seconds(metric, written, line)]
    return [Reading(metric=metric, value=number(written, line=line, what=metric), unit=unit, line=line)]


def _seconds(metric: str, written: str, line: int) -> Reading:
    """From "1.5", "0:01.50", "1:00:01" or a shell's "0m1.500s"."""
    match = _MINUTES.fullmatch(written)
    parts = [part for part in match.groups() if part is not None] if match else written.split(":")
    if len(parts) > 3:
        raise FormatError(f"{metric} must be a time, got {shown(written)}", line=line)
    seconds = 0.0
    for part in parts:
        seconds = seconds * 60 + number(part, line=line, what=metric)
    return Reading(metric=metric, value=seconds, unit="s", higher_is_better=LOWER, line=line)

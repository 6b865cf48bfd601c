"""`perf bench`, in its default and its simple format (-f simple: nothing but seconds)."""

import re

from bisector.bench.formats.reading import (
    HIGHER,
    LOWER,
    FormatError,
    Missing,
    Output,
    Reading,
    is_number,
    number,
    output_of,
    shown,
    text_lines,
)

_RUNNING = re.compile(r"# Running '?([^':]+?)'? benchmark:")
_FUNCTION = re.compile(r"# function '([^']+)'.*")
_TOTAL = re.compile(r"Total time: *(\S+) \[sec\]")
_RATE = re.compile(r"(\S+) (usecs/op|ops/sec|[KMGT]?B/sec)")
_LOWER_UNIT = "usecs/op"


def read(data: bytes) -> Output:
    """`BENCH total time` in s, `BENCH usecs/op`, `BENCH ops/sec`, `BENCH FUNCTION GB/sec`; `total time` if simple.

    Raises FormatError for a broken line, or if a benchmark was announced and nothing of it follows.
    """
    lines = text_lines(data)
    found: list[Reading | Missing] = []
    bench, announced = "", 0
    for at, line in lines:
        text = line.strip()
        if match := _RUNNING.fullmatch(text):
            _check_reported(announced, bench)
            bench, announced = match[1], at
        elif match := _FUNCTION.fullmatch(text):
            bench, announced = f"{bench.split(' ')[0]} {match[1]}", at
        elif item := _measured(text, f"{bench} ".lstrip(), at):
            found.append(item)
            announced = 0
    _check_reported(announced, bench)
    return output_of(found, nothing="there is no result of perf bench", last_line=len(lines))


def _measured(text: str, bench: str, line: int) -> Reading | None:
    if match := _TOTAL.fullmatch(text):
        unit, metric, direction = "s", "total time", LOWER
    elif match := _RATE.fullmatch(text):
        unit, metric, direction = match[2], match[2], LOWER if match[2] == _LOWER_UNIT else HIGHER
    elif not bench and is_number(text):
        return _reading("total time", text, "s", LOWER, line)
    elif text.startswith("Total time") or "/op" in text or "/sec" in text.split("#")[0]:
        raise FormatError(f"not a result of perf bench: {shown(text)}", line=line)
    else:
        return None
    return _reading(bench + metric, match[1], unit, direction, line)


def _reading(metric: str, text: str, unit: str, direction: bool, line: int) -> Reading:  # noqa: FBT001
    value = number(text, line=line, what=metric)
    return Reading(metric=metric, value=value, unit=unit, higher_is_better=direction, line=line)


def _check_reported(announced: int, bench: str) -> None:
    if announced:
        raise FormatError(f"incomplete: nothing follows the announcement of {bench}", line=announced)

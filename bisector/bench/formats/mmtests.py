"""MMTests: the lines that its parsers exchange, the time lines of its logs, and its comparison tables.

Neither says which direction is better (that stands in the benchmark's shellpack.yaml), so whoever asks must. The
percentages of a table are passed over: they are rounded, and two conventions of them are about.
"""

import re

from bisector.bench.formats.reading import (
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

FIELDS = 6
_TIME = re.compile(r"time :: (\S+) (\S+) user (\S+) system (\S+) elapsed")
_CELL = r"(?P<value>-?[0-9]\S*)\s+(?:\(\s*-?[^()%]*%\)|\*\s*-?[^*%]*%\*)"
_ROW = re.compile(rf"(?P<name>\S.*?)(?P<cells>(?:\s+{_CELL.replace('?P<value>', '')})+)\s*")
_CELLS = re.compile(_CELL)
_DURATION = re.compile(r"(?P<name>(?:Duration |Total )\S.*?)(?P<cells>(?:\s+-?[0-9]+\.[0-9]+)+)\s*")


def read_lines(data: bytes) -> Output:
    """Six fields with tabs between: metric, two factors, interval, value, extra ("_" is empty); and `time ::` lines.

    A metric is called by its name and factors with "-" between. Raises FormatError for any other line.
    """
    lines = text_lines(data)
    found: list[Reading | Missing] = []
    for at, line in lines:
        if match := _TIME.fullmatch(line):
            for metric, text in zip(("user", "system", "elapsed"), match.groups()[1:], strict=True):
                value = number(text, line=at, what=metric)
                name = f"{match[1]} {metric}"
                found.append(Reading(metric=name, value=value, unit="s", higher_is_better=LOWER, line=at))
        elif line.strip():
            found.append(_exchanged(line, at))
    return output_of(found, nothing="there is no line of MMTests", last_line=len(lines))


def _exchanged(line: str, at: int) -> Reading:
    fields = line.split("\t")
    if len(fields) not in (FIELDS - 1, FIELDS) or not fields[0].strip():
        raise FormatError(f"not {FIELDS} fields with tabs between: {shown(line)}", line=at)
    metric = "-".join(field.strip() for field in fields[:3] if field.strip() not in ("", "_"))
    return Reading(metric=metric, value=number(fields[4], line=at, what=metric), line=at)


def read_table(data: bytes) -> Output:
    """The values of a comparison table: `TEST KERNEL` for each test and each kernel's name of the two header lines.

    Raises FormatError if a row has not one value for each kernel.
    """
    lines = text_lines(data)
    found: list[Reading | Missing] = []
    headers: list[list[str]] = []
    kernels: list[str] = []
    for at, line in lines:
        row, duration = _ROW.fullmatch(line), _DURATION.fullmatch(line)
        if row:
            kernels = kernels or _kernels(headers, at)
            cells = [match["value"] for match in _CELLS.finditer(row["cells"])]
            found += _table_row(" ".join(row["name"].split()), kernels, cells, unit=None, line=at)
        elif duration and kernels:
            found += _table_row(
                " ".join(duration["name"].split()), kernels, duration["cells"].split(), unit="s", line=at
            )
        elif "%" in line and not line.lstrip().startswith("%"):
            raise FormatError(f"not a row of a comparison table: {shown(line)}", line=at)
        elif line.strip() and not kernels:
            headers.append(line.split())
    return output_of(found, nothing="there is no row of a comparison table", last_line=len(lines))


def _kernels(headers: list[list[str]], line: int) -> list[str]:
    if len(headers) < 2 or len(headers[-1]) != len(headers[-2]) or any(map(is_number, headers[-1])):
        raise FormatError("the two lines with the kernels' names are not above the first row", line=line)
    return [f"{first}-{second}" for first, second in zip(*headers[-2:], strict=True)]


def _table_row(test: str, kernels: list[str], cells: list[str], *, unit: str | None, line: int) -> list[Reading]:
    if len(cells) != len(kernels):
        raise FormatError(f"{test}: {len(cells)} values for {len(kernels)} kernels", line=line)
    lower = LOWER if unit == "s" else None
    return [
        Reading(
            metric=f"{test} {kernel}",
            value=number(cell, line=line, what=f"{test} of {kernel}"),
            unit=unit,
            higher_is_better=lower,
            line=line,
        )
        for kernel, cell in zip(kernels, cells, strict=True)
    ]

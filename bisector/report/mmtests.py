"""The table that MMTests prints: tests down, kernels across, a percentage against the first kernel. Pure.

Its percentages are for people. They are rounded, and two conventions of them are about: never parse one as data.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

PercentOf = Literal["base", "new"]

NAME_WIDTH = 12
VALUE_WIDTH = 9
PERCENT_WIDTH = 5
COLUMN_WIDTH = 18
DURATION_LABEL_WIDTH = 40
DURATION_WIDTH = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class MmtestsRow:
    """One test: a value for each kernel in the order of the headers, None where that kernel has none.

    The first value is the base. Raises ValueError if it is missing, or if a value is not finite and > 0.
    """

    test: str
    values: tuple[float | None, ...]
    higher_is_better: bool = True

    def __post_init__(self) -> None:
        if not self.values or self.values[0] is None:
            raise ValueError(f"{self.test}: the first kernel has no value, so there is nothing to compare against")
        for value in self.values:
            if value is not None and not (math.isfinite(value) and value > 0):
                raise ValueError(f"{self.test}: a value must be finite and > 0, got {value!r}")


def mmtests_table(
    title: str,
    headers: Sequence[tuple[str, str]],
    rows: Sequence[MmtestsRow],
    *,
    durations_s: Sequence[float] = (),
    percent_of: PercentOf = "base",
) -> str:
    """The table as text that ends with a newline.

    `headers` are each kernel's name on two lines (`split_header`); `durations_s` is how long each kernel was measured
    and may be empty. `percent_of="new"` is the convention of 2011, "base" that of today (`percent`).

    Raises ValueError if a row or `durations_s` has not one value for each header.

    Layout: names 12 wide, columns of 18 ("%9.2f" and " (%5.2f%%)"; a longer percentage pushes the rest to the right),
    as in the table posted to the kernel list in 2011. Columns grow where values or names need it.
    """
    for row in rows:
        if len(row.values) != len(headers):
            raise ValueError(f"{row.test}: {len(row.values)} values for {len(headers)} kernels")
    if len(durations_s) not in (0, len(headers)):
        raise ValueError(f"{len(durations_s)} durations for {len(headers)} kernels")
    name_width = max([NAME_WIDTH, *(len(row.test) + 1 for row in rows)])
    widest_value = max((len(f"{value:.2f}") for row in rows for value in row.values if value is not None), default=0)
    widest_header = max((len(line) for header in headers for line in header), default=0)
    value_width = max(VALUE_WIDTH, widest_value + 1, VALUE_WIDTH + widest_header + 1 - COLUMN_WIDTH)
    column_width = value_width + COLUMN_WIDTH - VALUE_WIDTH
    lines = [title]
    lines += [" " * name_width + "".join(f"{header[at]:>{column_width}}" for header in headers) for at in (0, 1)]
    lines += [f"{row.test:<{name_width}}" + _cells(row, value_width, percent_of) for row in rows]
    if durations_s:
        lines += ["MMTests Statistics: duration", _duration_line(durations_s)]
    return "".join(f"{line.rstrip()}\n" for line in lines)


def percent(base: float, new: float, *, percent_of: PercentOf = "base", higher_is_better: bool = True) -> float:
    """The change from `base` to `new` in percent; positive means better.

    Of the base: 100 * (new - base) / base, as MMTests does today. Of the new value: 100 * (new - base) / new, as its
    table of April 2011 did (a value that halves shows -100 %). With a lower-is-better test the sign is turned.
    """
    change = new - base if higher_is_better else base - new
    return 100 * change / (base if percent_of == "base" else new)


def split_header(kernel: str) -> tuple[str, str]:
    """A kernel's name on two lines: cut at its first dash, with an -rc kept on the first line, as MMTests does.

    A name without a dash stands on the second line.
    """
    version, dash, rest = kernel.partition("-")
    if not dash:
        return "", kernel
    candidate, _, after = rest.partition("-")
    if candidate.startswith("rc") and candidate[2:].isdigit():
        return f"{version}-{candidate}", after
    return version, rest


def _cells(row: MmtestsRow, value_width: int, percent_of: PercentOf) -> str:
    base = row.values[0]
    assert base is not None
    cells = []
    for value in row.values:
        if value is None:
            cells.append(f"{'-':>{value_width}}" + " " * (COLUMN_WIDTH - VALUE_WIDTH))
            continue
        change = percent(base, value, percent_of=percent_of, higher_is_better=row.higher_is_better)
        cells.append(f"{value:{value_width}.2f} ({change:{PERCENT_WIDTH}.2f}%)")
    return "".join(cells)


def _duration_line(durations_s: Sequence[float]) -> str:
    values = "".join(f"{duration_s:{DURATION_WIDTH}.2f}" for duration_s in durations_s)
    return f"{'Total Elapsed Time (seconds)':<{DURATION_LABEL_WIDTH}}{values}"

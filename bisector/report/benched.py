"""What `bisector bench` prints: the suite's tests, the runs of some, and two results beside each other."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from bisector.model.sample import RunRecord
from bisector.report.counted import absent_counters, absent_text
from bisector.report.pictures import round_up, span, strip
from bisector.report.siblings import PER_OP
from bisector.report.text import deviation
from bisector.report.words import WIDTH, count, interval, number, pad, signed, wrap
from bisector.search.contrast import Contrast, Repeated

SEEN_P = 0.01
"""Below it a difference is said to be seen; as often one is seen where there is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """One metric in two results."""

    test: str
    unit: str
    higher_is_better: bool
    contrast: Contrast


def runs_text(records: Sequence[RunRecord]) -> str:
    """Each test's level, how its runs scatter, and where they lie, all tests on one scale."""
    values = _by_test(records)
    deviations = {test: _deviations(measured) for test, (measured, _) in values.items()}
    reach = round_up(max(abs(one) for few in deviations.values() for one in few) or 0.1)
    name, unit = (max(map(len, texts)) for texts in (values, (unit for _, unit in values.values())))
    scale = f"-{reach:g} %".ljust(15) + "0" + f"+{reach:g} %".rjust(15)
    lines = [f"{'test'.ljust(name)}  {'median'.rjust(10)}  {' ' * unit}  {'run sd'.rjust(8)}  {scale}"]
    for test, (measured, its_unit) in values.items():
        sd = deviation(float(np.std(deviations[test], ddof=1))) if len(deviations[test]) > 1 else "-"
        level = number(float(np.median(measured)))
        drawn = strip(deviations[test], reach) if deviations[test] else ""
        line = f"{test.ljust(name)}  {level.rjust(10)}  {its_unit.ljust(unit)}  {sd.rjust(8)}  {drawn}"
        lines.append(line.rstrip())
    lines += ["", f"{count(len(records), 'run')} of each; the middle of the scale is the median."]
    absent = absent_text(absent_counters(sample for record in records for sample in record.samples))
    return "\n".join([*lines, *(wrap(absent, width=WIDTH) if absent else [])])


def _deviations(values: Sequence[float]) -> list[float]:
    """From the median, in percent; none where it is zero, as a counter's may be."""
    middle = float(np.median(values))
    return [100 * (value / middle - 1) for value in values] if middle > 0 else []


def _by_test(records: Sequence[RunRecord]) -> dict[str, tuple[list[float], str]]:
    found: dict[str, tuple[list[float], str]] = {}
    for record in records:
        for sample in record.samples:
            found.setdefault(sample.test, ([], sample.unit))[0].append(sample.value)
            for counter in sample.counters:
                name = f"{sample.test} {counter.name}"
                found.setdefault(name, ([], PER_OP))[0].append(counter.value / sample.ops)
    return found


def compared_text(rows: Sequence[Compared], names: tuple[str, str]) -> str:
    """Two results: levels, the difference with its interval, and a picture of the intervals on one scale."""
    reach = round_up(max(abs(end) for row in rows for end in row.contrast.interval_percent))
    name = max(len("test"), *(len(row.test) for row in rows))
    unit = max(len(row.unit) for row in rows)
    widths = [max(10, *(len(number(level)) for level in levels)) for levels in _levels(rows)]
    heads = [pad(one, width).rjust(width) for one, width in zip(names, widths, strict=True)]
    scale = f"-{reach:g} %".ljust(20) + "0" + f"+{reach:g} %".rjust(20)
    lines = [f"{'test'.ljust(name)}  {heads[0]}  {heads[1]}  {' ' * unit}  {'difference'.ljust(24)} {scale}"]
    for row in rows:
        seen = row.contrast
        told = f"{signed(seen.difference_percent)} {interval(*seen.interval_percent)}".ljust(24)
        drawn = span(seen.interval_percent[0], seen.difference_percent, seen.interval_percent[1], reach)
        values = [number(level).rjust(width) for level, width in zip((seen.base, seen.new), widths, strict=True)]
        line = f"{row.test.ljust(name)}  {values[0]}  {values[1]}  {row.unit.ljust(unit)}  {told} {drawn}"
        lines.append(f"{line.rstrip()}  {_word(row)}")
    return "\n".join([*lines, "", *_method(rows)])


def _levels(rows: Sequence[Compared]) -> tuple[list[float], list[float]]:
    return [row.contrast.base for row in rows], [row.contrast.new for row in rows]


def _word(row: Compared) -> str:
    if row.contrast.p_value >= SEEN_P:
        return "not seen"
    return "better" if (row.contrast.difference_percent > 0) is row.higher_is_better else "worse"


def _method(rows: Sequence[Compared]) -> list[str]:
    counts = rows[0].contrast.counts
    what = rows[0].contrast.repeated
    text = (
        f"Percent of the first. Intervals are 95 %, from {counts[0]} and {count(counts[1], what.value[:-1])}; "
        f"a difference is seen when chance alone would show as much once in {1 / SEEN_P:.0f} times or less."
    )
    if what is Repeated.RUNS:
        text += " What differs from boot to boot is not in the intervals: measure several boots to know that."
    return wrap(text, width=WIDTH)


def compared_document(rows: Sequence[Compared]) -> list[dict[str, Any]]:
    """For scripts."""
    return [
        {"test": row.test, "unit": row.unit, "higher_is_better": row.higher_is_better, **asdict(row.contrast)}
        for row in rows
    ]


def tests_text(rows: Sequence[Mapping[str, str]], notes: Sequence[str]) -> str:
    """A table of texts under the keys of its first row, each row's note below it."""
    heads = list(rows[0])
    widths = {head: max(len(head), *(len(row[head]) for row in rows)) for head in heads}

    def line(row: Mapping[str, str]) -> str:
        return "  ".join(row[head].ljust(widths[head]) for head in heads).rstrip()

    lines = [line({head: head for head in heads})]
    for row, note in zip(rows, notes, strict=True):
        lines += [line(row), *wrap(note, indent="    ")]
    return "\n".join(lines)

"""The one list of importers, and how metrics are asked of what they read."""

import difflib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median

from bisector.bench.formats import (
    aim9,
    fio,
    hackbench,
    lkp,
    lmbench,
    mmtests,
    perfbench,
    perfstat,
    phoronix,
    plain,
    stressng,
    sysbench,
    times,
    timings,
    willitscale,
)
from bisector.bench.formats.reading import HIGHER, LOWER, FormatError, Output, Reading
from bisector.model.errors import UsageError
from bisector.recipe.command import Metric

Read = Callable[[bytes], Output]

REGEX = "regex"

FORMATS: dict[str, tuple[str, Read]] = {
    "aim9": ("AIM9, the table on its console", aim9.read_console),
    "aim9-ss": ("AIM9, suite9.ss", aim9.read_summary),
    "aim9-log": ("AIM9, logfile.suite9", aim9.read_logfile),
    "fio": ("fio --output-format=json", fio.read),
    "google-benchmark": ("google-benchmark --benchmark_format=json", timings.read_google_benchmark),
    "hackbench": ("hackbench", hackbench.read),
    "hyperfine": ("hyperfine --export-json", timings.read_hyperfine),
    "json-lines": ('{"metric": ..., "value": ..., "unit": ..., "better": ...}, one a line', plain.read_json_lines),
    "key-value": ("key: value [unit], one a line", plain.read_pairs),
    "lkp-matrix": ("LKP, matrix.json", lkp.read_matrix),
    "lkp-stats": ("LKP, stats.json", lkp.read_stats),
    "lmbench": ("lmbench", lmbench.read),
    "mmtests": ("MMTests, the lines of parse-results and time", mmtests.read_lines),
    "mmtests-table": ("MMTests, a comparison table", mmtests.read_table),
    "perf-bench": ("perf bench", perfbench.read),
    "perf-stat": ("perf stat -x", perfstat.read_csv),
    "perf-stat-json": ("perf stat -j", perfstat.read_json_lines),
    "phoronix": ("Phoronix Test Suite, composite.xml", phoronix.read),
    "pyperf": ("pyperf", timings.read_pyperf),
    "stress-ng": ("stress-ng --metrics", stressng.read_console),
    "stress-ng-yaml": ("stress-ng --metrics --yaml", stressng.read_yaml),
    "suite": ("the JSON lines of bisector's own suite", plain.read_suite),
    "sysbench": ("sysbench", sysbench.read),
    "time": ("GNU time, and the shells' keyword time", times.read),
    "will-it-scale": ("will-it-scale, runtest.py or one program", willitscale.read),
}
"""By the name a recipe gives: what it is, and its reader. `regex` is beside these, made from a recipe's pattern."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One metric of one run: > 0, finite, with a unit and a direction; `lines` are those it was read from."""

    metric: str
    value: float
    unit: str
    higher_is_better: bool
    lines: tuple[int, ...]


def reader(name: str, *, regex: str | None = None) -> Read:
    """The reader of that name. Raises UsageError for a name that is none, or a pattern that cannot be used."""
    if name == REGEX:
        try:
            compiled = plain.pattern(regex or "")
        except ValueError as error:
            raise UsageError(
                f"benchmark: the pattern {regex!r} cannot be used: {error}.",
                resolution="Write for example: regex: '(?P<metric>\\w+) took (?P<value>\\S+) (?P<unit>\\w+)'",
            ) from None
        return lambda data: plain.read_matches(data, compiled)
    if name not in FORMATS:
        close = difflib.get_close_matches(name, [*FORMATS, REGEX], n=1)
        raise UsageError(
            f"benchmark: there is no parser {name}.",
            details=f"Known parsers: {', '.join([*FORMATS, REGEX])}.",
            resolution=f"Did you mean {close[0]}?" if close else "Choose one of them in the recipe.",
        )
    return FORMATS[name][1]


def measure(output: Output, metrics: Sequence[Metric]) -> tuple[Measured, ...]:
    """The metrics asked for, in that order.

    Several readings of one name are repetitions: their median counts. A sum adds what its sources give.

    Raises FormatError with the line if a metric is not there, was not measured, is zero or less, was extrapolated
    because the counter ran only part of the time, or has another unit or direction than was asked for.
    """
    return tuple(_measured(output, metric) for metric in metrics)


def _measured(output: Output, metric: Metric) -> Measured:
    total = 0.0
    lines: list[int] = []
    for source in metric.sources:
        readings = _readings(output, source)
        for reading in readings:
            check(reading, metric)
        total += median(reading.value for reading in readings)
        lines += [reading.line for reading in readings]
    if total == float("inf"):
        raise FormatError(f"{metric.name} is beyond any number", line=lines[0])
    return Measured(
        metric=metric.name,
        value=total,
        unit=metric.unit,
        higher_is_better=metric.better == "higher",
        lines=tuple(lines),
    )


def _readings(output: Output, source: str) -> list[Reading]:
    for missing in output.missing:
        if missing.metric == source:
            raise FormatError(f"{source} was not measured: {missing.reason}", line=missing.line)
    readings = [reading for reading in output.readings if reading.metric == source]
    if not readings:
        names = list(dict.fromkeys(reading.metric for reading in output.readings))
        close = difflib.get_close_matches(source, names, n=1)
        hint = f"did you mean {close[0]}?" if close else f"it holds {', '.join(names[:20]) or 'no number'}"
        last = max([reading.line for reading in output.readings], default=1)
        raise FormatError(f"there is no {source} in the output; {hint}", line=last)
    return readings


def check(reading: Reading, metric: Metric) -> None:
    """Raise FormatError for one that does not count, or of which its format says another unit or direction."""
    name, line = reading.metric, reading.line
    wanted = HIGHER if metric.better == "higher" else LOWER
    if reading.unit is not None and reading.unit != metric.unit:
        raise FormatError(f"{name} is in {reading.unit}, but the recipe says {metric.unit}", line=line)
    if reading.higher_is_better is not None and reading.higher_is_better != wanted:
        known = "higher" if reading.higher_is_better else "lower"
        raise FormatError(f"{name} is better {known}, but the recipe says {metric.better}", line=line)
    if reading.counted_percent is not None and reading.counted_percent < 100:
        reason = f"counted {reading.counted_percent:g} % of the time, the rest is extrapolated: count fewer events"
        raise FormatError(f"{name} was {reason}", line=line)
    if reading.value <= 0:
        raise FormatError(f"{name} is {reading.value:g}: a measurement must be more than zero", line=line)

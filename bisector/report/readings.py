"""What a parser makes of an output, for whoever writes a recipe: every metric, what is known of it, and its line."""

from dataclasses import asdict
from typing import Any

from bisector.bench.formats.reading import Output, Reading
from bisector.report.words import count, pad, plain, wrap

_BETTER = {True: "higher", False: "lower", None: "?"}
_NAME = 60


def readings_text(output: Output) -> str:
    """A line for each metric: how often, its first value, unit, direction, line. "?" is for the recipe to say."""
    found: dict[str, list[Reading]] = {}
    for reading in output.readings:
        found.setdefault(reading.metric, []).append(reading)
    width = min(_NAME, max([len("metric"), *(len(plain(name)) for name in found)]))
    lines = [f"{pad('metric', width)}  {'value':>16}  {pad('unit', 12)}  better   line"]
    for name, readings in found.items():
        first = readings[0]
        more = f"  and {count(len(readings) - 1, 'repetition')}" if len(readings) > 1 else ""
        partly = "" if first.counted_percent in (None, 100.0) else f"  counted {first.counted_percent:g} % of the time"
        lines.append(
            f"{pad(plain(name), width)}  {first.value:>16.10g}  {pad(plain(first.unit or '?'), 12)}  "
            f"{_BETTER[first.higher_is_better]:<7}  {first.line}{more}{partly}"
        )
    for missing in output.missing:
        lines += wrap(f"line {missing.line}: {missing.metric} does not count: {missing.reason}", indent="  ", first="")
    return "\n".join(lines)


def readings_document(output: Output) -> dict[str, Any]:
    """The same for scripts: every reading, and what is missing."""
    return {
        "readings": [asdict(reading) for reading in output.readings],
        "missing": [asdict(missing) for missing in output.missing],
    }

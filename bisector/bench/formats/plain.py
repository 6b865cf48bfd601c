"""What a script of one's own prints: `key: value`, anything a pattern finds, or JSON lines; and our own suite's lines.

Other lines are passed over, so a script may talk. A key whose value is no number counts as missing.
"""

import re

from bisector.bench.formats.jsontext import Node, read_json
from bisector.bench.formats.reading import (
    HIGHER,
    LOWER,
    FormatError,
    Missing,
    Output,
    Reading,
    output_of,
    reading_or_missing,
    shown,
    text_lines,
)

_PAIR = re.compile(r"\s*([^:\s](?:[^:]*[^:\s])?)\s*:\s+(\S+)(?:\s+(\S+))?\s*")
_GROUPS = frozenset({"metric", "value", "unit"})
_NAMELESS = "value"
_BETTER = {"higher": HIGHER, "lower": LOWER}
_NS_PER_S = 1_000_000_000


def read_pairs(data: bytes) -> Output:
    """A reading for each line `key: number` or `key: number unit`. Raises FormatError if there is none."""
    lines = text_lines(data)
    found = [
        reading_or_missing(match[1], match[2], line=at, unit=match[3])
        for at, line in lines
        if (match := _PAIR.fullmatch(line))
    ]
    return output_of(found, nothing="no line reads `key: value`", last_line=len(lines))


def pattern(text: str) -> re.Pattern[str]:
    """A compiled pattern with a group `value`, and perhaps `metric` and `unit`. Raises ValueError with the reason."""
    try:
        compiled = re.compile(text)
    except (re.error, RecursionError, OverflowError) as error:
        raise ValueError(f"not a regular expression: {error}") from None
    groups = set(compiled.groupindex)
    if "value" not in groups:
        raise ValueError("it must have a named group for the number: (?P<value>...)")
    if unknown := groups - _GROUPS:
        raise ValueError(f"unknown groups {', '.join(sorted(unknown))}; known are {', '.join(sorted(_GROUPS))}")
    return compiled


def read_matches(data: bytes, compiled: re.Pattern[str]) -> Output:
    """A reading for each match in each line, called "value" where the pattern has no metric. Raises FormatError."""
    lines = text_lines(data)
    found = [_match(match, at) for at, line in lines for match in compiled.finditer(line)]
    return output_of(found, nothing=f"no line matches {shown(compiled.pattern)}", last_line=len(lines))


def _match(match: re.Match[str], line: int) -> Reading | Missing:
    groups = match.groupdict()
    return reading_or_missing(
        groups.get("metric") or _NAMELESS, groups["value"] or "", line=line, unit=groups.get("unit") or None
    )


def read_json_lines(data: bytes) -> Output:
    """A reading for each object `{"metric", "value"}`, one a line; `unit` and `better` (higher, lower) may stand there.

    Raises FormatError for any other line.
    """
    lines = text_lines(data)
    found: list[Reading | Missing] = []
    for at, line in lines:
        if not line.strip():
            continue
        node = read_json(line, first_line=at)
        metric = node.need("metric").text("metric")
        unit, better = node.get("unit"), node.get("better")
        if better is not None and better.value not in _BETTER:
            raise FormatError(f'"better" must be "higher" or "lower", got {better.shown()}', line=at)
        found.append(
            Reading(
                metric=metric,
                value=node.need("value").number(metric),
                unit=None if unit is None else unit.text("unit"),
                higher_is_better=None if better is None else _BETTER[better.text("better")],
                line=at,
            )
        )
    return output_of(found, nothing="there is no object", last_line=len(lines))


def read_suite(data: bytes) -> Output:
    """Operations per second of every sample that our own suite printed. Raises FormatError without its end line."""
    lines = text_lines(data)
    nodes = [read_json(line, first_line=at) for at, line in lines]
    kinds = [node.need("type").text("type") for node in nodes]
    if kinds[-1] != "end":
        raise FormatError("incomplete: the end line is missing", line=len(lines))
    samples = [node for node, kind in zip(nodes, kinds, strict=True) if kind == "sample"]
    if nodes[-1].need("samples").value != len(samples):
        raise FormatError(f"{len(samples)} samples, but the end line counts others", line=len(lines))
    return output_of([_sample(node) for node in samples], nothing="there is no sample", last_line=len(lines))


def _sample(node: Node) -> Reading | Missing:
    test = node.need("test").text("test")
    ops, wall_ns = (node.need(key).number(key) for key in ("ops", "wall_ns"))
    if ops <= 0 or wall_ns <= 0 or node.need("checks").need("ok").value is not True:
        raise FormatError(f"a sample of {test} that does not count", line=node.line)
    value = ops * _NS_PER_S / wall_ns
    return Reading(metric=test, value=value, unit="ops/s", higher_is_better=HIGHER, line=node.line)

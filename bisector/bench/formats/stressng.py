"""stress-ng: the metrics on its console and those of --yaml, both under the YAML's names.

"Bogo operations" are what a stressor's author chose, and change between versions: compare one version with itself.
"""

import re

import yaml
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from bisector.bench.formats.reading import (
    HIGHER,
    LOWER,
    FormatError,
    Missing,
    Output,
    Reading,
    decoded,
    is_number,
    number,
    output_of,
    reading_or_missing,
    shown,
    text_lines,
)

_LINE = re.compile(r"stress-ng: (\w+):\s+\[[0-9]+\] (.*)")
_EXTRA = re.compile(r"(\S+)\s+(\S+) (.+?)(?: \((?:geo|harmonic|arith|sum|max|min|total)[^()]*\))?")
_COLUMNS = (
    "bogo-ops",
    "wall-clock-time",
    "user-time",
    "system-time",
    "bogo-ops-per-second-real-time",
    "bogo-ops-per-second-usr-sys-time",
)
_UNITS = {
    "bogo-ops": "bogo ops",
    "wall-clock-time": "s",
    "user-time": "s",
    "system-time": "s",
    "bogo-ops-per-second-real-time": "bogo ops/s",
    "bogo-ops-per-second-usr-sys-time": "bogo ops/s",
}
_RATES = _COLUMNS[4:]
_ENDED = "run completed in"


def read_console(data: bytes) -> Output:
    """`STRESSOR KEY` for each number of the metrics. Raises FormatError if a stressor failed or the end is missing."""
    lines = text_lines(data)
    found: list[Reading | Missing] = []
    ended = False
    for at, line in lines:
        match = _LINE.fullmatch(line.strip())
        if match is None:
            continue
        kind, text = match.groups()
        if kind in ("fail", "error") or "unsuccessful" in text:
            raise FormatError(f"stress-ng failed: {shown(text)}", line=at)
        if kind in ("metrc", "info", "metric"):
            found += _metrics(text, at)
            ended = ended or _ENDED in text
    output = output_of(found, nothing="there are no metrics: run it with --metrics", last_line=len(lines))
    if not ended:
        raise FormatError(f"incomplete: no line says {_ENDED!r}", line=len(lines))
    return output


def _metrics(text: str, line: int) -> list[Reading | Missing]:
    words = text.split()
    if len(words) > 6 and not text.startswith(("stressor", "(")) and _looks_measured(words[1:7]):
        return [_item(words[0], key, word, line) for key, word in zip(_COLUMNS, words[1:7], strict=True)]
    if (match := _EXTRA.fullmatch(text)) and is_number(match[2]):
        return [_item(match[1], "-".join(match[3].lower().split()), match[2], line)]
    return []


def _looks_measured(words: list[str]) -> bool:
    return all(word[:1].isdigit() or word.lower().lstrip("-+") in ("nan", "inf") for word in words)


def _item(stressor: str, key: str, text: str, line: int) -> Reading | Missing:
    unit, better = _UNITS.get(key), HIGHER if key in _RATES else None
    if key.startswith("nanosec"):
        unit, better = "ns", LOWER
    return reading_or_missing(f"{stressor} {key}", text, line=line, unit=unit, higher_is_better=better)


def read_yaml(data: bytes) -> Output:
    """`STRESSOR KEY` for each number under "metrics". Raises FormatError."""
    text = decoded(data)
    last = text.count("\n") + 1
    if text.rstrip().rpartition("\n")[2] != "...":
        raise FormatError("incomplete: the closing line ... is missing", line=last)
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        raise FormatError(f"not YAML: {error.problem}", line=mark.line + 1 if mark else last) from None
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise FormatError(f"not YAML: {type(error).__name__}", line=last) from None
    metrics = _pairs(root).get("metrics")
    if not isinstance(metrics, SequenceNode):
        raise FormatError('there is no list "metrics": run stress-ng with --metrics', line=last)
    found: list[Reading | Missing] = []
    for entry in metrics.value:
        found += _entry(entry)
    return output_of(found, nothing="the list of metrics is empty", last_line=metrics.start_mark.line + 1)


def _entry(entry: Node) -> list[Reading | Missing]:
    fields = _pairs(entry)
    stressor = fields.pop("stressor", None)
    if not isinstance(stressor, ScalarNode):
        raise FormatError('"stressor" is missing', line=entry.start_mark.line + 1)
    items = [
        _item(str(stressor.value), key, str(node.value), node.start_mark.line + 1)
        for key, node in fields.items()
        if isinstance(node, ScalarNode)
    ]
    for item in items:
        # Each of these numbers is printed by a fixed format: one that is none is a locale's, or damage.
        if isinstance(item, Missing) and item.metric.removeprefix(f"{stressor.value} ") in _COLUMNS:
            number(str(fields[item.metric.removeprefix(f"{stressor.value} ")].value), line=item.line, what=item.metric)
    return items


def _pairs(node: Node | None) -> dict[str, Node]:
    if not isinstance(node, MappingNode):
        raise FormatError("a mapping is expected here", line=1 if node is None else node.start_mark.line + 1)
    return {str(key.value): value for key, value in node.value}

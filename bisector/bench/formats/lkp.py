"""LKP: stats.json of one run ({"suite.metric": value}), matrix.json of several ({"suite.metric": [values]}).

Both without units and directions. A matrix fills the place of a run that did not report with 0, and an empty point
with -1: neither is taken for a measurement.
"""

from bisector.bench.formats.jsontext import Node, read_json
from bisector.bench.formats.reading import FormatError, Missing, Output, Reading, decoded, output_of

_SOURCE = "stats_source"
_FILLED = (0.0, -1.0)


def read_stats(data: bytes) -> Output:
    """Every number of a stats.json; what is no number there is missing. Raises FormatError."""
    found: list[Reading | Missing] = [_stat(metric, node) for metric, node in _whole(data).fields()]
    return output_of(found, nothing="there is no stat", last_line=1)


def read_matrix(data: bytes) -> Output:
    """Every run's value of each stat, in the order of the runs. Raises FormatError."""
    found: list[Reading | Missing] = []
    for metric, node in _whole(data).fields():
        if metric == _SOURCE:
            continue
        if not isinstance(node.value, list):
            raise FormatError(f"{metric} must be a list with one value of each run, got {node.shown()}", line=node.line)
        for run, item in enumerate(node.items()):
            if item.value in _FILLED:
                reason = f"run {run} did not report it (the matrix is filled with {item.shown()})"
                found.append(Missing(metric=metric, reason=reason, line=item.line))
            else:
                found.append(_stat(metric, item))
    return output_of(found, nothing="there is no stat", last_line=1)


def _whole(data: bytes) -> Node:
    return read_json(decoded(data))


def _stat(metric: str, node: Node) -> Reading | Missing:
    if isinstance(node.value, bool) or not isinstance(node.value, float):
        return Missing(metric=metric, reason=f"{metric} must be a number, got {node.shown()}", line=node.line)
    return Reading(metric=metric, value=node.value, line=node.line)

"""fio --output-format=json: rates and latencies of each job and direction that did any I/O.

Notes and warnings may stand before the opening brace: fio writes them to the same stream.
"""

from bisector.bench.formats.jsontext import Node, read_json
from bisector.bench.formats.reading import HIGHER, LOWER, FormatError, Missing, Output, Reading, decoded, output_of

_DIRECTIONS = ("read", "write", "trim")
_LATENCIES = ("clat_ns", "lat_ns")


def read(data: bytes) -> Output:
    """`JOB read iops`, `JOB read bw` in KiB/s, `JOB read clat mean` and `JOB read clat p99` in ns, and so on.

    Raises FormatError if a job ended with an error.
    """
    text = decoded(data)
    at = 0 if text.startswith("{") else text.find("\n{") + 1
    if not text.startswith("{", at):
        raise FormatError("no line begins with an opening brace", line=1)
    found: list[Reading | Missing] = []
    for job in read_json(text[at:], first_line=text[:at].count("\n") + 1).need("jobs").items():
        name = job.need("jobname").text("jobname")
        error = job.get("error")
        if error is not None and error.value != 0:
            raise FormatError(f"job {name} ended with error {error.shown()}", line=error.line)
        for direction in _DIRECTIONS:
            part = job.get(direction)
            if part is not None and part.need("total_ios").number("total_ios") > 0:
                found += _direction(f"{name} {direction}", part)
    return output_of(found, nothing="no job did any I/O", last_line=text.count("\n") + 1)


def _direction(name: str, part: Node) -> list[Reading]:
    rates = [
        _reading(f"{name} iops", part.need("iops"), "ops/s", HIGHER),
        _reading(f"{name} bw", part.need("bw"), "KiB/s", HIGHER),
    ]
    return rates + [reading for key in _LATENCIES for reading in _latency(name, key, part.get(key))]


def _latency(name: str, key: str, latency: Node | None) -> list[Reading]:
    if latency is None:
        return []
    metric = f"{name} {key.removesuffix('_ns')}"
    readings = [_reading(f"{metric} mean", latency.need("mean"), "ns", LOWER)]
    percentiles = latency.get("percentile")
    for percentile, node in percentiles.fields() if percentiles is not None else ():
        label = percentile.rstrip("0").rstrip(".") if "." in percentile else percentile
        readings.append(_reading(f"{metric} p{label}", node, "ns", LOWER))
    return readings


def _reading(metric: str, node: Node, unit: str, better: bool) -> Reading:  # noqa: FBT001
    return Reading(metric=metric, value=node.number(metric), unit=unit, higher_is_better=better, line=node.line)

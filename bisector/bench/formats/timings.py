"""Three frameworks that time a piece of code again and again: hyperfine, pyperf, google-benchmark. All write JSON.

Only the repetitions are read: means and deviations that a file holds beside them are aggregates of the same numbers.
"""

from bisector.bench.formats.jsontext import Node, read_json
from bisector.bench.formats.reading import HIGHER, LOWER, FormatError, Missing, Output, Reading, decoded, output_of

_PYPERF_UNITS = {"second": ("s", LOWER), "byte": ("bytes", None), "integer": ("events", None)}
_AGGREGATES = ("_mean", "_median", "_stddev", "_cv")
_RATES = {"items_per_second": "items/s", "bytes_per_second": "bytes/s"}
_TIME_UNITS = ("ns", "us", "ms", "s")


def read_hyperfine(data: bytes) -> Output:
    """Every time of `COMMAND`, in s. Raises FormatError if a run of the command failed."""
    root = read_json(decoded(data))
    found: list[Reading | Missing] = []
    for result in root.need("results").items():
        name = result.need("command").text("command")
        codes = result.get("exit_codes")
        for code in codes.items() if codes is not None else ():
            if code.value != 0:
                raise FormatError(f"{name} ended with exit code {code.shown()}", line=code.line)
        found += [_reading(name, node, "s", LOWER) for node in result.need("times").items()]
    return output_of(found, nothing="there is no time", last_line=root.line)


def read_pyperf(data: bytes) -> Output:
    """Every value of each benchmark, by its name; warm-ups and calibrations are left out. Raises FormatError."""
    root = read_json(decoded(data))
    found: list[Reading | Missing] = []
    for benchmark in root.need("benchmarks").items():
        runs = list(benchmark.need("runs").items())
        # What all benchmarks, or all runs of one, have in common stands higher up.
        scopes = [run.get("metadata") for run in runs[:1]] + [benchmark.get("metadata"), root.get("metadata")]
        name = _metadata(scopes, "name") or "benchmark"
        unit = _metadata(scopes, "unit") or "second"
        if unit not in _PYPERF_UNITS:
            raise FormatError(f"the unit of {name} is {unit!r}, known are {', '.join(_PYPERF_UNITS)}", line=root.line)
        for values in (run.get("values") for run in runs):
            found += [_reading(name, node, *_PYPERF_UNITS[unit]) for node in (values.items() if values else ())]
    return output_of(found, nothing="no run has values", last_line=root.line)


def _metadata(scopes: list[Node | None], key: str) -> str | None:
    for scope in scopes:
        if scope is not None and (node := scope.get(key)) is not None:
            return node.text(key)
    return None


def read_google_benchmark(data: bytes) -> Output:
    """`NAME real_time`, `NAME cpu_time` and rates of every repetition; aggregates are left out. Raises FormatError."""
    root = read_json(decoded(data))
    found: list[Reading | Missing] = []
    for entry in root.need("benchmarks").items():
        name = entry.need("name").text("name")
        kind = entry.get("run_type")
        if kind.value == "aggregate" if kind is not None else name.endswith(_AGGREGATES):
            continue
        failed = entry.get("error_occurred")
        if failed is not None and failed.value is True:
            message = entry.get("error_message")
            raise FormatError(
                f"{name} failed: {message.shown() if message else 'it does not say why'}", line=failed.line
            )
        written = entry.need("time_unit")
        unit = written.text("time_unit")
        if unit not in _TIME_UNITS:
            raise FormatError(f"the time unit of {name} is {unit!r}", line=written.line)
        found += [_reading(f"{name} {key}", entry.need(key), unit, LOWER) for key in ("real_time", "cpu_time")]
        for key, rate in _RATES.items():
            if (node := entry.get(key)) is not None:
                found.append(_reading(f"{name} {key}", node, rate, HIGHER))
    return output_of(found, nothing="there is no repetition", last_line=root.line)


def _reading(metric: str, node: Node, unit: str, better: bool | None) -> Reading:  # noqa: FBT001
    return Reading(metric=metric, value=node.number(metric), unit=unit, higher_is_better=better, line=node.line)

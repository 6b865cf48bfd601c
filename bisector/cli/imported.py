"""`bisector bench compare` of other people's outputs: any format that `bench formats` lists, the same table for all."""

from collections.abc import Sequence
from pathlib import Path

from pydantic import ValidationError

from bisector.bench.formats.reading import FormatError, Output
from bisector.bench.formats.registry import REGEX, Read, check, measure, reader
from bisector.model.errors import UsageError
from bisector.recipe.command import Metric
from bisector.report.benched import Compared
from bisector.search.contrast import FEWEST, contrast

HOW = "--metric NAME:lower:UNIT or --metric NAME:higher:UNIT"


def metric_of(text: str) -> Metric:
    """The metric of `NAME:BETTER:UNIT`; the name may hold colons. Raises UsageError."""
    name, _, rest = text.rpartition(":")
    name, _, better = name.rpartition(":")
    if better not in ("lower", "higher") or not name or not rest:
        raise UsageError(
            f"--metric {text}: must say the metric's name, which direction is better, and its unit", resolution=HOW
        )
    try:
        return Metric.model_validate({"name": name, "better": better, "unit": rest})
    except ValidationError as error:
        raise UsageError(f"--metric {text}: {error.errors()[0]['msg']}", resolution=HOW) from None


def compared(
    paths: tuple[Path, Path], parser: str, *, regex: str | None, metrics: Sequence[Metric] = ()
) -> tuple[list[Compared], list[str]]:
    """The metrics that both results have, and the names of those that were left out for want of a unit or direction.

    A result is a file, whose repetitions are its runs, or a folder with one file a run. Without `metrics` those count
    of which the format says unit and direction. Raises UsageError, with the line, for what is broken or ambiguous.
    """
    if (parser == REGEX) != (regex is not None):
        raise UsageError("--regex belongs to the parser `regex`, and to no other")
    read = reader(parser, regex=regex)
    sides = [[(file, _read(read, file)) for file in _files(path)] for path in paths]
    unknown: list[str] = []
    wanted = list(metrics)
    if not wanted:
        wanted, unknown = _told(sides)
    if not wanted:
        raise UsageError(
            f"{parser} does not say of any metric in both results its unit and which direction is better",
            details=f"Metrics: {', '.join(unknown) or 'none in common'}",
            resolution=f"Say it: {HOW}",
        )
    return [_compared(metric, paths, sides) for metric in wanted], unknown


def _files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    found = sorted(file for file in path.iterdir() if file.is_file())
    if not found:
        raise UsageError(f"{path} holds no file")
    return found


def _read(read: Read, file: Path) -> Output:
    try:
        return read(file.read_bytes())
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {error.strerror}") from error
    except FormatError as error:
        raise _refused(file, error) from error


def _refused(file: Path, error: FormatError) -> UsageError:
    return UsageError(
        f"{file}:{error.line}: {error.reason}",
        resolution="See what it holds: bisector bench read PARSER FILE; and the parsers: bisector bench formats",
    )


def _told(sides: Sequence[Sequence[tuple[Path, Output]]]) -> tuple[list[Metric], list[str]]:
    """The metrics in all files that are whole by themselves, and those that are not."""
    outputs = [output for side in sides for _, output in side]
    names = [{reading.metric for reading in output.readings} for output in outputs]
    shared = dict.fromkeys(r.metric for r in outputs[0].readings if all(r.metric in some for some in names))
    whole, unknown = [], []
    for name in shared:
        said = {(r.unit, r.higher_is_better) for output in outputs for r in output.readings if r.metric == name}
        unit, higher = next(iter(said))
        if len(said) > 1 or unit is None or higher is None:
            unknown.append(name)
        else:
            whole.append(Metric(name=name, better="higher" if higher else "lower", unit=unit))
    return whole, unknown


def _compared(metric: Metric, paths: tuple[Path, Path], sides: Sequence[Sequence[tuple[Path, Output]]]) -> Compared:
    values = [_values(metric, side) for side in sides]
    for path, few in zip(paths, values, strict=True):
        if len(few) < FEWEST:
            raise UsageError(
                f"{path} has one value of {metric.name}: how runs scatter cannot be told from one",
                resolution="Let it repeat, or put the files of several runs into a folder and name that.",
            )
    return Compared(
        test=metric.name,
        unit=metric.unit,
        higher_is_better=metric.better == "higher",
        contrast=contrast([values[0]], [values[1]]),
    )


def _values(metric: Metric, side: Sequence[tuple[Path, Output]]) -> list[float]:
    """Each run's value: of a single file its repetitions, of several files what a hunt would take of each."""
    found: list[float] = []
    for file, output in side:
        try:
            [whole] = measure(output, (metric,))
            if len(side) > 1:
                found.append(whole.value)
                continue
            for reading in output.readings:
                if reading.metric == metric.name:
                    check(reading, metric)
                    found.append(reading.value)
        except FormatError as error:
            raise _refused(file, error) from error
    return found

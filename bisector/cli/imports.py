"""`bisector bench formats | read | profile`: other people's outputs, read by hand."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from bisector.bench.formats.profiles import PROFILES
from bisector.bench.formats.reading import FormatError
from bisector.bench.formats.registry import FORMATS, REGEX, reader
from bisector.bench.profile import movers
from bisector.model.errors import UsageError
from bisector.report.as_json import to_json
from bisector.report.profiles import movers_text
from bisector.report.readings import readings_document, readings_text

T = TypeVar("T")
STDIN = Path("-")


def formats() -> str:
    """A line for each parser."""
    lines = [f"{name:<17} {title}" for name, (title, _) in FORMATS.items()]
    return "\n".join(sorted([*lines, f"{REGEX:<17} what a pattern of your own finds in each line"]))


def read(name: str, file: Path, *, regex: str | None, as_json: bool) -> str:
    """What a parser finds in a file ("-": standard input). Raises UsageError, with the line, if it cannot be read."""
    if (name == REGEX) != (regex is not None):
        raise UsageError("--regex belongs to the parser `regex`, and to no other")
    output = _read(reader(name, regex=regex), file)
    return to_json(readings_document(output)) if as_json else readings_text(output)


def compare_profiles(kind: str, base: Path, new: Path, *, hz: tuple[float, float] | None, top: int) -> str:
    """What moved between two profiles. Raises UsageError, with the line, if one cannot be read."""
    first, second = (_read(PROFILES[kind], path) for path in (base, new))
    if hz is not None:
        first, second = first.with_hz(hz[0]), second.with_hz(hz[1])
    return movers_text(movers(first, second), (base.stem, new.stem), top=top)


def _read(read: Callable[[bytes], T], file: Path) -> T:
    try:
        data = sys.stdin.buffer.read() if file == STDIN else file.read_bytes()
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {error.strerror}") from error
    try:
        return read(data)
    except FormatError as error:
        raise UsageError(
            f"{'standard input' if file == STDIN else file}:{error.line}: {error.reason}",
            resolution="See what there is to choose from: bisector bench formats",
        ) from error

"""Outputs of the suite that were kept in a file (`bisector bench run --json >FILE`), read back by boot."""

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from bisector.bench.parse import SuiteOutputError, parse_samples
from bisector.bench.tests import Test
from bisector.model.errors import UsageError
from bisector.model.sample import Sample

_BEGIN = b'"type":"env"'


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedRun:
    """One whole run: every test once. `boot_id` and `release` are the kernel's that it ran under, if it told them."""

    boot_id: str | None
    release: str
    samples: tuple[Sample, ...]


def read_saved(path: Path, tests: Collection[Test]) -> tuple[SavedRun, ...]:
    """The runs of a file, in order. Raises UsageError, with the line, for anything but whole outputs of the suite."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from error
    runs, line = [], 1
    for output in _outputs(content):
        try:
            env, samples = parse_samples(output, tests)
        except SuiteOutputError as error:
            raise UsageError(
                f"{path}:{line + error.line - 1}: {error.reason}",
                details="Expected whole outputs of the benchmark suite, one after another.",
                resolution=f"Make one: bisector bench run page_test --json >{path.name}",
            ) from error
        runs.append(SavedRun(boot_id=env["boot_id"], release=env["release"], samples=samples))
        line += output.count(b"\n")
    return tuple(runs)


def _outputs(content: bytes) -> list[bytes]:
    """Each run's lines: a run begins with its env line."""
    found: list[list[bytes]] = [[]]
    for line in content.splitlines(keepends=True):
        if found[-1] and _BEGIN in line.replace(b" ", b""):
            found.append([])
        found[-1].append(line)
    return [b"".join(lines) for lines in found]

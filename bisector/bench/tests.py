"""Which tests there are: read from the suite's own table (`--list --json`), the one source of truth."""

import difflib
import json
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bisector.model.errors import BuilderError, UsageError
from bisector.recipe.schema import BenchmarkPart

LIST_TIMEOUT_S = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Test:
    """One test of the suite.

    `aim` is the AIM9 test with the same operation, which credits `aim_factor` operations for each of its calls:
    AIM9's loops/s are our value divided by it. A batch is a multiple of `grain` operations. `faults_per_op` is what
    a sample must show to count; None where it is only reported.
    """

    __test__ = False  # pytest: the name is the field's word, not a test class

    name: str
    unit: str
    higher_is_better: bool
    aim: str
    aim_units: str
    aim_factor: int
    op: str
    grain: int
    faults_per_op: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """What a compiled suite says of itself: its tests in order, and the digest of the sources it was made from."""

    tests: tuple[Test, ...]
    digest: str


def read_listing(program: Path) -> Listing:
    """Ask a compiled suite (`build_suite`). Raises BuilderError if it does not answer as it should."""
    try:
        done = subprocess.run(
            [str(program), "--list", "--json"], capture_output=True, check=True, timeout=LIST_TIMEOUT_S
        )
        listed = json.loads(done.stdout)
        tests = [
            Test(higher_is_better={"higher": True, "lower": False}[fields.pop("better")], **fields)
            for fields in listed["tests"]
        ]
        return Listing(tests=tuple(tests), digest=listed["digest"])
    except (OSError, subprocess.SubprocessError, ValueError, KeyError, TypeError) as error:
        raise BuilderError(
            f"The benchmark suite does not list its tests: {error}",
            details=f"program: {program}",
            resolution=f"Remove {program}; it is compiled again.",
        ) from error


def known_tests(program: Path) -> tuple[Test, ...]:
    """The tests of a compiled suite, in its order. Raises BuilderError as `read_listing`."""
    return read_listing(program).tests


def wanted_tests(part: BenchmarkPart, known: Sequence[Test]) -> tuple[Test, ...]:
    """The tests of a recipe, the deciding one first. Raises UsageError, naming the known ones, if one is unknown."""
    by_name = {test.name: test for test in known}
    names = (part.test, *part.also)
    unknown = [name for name in names if name not in by_name]
    if unknown:
        close = [match for name in unknown for match in difflib.get_close_matches(name, by_name, n=1)]
        raise UsageError(
            f"benchmark: there is no test {', '.join(unknown)}.",
            details=f"Known tests: {', '.join(by_name)}.",
            resolution=f"Did you mean {', '.join(close)}?" if close else "Choose one of them in the recipe.",
        )
    return tuple(by_name[name] for name in names)

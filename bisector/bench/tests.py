"""Which tests there are: read from the suite's own table (`--list --json`), the one source of truth."""

import difflib
import json
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bisector.model.errors import BuilderError, UsageError
from bisector.recipe.schema import BenchmarkPart

LIST_TIMEOUT_S = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Param:
    """What may be chosen of a test: a whole number from `least` to `most`, or one of `words`."""

    name: str
    default: int | str
    least: int | None = None
    most: int | None = None
    words: tuple[str, ...] = ()

    @property
    def range(self) -> str:
        """What it may be, for people: "1 to 16" or "fixed, wide"."""
        return ", ".join(self.words) if self.words else f"{self.least} to {self.most}"

    def allows(self, value: int | str) -> bool:
        """Whether the suite would take it."""
        if self.words:
            return value in self.words
        return (
            isinstance(value, int)
            and self.least is not None
            and self.most is not None
            and (self.least <= value <= self.most)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Test:
    """One test of the suite.

    `aim` is the AIM9 test with the same operation, which credits `aim_factor` operations for each of its calls:
    AIM9's loops/s are our value divided by it. A batch is a multiple of `grain` operations. `faults_per_op` is what
    a sample must show to count; None where it is only reported. `calls_per_grain` are the system calls, by the names
    strace gives them on x86-64, of `grain` operations with default parameters; the kernel's entries and nothing else.
    `aim` is "" and `aim_factor` 0 where AIM9 has no such test. A test that runs the machine's shell declares the calls
    that any shell must make for its script, and no others. The time of one that has `phases` is the sum of theirs.
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
    calls_per_grain: dict[str, int] = field(default_factory=dict)
    params: tuple[Param, ...] = ()
    phases: tuple[str, ...] = ()

    @property
    def metrics(self) -> tuple[str, ...]:
        """The names of what it measures: its own and, timed apart in the same sample, "TEST.PHASE" of each phase."""
        return (self.name, *(f"{self.name}.{phase}" for phase in self.phases))


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """What a compiled suite says of itself: its tests in order, and the digest of the sources it was made from."""

    tests: tuple[Test, ...]
    digest: str


def read_listing(program: Path) -> Listing:
    """Ask a compiled suite (`build_suite`). Raises BuilderError if it does not answer as it should.

    A session goes on with the suite it began with, so one that does not declare parameters yet is read as well.
    """
    try:
        done = subprocess.run(
            [str(program), "--list", "--json"], capture_output=True, check=True, timeout=LIST_TIMEOUT_S
        )
        listed = json.loads(done.stdout)
        tests = [
            Test(
                higher_is_better={"higher": True, "lower": False}[fields.pop("better")],
                params=tuple(
                    Param(**{**param, "words": tuple(param.get("words", ()))}) for param in fields.pop("params", ())
                ),
                phases=tuple(fields.pop("phases", ())),
                **fields,
            )
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
    """The tests that a recipe's metrics are measured by, each once, that of the deciding metric first.

    A metric is a test's name, or one of its phases ("patch_series.push").

    Raises UsageError, naming the known ones, if a test or a parameter is unknown, or a value out of its range.
    """
    by_name = {metric: test for test in known for metric in test.metrics}
    names = (part.test, *part.also)
    unknown = [name for name in names if name not in by_name]
    if unknown:
        close = [match for name in unknown for match in difflib.get_close_matches(name, by_name, n=1)]
        raise UsageError(
            f"benchmark: there is no test {', '.join(unknown)}.",
            details=f"Known tests: {', '.join(test.name for test in known)}.",
            resolution=f"Did you mean {', '.join(close)}?" if close else "Choose one of them in the recipe.",
        )
    tests = {by_name[name].name: by_name[name] for name in names}
    for name, values in part.params.items():
        if name not in tests:
            raise UsageError(
                f"benchmark: params: {name} is not measured.", details=f"Measured tests: {', '.join(tests)}."
            )
        _check_params(tests[name], values)
    return tuple(tests.values())


def _check_params(test: Test, values: Mapping[str, int | str]) -> None:
    known = {param.name: param for param in test.params}
    details = "; ".join(f"{param.name}: {param.range} (default {param.default})" for param in test.params)
    for name, value in values.items():
        if name not in known:
            raise UsageError(
                f"benchmark: {test.name} has no parameter {name}.", details=f"Known parameters: {details or 'none'}."
            )
        if not known[name].allows(value):
            raise UsageError(
                f"benchmark: {test.name}: {name} cannot be {value}.", details=f"Known parameters: {details}."
            )


def full_params(test: Test, part: BenchmarkPart) -> dict[str, int | str]:
    """The parameters a test runs with under a recipe: its own defaults where the recipe says nothing."""
    return {param.name: param.default for param in test.params} | part.params.get(test.name, {})

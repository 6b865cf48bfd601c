"""Numbers that were measured, with units, finite by construction."""

import math
from dataclasses import dataclass

COUNTERS = (
    "instructions:u",
    "instructions:k",
    "cycles:u",
    "cycles:k",
    "page-faults",
    "context-switches",
    "cpu-migrations",
)
"""What can be counted during a sample, as `perf list` calls it; `:u` in user space, `:k` in the kernel."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CounterValue:
    """What the kernel counted during a whole sample. Zero is a count: a counter that did not count is not here."""

    name: str
    value: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MissingCounter:
    """A counter that was asked for and gave no number, and why."""

    name: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One test measured once, in one run.

    `value` is in `unit` (for the suite: operations per second of wall time); `user_ns` and `sys_ns` are CPU time
    of the measured part. None where the benchmark does not tell: a command's numbers are its own. Raises ValueError
    unless `value` is finite and > 0: NaN would become null in JSON. Counters are there if they were asked for: each in
    one of the two.
    """

    test: str
    value: float
    unit: str
    higher_is_better: bool
    ops: int
    wall_ns: int | None
    user_ns: int | None
    sys_ns: int | None
    minor_faults: int | None
    cpu: int | None
    counters: tuple[CounterValue, ...] = ()
    missing_counters: tuple[MissingCounter, ...] = ()

    def __post_init__(self) -> None:
        if not (math.isfinite(self.value) and self.value > 0):
            raise ValueError(f"{self.test}: a sample must be finite and > 0, got {self.value!r}")

    @property
    def asked_counters(self) -> tuple[str, ...]:
        """The counters that were asked for, whether they gave a number or not."""
        return (*(found.name for found in self.counters), *(lost.name for lost in self.missing_counters))

    def per_op(self, counter: str) -> float | None:
        """What a counter counted for one operation; None if it is missing, or was not asked for."""
        return next((found.value / self.ops for found in self.counters if found.name == counter), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecord:
    """One run: every test of the recipe once, its raw output kept as an artefact. Only whole runs exist."""

    samples: tuple[Sample, ...]
    artefact: str
    duration_s: float

    def value_of(self, test: str) -> float:
        """The value of one test. Raises KeyError if this run does not hold it."""
        for sample in self.samples:
            if sample.test == test:
                return sample.value
        raise KeyError(test)

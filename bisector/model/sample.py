"""Numbers that were measured, with units, finite by construction."""

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One test measured once, in one run.

    `value` is in `unit` (for the suite: operations per second of wall time); `user_ns` and `sys_ns` are CPU time
    of the measured part. None where the benchmark does not tell: a command's numbers are its own. Raises ValueError
    unless `value` is finite and > 0: NaN would become null in JSON.
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

    def __post_init__(self) -> None:
        if not (math.isfinite(self.value) and self.value > 0):
            raise ValueError(f"{self.test}: a sample must be finite and > 0, got {self.value!r}")


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

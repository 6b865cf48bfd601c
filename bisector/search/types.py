"""What goes into the search and what comes out: the words shared by its rooms and by its users."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from bisector.model.outcome import AnswerKind, Purpose, Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class Costs:
    """Seconds of machine time: one build, one boot, one run. Running medians in a session, constants in simulation.

    Raises ValueError for a cost that is not finite and >= 0.
    """

    build_s: float
    boot_s: float
    run_s: float

    def __post_init__(self) -> None:
        for name, cost_s in (("build_s", self.build_s), ("boot_s", self.boot_s), ("run_s", self.run_s)):
            if not 0 <= cost_s < math.inf:
                raise ValueError(f"{name} must be finite and >= 0, got {cost_s}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What the user asked of the search.

    `min_effect_percent` is the smallest effect of interest; `higher_is_better` the metric's direction;
    `find_improvement` looks for the commit that made the metric better (ends swapped in meaning, not in place).
    Raises ValueError for a confidence outside (0, 1) or a smallest effect that is not finite and > 0: the first would
    be reached never or at once, no number of boots excludes an effect of nothing.
    """

    confidence: float = 0.99
    higher_is_better: bool = True
    find_improvement: bool = False
    min_effect_percent: float = 1.0
    max_boots: int = 400
    max_gate_pairs: int = 40
    budget_s: float | None = None
    audit: bool = True
    seed: int = 1

    def __post_init__(self) -> None:
        if not 0 < self.confidence < 1:
            raise ValueError(f"confidence must lie between 0 and 1, got {self.confidence}")
        if not 0 < self.min_effect_percent < math.inf:
            raise ValueError(f"min_effect_percent must be finite and > 0, got {self.min_effect_percent}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Boot:
    """One boot of one commit: its runs' values in order, and when (seconds on the lab's clock) it was measured."""

    commit: int
    values: tuple[float, ...]
    at_s: float
    purpose: Purpose
    machine: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Pending:
    """One look that goes on: the boot that `machine` makes (or waits with for a kernel), of which nothing is known."""

    commit: int
    runs: int
    machine: int
    purpose: Purpose


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """All that is known so far. `skipped` commits keep their mass. `signatures` maps built commits to image digests.

    `marked_good`/`marked_bad` are a person's words: settled without a measurement. `pending` are the looks under way,
    at most one a machine; `coming` maps commits whose kernel is being made to the time it is expected at.
    """

    boots: tuple[Boot, ...] = ()
    built: frozenset[int] = frozenset()
    skipped: frozenset[int] = frozenset()
    signatures: dict[int, str] = field(default_factory=dict)
    marked_good: frozenset[int] = frozenset()
    marked_bad: frozenset[int] = frozenset()
    now_s: float = 0.0
    pending: tuple[Pending, ...] = ()
    coming: Mapping[int, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """Boot `commit` once, for `runs` runs (build it first if need be). `reason` is a sentence with its numbers."""

    commit: int
    runs: int
    purpose: Purpose
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """Nothing to boot on this machine before another machine's look ends: what it could tell, the others tell."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """The end of a search: indexes, most probable first; `probability` of the whole answer."""

    kind: AnswerKind
    commits: tuple[int, ...]
    probability: float
    reason: str
    share: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitVerdict:
    """One commit, as people read it. Effects in percent of the good end, negative = lower value; 95 % interval."""

    commit: int
    verdict: Verdict
    bad_probability: float
    effect_percent: float | None
    interval_percent: tuple[float, float] | None
    boots: int
    runs: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Assessment:
    """Everything the search believes after some evidence; what reports and the live view read.

    `probability[i]` is that of "commit i is the first bad one" (0 for the good end; sums to 1).
    `good_level`, `bad_level` in the metric's unit (None before an end was measured); deviations in percent:
    `run_sd` within a boot, `boot_sd` between boots; `detectable_percent` the smallest effect these boots could show.
    `remaining_boots` is a rough forecast.
    """

    probability: Sequence[float]
    verdicts: tuple[CommitVerdict, ...]
    good_level: float | None
    bad_level: float | None
    effect_percent: float | None
    effect_interval_percent: tuple[float, float] | None
    run_sd_percent: float
    boot_sd_percent: float
    detectable_percent: float | None
    entropy_bits: float
    remaining_boots: float
    threshold: float | None
    audit: str

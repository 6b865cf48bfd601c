"""Chromium's performance bisector: neighbours compared by rank tests, more boots while a comparison is open.

Source: catapult, dashboard/pinpoint/models: job_state.py (ten attempts at first and at each repeat, an attempt is
the mean of its values, the thinner side of an open comparison is repeated), exploration.py (midpoints where two
neighbours differ), compare/compare.py and compare/thresholds_performance.py (the two thresholds). What differs here:
one midpoint at a time instead of two levels of them ahead, which one machine would pay for; a commit that does not
build is passed over for the next; on histories with merges "between" is what `git bisect` would take.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from bisector.model.outcome import Purpose
from bisector.search.graph import Graph
from bisector.search.rivals.halves import (
    boot_means,
    measure_ends,
    most_even,
    named,
    none,
    not_reproduced,
    several,
    spent,
)
from bisector.search.types import Costs, Evidence, Finding, Look, Options

Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]

ATTEMPTS, RUNS = 10, 5
LOW = 0.01
# Differences are looked for in interquartile ranges, between these and in steps of a tenth.
SMALLEST_IQR, LARGEST_IQR = 0.3, 4.0
DEVIATIONS_PER_IQR = 1.3489795
DRAWS = 10000


class Comparison(Enum):
    """What two samples are to each other."""

    SAME = "same"
    DIFFERENT = "different"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Pair:
    """Two neighbours in the list of those looked at, and the commits that may have made the difference."""

    low: int
    high: int
    between: Bools


def pinpoint(graph: Graph, evidence: Evidence, costs: Costs, options: Options) -> Look | Finding:
    """Return Pinpoint's next attempt (one boot of 5 runs), or the commits between differing neighbours at the end.

    The difference looked for is the one that the ends show; several culprits are a set, none is no answer.
    """
    del costs
    means = boot_means(evidence, options)
    step = measure_ends(graph, evidence, means, boots=ATTEMPTS, runs=RUNS)
    if step is not None:
        return step
    short = [commit for commit, of in means.items() if of.size % ATTEMPTS]
    if short:
        return _attempt(short[0], "completes its ten attempts")
    over = spent(evidence, options)
    if over is not None:
        return over
    shift = abs(float(means[graph.bad].mean() - means[graph.good].mean()))
    culprits: list[int] = []
    whole = _Pair(low=graph.good, high=graph.bad, between=graph.candidates)
    for pair in _neighbours(graph, evidence, means, whole):
        result = compare(tuple(means[pair.low].tolist()), tuple(means[pair.high].tolist()), shift)
        if result is Comparison.UNKNOWN:
            thinner = pair.low if means[pair.low].size <= means[pair.high].size else pair.high
            return _attempt(thinner, "it and its neighbour are neither the same nor different")
        if result is Comparison.DIFFERENT:
            middle = most_even(graph, pair.between, closed=evidence.skipped)
            if middle is not None:
                return _attempt(middle, "the middle between two that differ")
            culprits += np.flatnonzero(pair.between).tolist()
    if not culprits:
        alone = len(means) == 2
        return not_reproduced("the ends are the same") if alone else none("no two neighbours differ")
    return named(culprits[0], 1.0) if len(culprits) == 1 else several(culprits, "several are left")


def _attempt(commit: int, reason: str) -> Look:
    return Look(commit=commit, runs=RUNS, purpose=Purpose.SEARCH, reason=reason)


def _neighbours(graph: Graph, evidence: Evidence, means: dict[int, Floats], pair: _Pair) -> Iterator[_Pair]:
    """Yield the pairs that have nothing looked at between them, from good to bad."""
    middle = most_even(graph, pair.between, closed=evidence.skipped)
    if middle is None or middle not in means:
        yield pair
        return
    inside = graph.ancestors([middle])[0]
    yield from _neighbours(graph, evidence, means, _Pair(low=pair.low, high=middle, between=pair.between & inside))
    yield from _neighbours(graph, evidence, means, _Pair(low=middle, high=pair.high, between=pair.between & ~inside))


@lru_cache(maxsize=4096)
def compare(one: tuple[float, ...], other: tuple[float, ...], shift: float) -> Comparison:
    """Return whether two samples are the same, different by about `shift`, or not yet known to be either.

    The smaller p-value of Mann and Whitney's and of Kolmogorov and Smirnov's test: at most 0.01 is different, above
    the high threshold is the same.
    """
    from scipy import stats

    p_value = min(
        float(stats.mannwhitneyu(one, other, alternative="two-sided", method="asymptotic").pvalue),
        float(stats.ks_2samp(one, other).pvalue),
    )
    if p_value <= LOW:
        return Comparison.DIFFERENT
    spread = max(float(stats.iqr(one)), float(stats.iqr(other)), 1e-9)
    tenths = int(10 * float(np.clip(shift / spread, SMALLEST_IQR, LARGEST_IQR)) + 1e-9)
    high = high_threshold(tenths, (len(one) + len(other)) // 2)
    return Comparison.UNKNOWN if p_value <= high else Comparison.SAME


@lru_cache(maxsize=512)
def high_threshold(tenths: int, size: int) -> float:
    """Return the p-value above which two samples of this size do not differ by `tenths` / 10 interquartile ranges.

    99 of 100 pairs of normal samples that far apart stay below it in Mann and Whitney's test. It falls with the size
    and ends the repeats where it meets 0.01. Catapult keeps a table from a million draws each; these are 10000, the
    same ones every time.
    """
    from scipy import stats

    rng = np.random.default_rng([tenths, size])
    one = rng.normal(0, 1, (DRAWS, size))
    other = rng.normal(DEVIATIONS_PER_IQR * tenths / 10, 1, (DRAWS, size))
    p_values = stats.mannwhitneyu(one, other, axis=1, method="asymptotic").pvalue
    return float(np.quantile(p_values, 0.99))

"""What the rivals that halve have in common: measured ends, one number a boot, and the commit nearest half of the rest.

A rival answers with a set when only commits are left that cannot be tested, as `git bisect skip` does.
"""

from collections.abc import Mapping
from functools import lru_cache
from math import log

import numpy as np
from numpy.typing import NDArray

from bisector.model.outcome import AnswerKind, Purpose
from bisector.search.graph import Graph
from bisector.search.noise import worse_sign
from bisector.search.types import Evidence, Finding, Look, Options

Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

# A rival that repeats a lot may use five times the boots that this search is given: a budget made for the one would
# only hide what the other needs.
BUDGET = 5


def boot_means(evidence: Evidence, options: Options) -> dict[int, Floats]:
    """Return for each booted commit one number a boot, 100 ln of the geometric mean of its runs; larger is worse."""
    sign = worse_sign(options)
    found: dict[int, list[float]] = {}
    for boot in evidence.boots:
        found.setdefault(boot.commit, []).append(sign * 100 * sum(map(log, boot.values)) / len(boot.values))
    return {commit: np.array(means) for commit, means in found.items()}


def measure_ends(
    graph: Graph, evidence: Evidence, means: Mapping[int, Floats], *, boots: int, runs: int
) -> Look | Finding | None:
    """Return the next boot of an end while one has fewer than `boots`; in turns, as a lab moves. None when done."""
    for end in (graph.good, graph.bad):
        if end in evidence.skipped:
            return none("an end cannot be tested")
    fewest = min((graph.good, graph.bad), key=lambda end: len(means.get(end, ())))
    if len(means.get(fewest, ())) < boots:
        return Look(commit=fewest, runs=runs, purpose=Purpose.GATE, reason=f"{boots} boots of each end")
    return None


def same_mean(one: Floats, other: Floats) -> float:
    """Return Welch's p-value (Welch 1947) of "these have one mean"; for two constants 1 if they are equal, else 0."""
    return _welch(tuple(one.tolist()), tuple(other.tolist()))


# A step asks again for every commit so far; the answers are the same.
@lru_cache(maxsize=4096)
def _welch(one: tuple[float, ...], other: tuple[float, ...]) -> float:
    if np.ptp(one) < 1e-9 and np.ptp(other) < 1e-9:
        return float(abs(one[0] - other[0]) < 1e-9)
    from scipy import stats

    return float(stats.ttest_ind(one, other, equal_var=False).pvalue)


def spent(evidence: Evidence, options: Options) -> Finding | None:
    """Return the end of a hunt whose budget is gone, or None."""
    over_time = options.budget_s is not None and evidence.now_s >= options.budget_s
    if over_time or len(evidence.boots) >= BUDGET * options.max_boots:
        return none("the budget is spent")
    return None


def halve(
    graph: Graph, evidence: Evidence, sides: Mapping[int, bool | None], *, runs: int, probability: float
) -> Look | Finding:
    """Return the next boot of a bisection, or the one commit that is left with the `probability` claimed for it.

    `sides` holds for each commit looked at between the ends whether it is bad, None while that is open.
    """
    left = graph.candidates.copy()
    for commit, bad in sides.items():
        if bad is None:
            return Look(commit=commit, runs=runs, purpose=Purpose.SEARCH, reason="its side is open")
        inside = graph.ancestors([commit])[0]
        left &= inside if bad else ~inside
    commits = np.flatnonzero(left)
    if commits.size == 1:
        return named(int(commits[0]), probability)
    middle = most_even(graph, left, closed=evidence.skipped | sides.keys())
    if middle is None:
        return several([int(one) for one in commits], "what is left cannot be tested")
    return Look(commit=middle, runs=runs, purpose=Purpose.SEARCH, reason="halves what is left")


def most_even(graph: Graph, left: Bools, *, closed: frozenset[int] | set[int]) -> int | None:
    """Return the commit of `left`, not in `closed`, whose ancestors in it are nearest half of it; None if none splits.

    As `git bisect` chooses (its documentation, "bisection algorithm").
    """
    members = np.flatnonzero(left)
    free = members[~np.isin(members, list(closed))]
    if not free.size:
        return None
    below = graph.mass_below(free, left.astype(np.float64))
    even = np.minimum(below, members.size - below)
    best = int(np.argmax(np.round(even, 3)))
    return int(free[best]) if even[best] > 0.5 else None


def named(commit: int, probability: float) -> Finding:
    """Return the finding of one commit."""
    return Finding(kind=AnswerKind.COMMIT, commits=(commit,), probability=probability, reason="one is left")


def several(commits: list[int], reason: str) -> Finding:
    """Return the finding of several commits."""
    return Finding(kind=AnswerKind.SET, commits=tuple(commits), probability=1.0, reason=reason)


def none(reason: str) -> Finding:
    """Return that there is no answer."""
    return Finding(kind=AnswerKind.NONE, commits=(), probability=0.0, reason=reason)


def not_reproduced(reason: str) -> Finding:
    """Return that the ends do not differ."""
    return Finding(kind=AnswerKind.NOT_REPRODUCED, commits=(), probability=1.0, reason=reason)

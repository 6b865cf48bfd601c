"""A posterior as well, but on pass and fail: the algorithm of git-bayesect, after a threshold made the values so.

Source: git_bayesect 1.2 (MIT licence), class Bisector: two unknown failure rates with Jeffreys priors, one on each
side of the first bad commit, summed out as Beta functions; the next commit is the one with the least expected
entropy, ties go to the middle; a skipped commit loses its prior. Here also on histories with merges.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bisector.model.outcome import Purpose
from bisector.search.graph import Graph
from bisector.search.rivals.halves import boot_means, measure_ends, named, not_reproduced, spent
from bisector.search.types import Costs, Evidence, Finding, Look, Options

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

END_BOOTS, RUNS = 3, 5
JEFFREYS = 0.5
# On a history with merges the expected entropy is worked out for this many commits whose sides are most open.
PROBES = 128


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Belief:
    """Shape (n,) each: the probability of "first bad", and both sides' failure rates if it is."""

    probability: Floats
    bad_rate: Floats
    good_rate: Floats


def pass_fail(graph: Graph, evidence: Evidence, costs: Costs, options: Options) -> Look | Finding:
    """Return the next boot of 5 runs, which passes or fails by the middle between the ends' means (3 boots each).

    The ends' boots count as observations. It stops when one commit has the probability asked for.
    """
    del costs
    means = boot_means(evidence, options)
    step = measure_ends(graph, evidence, means, boots=END_BOOTS, runs=RUNS)
    if step is not None:
        return step
    # The threshold is that of the first boots: a moving one would turn earlier passes into failures.
    good, bad = (float(means[end][:END_BOOTS].mean()) for end in (graph.good, graph.bad))
    if bad <= good:
        return not_reproduced("the bad end is not worse")
    failures = {commit: (int((of > (good + bad) / 2).sum()), of.size) for commit, of in means.items()}
    belief = believe(graph, failures, evidence.skipped)
    leading = int(np.argmax(np.round(belief.probability, 12)))
    if belief.probability[leading] >= options.confidence:
        return named(leading, float(belief.probability[leading]))
    over = spent(evidence, options)
    if over is not None:
        return over
    chosen = least_expected_entropy(graph, belief, evidence.skipped)
    return Look(commit=chosen, runs=RUNS, purpose=Purpose.SEARCH, reason="the least expected entropy")


def believe(graph: Graph, failures: dict[int, tuple[int, int]], skipped: frozenset[int]) -> Belief:
    """Return the belief after these (failures, boots) of each commit; the bad end is none of the skipped."""
    from scipy.special import betaln

    commits = sorted(failures)
    failed = np.array([failures[commit][0] for commit in commits], dtype=np.float64)
    looked = np.array([failures[commit][1] for commit in commits], dtype=np.float64)
    bad_failed, bad_passed = _on_the_bad_side(graph, commits, np.stack([failed, looked - failed]))
    good_failed = float(failed.sum()) - bad_failed
    good_passed = float((looked - failed).sum()) - bad_passed
    # Few of the thousands of commits differ in what they would mean.
    first, which = np.unique(bad_failed * (looked.sum() + 1) + bad_passed, return_index=True, return_inverse=True)[1:]
    of_bad = betaln(JEFFREYS + bad_failed[first], JEFFREYS + bad_passed[first])
    of_good = betaln(JEFFREYS + good_failed[first], JEFFREYS + good_passed[first])
    log = (of_bad + of_good)[which]
    possible = graph.candidates.copy()
    possible[sorted(skipped)] = False
    weight = np.where(possible, graph.weights * np.exp(log - log[possible].max()), 0.0)
    return Belief(
        probability=weight / weight.sum(),
        bad_rate=(JEFFREYS + bad_failed) / (2 * JEFFREYS + bad_failed + bad_passed),
        good_rate=(JEFFREYS + good_failed) / (2 * JEFFREYS + good_failed + good_passed),
    )


def _on_the_bad_side(graph: Graph, commits: list[int], counts: Floats) -> Floats:
    """For each row of `counts` (one column a commit) and each first bad commit: the sum over commits it makes bad."""
    if graph.linear:
        each = np.zeros((len(counts), len(graph)))
        each[:, commits] = counts
        later: Floats = np.cumsum(each[:, ::-1], axis=1)[:, ::-1]
        return later
    total: Floats = counts @ graph.ancestors(commits)
    return total


def least_expected_entropy(graph: Graph, belief: Belief, skipped: frozenset[int]) -> int:
    """Return the commit whose next pass or fail leaves the least entropy on average; the middle one of equals."""
    open_commits = graph.candidates.copy()
    open_commits[graph.good] = True
    open_commits[sorted(skipped)] = False
    commits = np.flatnonzero(open_commits)
    if not graph.linear and commits.size > PROBES:
        side = graph.mass_below(commits, belief.probability)
        commits = np.sort(commits[np.argsort(np.round(np.abs(side - 0.5), 9), kind="stable")[:PROBES]])
    expected = sum(
        _entropy_left(graph, commits, belief.probability * bad, belief.probability * good)
        for bad, good in ((belief.bad_rate, belief.good_rate), (1 - belief.bad_rate, 1 - belief.good_rate))
    )
    equals = np.flatnonzero(np.isclose(expected, np.min(expected), rtol=1e-12, atol=1e-15))
    return int(commits[equals[int(np.argmin(np.abs(equals - commits.size // 2)))]])


def _entropy_left(graph: Graph, commits: Ints, if_bad: Floats, if_good: Floats) -> Floats:
    """The probability of one outcome at each commit times the entropy that it leaves.

    `if_bad`, `if_good`: the joint probability of the outcome and each first bad commit, on its two sides. With
    unnormalised weights w the entropy times their sum S is S log S - sum(w log w).
    """
    chance = _sum_by_side(graph, commits, if_bad, if_good)
    surprise = _sum_by_side(graph, commits, _w_log_w(if_bad), _w_log_w(if_good))
    left: Floats = _w_log_w(chance) - surprise
    return left


def _sum_by_side(graph: Graph, commits: Ints, if_bad: Floats, if_good: Floats) -> Floats:
    """For each commit the sum of `if_bad` over first bad commits that make it bad and of `if_good` over the others."""
    if graph.linear:
        below, above = np.cumsum(if_bad), if_good.sum() - np.cumsum(if_good)
        total: Floats = (below + above)[commits]
        return total
    rows = graph.ancestors(commits)
    other: Floats = np.where(rows, if_bad, if_good).sum(axis=1)
    return other


def _w_log_w(weight: Floats) -> Floats:
    value: Floats = np.where(weight > 0, weight * np.log2(np.maximum(weight, 1e-300)), 0.0)
    return value

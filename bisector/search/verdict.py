"""What people read of each commit, recomputed from the raw values at any time: no new boot for a new question."""

import numpy as np
from numpy.typing import NDArray

from bisector.model.outcome import Verdict
from bisector.search.belief import Belief, level_of
from bisector.search.graph import Graph
from bisector.search.noise import Readings
from bisector.search.types import CommitVerdict, Evidence

Floats = NDArray[np.float64]

# A commit is called bad or good when its probability says so this clearly; else undecided.
SURE = 0.95


def verdicts(graph: Graph, evidence: Evidence, readings: Readings, belief: Belief) -> tuple[CommitVerdict, ...]:
    """Return a verdict for each commit that was booted, skipped or marked, in topological order.

    Effects are against the good end; the interval (95 %) holds the deviation between boots, within boots and of
    layout, and that of the good end's own level.
    """
    marked = evidence.marked_good | evidence.marked_bad
    named = sorted({boot.commit for boot in evidence.boots} | evidence.skipped | marked)
    if not named:
        return ()
    bad = belief.bad_probability(graph, named)
    return tuple(
        _one(graph, evidence, readings, belief, commit, float(probability))
        for commit, probability in zip(named, bad, strict=True)
    )


def _one(
    graph: Graph, evidence: Evidence, readings: Readings, belief: Belief, commit: int, probability: float
) -> CommitVerdict:
    of = readings.commit == commit
    effect = interval = None
    against_good = level_against_good(graph, readings, belief, commit)
    if against_good is not None:
        difference, error = against_good
        effect = readings.percent(difference)
        bounds = (readings.percent(difference - 1.96 * error), readings.percent(difference + 1.96 * error))
        interval = (min(bounds), max(bounds))
    return CommitVerdict(
        commit=commit,
        verdict=_verdict(evidence, belief, commit, probability),
        bad_probability=probability,
        effect_percent=effect,
        interval_percent=interval,
        boots=int(of.sum()),
        runs=int(readings.runs[of].sum()),
    )


def _verdict(evidence: Evidence, belief: Belief, commit: int, probability: float) -> Verdict:
    if commit in evidence.skipped:
        return Verdict.SKIPPED
    if commit in evidence.marked_good:
        return Verdict.GOOD
    if commit in evidence.marked_bad:
        return Verdict.BAD
    if not belief.levels:
        return Verdict.UNDECIDED
    if probability >= SURE:
        return Verdict.BAD
    return Verdict.GOOD if probability <= 1 - SURE else Verdict.UNDECIDED


def level_against_good(graph: Graph, readings: Readings, belief: Belief, commit: int) -> tuple[float, float] | None:
    """Return a commit's level less the good end's and the standard error of that, or None without boots of both."""
    differences, precisions = [], []
    for machine in np.unique(readings.machine):
        here = (readings.machine == machine) & (readings.commit == commit)
        good = (readings.machine == machine) & (readings.commit == graph.good)
        if not here.any() or not good.any():
            continue
        level, error = level_of(readings, belief, here)
        against, its_error = level_of(readings, belief, good)
        differences.append(level - against)
        total = error + its_error + (0.0 if commit == graph.good else 2 * belief.layout_variance)
        precisions.append(1 / total)
    if not differences:
        return None
    weight = np.array(precisions)
    return float(weight @ np.array(differences) / weight.sum()), float(1 / np.sqrt(weight.sum()))

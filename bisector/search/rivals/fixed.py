"""The careful script: as many boots and runs of every commit, and a t-test at each step."""

import numpy as np
from numpy.typing import NDArray

from bisector.search.graph import Graph
from bisector.search.rivals.halves import boot_means, halve, measure_ends, not_reproduced, same_mean
from bisector.search.types import Costs, Evidence, Finding, Look, Options

Floats = NDArray[np.float64]

BOOTS, RUNS = 5, 5
# The level of the test of the two ends, as everybody takes it.
ALPHA = 0.05


def fixed(graph: Graph, evidence: Evidence, costs: Costs, options: Options) -> Look | Finding:
    """Return the next step of a bisection with 5 boots of 5 runs a commit, both ends included.

    A commit belongs to the end from which Welch's t-test (Welch 1947, on the boots' means: the runs of one boot are
    no independent sample) tells it apart less. Ends that do not differ at 5 % are "not reproduced".
    """
    del costs
    means = boot_means(evidence, options)
    step = measure_ends(graph, evidence, means, boots=BOOTS, runs=RUNS)
    if step is not None:
        return step
    good, bad = means.pop(graph.good), means.pop(graph.bad)
    if bad.mean() <= good.mean() or same_mean(good, bad) >= ALPHA:
        return not_reproduced("a t-test does not tell the ends apart")
    sides: dict[int, bool | None] = {
        commit: _nearer_to_bad(of, good, bad) if of.size >= BOOTS else None for commit, of in means.items()
    }
    return halve(graph, evidence, sides, runs=RUNS, probability=1.0)


def _nearer_to_bad(of: Floats, good: Floats, bad: Floats) -> bool:
    p_good, p_bad = same_mean(of, good), same_mean(of, bad)
    if p_good == p_bad:
        return bool(of.mean() > (good.mean() + bad.mean()) / 2)
    return p_bad > p_good

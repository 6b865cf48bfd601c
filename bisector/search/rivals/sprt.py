"""A sequential test at each commit: boots until the side is settled, and then never again."""

import numpy as np

from bisector.search.graph import Graph
from bisector.search.rivals.halves import boot_means, halve, measure_ends, not_reproduced, same_mean, spent
from bisector.search.types import Costs, Evidence, Finding, Look, Options

END_BOOTS, RUNS = 8, 8
# The level of the test of the two ends, without which there is nothing to bisect.
ALPHA = 0.05


def sprt(graph: Graph, evidence: Evidence, costs: Costs, options: Options) -> Look | Finding:
    """Return the next step of a bisection that asks each commit by a sequential probability ratio test (Wald 1945).

    8 boots of 8 runs of each end give both levels and the deviation of a boot, which are then taken for true. The
    errors allowed add up over the steps: (1 - confidence) / log2(commits) each, Wald's bounds +-ln((1 - a) / a).
    """
    del costs
    means = boot_means(evidence, options)
    step = measure_ends(graph, evidence, means, boots=END_BOOTS, runs=RUNS)
    if step is not None:
        return step
    good, bad = means.pop(graph.good), means.pop(graph.bad)
    shift = float(bad.mean() - good.mean())
    variance = max(float(good.var(ddof=1) + bad.var(ddof=1)) / 2, 1e-12)
    if shift <= 0 or same_mean(good, bad) >= ALPHA:
        return not_reproduced("a t-test does not tell the ends apart")
    error = (1 - options.confidence) / max(1.0, np.ceil(np.log2(int(graph.candidates.sum()))))
    bound = float(np.log((1 - error) / error))
    middle = float(good.mean() + bad.mean()) / 2
    sides: dict[int, bool | None] = {}
    for commit, of in means.items():
        log_odds = shift / variance * float((of - middle).sum())
        sides[commit] = log_odds > 0 if abs(log_odds) >= bound else None
    return spent(evidence, options) or halve(graph, evidence, sides, runs=RUNS, probability=options.confidence)

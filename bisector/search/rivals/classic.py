"""The git bisect of everyday: one run a commit, and what it says is believed."""

from bisector.search.graph import Graph
from bisector.search.rivals.halves import boot_means, halve, measure_ends
from bisector.search.types import Costs, Evidence, Finding, Look, Options

END_RUNS = 3


def classic(graph: Graph, evidence: Evidence, costs: Costs, options: Options) -> Look | Finding:
    """Return the next step of git bisect: halve what is left, judge by one run against the middle of the ends.

    The ends get one boot of three runs each, to know where the middle is. Nothing asks whether they differ.
    """
    del costs
    means = boot_means(evidence, options)
    step = measure_ends(graph, evidence, means, boots=1, runs=END_RUNS)
    if step is not None:
        return step
    good, bad = means.pop(graph.good), means.pop(graph.bad)
    middle = float(good[0] + bad[0]) / 2
    sides = {commit: bool(of[0] > middle) for commit, of in means.items()}
    return halve(graph, evidence, sides, runs=1, probability=1.0)

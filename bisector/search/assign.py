"""A step for each machine that is free: several machines in one hunt, none of them at what another one tells."""

from collections.abc import Iterable
from dataclasses import replace

from bisector.search.engine import Situation, decide, situation
from bisector.search.graph import Graph
from bisector.search.types import Costs, Evidence, Finding, Look, Options, Pending, Wait


def assign(
    graph: Graph, evidence: Evidence, costs: Costs, options: Options, free: Iterable[int]
) -> dict[int, Look | Wait] | Finding:
    """Return a step for each free machine, or how the hunt ends. A deterministic function of its arguments.

    Machines are served in the order given, each with the looks of those before it pending. A machine that is told to
    wait should be asked again when a look ends; one machine without pending looks never waits. A finding holds
    whatever is pending: its probability is what the evidence says, and a look that goes on could change any answer,
    just as one that was never begun. So the others need not be waited for. Raises ValueError for evidence that does
    not fit the graph.
    """
    return serve(situation(graph, evidence, options), costs, free)


def serve(now: Situation, costs: Costs, free: Iterable[int]) -> dict[int, Look | Wait] | Finding:
    """Return `assign`'s steps in a situation that was worked out before."""
    steps: dict[int, Look | Wait] = {}
    for machine in free:
        step = decide(replace(now, machine=machine), costs)
        if isinstance(step, Finding):
            return step
        steps[machine] = step
        if isinstance(step, Look):
            look = Pending(commit=step.commit, runs=step.runs, machine=machine, purpose=step.purpose)
            coming = dict(now.evidence.coming)
            if step.commit not in now.evidence.built:
                coming.setdefault(step.commit, now.evidence.now_s + costs.build_s)
            pending = (*now.evidence.pending, look)
            now = replace(now, evidence=replace(now.evidence, pending=pending, coming=coming))
    return steps

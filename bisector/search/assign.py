"""A step for each machine that is free: several machines in one hunt, none of them at what another one tells."""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from bisector.model.outcome import Purpose
from bisector.search.engine import decide
from bisector.search.graph import Graph
from bisector.search.situation import Situation, situation
from bisector.search.types import Costs, Evidence, Finding, Look, Options, Pending, Wait


def assign(
    graph: Graph, evidence: Evidence, costs: Costs, options: Options, free: Iterable[int]
) -> dict[int, Look | Wait] | Finding:
    """Return a step for each free machine, or how the hunt ends. A deterministic function of its arguments.

    Machines are served in the order given, each with the looks of those before it pending; then those that search
    choose once more, each beside the others' looks: the middle that the first one took as if it were alone gives way
    (two at the thirds learn 5 % more than two at the half and a quarter). A machine that is told to wait should be
    asked again when a look ends; one machine without pending looks never waits. A finding holds whatever is pending:
    its probability is what the evidence says, and a look that goes on could change any answer, just as one that was
    never begun. So the others need not be waited for. Raises ValueError for evidence that does not fit the graph.
    """
    return serve(situation(graph, evidence, options), costs, free)


def serve(now: Situation, costs: Costs, free: Iterable[int]) -> dict[int, Look | Wait] | Finding:
    """Return `assign`'s steps in a situation that was worked out before."""
    steps: dict[int, Look | Wait] = {}
    for machine in free:
        step = decide(_beside(now, machine, steps, costs), costs)
        if isinstance(step, Finding):
            return step
        steps[machine] = step
    searching = [machine for machine, step in steps.items() if _searches(step)]
    for machine in searching if len(searching) > 1 else ():
        others = {other: step for other, step in steps.items() if other != machine}
        again = decide(_beside(now, machine, others, costs), costs)
        steps[machine] = again if isinstance(again, Look) and _searches(again) else steps[machine]
    return steps


def _searches(step: Look | Wait | Finding) -> bool:
    return isinstance(step, Look) and step.purpose is Purpose.SEARCH


def _beside(now: Situation, machine: int, steps: Mapping[int, Look | Wait], costs: Costs) -> Situation:
    """The situation for a machine, with these other machines' steps begun."""
    pending, coming = list(now.evidence.pending), dict(now.evidence.coming)
    for other, step in steps.items():
        if isinstance(step, Look):
            pending.append(Pending(commit=step.commit, runs=step.runs, machine=other, purpose=step.purpose))
            if step.commit not in now.evidence.built:
                coming.setdefault(step.commit, now.evidence.now_s + costs.build_s)
    return replace(now, machine=machine, evidence=replace(now.evidence, pending=tuple(pending), coming=coming))

"""Everything that is worked out from the evidence before a step is chosen."""

from collections.abc import Iterable
from dataclasses import dataclass

from bisector.model.outcome import Purpose
from bisector.search import gate as gates
from bisector.search.belief import Belief, believe
from bisector.search.gate import Gate, GateVerdict
from bisector.search.graph import Graph
from bisector.search.noise import Readings, read
from bisector.search.types import Evidence, Options


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Situation:
    """Everything that is worked out from the evidence before a step is chosen; `machine` is the one that asks."""

    graph: Graph
    evidence: Evidence
    options: Options
    readings: Readings
    gate: Gate
    belief: Belief
    searching: bool
    machine: int = 0


def situation(graph: Graph, evidence: Evidence, options: Options) -> Situation:
    """Return what the evidence says. Raises ValueError for boots without values or commits outside the graph."""
    _check(graph, evidence)
    readings = read(evidence.boots, options, graph.good)
    # Once a boot was made for something else the gate has been passed; a later wobble does not close it again.
    searching = any(boot.purpose is not Purpose.GATE for boot in evidence.boots)
    gate = gates.judge(readings, (graph.good, graph.bad), options, spent=spent(evidence, options))
    return Situation(
        graph=graph,
        evidence=evidence,
        options=options,
        readings=readings,
        gate=gate,
        belief=believe(graph, evidence, readings),
        searching=searching or gate.verdict is GateVerdict.DIFFERENT,
    )


def spent(evidence: Evidence, options: Options) -> bool:
    """Return whether the hunt's budget of time or boots is used up."""
    over_time = options.budget_s is not None and evidence.now_s >= options.budget_s
    return over_time or len(evidence.boots) >= options.max_boots


def _check(graph: Graph, evidence: Evidence) -> None:
    named: Iterable[int] = (
        *(boot.commit for boot in evidence.boots),
        *evidence.built,
        *evidence.skipped,
        *evidence.signatures,
        *evidence.marked_good,
        *evidence.marked_bad,
    )
    outside = [commit for commit in named if not 0 <= commit < len(graph)]
    if outside:
        raise ValueError(f"the evidence names commit {outside[0]}, the graph has {len(graph)}")

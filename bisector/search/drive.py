"""A whole hunt against anything that can measure a commit: the interface for other programs."""

from collections.abc import Callable, Sequence

from bisector.search.engine import propose
from bisector.search.fleet import Boots, DriveResult, drive_fleet
from bisector.search.graph import Graph
from bisector.search.types import Costs, Evidence, Finding, Look, Options

Measure = Callable[[int, int, int], Boots | None]
Step = Callable[[Graph, Evidence, Costs, Options], Look | Finding]


def drive(
    graph: Graph,
    measure: Measure,
    costs: Costs,
    options: Options | None = None,
    *,
    step: Step = propose,
) -> DriveResult:
    """Hunt for the first bad commit of `graph` on one machine and return the answer.

    `measure(commit, boots, runs)` returns that many boots, each a list of positive values, or None for "cannot be
    tested". The clock that the drift needs advances by `costs`. Raises ValueError when `measure` returns no boot, or
    a value that is not finite and positive. `step` decides; the search's own by default. For several machines see
    `drive_fleet`.
    """

    def measure_here(commit: int, boots: int, runs: int, *, machine: int, at_s: float) -> Boots | None:
        del machine, at_s
        return measure(commit, boots, runs)

    def step_here(
        graph: Graph, evidence: Evidence, costs: Costs, options: Options, free: Sequence[int]
    ) -> dict[int, Look] | Finding:
        taken = step(graph, evidence, costs, options)
        return taken if isinstance(taken, Finding) else {free[0]: taken}

    return drive_fleet(graph, measure_here, costs, options, machines=1, step=step_here)

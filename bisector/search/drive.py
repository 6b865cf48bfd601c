"""A whole hunt against anything that can measure a commit: the interface for other programs."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from bisector.model.outcome import AnswerKind, Purpose
from bisector.search.engine import propose
from bisector.search.graph import Graph
from bisector.search.types import Boot, Costs, Evidence, Finding, Look, Options

Measure = Callable[[int, int, int], Sequence[Sequence[float]] | None]
Step = Callable[[Graph, Evidence, Costs, Options], Look | Finding]


@dataclass(frozen=True, slots=True, kw_only=True)
class LookTaken:
    """One look as it was made; `values` is None when the commit could not be tested."""

    commit: int
    runs: int
    purpose: Purpose
    reason: str
    at_s: float
    values: tuple[tuple[float, ...], ...] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DriveResult:
    """How a hunt ended: `commits` are indexes, most probable first; `looks` are in order, with their reasons."""

    kind: AnswerKind
    commits: tuple[int, ...]
    probability: float
    reason: str
    share: float | None
    looks: tuple[LookTaken, ...]
    builds: int
    boots: int
    runs: int
    machine_s: float
    evidence: Evidence


def drive(
    graph: Graph,
    measure: Measure,
    costs: Costs,
    options: Options | None = None,
    *,
    step: Step = propose,
) -> DriveResult:
    """Hunt for the first bad commit of `graph` and return the answer.

    `measure(commit, boots, runs)` returns that many boots, each a list of positive values, or None for "cannot be
    tested". The clock that the drift needs advances by `costs`. Raises ValueError when `measure` returns no boot, or
    a value that is not finite and positive. `step` decides; the search's own by default.
    """
    options = options or Options()
    evidence, builds = Evidence(), 0
    looks: list[LookTaken] = []
    while True:
        decision = step(graph, evidence, costs, options)
        if isinstance(decision, Finding):
            return _result(decision, evidence, looks, builds)
        commit, runs, purpose, reason = decision.commit, decision.runs, decision.purpose, decision.reason
        now_s = evidence.now_s
        if commit not in evidence.built:
            builds, now_s = builds + 1, now_s + costs.build_s
        measured = measure(commit, 1, runs)
        if measured is None:
            values = None
            evidence = replace(evidence, skipped=evidence.skipped | {commit}, now_s=now_s)
        else:
            if not len(measured):
                raise ValueError(f"measure returned no boot for commit {commit}; None says that it cannot be tested")
            values = tuple(tuple(float(value) for value in boot) for boot in measured)
            boots = []
            for boot in values:
                now_s += costs.boot_s + len(boot) * costs.run_s
                boots.append(Boot(commit=commit, values=boot, at_s=now_s, purpose=purpose))
            evidence = replace(evidence, boots=(*evidence.boots, *boots), built=evidence.built | {commit}, now_s=now_s)
        looks.append(LookTaken(commit=commit, runs=runs, purpose=purpose, reason=reason, at_s=now_s, values=values))


def _result(finding: Finding, evidence: Evidence, looks: list[LookTaken], builds: int) -> DriveResult:
    return DriveResult(
        kind=finding.kind,
        commits=finding.commits,
        probability=finding.probability,
        reason=finding.reason,
        share=finding.share,
        looks=tuple(looks),
        builds=builds,
        boots=len(evidence.boots),
        runs=sum(len(boot.values) for boot in evidence.boots),
        machine_s=evidence.now_s,
        evidence=evidence,
    )

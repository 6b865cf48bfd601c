"""What to do next: `decide(state, ...)` turns a state into orders, each with a reason. Pure.

The order of the rules is the rule: finish what is begun, never start what cannot be used, never let lab trouble
become a verdict.
"""

from dataclasses import dataclass

import numpy as np

from bisector.model.outcome import Purpose
from bisector.recipe.schema import Recipe
from bisector.search import assess, propose, rank_builds
from bisector.search.graph import Graph
from bisector.search.types import Costs, Evidence, Finding, Look, Options
from bisector.session.evidence import (
    FAILED_LOOKS_TO_SKIP,
    control_exists,
    costs_of,
    evidence_of,
    failed_looks,
    skips,
)
from bisector.session.state import BUILDER, SessionState, Status

TROUBLES_TO_PAUSE = 3
"""Troubles in a row of one worker before the session pauses: a hiccup is retried, a dead machine is not hammered."""

KERNELS_IN_STOCK = 4
"""Kernels built ahead that may still be looked at, at most: building costs disk and the builder's time."""

SETTLED = 0.01
"""A kernel this likely good, or bad, is no longer worth a look: it does not count as stock."""

BUILDS_RANKED = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildOrder:
    """Make the kernel of this commit."""

    commit: int
    ahead: bool
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BootOrder:
    """Begin a look: boot this commit."""

    machine: str
    commit: int
    runs: int
    purpose: Purpose
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CalibrateOrder:
    """Find the operations per sample on the kernel that runs."""

    machine: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOrder:
    """Measure once more on the kernel that runs."""

    machine: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EndLook:
    """All runs of the look are in."""

    machine: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Finish:
    """The search is over."""

    finding: Finding


@dataclass(frozen=True, slots=True, kw_only=True)
class Pause:
    """People are needed."""

    reason: str
    resolution: str


Order = BuildOrder | BootOrder | CalibrateOrder | RunOrder | EndLook | Finish | Pause


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What does not change during a session: the graph, the options, and whether builds may run beside runs."""

    graph: Graph
    options: Options
    test: str
    beside: bool


def plan_of(state: SessionState, recipe: Recipe, options: Options) -> Plan:
    """The session's fixed part, made once by the controller."""
    beside = all(
        machine.build_beside_runs if machine.build_beside_runs is not None else machine.clock == "instructions"
        for machine in recipe.machines
    )
    graph = Graph.from_parents(state.range.parents, good=0, bad=len(state.range) - 1)
    return Plan(graph=graph, options=options, test=recipe.benchmark.test, beside=beside)


def decide(state: SessionState, plan: Plan, idle: frozenset[str]) -> list[Order]:
    """Orders for the idle workers ("builder" and machines' names); empty means wait for those that work.

    Deterministic: the same state and the same idle workers give the same orders.
    """
    if state.status is not Status.RUNNING:
        return []
    trouble = _trouble(state)
    if trouble is not None:
        return [trouble]
    going_on = [order for machine in state.machines if machine in idle for order in _go_on(state, machine)]
    if going_on:
        return going_on if plan.beside or BUILDER in idle else []
    free = [machine for machine in state.machines if machine in idle and state.live_look(machine) is None]
    return _next(state, plan, idle, free)


def _trouble(state: SessionState) -> Pause | None:
    for worker, times in state.troubles.items():
        if times >= TROUBLES_TO_PAUSE:
            return Pause(
                reason=f"{worker} failed {times} times in a row",
                resolution=f"See `bisector log {state.name}`, mend it, then: bisector resume {state.name}",
            )
    for look in state.looks[-1:]:
        failed = failed_looks(state, look.commit)
        if len(failed) >= FAILED_LOOKS_TO_SKIP and not control_exists(state, failed[-1]):
            commit = state.range.commits[look.commit]
            return Pause(
                reason=f"{commit.short} did not come up on {look.machine} {len(failed)} times ({look.reason}), "
                "and no other kernel has booted there yet: the machine or the configuration may be at fault",
                resolution=f"Check the console log and the kernel configuration, then: bisector resume {state.name}",
            )
    return None


def _go_on(state: SessionState, machine: str) -> list[Order]:
    look = state.live_look(machine)
    if look is None or look.record is None:
        return []
    if machine not in state.batches:
        return [CalibrateOrder(machine=machine)]
    if len(look.runs) < look.planned_runs:
        return [RunOrder(machine=machine)]
    return [EndLook(machine=machine)]


def _next(state: SessionState, plan: Plan, idle: frozenset[str], free: list[str]) -> list[Order]:
    evidence, costs = evidence_of(state, plan.test), costs_of(state)
    orders: list[Order] = []
    wanted: Look | None = None
    if free:
        step = propose(plan.graph, evidence, costs, plan.options)
        if isinstance(step, Finding):
            all_free = len(free) == len(state.machines)
            return [Finish(finding=step)] if all_free else []
        if step.commit in evidence.built:
            if plan.beside or BUILDER in idle:
                orders.append(_boot_order(step, free[0]))
        else:
            wanted = step
    if BUILDER in idle and (plan.beside or not orders):
        build = _build_order(state, plan, wanted, evidence, costs)
        if build is not None and (plan.beside or wanted is not None):
            orders.append(build)
    return orders


def _boot_order(step: Look, machine: str) -> BootOrder:
    return BootOrder(machine=machine, commit=step.commit, runs=step.runs, purpose=step.purpose, reason=step.reason)


def _build_order(
    state: SessionState, plan: Plan, wanted: Look | None, evidence: Evidence, costs: Costs
) -> BuildOrder | None:
    if wanted is not None:
        return BuildOrder(commit=wanted.commit, ahead=False, reason=wanted.reason)
    if _stock(state, plan, evidence) >= KERNELS_IN_STOCK:
        return None
    unusable = skips(state).keys() | state.builds.keys()
    # Two runs of three often show already which of its outcomes a look will have.
    so_far = evidence_of(state, plan.test, under_way=True)
    for commit in rank_builds(plan.graph, so_far, costs, plan.options, BUILDS_RANKED):
        if commit not in unusable:
            return BuildOrder(commit=commit, ahead=True, reason="most likely needed next, while the machine measures")
    return None


def _stock(state: SessionState, plan: Plan, evidence: Evidence) -> int:
    """How many kernels stand ready that nobody has looked at and that the search may still want."""
    looked_at = {look.commit for look in state.looks}
    ready = [commit for commit in evidence.built if commit not in looked_at]
    if len(ready) < KERNELS_IN_STOCK:
        return len(ready)
    probability = np.asarray(assess(plan.graph, evidence, plan.options).probability)
    bad = plan.graph.mass_below(ready, probability)
    return int(np.count_nonzero((bad > SETTLED) & (bad < 1 - SETTLED)))

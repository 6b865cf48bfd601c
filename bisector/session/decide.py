"""What to do next: `decide(state, ...)` turns a state into orders, each with a reason. Pure.

The order of the rules is the rule: finish what is begun, never start what cannot be used, never let lab trouble
become a verdict.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from bisector.model.outcome import Purpose
from bisector.recipe.schema import Recipe
from bisector.search import assess, assign, rank_builds
from bisector.search.graph import Graph
from bisector.search.types import Costs, Evidence, Finding, Look, Options, Wait
from bisector.session.blame import Control, controls_due
from bisector.session.budgets import Budget, spent_budget
from bisector.session.evidence import costs_of, evidence_of, skips
from bisector.session.machines import given_up, lost, set_aside
from bisector.session.state import ALL_RUNS_IN, BUILDER, SessionState, Status

KERNELS_IN_STOCK = 4
"""Kernels built ahead for each machine that may still be looked at, at most: building costs disk and time."""

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
class FetchOrder:
    """Look for the kernel of this commit in the cache: a machine waits for it, and the builder makes another one."""

    commit: int


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
    """The look is over: all its runs are in, or nobody needs the rest of them. Its machine may still be at a step."""

    machine: str
    reason: str = ALL_RUNS_IN


@dataclass(frozen=True, slots=True, kw_only=True)
class Finish:
    """The search is over."""

    finding: Finding


@dataclass(frozen=True, slots=True, kw_only=True)
class Pause:
    """People are needed."""

    reason: str
    resolution: str


Order = BuildOrder | FetchOrder | BootOrder | CalibrateOrder | RunOrder | EndLook | Finish | Pause


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


def decide(
    state: SessionState, plan: Plan, idle: frozenset[str], uncached: frozenset[int] = frozenset()
) -> list[Order]:
    """Orders for the idle workers ("builder" and machines' names); empty means wait for those that work.

    `uncached` are commits that were looked for in the cache in vain; nobody is told to look for them again.
    Deterministic: the same state and the same idle workers give the same orders.
    """
    if state.status is not Status.RUNNING:
        return []
    aside = set_aside(state)
    pause = _pause(state, aside)
    live = [machine for machine in state.machines if state.live_look(machine) is not None]
    if pause is not None:
        return _wind_down(state, live, idle, "the session pauses", pause)
    free = [machine for machine in state.machines if machine in idle and machine not in {*aside, *live}]
    evidence, costs = evidence_of(state, plan.test), _costs_now(state)
    due = controls_due(state, set(state.machines) - aside.keys())
    steps: Mapping[int, Look | Wait] | Finding = {}
    searching = [machine for machine in free if machine not in due or not due[machine].urgent]
    if searching:
        numbers = [state.machines.index(machine) for machine in searching]
        steps = assign(plan.graph, evidence, costs, plan.options, numbers)
    if isinstance(steps, Finding) and not due:
        return _wind_down(state, live, idle, "the answer is there without it", Finish(finding=steps))
    if isinstance(steps, Finding):
        # It may rest on a commit that was left out: not before a control has shown that the machine is not to blame.
        steps, searching = {}, [machine for machine in free if machine not in due]
    going_on = [order for machine in live if machine in idle for order in _go_on(state, machine)]
    if going_on:
        return going_on if plan.beside or BUILDER in idle else []
    looks = {state.machines[number]: step for number, step in steps.items() if isinstance(step, Look)}
    looks |= {machine: _control(state, due[machine]) for machine in free if machine not in searching and machine in due}
    orders = _next(state, plan, idle, looks, evidence, costs)
    if BUILDER not in idle:
        # It may be busy for an hour with a kernel that nobody waits for yet.
        asked = {look.commit for look in looks.values()} - state.builds.keys() - uncached
        orders += [FetchOrder(commit=commit) for commit in sorted(asked)]
    return _within(state, orders, going=bool(live))


def _control(state: SessionState, control: Control) -> Look:
    """The same look once more. Until the gate is passed no look may have another purpose than the gate's."""
    gate = all(look.purpose is Purpose.GATE for look in state.looks)
    return Look(
        commit=control.like.commit,
        runs=control.like.planned_runs,
        purpose=Purpose.GATE if gate else Purpose.REFERENCE,
        reason="a control: it was measured here before others failed; if it fails too, the machine is at fault",
    )


def _wind_down(
    state: SessionState, live: Sequence[str], idle: frozenset[str], why: str, then: Finish | Pause
) -> list[Order]:
    """End the looks that go on, each after the step its machine is at, before the session ends or pauses.

    What they have measured counts; so an answer is decided on all that the journal holds, and not on less. A machine
    in trouble that has not come up yet has measured nothing, and may never come up: its step is not waited for.
    """
    if not live:
        return [then]
    return [EndLook(machine=machine, reason=why) for machine in live if machine in idle or lost(state, machine)]


def _pause(state: SessionState, aside: Mapping[str, str]) -> Pause | None:
    if failed := given_up(state, BUILDER):
        return Pause(reason=failed, resolution=_mend(state, [BUILDER]))
    if len(aside) == len(state.machines):
        return Pause(reason="; ".join(aside.values()), resolution=_mend(state, state.machines))
    return None


def _within(state: SessionState, orders: list[Order], *, going: bool) -> list[Order]:
    """The orders that the budgets of failures allow, or a pause. Looks that go on end first: they may be the answer.

    A spent budget of builds stops only the builder: kernels that are there are measured as long as they are wanted.
    """
    over = spent_budget(state)
    if over is None:
        return orders
    without_builds = [order for order in orders if isinstance(order, BootOrder | FetchOrder)]
    allowed = without_builds if over.kind == "failed_builds" else []
    return [*allowed] if allowed or going else [_budget_pause(state, over)]


def _budget_pause(state: SessionState, over: Budget) -> Pause:
    """People are needed: one kind of failure has used up what the recipe allows."""
    return Pause(
        reason=f"{over.used} {over.words} ({over.limit}), the last: {over.last}",
        resolution=f"See `bisector log {state.name}`. Mend what they have in common, or go on around them, "
        f"counted anew: bisector resume {state.name}",
    )


def _mend(state: SessionState, workers: Sequence[str]) -> str:
    """What the workers said themselves, as far as their troubles are why they were given up."""
    said = [state.last_trouble[worker].resolution for worker in workers if given_up(state, worker)]
    looking = f"See `bisector log {state.name}` and the console logs, mend it, then: bisector resume {state.name}"
    return " ".join([*dict.fromkeys(words for words in said if words), looking])


def _costs_now(state: SessionState) -> Costs:
    """The lab's costs; a kernel that nobody has begun waits for the one that is being made."""
    costs = costs_of(state)
    begun = [build.started_at for build in state.builds.values() if build.outcome is None]
    if not begun:
        return costs
    return replace(costs, build_s=costs.build_s + max(0.0, max(begun) + costs.build_s - state.last_at))


def _go_on(state: SessionState, machine: str) -> list[Order]:
    look = state.live_look(machine)
    if look is None or look.record is None:
        return []
    if machine not in state.batches:
        return [CalibrateOrder(machine=machine)]
    if len(look.runs) < look.planned_runs:
        return [RunOrder(machine=machine)]
    return [EndLook(machine=machine)]


def _next(
    state: SessionState, plan: Plan, idle: frozenset[str], looks: Mapping[str, Look], evidence: Evidence, costs: Costs
) -> list[Order]:
    """New looks on kernels that are there, and a kernel to build: the first one a machine waits for, or ahead.

    Where a build would disturb the runs, no look begins while a machine waits for a kernel, so that its turn comes.
    """
    wanted = [look for look in looks.values() if look.commit not in evidence.built]
    still = plan.beside or not evidence.pending
    orders: list[Order] = []
    if plan.beside or (BUILDER in idle and (still or not wanted)):
        orders += [_boot_order(look, machine) for machine, look in looks.items() if look.commit in evidence.built]
    if BUILDER in idle and still and (plan.beside or not orders):
        build = _build_order(state, plan, wanted, evidence, costs)
        if build is not None and (plan.beside or wanted):
            orders.append(build)
    return orders


def _boot_order(step: Look, machine: str) -> BootOrder:
    return BootOrder(machine=machine, commit=step.commit, runs=step.runs, purpose=step.purpose, reason=step.reason)


def _build_order(
    state: SessionState, plan: Plan, wanted: Sequence[Look], evidence: Evidence, costs: Costs
) -> BuildOrder | None:
    for look in wanted:
        if look.commit not in state.builds:
            return BuildOrder(commit=look.commit, ahead=False, reason=look.reason)
    if _stock(state, plan, evidence) >= KERNELS_IN_STOCK * len(state.machines):
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

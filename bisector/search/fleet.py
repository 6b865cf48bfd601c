"""A whole hunt on several machines, told event by event in virtual time. Pure; `drive` is the fleet of one machine."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush
from typing import Protocol

from bisector.model.outcome import AnswerKind, Purpose
from bisector.search.ahead import rank_builds
from bisector.search.assign import assign
from bisector.search.graph import Graph
from bisector.search.types import Boot, Costs, Evidence, Finding, Look, Options, Pending, Wait

Boots = Sequence[Sequence[float]]
Assign = Callable[[Graph, Evidence, Costs, Options, Sequence[int]], Mapping[int, Look | Wait] | Finding]


class MeasureOn(Protocol):
    """What measures a commit on one of several machines."""

    def __call__(self, commit: int, boots: int, runs: int, *, machine: int, at_s: float) -> Boots | None:
        """Return that many boots begun at `at_s`, each a list of positive values; None if it cannot be tested."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class LookTaken:
    """One look as it was made, ended at `at_s`; `values` is None when the commit could not be tested."""

    commit: int
    runs: int
    purpose: Purpose
    reason: str
    at_s: float
    values: tuple[tuple[float, ...], ...] | None
    machine: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class DriveResult:
    """How a hunt ended: `commits` are indexes, most probable first; `looks` are in the order they ended.

    `machine_s` is the time all machines were busy (their own builds included), `builder_s` that of the builders,
    `wall_s` from the first step to the last. With one machine and no builder `machine_s` and `wall_s` are the same.
    """

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
    builder_s: float
    wall_s: float
    evidence: Evidence


def drive_fleet(
    graph: Graph,
    measure: MeasureOn,
    costs: Costs,
    options: Options | None = None,
    *,
    machines: int,
    builders: int = 0,
    builds: Callable[[int], bool] | None = None,
    step: Assign = assign,
) -> DriveResult:
    """Hunt for the first bad commit of `graph` on several machines at once and return the answer.

    Without `builders` a machine builds what it looks at, and every kernel is there for all; with them machines only
    boot, and builders that are not asked for a kernel build ahead. `builds` says whether a commit compiles, as a
    builder would find out (default: all do; `measure` has the last word). When the finding stands, looks under way
    are given up: their time counts, their values do not. Raises ValueError when `measure` returns no boot, a value
    that is not finite and positive, or fewer than one machine is given.
    """
    if machines < 1 or builders < 0:
        raise ValueError(f"a hunt needs at least one machine, got machines={machines}, builders={builders}")
    hunt = _Hunt(graph=graph, measure=measure, costs=costs, options=options or Options(), builds=builds, step=step)
    hunt.free = list(range(machines))
    hunt.builders = builders
    hunt.idle_builders = builders
    return hunt.run()


@dataclass(slots=True, kw_only=True)
class _Job:
    """Something that ends: a build (no `look`) or a boot. `machine` is None for a builder's build."""

    commit: int
    machine: int | None
    begun_s: float
    look: Look | None = None
    values: tuple[tuple[float, ...], ...] = ()


@dataclass(slots=True, kw_only=True)
class _Order:
    """A look that was decided and waits for its kernel; `known` is how many outcomes the decision knew of."""

    look: Look
    known: int


@dataclass(slots=True, kw_only=True)
class _Hunt:
    graph: Graph
    measure: MeasureOn
    costs: Costs
    options: Options
    builds: Callable[[int], bool] | None
    step: Assign
    evidence: Evidence = field(default_factory=Evidence)
    free: list[int] = field(default_factory=list)
    builders: int = 0
    idle_builders: int = 0
    jobs: list[tuple[float, int, _Job]] = field(default_factory=list)
    begun: int = 0
    waiting: dict[int, _Order] = field(default_factory=dict)
    lent: set[int] = field(default_factory=set)
    looks: list[LookTaken] = field(default_factory=list)
    kernels: int = 0
    machine_s: float = 0.0
    builder_s: float = 0.0

    def run(self) -> DriveResult:
        while True:
            known = self._known()
            finding = self._hand_out()
            if finding is not None:
                return self._result(finding)
            if self._known() != known:
                # A commit turned out to be untestable at once: its machine is free again.
                continue
            self._build()
            if not self.jobs:
                raise ValueError("every machine waits and nothing is under way")
            self._next_event()

    def _hand_out(self) -> Finding | None:
        """Give every free machine a look; those that are told to wait stay free."""
        if not self.free:
            return None
        steps = self.step(self.graph, self.evidence, self._costs_now(), self.options, self.free)
        if isinstance(steps, Finding):
            return steps
        for machine, step in steps.items():
            if isinstance(step, Look):
                self._begin(machine, step)
        if not self.builders:
            self._build_meanwhile(steps)
        return None

    def _build_meanwhile(self, steps: Mapping[int, Look | Wait]) -> None:
        """Let machines that have nothing to boot now make a kernel that will be wanted, where that delays nobody.

        Those are the ones told to wait, and the ones whose kernel another machine has just begun to make.
        """
        spare = [
            machine
            for machine, step in steps.items()
            if isinstance(step, Wait) or self._waits_for_another(machine, step.commit)
        ]
        if not spare:
            return
        made = self.evidence.built | self.evidence.skipped | self.evidence.coming.keys()
        limit = len(spare) + len(self.evidence.coming)
        wanted = rank_builds(self.graph, self.evidence, self.costs, self.options, limit)
        for machine, commit in zip(spare, [one for one in wanted if one not in made], strict=False):
            if machine in self.free:
                self.free.remove(machine)
                self.lent.add(machine)
            self._begin_build(commit, machine)

    def _waits_for_another(self, machine: int, commit: int) -> bool:
        builds_itself = any(job.machine == machine for _, _, job in self.jobs)
        left_s = self.evidence.coming.get(commit, 0.0) - self.evidence.now_s
        return machine in self.waiting and not builds_itself and left_s >= self.costs.build_s

    def _costs_now(self) -> Costs:
        """The costs of a look decided now: a kernel nobody has begun waits for a builder first."""
        if not self.builders:
            return self.costs
        wait_s = 0.0
        if not self.idle_builders:
            wait_s = min(end_s for end_s, _, job in self.jobs if job.machine is None) - self.evidence.now_s
        return replace(self.costs, build_s=wait_s + self.costs.build_s)

    def _begin(self, machine: int, look: Look) -> None:
        self.free.remove(machine)
        pending = Pending(commit=look.commit, runs=look.runs, machine=machine, purpose=look.purpose)
        self.evidence = replace(self.evidence, pending=(*self.evidence.pending, pending))
        if look.commit in self.evidence.built:
            self._boot(machine, look)
            return
        self.waiting[machine] = _Order(look=look, known=self._known())
        if not self.builders and look.commit not in self.evidence.coming:
            self._begin_build(look.commit, machine)

    def _known(self) -> int:
        return len(self.evidence.boots) + len(self.evidence.skipped)

    def _build(self) -> None:
        """Give idle builders the kernels that machines wait for, then those most likely wanted next."""
        if not self.idle_builders:
            return
        for order in list(self.waiting.values()):
            if self.idle_builders and order.look.commit not in self.evidence.coming:
                self._begin_build(order.look.commit, None)
        if not self.idle_builders:
            return
        made = self.evidence.built | self.evidence.skipped | self.evidence.coming.keys()
        limit = self.idle_builders + len(self.evidence.coming)
        for commit in rank_builds(self.graph, self.evidence, self.costs, self.options, limit):
            if self.idle_builders and commit not in made:
                self._begin_build(commit, None)

    def _begin_build(self, commit: int, machine: int | None) -> None:
        self.kernels += 1
        self.idle_builders -= machine is None
        end_s = self.evidence.now_s + self.costs.build_s
        self.evidence = replace(self.evidence, coming={**self.evidence.coming, commit: end_s})
        self._push(end_s, _Job(commit=commit, machine=machine, begun_s=self.evidence.now_s))

    def _push(self, end_s: float, job: _Job) -> None:
        self.begun += 1
        heappush(self.jobs, (end_s, self.begun, job))

    def _boot(self, machine: int, look: Look) -> None:
        now_s = self.evidence.now_s
        measured = self.measure(look.commit, 1, look.runs, machine=machine, at_s=now_s)
        if measured is None:
            self._untestable(look.commit)
            self._took(machine, look, None)
            return
        if not len(measured):
            raise ValueError(f"measure returned no boot for commit {look.commit}; None says that it cannot be tested")
        values = tuple(tuple(float(value) for value in boot) for boot in measured)
        end_s = now_s
        for boot in values:
            end_s += self.costs.boot_s + len(boot) * self.costs.run_s
        self._push(end_s, _Job(commit=look.commit, machine=machine, begun_s=now_s, look=look, values=values))

    def _untestable(self, commit: int) -> None:
        booted = any(boot.commit == commit for boot in self.evidence.boots)
        built = self.evidence.built if booted else self.evidence.built - {commit}
        self.evidence = replace(self.evidence, built=built, skipped=self.evidence.skipped | {commit})

    def _took(self, machine: int, look: Look, values: tuple[tuple[float, ...], ...] | None) -> None:
        pending = tuple(one for one in self.evidence.pending if one.machine != machine)
        self.evidence = replace(self.evidence, pending=pending)
        self.looks.append(
            LookTaken(
                commit=look.commit,
                runs=look.runs,
                purpose=look.purpose,
                reason=look.reason,
                at_s=self.evidence.now_s,
                values=values,
                machine=machine,
            )
        )
        self._release(machine)

    def _release(self, machine: int) -> None:
        self.free = sorted({*self.free, machine})

    def _next_event(self) -> None:
        """Let time pass to the next end of a job; everything that ends at that moment has ended before any decision."""
        now_s = self.jobs[0][0]
        self.evidence = replace(self.evidence, now_s=now_s)
        while self.jobs and self.jobs[0][0] <= now_s:
            _, _, job = heappop(self.jobs)
            self._count(job)
            if job.look is None:
                self._built(job)
            else:
                self._booted(job, job.look)

    def _count(self, job: _Job) -> None:
        spent_s = self.evidence.now_s - job.begun_s
        if job.machine is None:
            self.builder_s += spent_s
        else:
            self.machine_s += spent_s

    def _built(self, job: _Job) -> None:
        self.idle_builders += job.machine is None
        coming = {commit: at_s for commit, at_s in self.evidence.coming.items() if commit != job.commit}
        self.evidence = replace(self.evidence, coming=coming, built=self.evidence.built | {job.commit})
        compiles = self.builds is None or self.builds(job.commit)
        if not compiles:
            self._untestable(job.commit)
        if job.machine is not None and job.machine in self.lent:
            self.lent.remove(job.machine)
            self._release(job.machine)
        for machine in [one for one, order in self.waiting.items() if order.look.commit == job.commit]:
            order = self.waiting.pop(machine)
            if not compiles:
                self._took(machine, order.look, None)
            elif order.known == self._known():
                self._boot(machine, order.look)
            else:
                # Others have told something since this look was chosen; with its kernel there it is weighed anew.
                pending = tuple(one for one in self.evidence.pending if one.machine != machine)
                self.evidence = replace(self.evidence, pending=pending)
                self._release(machine)

    def _booted(self, job: _Job, look: Look) -> None:
        assert job.machine is not None, "builders do not boot"
        at_s, boots = job.begun_s, []
        for boot in job.values:
            at_s += self.costs.boot_s + len(boot) * self.costs.run_s
            boots.append(Boot(commit=job.commit, values=boot, at_s=at_s, purpose=look.purpose, machine=job.machine))
        self.evidence = replace(self.evidence, boots=(*self.evidence.boots, *boots))
        self._took(job.machine, look, job.values)

    def _result(self, finding: Finding) -> DriveResult:
        for _, _, job in self.jobs:
            self._count(job)
        evidence = replace(self.evidence, pending=(), coming={})
        return DriveResult(
            kind=finding.kind,
            commits=finding.commits,
            probability=finding.probability,
            reason=finding.reason,
            share=finding.share,
            looks=tuple(self.looks),
            builds=self.kernels,
            boots=len(evidence.boots),
            runs=sum(len(boot.values) for boot in evidence.boots),
            machine_s=self.machine_s,
            builder_s=self.builder_s,
            wall_s=evidence.now_s,
            evidence=evidence,
        )

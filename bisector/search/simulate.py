"""Invented labs: what a hunt would cost and how sure it would be, before a machine is touched. Seeded, no clock."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from bisector.model.outcome import AnswerKind
from bisector.search.classic import classic
from bisector.search.drive import DriveResult, drive
from bisector.search.engine import propose
from bisector.search.graph import Graph
from bisector.search.types import Costs, Evidence, Finding, Look, Options

Floats = NDArray[np.float64]

STRATEGIES = ("belief", "classic")


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """An invented lab and history. Everything `_percent` is on the metric's value; deviations are of one boot or run.

    `parents` is a real history's (else `commits` of them, a line, or with a share `merges` of merges). The change
    makes the value `effect_percent` worse (nothing does when `regression` is False); with `two_steps` two commits do
    half each, with `gradual` above 1 that many commits in a row share it. `outliers` is the share of wild runs (from
    3 deviations up, heavy tail, four in five slow), `bad_boots` of boots that are 5 to 15 % slow, `second_mode` of
    boots `mode_percent` slow. `unbuildable` commits come in clusters of `cluster`. `drift_percent_per_h` is steady,
    `wave_percent` a sine of `wave_h` hours; `layout_sd_percent` a constant of each kernel.
    """

    commits: int = 1000
    effect_percent: float = 5.0
    boot_sd_percent: float = 1.0
    run_sd_percent: float = 3.0
    outliers: float = 0.02
    bad_boots: float = 0.0
    second_mode: float = 0.0
    mode_percent: float = 4.0
    drift_percent_per_h: float = 0.0
    wave_percent: float = 0.0
    wave_h: float = 8.0
    layout_sd_percent: float = 0.0
    unbuildable: float = 0.0
    cluster: int = 10
    merges: float = 0.0
    regression: bool = True
    improvement: bool = False
    two_steps: bool = False
    gradual: int = 1
    parents: tuple[tuple[int, ...], ...] | None = None
    build_s: float = 300.0
    boot_s: float = 120.0
    run_s: float = 20.0

    @property
    def costs(self) -> Costs:
        """What looks cost in this world."""
        return Costs(build_s=self.build_s, boot_s=self.boot_s, run_s=self.run_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One hunt in an invented lab. `verdict` is correct, wrong, set or none; `decision_ms` of the mean decision."""

    number: int
    first_bad: tuple[int, ...]
    verdict: str
    result: DriveResult
    decision_ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """All trials together: fractions, and means per trial. `claimed` is the mean probability of the named commits.

    With no regression "correct" is "not reproduced". `in_set` is the fraction of sets that hold the true commit (of
    all sets; 0 without any), `not_reproduced` the fraction of trials that ended so.
    """

    trials: int
    correct: float
    wrong: float
    set: float
    none: float
    builds: float
    boots: float
    runs: float
    machine_s_mean: float
    machine_s_p90: float
    claimed: float
    decision_ms_mean: float
    in_set: float
    not_reproduced: float


def simulate(
    world: World,
    options: Options | None = None,
    *,
    trials: int = 100,
    seed: int = 1,
    strategy: str = "belief",
    on_trial: Callable[[Trial], None] | None = None,
    clock: Callable[[], float] | None = None,
) -> Tally:
    """Hunt `trials` times in fresh labs of this world and return the tally; the same seed gives the same tally.

    `strategy` is "belief" (this search) or "classic" (git bisect, one run a commit). `on_trial` is called after each
    trial; `clock` returns seconds and is only used for `decision_ms`. Raises ValueError for an unknown strategy or a
    world that makes no sense.
    """
    if strategy not in STRATEGIES:
        raise ValueError(f"strategy must be one of {', '.join(STRATEGIES)}, got {strategy!r}")
    if trials < 1:
        raise ValueError(f"trials must be at least 1, got {trials}")
    options = options or Options()
    shared = history(world, np.random.default_rng([seed, 2**31])) if world.merges == 0 or world.parents else None
    done = []
    for number in range(trials):
        rng = np.random.default_rng([seed, number])
        graph = shared or history(world, rng)
        trial = _trial(number, graph, world, options, rng, strategy, clock)
        done.append(trial)
        if on_trial is not None:
            on_trial(trial)
    return tally(done)


def tally(trials: Sequence[Trial]) -> Tally:
    """Return what these trials come to. Raises ValueError without any."""
    if not trials:
        raise ValueError("no trial to count")
    count = len(trials)
    share = {name: sum(t.verdict == name for t in trials) / count for name in ("correct", "wrong", "set", "none")}
    machine_s = np.array([trial.result.machine_s for trial in trials])
    named = [trial.result.probability for trial in trials if trial.result.kind is AnswerKind.COMMIT]
    sets = [trial for trial in trials if trial.result.kind is AnswerKind.SET]
    held = sum(bool(set(trial.first_bad) & set(trial.result.commits)) for trial in sets)
    return Tally(
        trials=count,
        **share,
        builds=float(np.mean([trial.result.builds for trial in trials])),
        boots=float(np.mean([trial.result.boots for trial in trials])),
        runs=float(np.mean([trial.result.runs for trial in trials])),
        machine_s_mean=float(machine_s.mean()),
        machine_s_p90=float(np.quantile(machine_s, 0.9)),
        claimed=float(np.mean(named)) if named else 0.0,
        decision_ms_mean=float(np.mean([trial.decision_ms for trial in trials])),
        in_set=held / len(sets) if sets else 0.0,
        not_reproduced=sum(t.result.kind is AnswerKind.NOT_REPRODUCED for t in trials) / count,
    )


def history(world: World, rng: np.random.Generator) -> Graph:
    """Return the world's graph: the given parents, a line, or a line with merged side branches of 1 to 30 commits."""
    if world.parents is not None:
        return Graph.from_parents(world.parents)
    if world.commits < 2:
        raise ValueError(f"a history needs at least 2 commits, got {world.commits}")
    if world.merges <= 0:
        return Graph.from_parents([(), *((commit,) for commit in range(world.commits - 1))])
    parents: list[tuple[int, ...]] = [()]
    tip = 0
    mainline = [0]
    while len(parents) < world.commits:
        room = world.commits - len(parents)
        # A side branch of a few commits and its merge weigh as many commits: the share of merges is kept on average.
        if room >= 3 and rng.random() < world.merges * 2:
            base = int(rng.choice(mainline[-50:]))
            side = base
            for _ in range(int(rng.integers(1, min(30, room - 1)))):
                parents.append((side,))
                side = len(parents) - 1
            parents.append((tip, side))
        else:
            parents.append((tip,))
        tip = len(parents) - 1
        mainline.append(tip)
    return Graph.from_parents(parents)


class Lab:
    """One invented lab: it measures commits of a graph and lets its own time pass as the costs say."""

    def __init__(self, graph: Graph, world: World, rng: np.random.Generator, options: Options) -> None:
        self._world, self._rng = world, rng
        # Larger is worse inside; the metric's direction and what is hunted turn the value.
        worse = -1.0 if options.higher_is_better else 1.0
        self._sign = -worse if world.improvement else worse
        count = len(graph)
        possible = np.flatnonzero(graph.candidates)
        self.first_bad: tuple[int, ...] = ()
        self._level = np.zeros(count)
        if world.regression:
            self._plant(graph, possible)
        self._layout = rng.normal(0, 1, count) * world.layout_sd_percent
        self._broken = self._unbuildable(graph)
        self._ready: set[int] = set()
        self._now_s = 0.0
        self._steady = 1.0 if rng.random() < 0.5 else -1.0
        self._phase = rng.uniform(0, 2 * np.pi)

    def _plant(self, graph: Graph, possible: NDArray[np.int64]) -> None:
        world = self._world
        full = 100 * np.log1p(world.effect_percent / 100)
        if world.gradual > 1:
            start = int(self._rng.integers(0, max(1, possible.size - world.gradual)))
            self.first_bad = tuple(int(one) for one in possible[start : start + world.gradual])
        elif world.two_steps:
            self.first_bad = tuple(sorted(int(one) for one in self._rng.choice(possible, 2, replace=False)))
        else:
            self.first_bad = (int(self._rng.choice(possible)),)
        for commit in self.first_bad:
            self._level[graph.descendants([commit])[0]] += full / len(self.first_bad)

    def _unbuildable(self, graph: Graph) -> NDArray[np.bool_]:
        broken = np.zeros(len(graph), dtype=np.bool_)
        world = self._world
        if world.unbuildable > 0:
            starts = self._rng.random(len(graph)) < world.unbuildable / max(1, world.cluster)
            for start in np.flatnonzero(starts):
                broken[start : start + world.cluster] = True
        broken[[graph.good, graph.bad]] = False
        return broken

    def measure(self, commit: int, boots: int, runs: int) -> list[list[float]] | None:
        """Return the boots' values, or None for a commit that does not build."""
        world = self._world
        if commit not in self._ready:
            self._ready.add(commit)
            self._now_s += world.build_s
        if self._broken[commit]:
            self._ready.discard(commit)
            return None
        return [self._boot(commit, runs) for _ in range(boots)]

    def _boot(self, commit: int, runs: int) -> list[float]:
        world, rng = self._world, self._rng
        self._now_s += world.boot_s + runs * world.run_s
        hours = self._now_s / 3600
        base = self._level[commit] + self._layout[commit] + rng.normal(0, world.boot_sd_percent)
        base += self._steady * world.drift_percent_per_h * hours
        base += world.wave_percent * np.sin(2 * np.pi * hours / world.wave_h + self._phase)
        base += rng.uniform(5, 15) if rng.random() < world.bad_boots else 0.0
        base += world.mode_percent if rng.random() < world.second_mode else 0.0
        noise = rng.normal(0, world.run_sd_percent, runs)
        wild = rng.random(runs) < world.outliers
        side = np.where(rng.random(runs) < 0.8, 1.0, -1.0)
        noise = np.where(wild, side * world.run_sd_percent * (3 + rng.pareto(2.0, runs)), noise)
        # A run cannot be worse than by a factor of e^3 before a real lab would call it hung.
        return [float(1000 * np.exp(self._sign * value / 100)) for value in np.clip(base + noise, -300, 300)]


def _trial(
    number: int,
    graph: Graph,
    world: World,
    options: Options,
    rng: np.random.Generator,
    strategy: str,
    clock: Callable[[], float] | None,
) -> Trial:
    lab = Lab(graph, world, rng, options)
    decisions: list[float] = []

    def timed(graph: Graph, evidence: Evidence, costs: Costs, options: Options) -> Look | Finding:
        start = clock() if clock else 0.0
        step = propose(graph, evidence, costs, options) if strategy == "belief" else classic(graph, evidence, options)
        decisions.append(1000 * ((clock() if clock else 0.0) - start))
        return step

    options = replace(options, find_improvement=options.find_improvement or world.improvement)
    result = drive(graph, lab.measure, world.costs, options, step=timed)
    return Trial(
        number=number,
        first_bad=lab.first_bad,
        verdict=_judge(result, lab.first_bad),
        result=result,
        decision_ms=float(np.mean(decisions)),
    )


def _judge(result: DriveResult, first_bad: tuple[int, ...]) -> str:
    if result.kind is AnswerKind.COMMIT:
        return "correct" if result.commits[0] in first_bad else "wrong"
    if result.kind is AnswerKind.SET:
        return "set"
    if result.kind is AnswerKind.NOT_REPRODUCED and not first_bad:
        return "correct"
    return "none"

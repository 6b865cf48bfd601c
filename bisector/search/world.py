"""An invented lab and history, for hunts to be tried on before a machine is touched. Seeded, no clock."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bisector.search.graph import Graph
from bisector.search.types import Costs, Options


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """An invented lab and history. Everything `_percent` is on the metric's value; deviations are of one boot or run.

    `parents` is a real history's (else `commits` of them, a line, or with a share `merges` of merges). The change
    makes the value `effect_percent` worse (nothing does when `regression` is False); with `two_steps` two commits do
    half each, with `gradual` above 1 that many commits in a row share it. `outliers` is the share of wild runs (from
    3 deviations up, heavy tail, four in five slow), `bad_boots` of boots that are 5 to 15 % slow, `second_mode` of
    boots `mode_percent` slow. `unbuildable` commits come in clusters of `cluster`. `drift_percent_per_h` is steady,
    `wave_percent` a sine of `wave_h` hours; `layout_sd_percent` a constant of each kernel. The lab has `machines`,
    each with a level of its own (`machine_sd_percent` apart) and a drift of its own; with `builders` 0 they build
    what they boot.
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
    machines: int = 1
    machine_sd_percent: float = 15.0
    builders: int = 0

    @property
    def costs(self) -> Costs:
        """What looks cost in this world."""
        return Costs(build_s=self.build_s, boot_s=self.boot_s, run_s=self.run_s)


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
    """One invented lab: it measures commits of a graph, at the times that its driver tells it."""

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
        self._machines = [self._machine(first=number == 0) for number in range(world.machines)]

    def _machine(self, *, first: bool) -> tuple[float, float, float]:
        """A machine's own level, the direction of its steady drift, and the phase of its wave."""
        steady = 1.0 if self._rng.random() < 0.5 else -1.0
        phase = self._rng.uniform(0, 2 * np.pi)
        return (0.0 if first else self._rng.normal(0, self._world.machine_sd_percent)), steady, phase

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

    def measure_on(self, commit: int, boots: int, runs: int, *, machine: int, at_s: float) -> list[list[float]] | None:
        """Return the boots' values on a machine, begun at `at_s`, or None for a commit that does not build."""
        if self._broken[commit]:
            return None
        each_s = self._world.boot_s + runs * self._world.run_s
        return [self._boot(commit, runs, machine, at_s + number * each_s) for number in range(1, boots + 1)]

    def builds(self, commit: int) -> bool:
        """Whether a commit compiles."""
        return not self._broken[commit]

    @property
    def true_levels(self) -> NDArray[np.float64]:
        """What endless boots of each commit would show on a machine without drift, in percent; larger is worse."""
        levels: NDArray[np.float64] = self._level + self._layout
        return levels

    def _boot(self, commit: int, runs: int, machine: int, ended_s: float) -> list[float]:
        world, rng = self._world, self._rng
        own, steady, phase = self._machines[machine]
        hours = ended_s / 3600
        base = self._level[commit] + self._layout[commit] + rng.normal(0, world.boot_sd_percent)
        base += own + steady * world.drift_percent_per_h * hours
        base += world.wave_percent * np.sin(2 * np.pi * hours / world.wave_h + phase)
        base += rng.uniform(5, 15) if rng.random() < world.bad_boots else 0.0
        base += world.mode_percent if rng.random() < world.second_mode else 0.0
        noise = rng.normal(0, world.run_sd_percent, runs)
        wild = rng.random(runs) < world.outliers
        side = np.where(rng.random(runs) < 0.8, 1.0, -1.0)
        noise = np.where(wild, side * world.run_sd_percent * (3 + rng.pareto(2.0, runs)), noise)
        # A run cannot be worse than by a factor of e^3 before a real lab would call it hung.
        return [float(1000 * np.exp(self._sign * value / 100)) for value in np.clip(base + noise, -300, 300)]

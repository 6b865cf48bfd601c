"""Labs that are out to deceive: levels for each commit, and any noise of boots, runs and time that a test thinks of."""

from collections.abc import Callable, Collection, Mapping

import numpy as np

from bisector.search import Costs, Graph

COSTS = Costs(build_s=300.0, boot_s=120.0, run_s=20.0)


def line(count):
    return Graph.from_parents([(), *((i,) for i in range(count - 1))])


def normal(sd):
    return lambda rng, size: rng.normal(0, sd, size)


ORDINARY_BOOTS, ORDINARY_RUNS = normal(0.5), normal(1.0)


class Lab:
    """Measures commits of a graph and keeps its own clock.

    `changes` maps a commit to the percent (on a log scale) that it adds to the value of itself and its descendants;
    `boots` and `runs` draw noise in percent, `trend` gives the lab's own speed at an hour, `read_off` is what the
    metric makes of a value. `broken` commits cannot be tested.
    """

    def __init__(
        self,
        graph: Graph,
        changes: Mapping[int, float],
        *,
        boots: Callable = ORDINARY_BOOTS,
        runs: Callable = ORDINARY_RUNS,
        trend: Callable = lambda hour: 0.0,
        read_off: Callable = lambda values: values,
        broken: Collection[int] = (),
        value: float = 1000.0,
        seed: int = 1,
    ):
        self.level = np.zeros(len(graph))
        for commit, percent in changes.items():
            self.level[graph.descendants([commit])[0]] += percent
        self.boots, self.runs, self.trend, self.read_off = boots, runs, trend, read_off
        self.broken, self.value = frozenset(broken), value
        self.rng = np.random.default_rng(seed)
        self.at_s = 0.0
        self.asked: list[int] = []
        self.built: set[int] = set()

    def __call__(self, commit, boots, runs):
        self.asked.append(commit)
        self.at_s += 0.0 if commit in self.built else COSTS.build_s
        if commit in self.broken:
            return None
        self.built.add(commit)
        return [self.boot(commit, runs) for _ in range(boots)]

    def boot(self, commit, runs):
        self.at_s += COSTS.boot_s + runs * COSTS.run_s
        of_boot = float(self.boots(self.rng, 1)[0]) + self.trend(self.at_s / 3600)
        percent = self.level[commit] + of_boot + self.runs(self.rng, runs)
        return [float(value) for value in self.read_off(self.value * np.exp(percent / 100))]


def still(rng, size):
    """No noise at all."""
    return np.zeros(size)


def modes(share, percent, sd=0.5):
    """Boots of which a share is slower by some percent."""
    return lambda rng, size: rng.normal(0, sd, size) - percent * (rng.random(size) < share)


def wild(share, sd):
    """Runs of which a share lies three deviations or more below the others, with a heavy tail."""

    def draw(rng, size):
        ordinary = rng.normal(0, sd, size)
        far = -sd * (3 + rng.pareto(2.0, size))
        return np.clip(np.where(rng.random(size) < share, far, ordinary), -300, 300)

    return draw


def cauchy(scale):
    """Noise without a mean or a deviation."""
    return lambda rng, size: np.clip(scale * rng.standard_cauchy(size), -300, 300)


def in_steps_of(step):
    """A metric that shows whole steps only, and at least one."""
    return lambda values: np.maximum(np.round(values / step), 1) * step


class Fleet:
    """One lab for each machine, all at the same history; `of_machine` says what is different about one of them."""

    def __init__(self, graph, changes, machines, *, seed=1, of_machine=None, **same):
        other = of_machine or {}
        self.labs = [
            Lab(graph, changes, **{**same, "seed": 100 * seed + one, **other.get(one, {})}) for one in range(machines)
        ]

    def __call__(self, commit, boots, runs, *, machine, at_s):
        lab = self.labs[machine]
        # The kernel was built elsewhere; the clock is everybody's.
        lab.built.add(commit)
        lab.at_s = at_s
        return lab(commit, boots, runs)

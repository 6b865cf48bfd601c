"""Small labs for the tests of the search: a level for each commit, noise of two kinds, a seed."""

from dataclasses import dataclass, field

import numpy as np
import pytest

from bisector.search import Costs, Graph


@dataclass
class TinyLab:
    """Measures commits of a graph: 1000, or `effect_percent` less for the first bad commit and its descendants."""

    graph: Graph
    first_bad: int
    effect_percent: float = 31.0
    boot_sd: float = 0.0
    run_sd: float = 0.05
    broken: frozenset = frozenset()
    seed: int = 1
    asked: list = field(default_factory=list)

    def __post_init__(self):
        self.rng = np.random.default_rng(self.seed)
        self.slow = self.graph.descendants([self.first_bad])[0]

    def __call__(self, commit, boots, runs):
        self.asked.append(commit)
        if commit in self.broken:
            return None
        level = 1000.0 * (1 - self.effect_percent / 100 * self.slow[commit])
        answer = []
        for _ in range(boots):
            of_boot = self.rng.normal(0, self.boot_sd)
            answer.append(list(level * np.exp((of_boot + self.rng.normal(0, self.run_sd, runs)) / 100)))
        return answer


def demo_parents():
    """44 commits: a line of 30 with a side branch of 12 that leaves it at 8 and is merged at 27."""
    parents = [(), *((i,) for i in range(15))]
    side = [len(parents)]
    parents.append((8,))
    for _ in range(11):
        parents.append((side[-1],))
        side.append(len(parents) - 1)
    tip = 15
    while len(parents) < 36:
        parents.append((tip,))
        tip = len(parents) - 1
    parents.append((tip, side[-1]))
    while len(parents) < 44:
        parents.append((len(parents) - 1,))
    return parents


@pytest.fixture
def demo_graph():
    return Graph.from_parents(demo_parents())


@pytest.fixture
def costs():
    return Costs(build_s=60.0, boot_s=20.0, run_s=5.0)


@pytest.fixture
def tiny_lab():
    return TinyLab

"""What the looks under way may show: several machines in one hunt, each told what the others are about to tell."""

from collections import Counter
from dataclasses import dataclass
from math import erfc, sqrt

import numpy as np
from numpy.typing import NDArray

from bisector.search.algebra import product
from bisector.search.belief import Belief
from bisector.search.classes import renumbered
from bisector.search.graph import Graph
from bisector.search.types import Evidence

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

# A look that is under way is foreseen as one of three outcomes: like the good end, like the bad end, or in between,
# within this many deviations of the middle. Three keep 97 % of what the real number would tell at 1 to 4 deviations.
BETWEEN = 0.55
# Looks foreseen together at most (3^6 outcomes); the ones that tell least are left out.
MOST_FORESEEN = 6
# A pending look whose outcome is known beforehand to this many bits makes no difference.
FORESEEN_BITS = 1e-3
# Where a part that pending looks make may be looked at: its middle and its quartiles.
FRACTIONS = (0.25, 0.5, 0.75)
# A part with less of the belief needs no look of its own.
LIGHT_PART = 0.01


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Futures:
    """The joint outcomes of the looks under way: `chance` of each, and what it makes of the belief.

    `part` is each commit's part (the commits that no pending look separates), `mass` the parts' probabilities, and
    `tilt[outcome, part]` what the probability of the part's commits is multiplied with.
    """

    part: Ints
    mass: Floats
    chance: Floats
    tilt: Floats

    @property
    def certain(self) -> bool:
        """Whether nothing is under way that could tell anything."""
        return self.chance.size == 1

    def bad_probability(self, graph: Graph, belief: Belief, commits: Ints) -> Floats:
        """Return shape (commits, outcomes): the probability to be on the bad side, once the outcome is known."""
        if self.certain:
            return belief.bad_probability(graph, commits)[:, None]
        below = np.stack(
            [
                graph.mass_below(commits, np.where(self.part == number, belief.probability, 0.0))
                for number in range(self.mass.size)
            ],
            axis=1,
        )
        bad: Floats = np.clip(product(below, self.tilt.T), 0.0, 1.0)
        return bad


def foresee(graph: Graph, belief: Belief, shifts: dict[int, float]) -> Futures:
    """Return what the pending looks may show; `shifts[commit]` is how many deviations apart its two sides are.

    Looks at one commit count together. The outcomes are those of the Gaussian channel, cut in three.
    """
    certain = Futures(
        part=np.zeros(len(graph), dtype=np.int64), mass=np.ones(1), chance=np.ones(1), tilt=np.ones((1, 1))
    )
    commits = np.array(sorted(shifts), dtype=np.int64)
    if commits.size == 0:
        return certain
    bad = belief.bad_probability(graph, commits)
    apart = np.array([shifts[int(commit)] for commit in commits])
    # How much a look at a side of probability p moves: p (1 - p), and nothing when it cannot tell the sides apart.
    worth = np.round(bad * (1 - bad) * (1 - np.exp(-(apart**2) / 8)), 9)
    kept = np.argsort(-worth, kind="stable")[:MOST_FORESEEN]
    kept = np.sort(kept[worth[kept] > FORESEEN_BITS])
    if kept.size == 0:
        return certain
    rows = graph.ancestors(commits[kept])
    code = np.zeros(len(graph), dtype=np.int64)
    for shift, row in enumerate(rows):
        code |= row.astype(np.int64) << shift
    inside = belief.probability > 0
    of_inside, codes = renumbered(code[inside], 1 << kept.size)
    part = np.full(len(graph), -1, dtype=np.int64)
    part[inside] = of_inside
    mass: Floats = np.bincount(of_inside, weights=belief.probability[inside]).astype(np.float64)
    mass /= mass.sum()
    likelihood = np.ones((1, codes.size))
    for shift, place in enumerate(kept):
        of_good = _three_outcomes(float(apart[place]))
        is_bad = (codes >> shift) & 1 == 1
        one = np.where(is_bad, of_good[::-1, None], of_good[:, None])
        likelihood = (likelihood[:, None, :] * one[None, :, :]).reshape(-1, codes.size)
    chance = likelihood @ mass
    return Futures(part=part, mass=mass, chance=chance, tilt=likelihood / np.maximum(chance, 1e-300)[:, None])


def _three_outcomes(apart: float) -> Floats:
    """The chances that a good commit looks good, in between, or bad, its sides being so many deviations apart."""
    low, high = (0.5 * erfc(-(apart / 2 + off) / sqrt(2)) for off in (-BETWEEN, BETWEEN))
    return np.array([low, high - low, 1 - high])


def fractions(graph: Graph, belief: Belief, futures: Futures, free: NDArray[np.bool_]) -> list[int]:
    """Return the testable commits at the fractions of each part of each class that pending looks leave whole.

    The middle of the whole belief is where one machine looks; beside a look that is under way the middles of what
    its outcomes leave are worth more.
    """
    inside = np.flatnonzero(belief.probability > 0)
    key = belief.of_class[inside] * futures.mass.size + futures.part[inside]
    of_piece, codes = renumbered(key, belief.mass.size * futures.mass.size)
    weight = np.bincount(of_piece, weights=belief.probability[inside])
    found: list[int] = []
    for number in range(codes.size):
        if weight[number] < LIGHT_PART:
            continue
        members = inside[of_piece == number]
        usable = members[free[members]]
        if usable.size == 0:
            continue
        piece = np.zeros(len(graph))
        piece[members] = belief.probability[members]
        share = np.round(graph.mass_below(usable, piece) / weight[number], 9)
        found += [int(usable[int(np.argmin(np.abs(share - fraction)))]) for fraction in FRACTIONS]
    return found


def gate_covered(evidence: Evidence, ends: tuple[int, int], machine: int, *, pairs_left: float) -> bool:
    """Return whether the pairs that other machines are at will do, for a machine that knows its own levels."""
    made = Counter((boot.machine, boot.commit) for boot in evidence.boots)
    of_good, of_bad = (made[machine, end] for end in ends)
    if of_good != of_bad or of_good == 0:
        return False
    coming = 0
    for look in evidence.pending:
        if look.commit in ends:
            with_it = [made[look.machine, end] + (end == look.commit) for end in ends]
            # Whoever has begun a pair ends it.
            coming += max(with_it) - min(made[look.machine, end] for end in ends)
    return coming >= pairs_left

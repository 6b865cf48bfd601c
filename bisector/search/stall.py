"""Does the search still learn, and if not: is it because the change was made in many steps, with no one to name?"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from bisector.model.outcome import Purpose
from bisector.search.belief import Belief, believe, level_of
from bisector.search.graph import Graph
from bisector.search.noise import Readings, read
from bisector.search.types import Evidence, Options

Floats = NDArray[np.float64]

STALL_BOOTS = 40
STALL_BITS = 0.5
"""The stall rule: this many boots that lower the entropy by less than this many bits. Source: the prototype's study."""

CLEARLY_BETTER = 6.63
"""A slope is believed when its chi-square is this much below that of the best single step.

The slope has one parameter more: the 99 % point of chi-square with one degree of freedom.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Slope:
    """A change in many steps: the `suspects` that make it together, and the `booted` commits seen on the way."""

    suspects: tuple[int, ...]
    booted: tuple[int, ...]


def learned_nothing(graph: Graph, evidence: Evidence, options: Options, belief: Belief, *, boots: int) -> bool:
    """Return whether the last so many boots lowered the entropy by less than half a bit; False before there are."""
    if sum(boot.purpose is Purpose.SEARCH for boot in evidence.boots) < boots:
        return False
    earlier = replace(evidence, boots=evidence.boots[:-boots])
    before = believe(graph, earlier, read(earlier.boots, options, graph.good)).entropy_bits
    return before - belief.entropy_bits < STALL_BITS


def slope_of(graph: Graph, readings: Readings, belief: Belief) -> Slope | None:
    """Return the slope that explains all levels better than any single step does, or None.

    The step is the best of all that the history allows, the slope linear in the number of possible first bad commits
    below a commit, between any two of the booted ones. Both are fitted by least squares, weighted by each commit's
    boots and the layout offset that the belief has learned: under one step with such offsets the levels scatter, on
    a slope they are in order.
    """
    commits = np.unique(readings.commit)
    level, variance = _levels(readings, belief, commits)
    first_of_class = np.unique(belief.of_class[graph.candidates], return_index=True)[1]
    steps = graph.ancestors(commits)[:, np.flatnonzero(graph.candidates)[first_of_class]].T.astype(np.float64)
    below = graph.masses_below(graph.candidates.astype(np.float64))
    corners = np.unique(below[commits])
    low, high = (corners[side] for side in np.triu_indices(corners.size, 2))
    if not low.size:
        return None
    slopes = np.clip((below[commits] - low[:, None]) / (high - low)[:, None], 0.0, 1.0)
    left = _chi_square(slopes, level, variance)
    best = int(np.argmin(np.round(left, 6)))
    inside = commits[(slopes[best] > 0) & (slopes[best] < 1)]
    if inside.size < 2 or float(_chi_square(steps, level, variance).min()) - float(left[best]) < CLEARLY_BETTER:
        return None
    suspects = np.flatnonzero(graph.candidates & (below > low[best]) & (below <= high[best]))
    return Slope(suspects=tuple(suspects.tolist()), booted=tuple(inside.tolist()))


def _levels(readings: Readings, belief: Belief, commits: NDArray[np.int64]) -> tuple[Floats, Floats]:
    """Each commit's level against its machines' good ends, and the variance of that."""
    ground = np.array([belief.levels[int(one)].good if int(one) in belief.levels else 0.0 for one in readings.machine])
    grounded = replace(belief, y=belief.y - ground)
    level, variance = zip(*(level_of(readings, grounded, readings.commit == one) for one in commits), strict=True)
    return np.array(level), np.array(variance) + belief.layout_variance


def _chi_square(shapes: Floats, level: Floats, variance: Floats) -> Floats:
    """What least squares leave of the levels for each shape (rows, 0 to 1), with free ground and height > 0."""
    weight = 1 / variance
    total = weight.sum()
    y = level - weight @ level / total
    f = shapes - (shapes @ weight / total)[:, None]
    spread = (f**2) @ weight
    along = np.maximum(0.0, f @ (weight * y))
    chi_square: Floats = weight @ y**2 - np.where(spread > 1e-12, along**2 / np.maximum(spread, 1e-12), 0.0)
    return chi_square

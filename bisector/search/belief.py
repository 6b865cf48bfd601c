"""The probability of "this commit is the first bad one", for every commit, from the measured values themselves.

Hypotheses that no looked-at commit separates form one class; levels of both ends, the deviation between boots and
each kernel's own layout offset are summed out. Source of the model: section 3 of the search's design; the flat part
and the Huber means keep a claimed 99 % true (without them it was 90 % in invented labs).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from bisector.search.algebra import product
from bisector.search.classes import EXCLUDED, Frame, frame_of
from bisector.search.drift import Trend, fit_trend
from bisector.search.graph import Graph
from bisector.search.noise import Readings, boot_sd_prior, cells, huber_mean, shrunk_boot_variance
from bisector.search.types import Evidence

Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

# One boot in fifty may be anything at all: caps what one boot can say near 4 nats.
FLAT_SHARE = 0.02
LEVEL_POINTS = 48
# Percent, in units of the prior's median (0.8 % in a usual lab).
BOOT_SD_GRID = np.array([0.15, 0.3, 0.5, 0.75, 1.1, 1.6, 2.5, 4.0, 6.5, 10.5]) / 0.8
BOOT_SD_LOG_SD = 0.8
# A kernel's own constant offset (code and data layout), in percent: boots do not average it away. Usually 0.3 %;
# a lab where it is 1 % shows it by kernels that scatter more than their boots, and is then believed.
LAYOUT_SDS_PERCENT = (0.05, 0.3, 1.0)
LAYOUT_PRIOR = (0.4, 0.45, 0.15)
DRIFT_ROUNDS = 3


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Levels:
    """What one machine shows at the two ends: posterior means, in the readings' percent, and their deviations."""

    good: float
    bad: float
    good_sd: float
    bad_sd: float

    @property
    def delta(self) -> float:
        """The difference of the ends; positive when the bad end is worse."""
        return self.bad - self.good


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Belief:
    """What is believed after some evidence.

    `of_class[i]` is the class of commit i (-1: it cannot be the first bad one), `mass` the classes' probabilities,
    `probability` the commits'. `looked` are the commits that separate classes and `looked_bad` the probability of
    each to be bad. `levels` are None before both ends were measured. `y` are the readings without the `trend`.
    """

    of_class: Ints
    mass: Floats
    probability: Floats
    looked: tuple[int, ...]
    looked_bad: Floats
    levels: dict[int, Levels]
    boot_variance: float
    layout_variance: float
    y: Floats
    trend: dict[int, Trend]
    contradiction: bool

    @property
    def delta(self) -> float:
        """The difference of the ends, averaged over machines; 0 before both ends were measured.

        A machine weighs by the precision of its own: one that has booted each end once knows little.
        """
        if not self.levels:
            return 0.0
        weight = np.array([1 / (of.good_sd**2 + of.bad_sd**2 + 1e-12) for of in self.levels.values()])
        weight /= weight.sum()
        return float(weight @ np.array([of.delta for of in self.levels.values()]))

    @property
    def entropy_bits(self) -> float:
        """The entropy of the first bad commit, in bits."""
        positive = self.probability[self.probability > 0]
        return float(-(positive * np.log2(positive)).sum())

    def members(self, number: int) -> Ints:
        """Return the commits of a class, in topological order."""
        return np.flatnonzero(self.of_class == number)

    def bad_probability(self, graph: Graph, commits: Sequence[int] | Ints) -> Floats:
        """Return for each commit the probability that it is on the bad side."""
        return np.clip(graph.mass_below(commits, self.probability), 0.0, 1.0)


def believe(graph: Graph, evidence: Evidence, readings: Readings) -> Belief:
    """Return the belief after this evidence; `readings` are those of `evidence.boots`, in the same order."""
    frame = frame_of(graph, evidence)
    machines = [int(machine) for machine in np.unique(readings.machine) if _has_ends(graph, readings, int(machine))]
    if not machines:
        return _belief_without_levels(frame, readings)
    belief = _weigh(graph, frame, readings, machines, {})
    for _ in range(DRIFT_ROUNDS):
        trend = {machine: _refit(frame, belief, readings, machine) for machine in machines}
        # The trend and the belief depend on each other; a change below a fiftieth of a boot's deviation is none.
        step = np.abs(_drifted(readings, trend) - (readings.y - belief.y)).max(initial=0.0)
        typical = np.sqrt(belief.boot_variance + float(np.median(readings.run_variance(readings.runs))))
        if step < 0.02 * typical:
            break
        belief = _weigh(graph, frame, readings, machines, trend)
    return belief


def level_of(readings: Readings, belief: Belief, of: Bools) -> tuple[float, float]:
    """Return the Huber mean of these boots without the trend, and its variance without a layout offset."""
    variance = belief.boot_variance + readings.run_variance(readings.runs[of])
    return huber_mean(belief.y[of], float(np.sqrt(variance.mean()))), float(1 / (1 / variance).sum())


def _has_ends(graph: Graph, readings: Readings, machine: int) -> bool:
    here = readings.commit[readings.machine == machine]
    return bool((here == graph.good).any() and (here == graph.bad).any())


def _belief_without_levels(frame: Frame, readings: Readings) -> Belief:
    return _settle(
        frame,
        np.exp(frame.prior + frame.penalty - (frame.prior + frame.penalty).max()),
        Belief(
            of_class=frame.of_class,
            mass=np.zeros(0),
            probability=np.zeros(0),
            looked=frame.looked,
            looked_bad=np.zeros(0),
            levels={},
            boot_variance=boot_sd_prior(readings.run_sd) ** 2,
            layout_variance=LAYOUT_SDS_PERCENT[0] ** 2,
            y=readings.y,
            trend={},
            contradiction=bool(frame.penalty.max(initial=EXCLUDED) <= EXCLUDED),
        ),
    )


def _settle(frame: Frame, raw: Floats, belief: Belief) -> Belief:
    mass = raw / raw.sum()
    # The last element is what of_class -1 finds: commits that cannot be the first bad one.
    per_weight = np.append(mass / frame.class_weight, 0.0)
    share = per_weight[frame.of_class] * frame.weight
    share.flags.writeable = False
    return replace(belief, mass=mass, probability=share, looked_bad=mass @ frame.looked_bits)


def _weigh(graph: Graph, frame: Frame, readings: Readings, machines: list[int], trend: dict[int, Trend]) -> Belief:
    y = readings.y - _drifted(readings, trend)
    boot_sd = _boot_sds(replace(readings, y=y))
    log_prior = -0.5 * (np.log(boot_sd / boot_sd_prior(readings.run_sd)) / BOOT_SD_LOG_SD) ** 2
    # Nuisances are (layout deviation, boot deviation) pairs on one axis, the boot deviation running fastest.
    nuisance = (np.log(LAYOUT_PRIOR)[:, None] + log_prior).ravel()
    total = frame.prior[:, None] + frame.penalty[:, None] + nuisance
    parts = []
    for machine in machines:
        part = _machine_part(graph, frame, replace(readings, y=y), machine, boot_sd)
        total = total + part.evidence
        parts.append(part)
    raw = np.exp(total - total.max())
    weight = raw / raw.sum()
    best = total.max(axis=1)
    # Judged by the class that leads: what people or images exclude must not be all that is left.
    leading = int(np.argmax(best))
    belief = Belief(
        of_class=frame.of_class,
        mass=np.zeros(0),
        probability=np.zeros(0),
        looked=frame.looked,
        looked_bad=np.zeros(0),
        levels={machine: part.levels(weight) for machine, part in zip(machines, parts, strict=True)},
        boot_variance=float(weight.sum(axis=0) @ np.tile(boot_sd, len(LAYOUT_PRIOR)) ** 2),
        layout_variance=float(weight.sum(axis=0) @ np.repeat(LAYOUT_SDS_PERCENT, boot_sd.size) ** 2),
        y=y,
        trend=trend,
        contradiction=bool(frame.penalty[leading] <= EXCLUDED),
    )
    return _settle(frame, raw.sum(axis=1), belief)


def _boot_sds(readings: Readings) -> Floats:
    """The grid for s_b: the whole one, without what the boots' own scatter makes plainly impossible."""
    grid: Floats = BOOT_SD_GRID * boot_sd_prior(readings.run_sd)
    seen = np.sqrt(shrunk_boot_variance(readings, np.ones(readings.y.size, dtype=np.bool_)))
    if readings.y.size - np.unique(cells(readings)).size < 4:
        return grid
    # The prior's weight keeps `seen` within a factor of the truth that these bounds leave room for.
    inside = (grid > seen / 8) & (grid < seen * 6)
    return grid[inside] if inside.sum() >= 3 else grid


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Part:
    """One machine's log evidence: shape (classes, boot sds), and what its level means are made of."""

    evidence: Floats
    good_grid: Floats
    bad_grid: Floats
    good_log: Floats
    bad_log: Floats

    def levels(self, weight: Floats) -> Levels:
        """Return the posterior means of the levels for these weights of (class, boot sd)."""
        keep = weight.sum(axis=1) > 1e-4
        good, good_sd = _mean_level(self.good_log[keep], self.good_grid, weight[keep])
        bad, bad_sd = _mean_level(self.bad_log[keep], self.bad_grid, weight[keep])
        return Levels(good=good, bad=bad, good_sd=good_sd, bad_sd=bad_sd)


def _mean_level(log: Floats, grid: Floats, weight: Floats) -> tuple[float, float]:
    share = np.exp(log - log.max(axis=2, keepdims=True))
    share *= (weight / share.sum(axis=2))[:, :, None]
    flat = share.sum(axis=(0, 1)) / share.sum()
    mean = float(flat @ grid)
    return mean, float(np.sqrt(max(0.0, flat @ (grid - mean) ** 2)))


def _machine_part(graph: Graph, frame: Frame, readings: Readings, machine: int, boot_sd: Floats) -> _Part:
    here = readings.machine == machine
    y, runs, commit = readings.y[here], readings.runs[here], readings.commit[here]
    variance = boot_sd[None, :] ** 2 + readings.run_variance(runs)[:, None]
    typical = float(np.sqrt(np.median(variance[:, variance.shape[1] // 2])))
    seen_sd = float(np.sqrt(shrunk_boot_variance(readings, here) + np.median(readings.run_variance(runs))))
    good_grid = _level_grid(y[commit == graph.good], seen_sd)
    bad_grid = _level_grid(y[commit == graph.bad], seen_sd)
    delta = abs(bad_grid.mean() - good_grid.mean())
    flat = FLAT_SHARE / (3 * delta + 12 * max(typical, seen_sd))
    units = np.array([frame.unit_of[int(one)] for one in commit])
    tested = np.unique(units)
    of_unit = (units[None, :] == tested[:, None]).astype(np.float64)
    bits = frame.unit_bits[:, tested].astype(np.float64)
    good = _layouts_log(y, variance, of_unit, good_grid, flat)
    bad = _layouts_log(y, variance, of_unit, bad_grid, flat)
    shape = (bits.shape[0], *good.shape[1:])
    good_log = product(1 - bits, good.reshape(len(tested), -1)).reshape(shape)
    bad_log = product(bits, bad.reshape(len(tested), -1)).reshape(shape)
    return _Part(
        evidence=_log_mean_exp(good_log) + _log_mean_exp(bad_log),
        good_grid=good_grid,
        bad_grid=bad_grid,
        good_log=good_log,
        bad_log=bad_log,
    )


def _level_grid(ends: Floats, typical: float) -> Floats:
    """The possible levels of one end: around its boots, half width 4 se + 0.5 s + 2.5 * 0.6 % of layout."""
    centre = huber_mean(ends, typical)
    half = 4 * typical / np.sqrt(ends.size) + 0.5 * typical + 2.5 * 0.6
    return centre + np.linspace(-half, half, LEVEL_POINTS)


def _layouts_log(y: Floats, variance: Floats, of_unit: Floats, grid: Floats, flat: float) -> Floats:
    """The log likelihood of each unit's boots: shape (units, nuisances, levels), its layout offset integrated out."""
    step = float(grid[1] - grid[0])
    parts = []
    for layout_sd in LAYOUT_SDS_PERCENT:
        if step > 1.5 * layout_sd:
            # The grid is coarser than the offset: as a part of each boot's variance it is right to a few percent.
            parts.append(_units_log(y, variance + layout_sd**2, of_unit, grid, flat))
            continue
        reach = int(np.ceil(3 * layout_sd / step))
        outside = step * np.arange(1, reach + 1)
        fine = np.concatenate([grid[0] - outside[::-1], grid, grid[-1] + outside])
        log = _units_log(y, variance, of_unit, fine, flat)
        kernel = np.exp(-0.5 * (step * np.arange(-reach, reach + 1) / layout_sd) ** 2)
        spread = np.zeros((fine.size, grid.size))
        for column in range(grid.size):
            spread[column : column + 2 * reach + 1, column] = kernel / kernel.sum()
        top = log.max(axis=2, keepdims=True)
        parts.append(np.log(np.exp(log - top) @ spread + 1e-300) + top)
    return np.concatenate(parts, axis=1)


def _units_log(y: Floats, variance: Floats, of_unit: Floats, fine: Floats, flat: float) -> Floats:
    """The log likelihood of each unit's boots without an offset: shape (units, boot sds, points)."""
    scaled = (y[:, None, None] - fine) ** 2 / variance[:, :, None]
    density = (1 - FLAT_SHARE) / np.sqrt(2 * np.pi * variance)[:, :, None] * np.exp(-0.5 * scaled) + flat
    boots = np.log(density)
    return product(of_unit, boots.reshape(y.size, -1)).reshape(of_unit.shape[0], *boots.shape[1:])


def _log_mean_exp(log: Floats) -> Floats:
    top = log.max(axis=2)
    mean: Floats = top + np.log(np.exp(log - top[:, :, None]).mean(axis=2))
    return mean


def _drifted(readings: Readings, trend: dict[int, Trend]) -> Floats:
    drift = np.zeros(readings.y.size)
    for machine, fitted in trend.items():
        here = readings.machine == machine
        drift[here] = fitted.at(readings.at_s[here])
    return drift


def _refit(frame: Frame, belief: Belief, readings: Readings, machine: int) -> Trend:
    here = readings.machine == machine
    place = {commit: row for row, commit in enumerate(frame.looked)}
    bad = np.array([belief.looked_bad[place[int(commit)]] for commit in readings.commit[here]])
    return fit_trend(
        at_s=readings.at_s[here],
        y=readings.y[here],
        bad=np.clip(bad, 0.0, 1.0),
        variance=belief.boot_variance + readings.run_variance(readings.runs[here]) + belief.layout_variance,
        levels=(belief.levels[machine].good, belief.levels[machine].bad),
    )

"""What one lab can show, from boots of a single kernel: its noise as a hunt would see it, and what follows for hunts.

Noise, drift and the gate are the search's own (noise.py, drift.py, gate.py, forecast.py); only the question whether
boots fall into two groups is asked here alone.
"""

from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bisector.model.outcome import Purpose
from bisector.search import gate as gates
from bisector.search.drift import COEFFICIENT_SD_PERCENT, SPAN_S, fit_trend
from bisector.search.forecast import assess
from bisector.search.gate import GateVerdict
from bisector.search.graph import Graph
from bisector.search.noise import (
    PRIOR_BOOTS,
    SMALLEST_SD_PERCENT,
    Readings,
    Scatter,
    boot_scatter,
    boot_sd_prior,
    read,
)
from bisector.search.types import Boot, Costs, Evidence, Options

Floats = NDArray[np.float64]

FEWEST_BOOTS = 4
"""With fewer there are no two pairs of boots, and the gate could not pass on anything."""

REACH_BOOTS = (4, 8, 16, 32, 64)
SURE = 1.2816
"""The 90 % point of the normal distribution: an effect this much further away is seen in nine hunts of ten."""

WILD_SDS = 5.0
MOST_ORDERS = 256
MODES_LEVEL = 0.01
NULL_SAMPLES = 4000
DRIFT_ROUNDS = 3
FREE_CHANGE_PERCENT = 50.0
"""The prior of the trend's change over the test, where the drift is what is asked for: as good as none. The search's
own prior keeps the trend from taking up a difference, and would halve 1 %/h.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """What a hunt could see with so many boots, both ends together: the effect that half of the hunts would see, that
    nine in ten would see, in percent, and the machine time.
    """

    boots: int
    runs: int
    half_percent: float
    sure_percent: float
    machine_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Modes:
    """Do boots fall into two groups? `upper` are the places of the boots of the group with the larger values.

    `p_value` is the share of normal samples that split as cleanly; `apart_percent` what lies between the groups.
    """

    two: bool
    p_value: float
    apart_percent: float
    upper: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Qualified:
    """What an A/A test says. Deviations in percent of the value; intervals are 95 %.

    `values` are the boots' own, in order. `boot_sd_percent` is what a hunt would believe of the lab, with the
    search's prior in it; `boot_sd_seen_percent` is what these boots show alone. `drift_percent` is the trend between
    the first and the last boot, which lie `span_s` apart. `effect_percent` is the difference of the boots taken
    alternately for two ends (A B B A), `false_alarms` how many of the `orders` in which neighbours can be taken for
    two ends made the gate tell them apart. `wild_runs` lie further than five deviations from their boot, the furthest
    `wildest_percent`. `boots_needed` shows an effect of `smallest_percent`, the recipe's.
    """

    values: tuple[float, ...]
    total_runs: int
    run_sd_percent: float
    boot_sd_percent: float
    boot_sd_seen_percent: float
    boot_sd_interval_percent: tuple[float, float]
    drift_percent: float
    drift_interval_percent: tuple[float, float]
    span_s: float
    modes: Modes
    effect_percent: float
    effect_interval_percent: tuple[float, float]
    false_alarms: int
    orders: int
    wild_runs: int
    wildest_percent: float
    reach: tuple[Reach, ...]
    best_runs: int
    boots_needed: int
    smallest_percent: float


def qualify(boots: list[Boot], options: Options, costs: Costs) -> Qualified:
    """Return what boots of one kernel on one machine say. Raises ValueError for fewer than four of them."""
    if len(boots) < FEWEST_BOOTS:
        raise ValueError(f"an A/A test needs at least {FEWEST_BOOTS} boots, got {len(boots)}")
    alike = [replace(boot, commit=0, machine=0, purpose=Purpose.GATE) for boot in boots]
    readings = read(alike, options, 0)
    everything = np.ones(readings.y.size, dtype=np.bool_)
    level, _, _ = _detrended(readings, COEFFICIENT_SD_PERCENT)
    span_s = float(np.ptp(readings.at_s))
    _, change, error = _detrended(readings, FREE_CHANGE_PERCENT * SPAN_S / max(span_s, 1.0))
    scatter = boot_scatter(level, everything)
    wide = _student(scatter.freedom - 1) * error
    drift = sorted(readings.percent(change + side) for side in (-wide, wide))
    split = _as_ends(alike)
    seen = assess(Graph.from_parents([(), (0,)]), Evidence(boots=tuple(split)), options)
    assert seen.effect_percent is not None, "both ends have boots"
    assert seen.effect_interval_percent is not None, "both ends have boots"
    off = _off_boot(alike, readings)
    alarms, orders = _false_alarms(readings, options)
    gate = gates.judge(read(split, options, 0), (0, 1), options, spent=False)
    best = gates.next_runs(gate, level, options, costs)
    return Qualified(
        values=tuple(readings.value_at(float(y)) for y in readings.y),
        total_runs=int(readings.runs.sum()),
        run_sd_percent=readings.run_sd,
        boot_sd_percent=seen.boot_sd_percent,
        boot_sd_seen_percent=float(np.sqrt(scatter.excess() / scatter.freedom)),
        boot_sd_interval_percent=_deviation_interval(scatter),
        drift_percent=readings.percent(change),
        drift_interval_percent=(drift[0], drift[1]),
        span_s=span_s,
        modes=_modes(level, options.seed),
        effect_percent=seen.effect_percent,
        effect_interval_percent=seen.effect_interval_percent,
        false_alarms=alarms,
        orders=orders,
        wild_runs=int((np.abs(off) > WILD_SDS * readings.run_sd).sum()),
        wildest_percent=readings.percent(float(off[np.argmax(np.abs(off))])),
        reach=tuple(_reach(level, scatter, number, best, costs) for number in REACH_BOOTS),
        best_runs=best,
        boots_needed=gates.boots_needed(gate, level, options, best),
        smallest_percent=options.min_effect_percent,
    )


def _detrended(readings: Readings, coefficient_sd: float) -> tuple[Readings, float, float]:
    """The readings without their trend, how far it goes from the first boot to the last, and that's standard error.

    How far boots scatter is known only without the trend, and a fit pulls in what lies far from the last one: so it
    takes rounds, each on what the round before has left.
    """
    level, change, error = readings, 0.0, 0.0
    first, last = float(readings.at_s.min()), float(readings.at_s.max())
    for _ in range(DRIFT_ROUNDS):
        scatter = boot_scatter(level, np.ones(level.y.size, dtype=np.bool_))
        middle = float(np.median(level.y))
        trend = fit_trend(
            at_s=level.at_s,
            y=level.y,
            bad=np.zeros(level.y.size),
            variance=scatter.excess() / scatter.freedom + level.run_variance(level.runs),
            levels=(middle, middle),
            coefficient_sd=coefficient_sd,
        )
        level = replace(level, y=level.y - trend.at(level.at_s))
        more, error = trend.change(first, last)
        change += more
    return level, change, error


def _off_boot(boots: list[Boot], readings: Readings) -> Floats:
    """How far each run lies from its boot's robust mean."""
    logs = [readings.sign * 100 * np.log(np.array(boot.values) / readings.reference) for boot in boots]
    return np.concatenate([runs - y for runs, y in zip(logs, readings.y, strict=True)])


def _as_ends(boots: list[Boot]) -> list[Boot]:
    """The boots as if they were of two kernels, A B B A, as the gate would have ordered them."""
    return [replace(boot, commit=int(place % 4 in (1, 2))) for place, boot in enumerate(boots)]


def _false_alarms(readings: Readings, options: Options) -> tuple[int, int]:
    """How many of the orders (each pair of neighbours as A B or as B A) make the gate tell equal ends apart."""
    pairs = readings.y.size // 2
    if 2**pairs <= MOST_ORDERS:
        orders = [np.array(order) for order in product((0, 1), repeat=pairs)]
    else:
        orders = list(np.random.default_rng(options.seed).integers(0, 2, (MOST_ORDERS, pairs)))
    paired = _first(readings, 2 * pairs)
    alarms = 0
    for order in orders:
        commit = np.column_stack([order, 1 - order]).ravel()
        gate = gates.judge(replace(paired, commit=commit), (0, 1), options, spent=False)
        alarms += gate.verdict in (GateVerdict.DIFFERENT, GateVerdict.SWAPPED)
    return alarms, len(orders)


def _first(readings: Readings, count: int) -> Readings:
    arrays: dict[str, Any] = {name: getattr(readings, name)[:count] for name in ("y", "runs", "at_s", "machine")}
    return replace(readings, **arrays)


def _student(freedom: int) -> float:
    # Slow to load, and only needed here.
    from scipy import stats

    return float(stats.t.ppf(0.975, freedom))


def _deviation_interval(scatter: Scatter) -> tuple[float, float]:
    """The interval of the deviation between boots: chi square of the sum of squares, less what the runs cause."""
    from scipy import stats

    low, high = (scatter.square / stats.chi2.ppf(share, scatter.freedom) for share in (0.975, 0.025))
    return (
        float(np.sqrt(max(0.0, low - scatter.caused))),
        float(np.sqrt(max(0.0, high - scatter.caused))),
    )


def _modes(readings: Readings, seed: int) -> Modes:
    """Do the boots fall into two groups of at least two, more cleanly than one normal sample in a hundred would?

    The statistic is the smallest share of the sum of squares that a cut leaves within two groups; what normal
    samples of the same size leave is found by drawing them. Groups less than the smallest deviation apart are one.
    """
    order = np.argsort(readings.y, kind="stable")
    y = readings.y[order]
    left, cut = _best_cut(y[None, :])
    p_value = float((1 + (_normal_shares(y.size, seed) <= left[0]).sum()) / (1 + NULL_SAMPLES))
    low, high = float(y[: cut[0]].mean()), float(y[cut[0] :].mean())
    upper = order[cut[0] :] if readings.sign > 0 else order[: cut[0]]
    return Modes(
        two=p_value < MODES_LEVEL and high - low > SMALLEST_SD_PERCENT,
        p_value=p_value,
        apart_percent=float(100 * np.expm1((high - low) / 100)),
        upper=tuple(sorted(upper.tolist())),
    )


@lru_cache(maxsize=16)
def _normal_shares(count: int, seed: int) -> Floats:
    """What the best cut leaves of normal samples of this size."""
    drawn = np.random.default_rng(seed).normal(size=(NULL_SAMPLES, count))
    return _best_cut(np.sort(drawn, axis=1))[0]


def _best_cut(y: Floats) -> tuple[Floats, NDArray[np.int64]]:
    """Return for each sorted row the share of its sum of squares within the best two groups, and where they meet."""
    count = y.shape[1]
    total = ((y - y.mean(axis=1, keepdims=True)) ** 2).sum(axis=1)
    sums, cuts = np.cumsum(y, axis=1), np.arange(2, count - 1)
    below = sums[:, cuts - 1]
    above = sums[:, -1:] - below
    between = below**2 / cuts + above**2 / (count - cuts) - sums[:, -1:] ** 2 / count
    best = between.argmax(axis=1)
    share: Floats = 1 - between[np.arange(len(y)), best] / np.maximum(total, 1e-300)
    return share, cuts[best]


def _reach(readings: Readings, scatter: Scatter, boots: int, runs: int, costs: Costs) -> Reach:
    """What the gate could see after so many boots of this lab: t standard errors, as `Gate.detectable` has them.

    The deviation between boots that the gate would then believe is its prior's and that of boots like these.
    """
    pairs = boots // 2
    freedom = 2 * (pairs - 1)
    prior = boot_sd_prior(readings.run_sd) ** 2
    boot_variance = (PRIOR_BOOTS * prior + freedom * scatter.excess() / scatter.freedom) / (PRIOR_BOOTS + freedom)
    error = np.sqrt(2 * (boot_variance + float(readings.run_variance(runs))) / pairs)
    t = gates.clear_t(pairs)
    return Reach(
        boots=boots,
        runs=runs,
        half_percent=float(100 * np.expm1(t * error / 100)),
        sure_percent=float(100 * np.expm1((t + SURE) * error / 100)),
        machine_s=boots * (costs.boot_s + runs * costs.run_s),
    )

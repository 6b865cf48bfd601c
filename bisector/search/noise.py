"""From runs to one robust number per boot, and how far runs and boots scatter. Percent on a log scale throughout."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bisector.search.types import Boot, Options

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

# The spread below which nothing is believed where the values do not show their own resolution, in percent:
# an emulated clock that counts instructions repeats boots to about 0.01 %.
SMALLEST_SD_PERCENT = 0.01
# The median of |N(0, 2)|: it turns the median distance of two runs into their standard deviation.
MEDIAN_PAIR_DISTANCE = 0.954
# A Huber mean at 1.5 sd has 1.06 times the variance of the plain mean under normal noise.
HUBER_VARIANCE = 1.06


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Readings:
    """Every boot as one number: `y` = 100 ln(value / reference), signed so that larger is worse.

    Arrays have one element for each boot, in the order given. `run_sd` is pooled over all boots, in percent.
    """

    y: Floats
    commit: Ints
    runs: Ints
    at_s: Floats
    machine: Ints
    reference: float
    sign: float
    run_sd: float

    def run_variance(self, runs: Ints | int) -> Floats:
        """Return the variance of a boot's number that its runs alone cause: k s_r^2 / r."""
        count = np.asarray(runs, dtype=np.float64)
        factor = np.where(count <= 2, 1.0, HUBER_VARIANCE)
        variance: Floats = factor * self.run_sd**2 / np.maximum(count, 1)
        return variance

    def value_at(self, level: float) -> float:
        """Return a level in the metric's own unit."""
        return float(self.reference * np.exp(self.sign * level / 100))

    def percent(self, difference: float) -> float:
        """Return a difference of levels as percent of the value: negative means a lower value."""
        return float(100 * np.expm1(self.sign * difference / 100))


def worse_sign(options: Options) -> float:
    """Return +1 if larger values are worse in this search, else -1.

    A search for an improvement takes the better end for the "bad" one: nothing else changes.
    """
    return -1.0 if options.higher_is_better != options.find_improvement else 1.0


def read(boots: Sequence[Boot], options: Options, good: int) -> Readings:
    """Return the readings of these boots. Raises ValueError for an empty boot or a value not finite and > 0."""
    values = [np.asarray(boot.values, dtype=np.float64) for boot in boots]
    for boot, runs in zip(boots, values, strict=True):
        if runs.size == 0 or not np.all(np.isfinite(runs) & (runs > 0)):
            raise ValueError(f"a boot of commit {boot.commit} must hold finite values > 0, got {boot.values}")
    of_good = [runs for boot, runs in zip(boots, values, strict=True) if boot.commit == good]
    reference = float(np.median(np.concatenate(of_good or values))) if values else 1.0
    sign = worse_sign(options)
    logs = [sign * 100 * np.log(runs / reference) for runs in values]
    run_sd = pooled_run_sd(logs)
    return Readings(
        y=_huber_means(logs, run_sd),
        commit=np.array([boot.commit for boot in boots], dtype=np.int64),
        runs=np.array([runs.size for runs in logs], dtype=np.int64),
        at_s=np.array([boot.at_s for boot in boots], dtype=np.float64),
        machine=np.array([boot.machine for boot in boots], dtype=np.int64),
        reference=reference,
        sign=sign,
        run_sd=run_sd,
    )


def pooled_run_sd(logs: Sequence[Floats]) -> float:
    """Return the run deviation within a boot: the median distance of two runs of one boot, / 0.954.

    Pooled over all boots, so it needs no second moment and one wild run does not move it. Never below the
    resolution: an even distribution over the smallest step seen within a boot (step / sqrt 12), or 0.01 %.
    """
    distances = []
    for _, runs in _by_size(logs):
        first, second = np.triu_indices(runs.shape[1], 1)
        distances.append(np.abs(runs[:, first] - runs[:, second]).ravel())
    if sum(one.size for one in distances) == 0:
        return SMALLEST_SD_PERCENT
    pooled = np.concatenate(distances)
    # Rounding in the logarithm makes equal values differ by 1e-14 or so; that is no step of the metric.
    steps = pooled[pooled > 1e-9]
    resolution = float(steps.min()) / np.sqrt(12) if steps.size else 0.0
    return float(max(np.median(pooled) / MEDIAN_PAIR_DISTANCE, resolution, SMALLEST_SD_PERCENT))


def _by_size(logs: Sequence[Floats]) -> Iterator[tuple[Ints, Floats]]:
    """Yield (places, matrix) for the boots of each number of runs: whole matrices are ten times faster than boots."""
    sizes = np.array([runs.size for runs in logs], dtype=np.int64)
    for size in np.unique(sizes):
        places = np.flatnonzero(sizes == size)
        yield places, np.stack([logs[int(place)] for place in places])


def _huber_means(logs: Sequence[Floats], run_sd: float) -> Floats:
    means = np.zeros(len(logs))
    for places, runs in _by_size(logs):
        if runs.shape[1] <= 2:
            means[places] = runs.mean(axis=1)
            continue
        centre = np.median(runs, axis=1, keepdims=True)
        for _ in range(3):
            centre = centre + np.clip(runs - centre, -1.5 * run_sd, 1.5 * run_sd).mean(axis=1, keepdims=True)
        means[places] = centre[:, 0]
    return means


def huber_mean(runs: Floats, run_sd: float) -> float:
    """Return the Huber mean (Huber 1964) at 1.5 sd: three steps from the median; of one or two runs the plain mean."""
    return float(_huber_means([runs], run_sd)[0])


def boot_sd_prior(run_sd: float) -> float:
    """Return the median of the prior for the deviation between boots, in percent.

    0.8 % is what 0-day reports show for kernel benchmarks; a lab whose runs scatter more than usual (an emulated
    machine under the wall clock: 10 to 25 %) scatters more between boots as well.
    """
    return max(0.8, run_sd / 4)


def cells(readings: Readings) -> Ints:
    """Return for each boot a number that is the same for the boots of one commit on one machine."""
    machine = np.unique(readings.machine, return_inverse=True)[1]
    number: Ints = readings.commit * (int(machine.max(initial=0)) + 1) + machine
    return number


PRIOR_BOOTS = 4
"""What the prior for the deviation between boots is worth."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scatter:
    """How boots lie around each commit's mean on its machine: their sum of squares, its degrees of freedom, and the
    mean variance that their runs alone cause.
    """

    square: float
    freedom: int
    caused: float

    def excess(self) -> float:
        """Return the part of the sum of squares that is the boots' own, never below 0."""
        return max(0.0, self.square - self.freedom * self.caused)


def boot_scatter(readings: Readings, select: NDArray[np.bool_]) -> Scatter:
    """Return the scatter of these boots."""
    cell, y = cells(readings)[select], readings.y[select]
    cell = np.unique(cell, return_inverse=True)[1]
    counts = np.bincount(cell)
    means = np.bincount(cell, weights=y) / counts
    square, freedom = float(((y - means[cell]) ** 2).sum()), int(y.size - counts.size)
    caused = float(np.mean(readings.run_variance(readings.runs[select]))) if freedom > 0 else 0.0
    return Scatter(square=square, freedom=freedom, caused=caused)


def shrunk_boot_variance(readings: Readings, select: NDArray[np.bool_]) -> float:
    """Return s_b^2 from these boots around each commit's mean on its machine, shrunk to a prior worth 4 boots.

    Source: s_b^2 = (4 * 0.8^2 + df * excess) / (4 + df), excess = variance between boots - k s_r^2 / r.
    """
    scatter = boot_scatter(readings, select)
    prior = boot_sd_prior(readings.run_sd) ** 2
    return (PRIOR_BOOTS * prior + scatter.excess()) / (PRIOR_BOOTS + scatter.freedom)

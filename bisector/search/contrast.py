"""Two sets of measurements of one metric: how far apart, and could that be chance? For two results without a hunt."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from bisector.search.noise import SMALLEST_SD_PERCENT, huber_mean, pooled_run_sd

Floats = NDArray[np.float64]

FEWEST = 2
"""Of what is repeated, on either side: one value does not tell how it scatters."""


class Repeated(StrEnum):
    """What is taken to vary by chance. Runs of one boot agree better than boots do: they are frozen alike."""

    BOOTS = "boots"
    RUNS = "runs"


@dataclass(frozen=True, slots=True, kw_only=True)
class Contrast:
    """What two sets say. `base` and `new` are levels in the metric's unit; the difference is in percent of the base.

    The interval is 95 %; `p_value` that of a difference as large by chance alone, two-sided. `counts` are the values
    compared, (base, new).
    """

    base: float
    new: float
    difference_percent: float
    interval_percent: tuple[float, float]
    p_value: float
    repeated: Repeated
    counts: tuple[int, int]


def contrast(base: Sequence[Sequence[float]], new: Sequence[Sequence[float]], *, same_boot: bool = False) -> Contrast:
    """Return how `new` differs from `base`; each holds the runs of its boots, values > 0.

    Boots are compared where both sides have two or more, each by the Huber mean of its runs. With fewer, or when
    everything was measured in the `same_boot`, runs are: what differs between boots is not in the interval then.
    Welch's test (1947) on logarithms, so that a ratio and its inverse are as likely; a side whose values agree to the
    digit is taken to scatter by 0.01 %. Raises ValueError for a value not finite and > 0 or fewer than two a side.
    """
    sides = [[_logs(runs) for runs in boots] for boots in (base, new)]
    of_boots = not same_boot and min(len(boots) for boots in sides) >= FEWEST
    if of_boots:
        run_sd = pooled_run_sd([runs for boots in sides for runs in boots])
        values = [np.array([huber_mean(runs, run_sd) for runs in boots]) for boots in sides]
    else:
        values = [np.concatenate(boots) if boots else np.array([]) for boots in sides]
    if min(one.size for one in values) < FEWEST:
        raise ValueError(f"it takes {FEWEST} values a side to tell a difference from chance")
    difference, wide, p_value = _welch(values[0], values[1])
    levels = [float(np.exp(one.mean() / 100)) for one in values]
    return Contrast(
        base=levels[0],
        new=levels[1],
        difference_percent=_percent(difference),
        interval_percent=(_percent(difference - wide), _percent(difference + wide)),
        p_value=p_value,
        repeated=Repeated.BOOTS if of_boots else Repeated.RUNS,
        counts=(values[0].size, values[1].size),
    )


def _logs(runs: Sequence[float]) -> Floats:
    values = np.asarray(runs, dtype=np.float64)
    if values.size == 0 or not np.all(np.isfinite(values) & (values > 0)):
        raise ValueError(f"a boot must hold finite values > 0, got {tuple(runs)}")
    return np.asarray(100 * np.log(values))


def _percent(log_difference: float) -> float:
    return float(100 * np.expm1(log_difference / 100))


def _welch(base: Floats, new: Floats) -> tuple[float, float, float]:
    """The difference of two means, half its 95 % interval, and the p-value."""
    # Slow to load, and only needed here.
    from scipy import stats

    sizes = np.array([base.size, new.size])
    variances = np.array([max(float(one.var(ddof=1)), SMALLEST_SD_PERCENT**2) for one in (base, new)])
    parts = variances / sizes
    error = float(np.sqrt(parts.sum()))
    freedom = float(parts.sum() ** 2 / (parts**2 / (sizes - 1)).sum())
    difference = float(new.mean() - base.mean())
    return (
        difference,
        float(stats.t.ppf(0.975, freedom)) * error,
        float(2 * stats.t.sf(abs(difference) / error, freedom)),
    )

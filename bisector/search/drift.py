"""A lab that slowly grows faster or slower: a cubic trend in time, taken off before anything is compared."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

# One unit of time of the trend, and the prior deviation of each of its three coefficients in percent.
# Source: invented labs with 0.05 to 1 %/h; without the trend 1 %/h leaves 55 % right, with it 97 %.
SPAN_S = 6 * 3600.0
COEFFICIENT_SD_PERCENT = 2.0
CLIP_SD = 2.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Trend:
    """a1 z + a2 z^2 + a3 z^3 with z = (t - middle_s) / 6 h, in percent; 0 on average over what it was fitted to.

    `covariance` is that of the coefficients, the ridge's prior and both levels' uncertainty included.
    """

    middle_s: float
    coefficients: tuple[float, float, float]
    constant: float
    covariance: tuple[tuple[float, ...], ...]

    def at(self, at_s: Floats) -> Floats:
        """Return the trend at these times."""
        z = (at_s - self.middle_s) / SPAN_S
        first, second, third = self.coefficients
        value: Floats = z * (first + z * (second + z * third)) - self.constant
        return value

    def change(self, from_s: float, to_s: float) -> tuple[float, float]:
        """Return how far the trend goes between two times, and the standard error of that, in percent."""
        first, last = (self._powers(at_s) for at_s in (from_s, to_s))
        step = last - first
        return float(step @ np.array(self.coefficients)), float(np.sqrt(step @ np.array(self.covariance) @ step))

    def _powers(self, at_s: float) -> Floats:
        powers: Floats = np.power((at_s - self.middle_s) / SPAN_S, np.arange(1, 4)).astype(np.float64)
        return powers


def fit_trend(
    *,
    at_s: Floats,
    y: Floats,
    bad: Floats,
    variance: Floats,
    levels: tuple[float, float],
    coefficient_sd: float = COEFFICIENT_SD_PERCENT,
) -> Trend:
    """Return the trend of these boots, by ridge regression together with both levels.

    `bad` is each boot's probability to be on the bad side: a boot whose side is open weighs little, because
    p (1 - p) delta^2 is added to its variance. Residuals are clipped at 2.5 deviations, so one wild boot is no trend.
    """
    good_level, bad_level = levels
    middle = float((at_s.min() + at_s.max()) / 2)
    z = (at_s - middle) / SPAN_S
    total = variance + bad * (1 - bad) * (bad_level - good_level) ** 2
    weight = 1 / total
    expected = bad * bad_level + (1 - bad) * good_level
    powers = np.column_stack([z, z**2, z**3])
    design = np.column_stack([1 - bad, bad, powers])
    # The levels are refined, not free: 10 percent either way keeps the system solvable when one side has no boot.
    ridge = np.diag([1e-2, 1e-2, *[coefficient_sd**-2.0] * 3])
    normal = (design.T * weight) @ design + ridge
    fitted: Floats = np.zeros(5)
    for _ in range(3):
        # Clipped around the last fit: a steep drift must not be mistaken for wild boots.
        left = y - expected - design @ fitted
        target = design @ fitted + np.clip(left, -CLIP_SD * np.sqrt(total), CLIP_SD * np.sqrt(total))
        fitted = np.asarray(np.linalg.solve(normal, design.T @ (weight * target)), dtype=np.float64)
    shape = powers @ fitted[2:]
    return Trend(
        middle_s=middle,
        coefficients=(float(fitted[2]), float(fitted[3]), float(fitted[4])),
        constant=float((weight * shape).sum() / weight.sum()),
        covariance=tuple(map(tuple, np.linalg.inv(normal)[2:, 2:].tolist())),
    )

"""Are the two ends different at all? Alternating boots of both, before any commit in between is built."""

from dataclasses import dataclass
from enum import Enum

import numpy as np
from numpy.typing import NDArray

from bisector.search.noise import Readings, shrunk_boot_variance
from bisector.search.plan import RUNS
from bisector.search.types import Costs, Evidence, Options

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

# The ends differ when t^2 >= 3.2^2 + ln(pairs / 2): however often it is looked, two equal ends pass one time in a
# hundred (Robbins 1970, 2 ln(1 / alpha) = 3.2^2), and then the search and its audit still stand before a name.
CLEAR_T = 3.2
# Nothing stands behind "the ends are swapped", so it takes more.
SWAPPED_T = 4.0
# Below the smallest effect of interest by this many standard errors: not reproduced.
EXCLUDED_T = 2.5
FIRST_PAIRS = 2
FEWEST_PAIRS_TO_EXCLUDE = 5
FIRST_RUNS = 4


class GateVerdict(Enum):
    """What the gate says of the ends so far."""

    OPEN = "open"
    DIFFERENT = "different"
    TOO_SMALL = "too small"
    SWAPPED = "swapped"
    UNSEEN = "unseen"


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """What the boots of both ends say: `delta` > 0 when the bad end is worse, `se` its standard error, in percent.

    `pairs` are complete ones, each on one machine. `boot_sd` is shrunk to the prior, so that three boots cannot
    pretend to know it.
    """

    good_boots: int
    bad_boots: int
    pairs: int
    delta: float
    se: float
    boot_sd: float
    verdict: GateVerdict

    @property
    def t(self) -> float:
        """The difference in standard errors."""
        return self.delta / self.se if self.se > 0 else 0.0

    @property
    def detectable(self) -> float | None:
        """The smallest difference these boots could show; None before both ends were booted."""
        return clear_t(self.pairs) * self.se if self.pairs else None


def clear_t(pairs: int) -> float:
    """Return the standard errors that make the ends' difference clear after so many pairs."""
    return float(np.sqrt(CLEAR_T**2 + np.log(max(pairs, FIRST_PAIRS) / FIRST_PAIRS)))


def smallest_effect(options: Options) -> float:
    """Return the smallest effect of interest on the readings' log scale."""
    return float(100 * np.log1p(options.min_effect_percent / 100))


def judge(readings: Readings, ends: tuple[int, int], options: Options, *, spent: bool) -> Gate:
    """Return what the ends' boots say; `ends` are (good, bad), `spent` is True when there is no budget for more.

    Every machine has levels of its own, so ends are compared within a machine; the differences of several machines
    are pooled by their precision, and their pairs add up.
    """
    at_good, at_bad = (readings.commit == end for end in ends)
    boot_variance = shrunk_boot_variance(readings, at_good | at_bad)
    variance = boot_variance + readings.run_variance(readings.runs)
    counts, differences, errors = np.zeros(3, dtype=np.int64), [], []
    for machine in np.unique(readings.machine):
        good, bad = (at & (readings.machine == machine) for at in (at_good, at_bad))
        pair = int(good.sum()), int(bad.sum())
        counts += (*pair, min(pair))
        if min(pair) == 0:
            continue
        good_level, good_error = _centre(readings.y[good], variance[good])
        bad_level, bad_error = _centre(readings.y[bad], variance[bad])
        differences.append(bad_level - good_level)
        errors.append(good_error + bad_error)
    if not differences:
        return _gate(counts, 0.0, 0.0, boot_variance, GateVerdict.UNSEEN if spent else GateVerdict.OPEN)
    precision = 1 / np.array(errors)
    delta = float(precision / precision.sum() @ np.array(differences))
    spread = float(precision @ (np.array(differences) - delta) ** 2)
    se, pairs = float(np.sqrt(_widened(spread, precision.size) / precision.sum())), int(counts[2])
    over = spent or pairs >= options.max_gate_pairs
    verdict = _verdict(delta, se, pairs, smallest_effect(options), spent=over)
    return _gate(counts, delta, se, boot_variance, verdict)


def _widened(spread: float, machines: int) -> float:
    """How much wider machines that disagree make the variance: their chi square over its freedom, shrunk to 1.

    Eight machines of one pair each have no commit booted twice on one machine: nothing else tells how boots scatter
    there. Source: Birge's ratio (1932), never below 1, shrunk with the weight of 4 boots as the deviation is.
    """
    return max(1.0, (4 + spread) / (4 + machines - 1))


def _gate(counts: Ints, delta: float, se: float, boot_variance: float, verdict: GateVerdict) -> Gate:
    return Gate(
        good_boots=int(counts[0]),
        bad_boots=int(counts[1]),
        pairs=int(counts[2]),
        delta=delta,
        se=se,
        boot_sd=float(np.sqrt(boot_variance)),
        verdict=verdict,
    )


def _centre(y: Floats, variance: Floats) -> tuple[float, float]:
    """The weighted mean of an end's boots, each pulled in to two deviations from the median; and its variance."""
    weight = 1 / variance
    centre = float(np.median(y))
    if y.size > 2:
        for _ in range(3):
            pulled = np.clip(y - centre, -2 * np.sqrt(variance), 2 * np.sqrt(variance))
            centre += float(weight @ pulled / weight.sum())
    else:
        centre = float(weight @ y / weight.sum())
    return centre, float(1 / weight.sum())


def _verdict(delta: float, se: float, pairs: int, smallest: float, *, spent: bool) -> GateVerdict:
    t = delta / se
    if pairs > FIRST_PAIRS and t <= -SWAPPED_T:
        return GateVerdict.SWAPPED
    below = delta + EXCLUDED_T * se < smallest
    if pairs >= FIRST_PAIRS and t >= clear_t(pairs):
        return GateVerdict.TOO_SMALL if below else GateVerdict.DIFFERENT
    if below and pairs >= FEWEST_PAIRS_TO_EXCLUDE:
        return GateVerdict.TOO_SMALL
    if spent:
        return GateVerdict.DIFFERENT if t >= CLEAR_T else GateVerdict.UNSEEN
    return GateVerdict.OPEN


def next_end(evidence: Evidence, ends: tuple[int, int], machine: int) -> int:
    """Return the end to boot next on a machine: A B B A.

    It begins with the end that fewer other machines are at, then with the one that is ready: an image in hand saves
    a wait.
    """
    good, bad = ends
    booted = [boot.commit for boot in evidence.boots if boot.commit in ends and boot.machine == machine]
    of_good, of_bad = booted.count(good), booted.count(bad)
    if of_good != of_bad:
        return good if of_good < of_bad else bad
    elsewhere = [look.commit for look in evidence.pending]
    crowded = elsewhere.count(good) - elsewhere.count(bad)
    ready_bad = bad in evidence.built and good not in evidence.built
    first = booted[0] if booted else bad if crowded > 0 or (crowded == 0 and ready_bad) else good
    second = bad if first == good else good
    return first if of_good % 2 == 0 else second


def next_runs(gate: Gate, readings: Readings, options: Options, costs: Costs) -> int:
    """Return the runs per boot that make the rest of the gate cheapest.

    Pairs needed for t standard errors: t^2 * 2 v_r / delta^2, v_r = s_b^2 + k s_r^2 / r, and never fewer than two; the
    difference taken is the one seen less one standard error, or the smallest of interest.
    """
    if gate.pairs == 0:
        return FIRST_RUNS
    runs = np.array(RUNS)
    cost = pairs_left(gate, readings, options, runs) * 2 * (costs.boot_s + runs * costs.run_s)
    return int(runs[int(np.argmin(np.round(cost, 6)))])


def pairs_left(gate: Gate, readings: Readings, options: Options, runs: Ints) -> Floats:
    """Return how many more pairs of boots with so many runs it should take to pass."""
    expected = max(abs(gate.delta) - gate.se, smallest_effect(options))
    variance = gate.boot_sd**2 + readings.run_variance(runs)
    needed = CLEAR_T**2 * 2 * variance / expected**2 - gate.pairs
    left: Floats = np.maximum(needed, max(1, FIRST_PAIRS - gate.pairs))
    return left


def boots_needed(gate: Gate, readings: Readings, options: Options, runs: int) -> int:
    """Return the boots (both ends together) that would show the smallest effect of interest."""
    variance = gate.boot_sd**2 + float(readings.run_variance(runs))
    pairs = CLEAR_T**2 * 2 * variance / smallest_effect(options) ** 2
    return 2 * max(FIRST_PAIRS, int(np.ceil(pairs)))

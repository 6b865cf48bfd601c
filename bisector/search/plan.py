"""What to boot next: the look that tells most about the first bad commit per second of machine time."""

from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from bisector.search.algebra import product
from bisector.search.belief import Belief
from bisector.search.graph import Graph
from bisector.search.noise import Readings
from bisector.search.pending import foresee, fractions
from bisector.search.types import Costs, Evidence

Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

# With one or two runs a Huber mean cannot resist an outlier; 16 is where more runs stop to pay for any usual lab.
RUNS = (3, 4, 6, 8, 12, 16)
BOOTS = (1, 2, 3, 5, 8)
# A class with less mass is not worth a search for its middle.
LIGHT_CLASS = 1e-4
# A look that tells this many times less than the best one leaves the question open that the best one answers: its
# cost comes on top. Source: labs with a build 10^5 times a boot, which booted the first middle until the stall rule.
WORTH_A_LOOK = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """One possible look: `bits` expected from `boots` boots of `runs` runs that cost `cost_s`, and the split."""

    commit: int
    runs: int
    boots: int
    bad: float
    built: bool
    bits: float
    cost_s: float


def boots_for_all(belief: Belief, best: Proposal) -> float:
    """Return about how many boots it takes to tell everything, if each look tells what the best one does now."""
    return belief.entropy_bits / best.bits * best.boots


def binary_entropy(q: Floats) -> Floats:
    """Return the entropy of a coin in bits, 0 at both ends."""
    p = np.clip(q, 1e-12, 1 - 1e-12)
    entropy: Floats = -(p * np.log2(p) + (1 - p) * np.log2(1 - p))
    return entropy


@cache
def _table() -> tuple[Floats, Floats, Floats]:
    """Mutual information of one Gaussian look, on q in [0, 1] and d = shift / deviation in [0, 14]."""
    q = np.linspace(0, 1, 201)
    d = np.concatenate([np.linspace(0, 6, 61), np.linspace(6.2, 14, 40)])
    z, step = np.linspace(-7, 7, 113, retstep=True)
    density = np.exp(-0.5 * z**2) / np.sqrt(2 * np.pi) * step
    half = q[: q.size // 2 + 1]
    left = np.zeros((half.size, d.size))
    p = half[:, None]
    for column, shift in enumerate(d):
        # After a look at z standard deviations from the good level, and from the bad level.
        for own, at in ((1 - p, z), (p, z + shift)):
            ratio = np.exp(np.clip(shift * at - 0.5 * shift**2, -700, 700))
            after = p * ratio / (p * ratio + (1 - p))
            left[:, column] += (own * binary_entropy(after) * density).sum(axis=1)
    information = np.clip(binary_entropy(half)[:, None] - left, 0.0, None)
    return q, d, np.concatenate([information, information[-2::-1]])


def information(q: Floats, d: Floats) -> Floats:
    """Return the bits that one Gaussian look tells about a side of probability q, d deviations apart.

    I(q, d) = h(q) - E[h(q')], bilinear in a table (the binary-input Gaussian channel). Arrays broadcast.
    """
    q_axis, d_axis, table = _table()
    q, d = np.broadcast_arrays(np.clip(q, 0, 1), np.clip(d, 0, d_axis[-1]))
    row = np.clip((q * (q_axis.size - 1)).astype(np.int64), 0, q_axis.size - 2)
    column = np.clip(np.searchsorted(d_axis, d, side="right") - 1, 0, d_axis.size - 2)
    up = q * (q_axis.size - 1) - row
    right = (d - d_axis[column]) / (d_axis[column + 1] - d_axis[column])
    low = table[row, column] * (1 - right) + table[row, column + 1] * right
    high = table[row + 1, column] * (1 - right) + table[row + 1, column + 1] * right
    value: Floats = low * (1 - up) + high * up
    return value


def expected_information(q: Floats, chance: Floats, d: Floats) -> Floats:
    """Return shape (commits, ways): the bits a look tells on average over what may be known before it.

    `q` (commits, outcomes) are probabilities that come true with `chance`; `d` (commits, ways) the deviations apart.
    Interpolation in the table is linear in each row's weight, so all outcomes together cost what one does.
    """
    if chance.size == 1:
        return information(q, d)
    q_axis, d_axis, table = _table()
    last = q_axis.size - 1
    place = np.clip(q, 0, 1) * last
    row = np.minimum(place.astype(np.int64), last - 1)
    up, of = (place - row) * chance, np.arange(len(q))[:, None] * q_axis.size
    weight = np.bincount((of + row).ravel(), (chance - up).ravel(), len(q) * q_axis.size).astype(np.float64)
    weight += np.bincount((of + row + 1).ravel(), up.ravel(), len(q) * q_axis.size)
    by_d = product(weight.reshape(len(q), -1), table)
    d = np.clip(d, 0, d_axis[-1])
    column = np.clip(np.searchsorted(d_axis, d, side="right") - 1, 0, d_axis.size - 2)
    right = (d - d_axis[column]) / (d_axis[column + 1] - d_axis[column])
    each = np.arange(len(q))[:, None]
    expected: Floats = by_d[each, column] * (1 - right) + by_d[each, column + 1] * right
    return expected


def next_look(graph: Graph, evidence: Evidence, readings: Readings, belief: Belief, costs: Costs) -> Proposal | None:
    """Return the best look given what the pending ones will tell, or None when no testable commit can tell anything."""
    commits = candidates(graph, evidence, belief)
    shifts = pending_shifts(evidence, readings, belief)
    futures = foresee(graph, belief, shifts)
    if not futures.certain:
        beside = fractions(graph, belief, futures, testable(graph, evidence))
        commits = np.union1d(commits, np.array(beside, dtype=np.int64))
    if commits.size == 0:
        return None
    after = futures.bad_probability(graph, belief, commits)
    return _best(commits, (after, futures.chance), evidence, readings, belief, costs)


def pending_shifts(evidence: Evidence, readings: Readings, belief: Belief) -> dict[int, float]:
    """Return for each commit with a pending look how many deviations apart its sides will be by it."""
    commits = np.array(sorted({look.commit for look in evidence.pending}), dtype=np.int64)
    known = _precisions(commits, readings, belief)
    more = _pending_precisions(commits, evidence, readings, belief)
    apart = _useful_precision(known + more, belief, 0.0) - _useful_precision(known, belief, 0.0)
    return {int(commit): abs(belief.delta) * float(np.sqrt(one)) for commit, one in zip(commits, apart, strict=True)}


def candidates(graph: Graph, evidence: Evidence, belief: Belief) -> Ints:
    """Return the commits worth a thought: every one built or being built, and the middle of every heavy class."""
    built = {boot.commit for boot in evidence.boots} | evidence.built | evidence.coming.keys() | {graph.good, graph.bad}
    usable = np.array(sorted(built - evidence.skipped - evidence.marked_good - evidence.marked_bad), dtype=np.int64)
    middles = list(middle_of_classes(graph, evidence, belief).values())
    return np.unique(np.concatenate([usable, np.array(middles, dtype=np.int64)])) if usable.size or middles else usable


def testable(graph: Graph, evidence: Evidence) -> Bools:
    """Return which commits could still get their first look: not tried, not skipped, not settled by a person."""
    open_commits = np.ones(len(graph), dtype=np.bool_)
    tried = evidence.skipped | evidence.built | evidence.marked_good | evidence.marked_bad
    closed = sorted(tried | {boot.commit for boot in evidence.boots} | {graph.good, graph.bad})
    open_commits[closed] = False
    return open_commits


def middle_of_classes(graph: Graph, evidence: Evidence, belief: Belief) -> dict[int, int]:
    """Return for each class with mass its testable commit whose probability to be bad is nearest 1/2.

    If the leading class has none that splits it, a testable commit outside that does is given in its place.
    """
    free = testable(graph, evidence)
    heavy = np.append(belief.mass > LIGHT_CLASS, False)
    members = np.flatnonzero(free & heavy[belief.of_class])
    # Rounded, so that the last digit of a sum does not decide between two commits that split as well.
    off = np.round(np.abs(belief.bad_probability(graph, members) - 0.5), 9)
    number = belief.of_class[members]
    nearest = np.full(belief.mass.size, 1.0)
    np.minimum.at(nearest, number, off)
    best = off == nearest[number]
    numbers, first = np.unique(number[best], return_index=True)
    middles = dict(zip(numbers.tolist(), members[best][first].tolist(), strict=True))
    leading = int(np.argmax(belief.mass))
    within = members[number == leading]
    # Of two commits of a class one at least leaves the other out.
    if within.size < 2 and not splits(graph, belief.members(leading), within).any():
        outside = splitting(graph, evidence, belief.members(leading))
        if outside is not None:
            middles[leading] = outside
    return middles


def splits(graph: Graph, members: Ints, commits: Ints) -> Bools:
    """Return for each of `commits` whether a look at it can tell some of `members` from others."""
    if commits.size == 0 or members.size < 2:
        return np.zeros(commits.size, dtype=np.bool_)
    mass = np.zeros(len(graph))
    mass[members] = 1.0
    inside = graph.mass_below(commits, mass)
    result: Bools = (inside > 0.5) & (inside < members.size - 0.5)
    return result


def splitting(graph: Graph, evidence: Evidence, members: Ints) -> int | None:
    """Return the testable commit anywhere that splits these commits most evenly, or None."""
    if members.size < 2:
        return None
    mass = np.zeros(len(graph))
    mass[members] = 1.0
    inside = np.rint(graph.masses_below(mass)).astype(np.int64)
    even = np.minimum(inside, members.size - inside)
    even[~testable(graph, evidence)] = 0
    best = int(np.argmax(even))
    return best if even[best] > 0 else None


def _best(
    commits: Ints,
    futures: tuple[Floats, Floats],
    evidence: Evidence,
    readings: Readings,
    belief: Belief,
    costs: Costs,
) -> Proposal | None:
    after_pending, chance = futures
    wait = _waits(commits, evidence, costs)
    known = _precisions(commits, readings, belief) + _pending_precisions(commits, evidence, readings, belief)
    runs, boots = (grid.ravel() for grid in np.meshgrid(RUNS, BOOTS, indexing="ij"))
    variance = belief.boot_variance + readings.run_variance(runs)
    doubt = _threshold_variance(evidence, readings, belief)
    before = _useful_precision(known, belief, doubt)[:, None]
    after = _useful_precision(known[:, None] + boots / variance, belief, doubt)
    apart = np.abs(belief.delta) * np.sqrt(np.maximum(0.0, after - before))
    bits = expected_information(after_pending, chance, apart)
    # Where a build costs a hundred boots and more, what is next to nothing would always be the best for its seconds.
    bits[bits < bits.max() / WORTH_A_LOOK] = 0.0
    cost = wait[:, None] + boots * (costs.boot_s + runs * costs.run_s)
    # Rounded, so that the last digit of a sum (another direction, another unit) does not decide a tie.
    score = np.round(np.log(np.maximum(bits / np.maximum(cost, 1e-9), 1e-300)), 9)
    commit, way = np.unravel_index(int(np.argmax(score)), score.shape)
    if bits[commit, way] <= 1e-9:
        return None
    return Proposal(
        commit=int(commits[commit]),
        runs=int(runs[way]),
        boots=int(boots[way]),
        bad=float(after_pending[commit] @ chance),
        built=bool(wait[commit] == 0),
        bits=float(bits[commit, way]),
        cost_s=float(cost[commit, way]),
    )


def _waits(commits: Ints, evidence: Evidence, costs: Costs) -> Floats:
    """Seconds until each commit's kernel is there: none if it is built, what is left if it is being made."""
    ready = evidence.built | {boot.commit for boot in evidence.boots}
    left = {commit: max(0.0, at_s - evidence.now_s) for commit, at_s in evidence.coming.items()}
    return np.array([0.0 if int(one) in ready else left.get(int(one), costs.build_s) for one in commits])


def _pending_precisions(commits: Ints, evidence: Evidence, readings: Readings, belief: Belief) -> Floats:
    """The precision that looks under way will add to each commit's."""
    added: dict[int, float] = {}
    for look in evidence.pending:
        variance = belief.boot_variance + float(readings.run_variance(look.runs))
        added[look.commit] = added.get(look.commit, 0.0) + 1 / variance
    return np.array([added.get(int(commit), 0.0) for commit in commits])


def _precisions(commits: Ints, readings: Readings, belief: Belief) -> Floats:
    """The precision that each commit's boots have gathered so far."""
    each = 1 / (belief.boot_variance + readings.run_variance(readings.runs))
    return np.array([each[readings.commit == commit].sum() for commit in commits])


def _threshold_variance(evidence: Evidence, readings: Readings, belief: Belief) -> float:
    """The variance of the midpoint of both levels: every booted commit tells of the side that it may be on."""
    looked = np.array(belief.looked, dtype=np.int64)
    known = _precisions(looked, readings, belief) + _pending_precisions(looked, evidence, readings, belief)
    sides = np.stack([1 - belief.looked_bad, belief.looked_bad])
    levels = np.maximum(sides @ _useful_precision(known, belief, 0.0), 1e-9)
    return float((1 / levels).sum()) / 4


def _useful_precision(precision: Floats, belief: Belief, doubt: float) -> Floats:
    """What is left of a precision behind the layout offset and the doubt about the threshold: p / (1 + s^2 p)."""
    useful: Floats = precision / (1 + (belief.layout_variance + doubt) * precision)
    return useful

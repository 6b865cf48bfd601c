"""Before somebody is accused: fresh boots of the commit and its parent, one after the other, tested on their own."""

from dataclasses import dataclass
from enum import Enum

import numpy as np
from numpy.typing import NDArray

from bisector.model.outcome import Purpose
from bisector.search.belief import FLAT_SHARE, Belief, level_of
from bisector.search.graph import Graph
from bisector.search.noise import Readings
from bisector.search.plan import RUNS
from bisector.search.types import Costs, Evidence

Floats = NDArray[np.float64]

# Wald's bounds: one accusation in ten of those that the search got wrong (one in a hundred by itself) passes, one in
# a hundred right ones is refuted. And how many pairs are tried.
CONFIRM_ODDS = float(np.log(9))
REFUTE_ODDS = float(np.log(99))
FEWEST_PAIRS = 2
MOST_PAIRS = 12
# More pairs tell nothing once the layout of the two kernels hides more than the boots do: their mean is this much
# more precise than the offset between them.
LAYOUT_SHARE = 0.25
# Several machines make as many pairs at once as pass the bound with this many deviations to spare.
SPARE_SD = 1.0
# The jump under test, as shares of the ends' difference, and what each is worth beforehand: the whole of it in the
# usual case, a part of it where two commits share the blame.
SHARES = np.array([1.0, 0.75, 0.5, 0.3])
SHARE_PRIOR = np.array([0.7, 0.1, 0.12, 0.08])
# A jump is said to be a part of the ends' difference only below this share of it.
CLEAR_PART = 0.85


class AuditVerdict(Enum):
    """How an audit stands."""

    OPEN = "open"
    CONFIRMED = "confirmed"
    REFUTED = "refuted"
    UNDECIDED = "undecided"


@dataclass(frozen=True, slots=True, kw_only=True)
class Audit:
    """The pairs so far: `jump` and its error in percent (log scale), `log_odds` of a jump against none.

    Each of the `pairs` was made on one machine, in the order parent, accused, parent, accused; the first three boots
    make two. `boots` counts those without a partner too.
    """

    accused: int
    parent: int
    boots: int
    pairs: int
    jump: float
    se: float
    log_odds: float
    verdict: AuditVerdict


def parent_of(graph: Graph, evidence: Evidence, belief: Belief, accused: int) -> int | None:
    """Return the parent to audit against: the one likeliest to be bad after all, built ones first; None if none works.

    A root's opponent is the good end. Of a merge's parents the likeliest bad one is where an error would hide.
    """
    parents = [parent for parent in graph.parents[accused] if parent not in evidence.skipped]
    if not graph.parents[accused] and graph.good not in evidence.skipped:
        parents = [graph.good]
    if not parents:
        return None
    bad = np.round(belief.bad_probability(graph, parents), 6)
    ready = evidence.built | {boot.commit for boot in evidence.boots}
    ranked = sorted(range(len(parents)), key=lambda i: (-bad[i], parents[i] not in ready, i))
    return parents[ranked[0]]


def audited_pair(graph: Graph, evidence: Evidence, accused: int) -> int | None:
    """Return the parent of the audit of `accused` that is under way on some machine, or None."""
    opponents = set(graph.parents[accused]) or {graph.good}
    looks = [(boot.machine, boot.commit) for boot in evidence.boots if boot.purpose is Purpose.AUDIT]
    looks += [(look.machine, look.commit) for look in evidence.pending if look.purpose is Purpose.AUDIT]
    recent = [commit for _, commit in looks if commit in opponents]
    latest = dict(looks).values()
    # The pair is known by its parent; audits begin with the parent, so one boot is enough.
    return recent[-1] if recent and {recent[-1], accused} & set(latest) else None


def judge(evidence: Evidence, readings: Readings, belief: Belief, accused: int, parent: int) -> Audit:
    """Return how the audit stands, from boots made for it alone (their purpose says so) and their raw readings.

    The log odds compare "a jump of a share of the ends' difference" with "no jump", both with a layout offset
    between the two kernels, each pair with a flat part that caps its evidence. After four pairs the deviation is
    mostly the one seen between pairs, which holds for boots with two modes as well (there the model's own is wrong).
    """
    fresh = _fresh(evidence, accused, parent)
    made, factors = [], []
    for boots_of in fresh.values():
        paired, factor = _paired(*boots_of)
        made += paired
        factors += [factor] * len(paired)
    mine, theirs = [pair[0] for pair in made], [pair[1] for pair in made]
    boots, pairs = sum(len(mine) + len(theirs) for mine, theirs in fresh.values()), len(made)
    each = belief.boot_variance + readings.run_variance(readings.runs)
    jumps = readings.y[mine] - readings.y[theirs]
    open_audit = Audit(
        accused=accused,
        parent=parent,
        boots=boots,
        pairs=pairs,
        jump=0.0,
        se=0.0,
        log_odds=0.0,
        verdict=AuditVerdict.OPEN,
    )
    if pairs == 0:
        return open_audit
    model = (each[mine] + each[theirs]) * np.array(factors)
    if pairs >= 4:
        freedom = pairs - 1
        model = (4 * model + freedom * float(np.var(jumps, ddof=1))) / (4 + freedom)
    log_odds = _log_odds(jumps, model, belief)
    jump = float(np.median(jumps)) if pairs > 2 else float(jumps.mean())
    for _ in range(3 if pairs > 2 else 0):
        jump += float(np.clip(jumps - jump, -1.5 * np.sqrt(model), 1.5 * np.sqrt(model)).mean())
    return Audit(
        accused=accused,
        parent=parent,
        boots=boots,
        pairs=pairs,
        jump=jump,
        se=float(np.sqrt(model.mean() / pairs)),
        log_odds=log_odds,
        verdict=_verdict(
            pairs,
            log_odds,
            towards_bad=jump * belief.delta > 0,
            told_all=pairs >= MOST_PAIRS or float(model.mean()) / pairs <= LAYOUT_SHARE * 2 * belief.layout_variance,
        ),
    )


def _fresh(evidence: Evidence, accused: int, parent: int) -> dict[int, tuple[list[int], list[int]]]:
    """Each machine's places of the boots of this audit, of the accused and of its parent.

    A machine that has audited another pair in between begins anew: its older boots are not fresh any more.
    """
    fresh: dict[int, tuple[list[int], list[int]]] = {}
    for place, boot in enumerate(evidence.boots):
        if boot.purpose is not Purpose.AUDIT:
            continue
        if boot.commit not in (accused, parent):
            fresh.pop(boot.machine, None)
        else:
            fresh.setdefault(boot.machine, ([], []))[boot.commit != accused].append(place)
    return fresh


def _paired(mine: list[int], theirs: list[int]) -> tuple[list[tuple[int, int]], float]:
    """One machine's pairs, and what their variances are to be multiplied by.

    Its third boot, the parent's second, makes another pair with the one boot of the accused: a lab that has moved
    between the first two is seen by it. Three boots differ with v (1 + 1/2), two pairs of four boots with v.
    """
    pairs = list(zip(mine, theirs, strict=False))
    if len(pairs) == 1 and len(theirs) == 2:
        return [*pairs, (mine[0], theirs[1])], 1.5
    return pairs, 1.0


def _log_odds(jumps: Floats, variance: Floats, belief: Belief) -> float:
    delta, offset_sd = belief.delta, np.sqrt(2 * belief.layout_variance)
    offsets = np.linspace(-3, 3, 61)
    prior = np.exp(-0.5 * offsets**2) / np.exp(-0.5 * offsets**2).sum()
    flat = FLAT_SHARE / (3 * abs(delta) + 12 * float(np.sqrt(variance.mean())))
    expected = np.append(SHARES * delta, 0.0)[:, None] + offsets * offset_sd
    gap = jumps[:, None, None] - expected
    normal = np.exp(-0.5 * gap**2 / variance[:, None, None]) / np.sqrt(2 * np.pi * variance)[:, None, None]
    log = np.log((1 - FLAT_SHARE) * normal + flat).sum(axis=0)
    likelihood = np.exp(log - log.max()) @ prior
    return float(np.log(SHARE_PRIOR @ likelihood[:-1] + 1e-300) - np.log(likelihood[-1] + 1e-300))


def _verdict(pairs: int, log_odds: float, *, towards_bad: bool, told_all: bool) -> AuditVerdict:
    # One pair can speak for the jump while bad boots of the parent silence the rest: pairs that together show the
    # opposite of what they are to confirm need company.
    if pairs >= FEWEST_PAIRS and log_odds >= CONFIRM_ODDS and towards_bad:
        return AuditVerdict.CONFIRMED
    if pairs >= FEWEST_PAIRS and log_odds <= -REFUTE_ODDS:
        return AuditVerdict.REFUTED
    if not told_all:
        return AuditVerdict.OPEN
    # The pairs alone cannot settle it, because of the kernels' layouts mostly. The whole of the boots has, by
    # many kernels on either side, and needs no more than that the pairs do not speak against it.
    return AuditVerdict.CONFIRMED if log_odds > 0 and towards_bad else AuditVerdict.UNDECIDED


def next_side(evidence: Evidence, audit: Audit, machine: int) -> int:
    """Return the commit to boot next on a machine: parent, accused, parent, accused.

    So the third boot already shows a lab that has moved between the first two.
    """
    mine, theirs = _fresh(evidence, audit.accused, audit.parent).get(machine, ([], []))
    return audit.accused if len(mine) < len(theirs) else audit.parent


def covered(evidence: Evidence, readings: Readings, belief: Belief, audit: Audit, machine: int, runs: int) -> bool:
    """Return whether the pairs that other machines are at should settle the audit, so that this one is not needed.

    A pair is worth N(m, 2 m) nats, m = delta^2 / (4 v_r): enough are those that pass the bound one deviation below
    their mean. A machine that has begun a pair ends it.
    """
    fresh = _fresh(evidence, audit.accused, audit.parent)
    mine, theirs = fresh.get(machine, ([], []))
    if len(mine) != len(theirs):
        return False
    under_way = {
        look.machine
        for look in evidence.pending
        if look.purpose is Purpose.AUDIT and look.commit in (audit.accused, audit.parent)
    }
    if not under_way:
        return False
    variance = belief.boot_variance + float(readings.run_variance(runs))
    worth = max(1e-3, belief.delta**2 / (4 * variance))
    missing = CONFIRM_ODDS - min(audit.log_odds, CONFIRM_ODDS)
    root = (SPARE_SD * np.sqrt(2) + np.sqrt(2 * SPARE_SD**2 + 4 * missing)) / 2
    wanted = max(FEWEST_PAIRS - audit.pairs, float(root) ** 2 / worth)
    return len(under_way) >= min(wanted, MOST_PAIRS - audit.pairs)


def next_runs(readings: Readings, belief: Belief, costs: Costs) -> int:
    """Return the runs per boot that reach the bound cheapest: each pair is worth delta^2 / (4 v_r) nats.

    Half the bound is added, for the pairs that are worth less than their mean; and three boots are the fewest.
    """
    runs = np.array(RUNS)
    variance = belief.boot_variance + readings.run_variance(runs)
    worth = np.maximum(belief.delta**2 / (4 * variance), 1e-9)
    boots = np.maximum(FEWEST_PAIRS + 1, 2 * 1.5 * CONFIRM_ODDS / worth)
    cost = boots * (costs.boot_s + runs * costs.run_s)
    return int(runs[int(np.argmin(np.round(cost, 6)))])


def share(audit: Audit, readings: Readings, belief: Belief, whole: tuple[float, float]) -> float:
    """Return the part of the ends' difference that the accused explains; 1.0 unless it is clearly less.

    `whole` is the ends' own difference and its error: the belief's levels are no measure, several steps pull them
    together. The jump is taken from every boot of the two commits, not from the fresh ones alone: whether there is
    one is settled, this is how large. "Clearly" is two standard errors below the whole, layout offsets included, and
    in the fresh pairs too: a wild boot or a step of the lab moves levels, boots side by side hardly.
    """
    difference, its_error = whole
    levels, errors = [], []
    for commit in (audit.accused, audit.parent):
        of = readings.commit == commit
        level, error = level_of(readings, belief, of)
        levels.append(level)
        errors.append(error + belief.layout_variance)
    part = (levels[0] - levels[1]) / difference
    error = np.sqrt(sum(errors) + (part * its_error) ** 2) / abs(difference)
    clear = part + 2 * error < 1 and max(part, audit.jump / difference) < CLEAR_PART
    return float(part) if clear and part > 0 else 1.0

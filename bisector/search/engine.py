"""The next step of a hunt as a function of what is known: gate, search, audit, finding. Same evidence, same step."""

import numpy as np

from bisector.model.outcome import AnswerKind, Purpose
from bisector.search import audit as audits
from bisector.search import gate as gates
from bisector.search import say
from bisector.search.audit import Audit, AuditVerdict
from bisector.search.belief import Belief
from bisector.search.gate import Gate, GateVerdict
from bisector.search.graph import Graph
from bisector.search.pending import gate_covered
from bisector.search.plan import Proposal, boots_for_all, next_look, splits, splitting, testable
from bisector.search.situation import Situation, situation, spent
from bisector.search.stall import STALL_BOOTS, learned_nothing, slope_of
from bisector.search.types import Costs, Evidence, Finding, Look, Options, Wait
from bisector.search.verdict import level_against_good

# A boot of known side at least this often, so that a drift of the lab is seen; source: invented labs at 1 %/h.
REFERENCE_EVERY_S = 45 * 60.0
SETTLED = 0.02
# The ends' own difference, in standard errors, below which they are booted again. A gate that was passed by luck shows
# twice the true difference, and with later boots the levels run into each other: 3 of 60 hunts at 2 % then ended with
# all commits possible, none with this.
KEPT_T = 3.0
# An audit begins here: its boots are as good for the search as any others by now, so nothing is lost by making them
# as fresh pairs. It goes on while the accused keeps the smaller one, so that one odd boot does not stop it.
ACCUSED = 0.8
STILL_ACCUSED = 0.6
# No kernel between the two sides of a set can speak against one of them, so each is booted twice for its audit.
SET_BOOTS = 4
# Bits that a look must be expected to tell beyond those under way elsewhere; else the machine waits for them.
WORTH_BESIDE = 0.01


def propose(graph: Graph, evidence: Evidence, costs: Costs, options: Options) -> Look | Finding:
    """Return the next boot to make, or how the hunt ends, for a lab of one machine. A deterministic function.

    Raises ValueError for evidence that does not fit the graph or that has pending looks: those need `assign`.
    """
    step = decide(situation(graph, evidence, options), costs)
    if isinstance(step, Wait):
        raise ValueError("looks are pending: with several machines ask `assign`")
    return step


def decide(now: Situation, costs: Costs) -> Look | Wait | Finding:
    """Return the next step of one machine in this situation."""
    dead_end = _dead_end(now)
    if dead_end is not None:
        return dead_end
    if not now.searching:
        return _gate_step(now, costs)
    return (
        _answer(now, costs)
        or _ended(now, costs)
        or _booked_out(now)
        or _own_ends(now, costs)
        or _ends_again(now, costs)
        or _reference(now, costs)
        or _search_step(now, costs)
    )


def _dead_end(now: Situation) -> Finding | None:
    """What no more boots can help: an end that cannot be tested, two ends that are one kernel, words that clash."""
    good, bad = now.graph.good, now.graph.bad
    for end, name, boots in ((good, "good", now.gate.good_boots), (bad, "bad", now.gate.bad_boots)):
        if end in now.evidence.skipped and (boots == 0 or not now.searching):
            return Finding(kind=AnswerKind.NONE, commits=(), probability=0.0, reason=say.end_untestable(name))
    images = now.evidence.signatures
    if good in images and images.get(good) == images.get(bad):
        return Finding(kind=AnswerKind.NOT_REPRODUCED, commits=(), probability=1.0, reason=say.SAME_IMAGE)
    if now.belief.contradiction:
        return Finding(kind=AnswerKind.NONE, commits=(), probability=0.0, reason=say.CONTRADICTION)
    return None


def _booked_out(now: Situation) -> Wait | None:
    """The boots under way are the last of the budget: whether they are enough is seen when they end."""
    pending = len(now.evidence.pending)
    if pending and len(now.evidence.boots) + pending >= now.options.max_boots:
        return Wait(reason=say.BOOKED_OUT)
    return None


def _gate_step(now: Situation, costs: Costs) -> Look | Wait | Finding:
    gate = now.gate
    if gate.verdict is GateVerdict.OPEN:
        return _booked_out(now) or _end_look(now, costs) or Wait(reason=say.GATE_COVERED)
    runs = gates.next_runs(gate, now.readings, now.options, costs)
    needed = gates.boots_needed(gate, now.readings, now.options, runs)
    reason = say.not_reproduced(gate, now.readings, now.options, needed=needed, runs=runs)
    return Finding(kind=AnswerKind.NOT_REPRODUCED, commits=(), probability=_probability_of_none(gate), reason=reason)


def _probability_of_none(gate: Gate) -> float:
    # The error rates of the gate's bounds: 2.5 standard errors to exclude, 4 to find the ends swapped.
    return {GateVerdict.TOO_SMALL: 0.99, GateVerdict.SWAPPED: 0.9999}.get(gate.verdict, 0.5)


def _own_ends(now: Situation, costs: Costs) -> Look | None:
    """A machine that comes late: its levels are its own, so it boots both ends before its boots can tell anything."""
    seen = {boot.commit for boot in now.evidence.boots if boot.machine == now.machine}
    missing = {now.graph.good, now.graph.bad} - seen
    if not missing or missing & now.evidence.skipped:
        return None
    end = gates.next_end(now.evidence, (now.graph.good, now.graph.bad), now.machine)
    runs = audits.next_runs(now.readings, now.belief, costs)
    return Look(commit=end, runs=runs, purpose=Purpose.GATE, reason=say.OWN_LEVELS)


def _ends_again(now: Situation, costs: Costs) -> Look | None:
    """A boot of an end when the ends' own difference is not clear any more: all else is measured against it."""
    tried_enough = now.gate.pairs >= now.options.max_gate_pairs
    if {now.graph.good, now.graph.bad} & now.evidence.skipped or tried_enough or abs(now.gate.t) >= KEPT_T:
        return None
    return _end_look(now, costs)


def _end_look(now: Situation, costs: Costs) -> Look | None:
    """The next boot of the ends in turn, or None when those under way should be enough."""
    gate, ends = now.gate, (now.graph.good, now.graph.bad)
    runs = gates.next_runs(gate, now.readings, now.options, costs)
    left = float(gates.pairs_left(gate, now.readings, now.options, np.array(runs))) if gate.pairs else np.inf
    if gate_covered(now.evidence, ends, now.machine, pairs_left=left):
        return None
    end = gates.next_end(now.evidence, ends, now.machine)
    name = "good" if end == ends[0] else "bad"
    reason = say.gate_look(gate, now.readings, end_name=name, searching=now.searching)
    return Look(commit=end, runs=runs, purpose=Purpose.GATE, reason=reason)


def _answer(now: Situation, costs: Costs) -> Look | Finding | None:
    """Return the finding, or the next boot of the audit that stands before it; None while the search goes on."""
    belief = now.belief
    leading = int(np.argmax(belief.mass))
    members, mass = belief.members(leading), float(belief.mass[leading])
    if members.size == 1:
        accused = int(members[0])
        standing = audit_of(now, accused)
        open_audit = standing is not None and standing.boots > 0
        begin = min(ACCUSED, now.options.confidence) if now.options.audit else now.options.confidence
        if mass >= begin or (open_audit and mass >= STILL_ACCUSED):
            return _accuse(now, costs, accused, mass, standing)
        return None
    if mass < now.options.confidence or _can_split(now, leading):
        return None
    return _name_set(now, costs, [int(one) for one in members])


def _name_set(now: Situation, costs: Costs, members: list[int]) -> Look | Finding | None:
    """Return the set, once fresh pairs of the kernels on its two sides show the change between them.

    Without them two boots of one kernel in a bad minute of the lab could settle a wrong set for good.
    """
    reason = say.inseparable(len(members), sum(one in now.evidence.skipped for one in members))
    sides = set_sides(now, members)
    if not now.options.audit or sides is None or spent(now.evidence, now.options):
        return _set(now, members, reason)
    audit = audits.judge(now.evidence, now.readings, now.belief, *sides)
    proven = audit.verdict is AuditVerdict.CONFIRMED
    if proven and audit.boots >= SET_BOOTS:
        return _set(now, members, reason)
    if proven or audit.verdict is AuditVerdict.OPEN:
        runs = audits.next_runs(now.readings, now.belief, costs)
        if audits.covered(now.evidence, now.readings, now.belief, audit, now.machine, runs):
            return None
        look = audits.next_side(now.evidence, audit, now.machine)
        reason = say.set_look(audit, len(members), after_next=look == audit.accused)
        return Look(commit=look, runs=runs, purpose=Purpose.AUDIT, reason=reason)
    # Either side may be what the search got wrong; the good end is no candidate.
    around = set(members).union(*(_range_around(now, side) for side in sides if side != now.graph.good))
    return _set(now, sorted(around), say.set_refuted(now.readings, _ends(now)[0], audit))


def set_sides(now: Situation, members: list[int]) -> tuple[int, int] | None:
    """The kernels next to a set: the first booted one after it, with all of it, and the last one before, with none.

    The ends stand for what was never booted; before a set in a history with a root of its own stands the good end.
    None if one of them cannot be booted any more.
    """
    good, bad = now.graph.good, now.graph.bad
    # In the order of their first boots: of two that are as near the same one is taken whatever their numbers.
    booted = list(dict.fromkeys([*(boot.commit for boot in now.evidence.boots), good, bad]))
    rows = now.graph.ancestors(booted)
    sizes = (rows & now.graph.candidates).sum(axis=1)
    above = [place for place in range(len(booted)) if rows[place, members].all()]
    after = min(above, key=lambda place: int(sizes[place]))
    below = [
        place
        for place, commit in enumerate(booted)
        if (rows[after, commit] or commit == good) and not rows[place, members].any()
    ]
    before = max(below, key=lambda place: int(sizes[place]))
    pair = (booted[after], booted[before])
    return None if set(pair) & now.evidence.skipped else pair


def _can_split(now: Situation, leading: int) -> bool:
    members = now.belief.members(leading)
    free = testable(now.graph, now.evidence)
    for commit in now.evidence.built - now.evidence.skipped - {boot.commit for boot in now.evidence.boots}:
        free[commit] = True
    inside = members[free[members]]
    if splits(now.graph, members, inside).any():
        return True
    return splitting(now.graph, now.evidence, members) is not None


def audit_of(now: Situation, accused: int) -> Audit | None:
    """Return the audit of this commit as it stands, or None when it has no parent that can be booted."""
    parent = audits.audited_pair(now.graph, now.evidence, accused)
    if parent is None or parent in now.evidence.skipped:
        parent = audits.parent_of(now.graph, now.evidence, now.belief, accused)
    if parent is None:
        return None
    return audits.judge(now.evidence, now.readings, now.belief, accused, parent)


def _accuse(now: Situation, costs: Costs, accused: int, mass: float, audit: Audit | None) -> Look | Finding | None:
    sure = mass >= now.options.confidence
    if not now.options.audit:
        return _commit(accused, mass, say.found(now.readings, _ends(now)[0], None, 1.0), None)
    if not sure and (audit is None or accused in now.evidence.skipped):
        return None
    if audit is None or (accused in now.evidence.skipped and audit.verdict is AuditVerdict.OPEN):
        return _set(now, _range_around(now, accused, believe_marks=True), say.NO_AUDIT)
    if audit.verdict is AuditVerdict.CONFIRMED and sure:
        ends = _ends(now)
        part = audits.share(audit, now.readings, now.belief, ends)
        return _commit(accused, mass, say.found(now.readings, ends[0], audit, part), part)
    if audit.verdict in (AuditVerdict.REFUTED, AuditVerdict.UNDECIDED):
        if not sure:
            return None
        return _set(
            now,
            _range_around(now, accused),
            say.refuted(now.readings, _ends(now)[0], audit) + _outlook(now, _best_look(now, costs)),
        )
    if spent(now.evidence, now.options):
        unproven = _range_around(now, accused, believe_marks=True)
        return _set(now, unproven, say.spent(now.evidence, now.options, "the audit was not finished"))
    if audit.verdict is AuditVerdict.CONFIRMED:
        # The fresh pairs speak for it and the whole does not yet: more of the whole.
        return None
    runs = audits.next_runs(now.readings, now.belief, costs)
    if audits.covered(now.evidence, now.readings, now.belief, audit, now.machine, runs):
        return None
    look = audits.next_side(now.evidence, audit, now.machine)
    reason = say.audit_look(audit, mass, accused_next=look == accused)
    return Look(commit=look, runs=runs, purpose=Purpose.AUDIT, reason=reason)


def _ends(now: Situation) -> tuple[float, float]:
    """The ends' own difference, from their boots alone, and its standard error.

    Where it points away from all that is believed, the lab has moved between boots of one end and those of the other.
    """
    own = level_against_good(now.graph, now.readings, now.belief, now.graph.bad)
    return own if own is not None and own[0] * now.belief.delta > 0 else (now.belief.delta, 0.0)


def _commit(accused: int, mass: float, reason: str, part: float | None) -> Finding:
    return Finding(kind=AnswerKind.COMMIT, commits=(accused,), probability=mass, reason=reason, share=part)


def _set(now: Situation, commits: list[int], reason: str) -> Finding:
    chance = now.belief.probability
    ranked = sorted(commits, key=lambda commit: (-round(float(chance[commit]), 9), commit))
    mass = min(1.0, float(chance[ranked].sum())) if ranked else 0.0
    return Finding(kind=AnswerKind.SET, commits=tuple(ranked), probability=mass, reason=reason)


def _range_around(now: Situation, accused: int, *, believe_marks: bool = False) -> list[int]:
    """The commits between all looked-at commits that stay settled when the accused itself is in doubt.

    What a person marked bounds the range only where no boot speaks against it.
    """
    graph, belief = now.graph, now.belief
    parents = graph.parents[accused] or (graph.good,)
    marked: frozenset[int] = now.evidence.marked_good | now.evidence.marked_bad if believe_marks else frozenset()
    booted = sorted({boot.commit for boot in now.evidence.boots} | marked)
    in_doubt = {*parents, accused} - marked
    rows = graph.ancestors(booted)
    own = graph.ancestors([*parents, accused])
    lower = [i for i, commit in enumerate(booted) if own[:-1, commit].any() and commit not in in_doubt]
    upper = [i for i, commit in enumerate(booted) if rows[i, accused] and commit not in in_doubt]
    inside = graph.candidates & rows[upper].all(axis=0) & ~rows[lower].any(axis=0)
    inside[accused] = True
    # What the belief holds likely belongs to the range wherever it stands.
    inside |= belief.probability > 1 - now.options.confidence
    return [int(commit) for commit in np.flatnonzero(inside)]


def _ended(now: Situation, costs: Costs) -> Finding | None:
    """The ends without a name: the budget is gone, or forty boots taught nothing."""
    if spent(now.evidence, now.options):
        chosen = credible(now.belief, now.options.confidence)
        state = f"{len(chosen)} commits remain possible"
        return _set(now, chosen, say.spent(now.evidence, now.options, state) + _outlook(now, _best_look(now, costs)))
    if not learned_nothing(now.graph, now.evidence, now.options, now.belief, boots=STALL_BOOTS):
        return None
    slope = slope_of(now.graph, now.readings, now.belief)
    if slope is not None:
        return _set(now, list(slope.suspects), say.gradual(len(slope.booted), STALL_BOOTS))
    # A search may just be short of precision: it gets twice the time, and thrice if the budget could still do it.
    if not learned_nothing(now.graph, now.evidence, now.options, now.belief, boots=2 * STALL_BOOTS):
        return None
    best = _best_look(now, costs)
    stalled = 3 * STALL_BOOTS
    if not learned_nothing(now.graph, now.evidence, now.options, now.belief, boots=stalled):
        if best is not None and boots_for_all(now.belief, best) + len(now.evidence.boots) < now.options.max_boots:
            return None
        stalled = 2 * STALL_BOOTS
    chosen = credible(now.belief, now.options.confidence)
    return _set(now, chosen, say.stalled(stalled) + _outlook(now, best))


def _best_look(now: Situation, costs: Costs) -> Proposal | None:
    return next_look(now.graph, now.evidence, now.readings, now.belief, costs)


def _outlook(now: Situation, best: Proposal | None) -> str:
    """What it would take from here, to be put behind a reason."""
    return "" if best is None else say.outlook(now.readings, now.belief, best)


def credible(belief: Belief, confidence: float) -> list[int]:
    """Return the fewest commits that together hold this much probability, and all that are as likely as the last."""
    likely = np.round(belief.probability, 12)
    order = np.argsort(-likely, kind="stable")
    last = min(int(np.searchsorted(np.cumsum(belief.probability[order]), confidence)), order.size - 1)
    return [int(commit) for commit in order if likely[commit] >= likely[order[last]] and belief.probability[commit] > 0]


def _reference(now: Situation, costs: Costs) -> Look | None:
    """A boot of an end when this machine made none of known side for 45 minutes: a drift is seen by it."""
    side = dict(zip(now.belief.looked, now.belief.looked_bad, strict=True))
    own = [boot for boot in now.evidence.boots if boot.machine == now.machine]
    known = [boot.at_s for boot in own if min(side[boot.commit], 1 - side[boot.commit]) <= SETTLED]
    if known and now.evidence.now_s - max(known) < REFERENCE_EVERY_S:
        return None
    ends = [end for end in (now.graph.good, now.graph.bad) if end not in now.evidence.skipped]
    if not ends:
        return None
    last = {end: max((b.at_s for b in own if b.commit == end), default=0.0) for end in ends}
    end = min(ends, key=lambda one: (last[one], one))
    runs = audits.next_runs(now.readings, now.belief, costs)
    return Look(
        commit=end,
        runs=runs,
        purpose=Purpose.REFERENCE,
        reason=say.reference(now.evidence.now_s - max(known, default=0.0)),
    )


def _search_step(now: Situation, costs: Costs) -> Look | Wait | Finding:
    proposal = _best_look(now, costs)
    if now.evidence.pending and (proposal is None or proposal.bits < WORTH_BESIDE):
        return Wait(reason=say.NOTHING_BESIDE)
    if proposal is None:
        return _set(now, credible(now.belief, now.options.confidence), say.NOTHING_LEFT)
    return Look(commit=proposal.commit, runs=proposal.runs, purpose=Purpose.SEARCH, reason=say.search_look(proposal))

"""What is believed, for reports and the live view; and which kernels to build before a machine asks for them."""

from collections.abc import Iterator

import numpy as np

from bisector.model.outcome import Purpose
from bisector.search import gate as gates
from bisector.search.audit import FEWEST_PAIRS, judge
from bisector.search.engine import Situation, audit_of, decide, set_sides, situation
from bisector.search.gate import FIRST_PAIRS
from bisector.search.graph import Bools, Floats, Graph
from bisector.search.plan import information, testable
from bisector.search.types import Assessment, Costs, Evidence, Look, Options
from bisector.search.verdict import verdicts

WORTH_A_BUILD = 0.02
"""A part of the belief smaller than this is not built for: the search will hardly come there."""

NEAR_ENOUGH = 0.2
"""How far from 1/2 a kernel that stands ready may split a part, and still be looked at before another is built.

At 0.3/0.7 a look gives 0.88 bit where the middle gives 1: less than what the build costs.
"""


def assess(graph: Graph, evidence: Evidence, options: Options) -> Assessment:
    """Return everything the search believes after this evidence. Raises ValueError as `propose` does."""
    now = situation(graph, evidence, options)
    belief, readings, levels = now.belief, now.readings, now.belief.levels
    good = float(np.mean([of.good for of in levels.values()])) if levels else None
    bad = float(np.mean([of.bad for of in levels.values()])) if levels else None
    effect = interval = threshold = None
    if good is not None and bad is not None:
        error = float(np.mean([np.hypot(of.good_sd, of.bad_sd) for of in levels.values()]) / np.sqrt(len(levels)))
        effect = readings.percent(bad - good)
        low, high = sorted(readings.percent(bad - good + side * 1.96 * error) for side in (-1, 1))
        interval = (low, high)
        threshold = readings.value_at((good + bad) / 2)
    elif (readings.commit == graph.good).any():
        good = float(np.median(readings.y[readings.commit == graph.good]))
    elif (readings.commit == graph.bad).any():
        bad = float(np.median(readings.y[readings.commit == graph.bad]))
    detectable = now.gate.detectable
    return Assessment(
        probability=tuple(belief.probability.tolist()),
        verdicts=verdicts(graph, evidence, readings, belief),
        good_level=None if good is None else readings.value_at(good),
        bad_level=None if bad is None else readings.value_at(bad),
        effect_percent=effect,
        effect_interval_percent=interval,
        run_sd_percent=readings.run_sd,
        boot_sd_percent=float(np.sqrt(belief.boot_variance)),
        detectable_percent=None if detectable is None else float(100 * np.expm1(detectable / 100)),
        entropy_bits=belief.entropy_bits,
        remaining_boots=_remaining_boots(now),
        threshold=threshold,
        audit=_audit_state(now),
    )


def _remaining_boots(now: Situation) -> float:
    """A rough forecast: the rest of the gate, the bits that are missing at what one boot tells, two pairs of audit."""
    boots = now.gate.good_boots + now.gate.bad_boots
    gate = 0.0 if now.searching else max(1.0, 2.0 * FIRST_PAIRS - boots)
    delta = abs(now.belief.delta) or abs(now.gate.delta) or gates.smallest_effect(now.options)
    sd = np.sqrt(now.belief.boot_variance + float(now.readings.run_variance(4)))
    each = float(information(np.array(0.5), np.array(delta / max(sd, 1e-9))))
    return gate + now.belief.entropy_bits / max(each, 1e-3) + (2.0 * FEWEST_PAIRS if now.options.audit else 0.0)


def _audit_state(now: Situation) -> str:
    if not now.options.audit:
        return "not asked for"
    if not any(boot.purpose is Purpose.AUDIT for boot in now.evidence.boots):
        return "not begun"
    leading = [int(one) for one in now.belief.members(int(np.argmax(now.belief.mass)))]
    sides = set_sides(now, leading) if len(leading) > 1 else None
    audit = audit_of(now, leading[0]) if len(leading) == 1 else None
    if sides is not None:
        audit = judge(now.evidence, now.readings, now.belief, *sides)
    if audit is None or audit.pairs == 0:
        return "begun"
    jump = now.readings.percent(audit.jump)
    return f"{audit.verdict.value}: {audit.pairs} pairs, {jump:+.2f} %, odds 10^{audit.log_odds / np.log(10):.1f}"


def rank_builds(graph: Graph, evidence: Evidence, costs: Costs, options: Options, limit: int) -> list[int]:
    """Return at most `limit` commits without a kernel, the one most likely needed next first.

    Before the gate is passed: both ends, the middle, the quartiles. In the search: the commit of the current look,
    then the middles of what either outcome leaves, and so on by their probability. In an audit: the parents first.
    """
    now = situation(graph, evidence, options)
    step = decide(now, costs)
    if not isinstance(step, Look) or limit <= 0:
        return []
    free = testable(graph, evidence)
    wanted: list[int] = []
    missing = [end for end in (graph.good, graph.bad) if end not in evidence.built | evidence.skipped]
    wanted += [end for end in missing if not any(boot.commit == end for boot in evidence.boots)]
    if step.purpose is Purpose.AUDIT:
        accused = now.belief.members(int(np.argmax(now.belief.mass)))
        wanted += [parent for one in accused[:1] for parent in graph.parents[int(one)] if free[parent]]
    root = step.commit if step.purpose is Purpose.SEARCH else None
    wanted += [root] if root is not None and free[root] else []
    for commit in _middles(now, free, root):
        if len(dict.fromkeys(wanted)) >= limit:
            break
        wanted.append(commit)
    return list(dict.fromkeys(wanted))[:limit]


def _middles(now: Situation, free: Bools, root: int | None) -> Iterator[int]:
    """Yield the unbuilt middles of what is left after every outcome, the likeliest first.

    `root` is what is looked at now. A kernel that stands ready near the middle of a part will be looked at there:
    it splits the part, and no neighbour of it is built.
    """
    graph = now.graph
    parts: list[Floats] = [now.belief.probability.copy()]
    if root is not None:
        parts = _halves(graph, parts[0], root)
    ready = _ready(now)
    open_commits = free | ready
    while parts:
        parts.sort(key=lambda part: -round(float(part.sum()), 9))
        part = parts.pop(0)
        total = float(part.sum())
        if total < WORTH_A_BUILD:
            return
        members = np.flatnonzero(open_commits & (part > 0))
        if members.size == 0:
            continue
        if members.size > 256 and not graph.linear:
            some = members[np.linspace(0, members.size - 1, 256).astype(np.int64)]
            members = np.union1d(some, members[ready[members]])
        off = np.round(np.abs(graph.mass_below(members, part) / total - 0.5), 6)
        if float(off.min()) > 0.5 - WORTH_A_BUILD:
            continue
        off = np.where(ready[members] & (off < NEAR_ENOUGH), off - 1.0, off)
        middle = int(members[int(np.argmin(off))])
        open_commits[middle] = False
        parts += _halves(graph, part, middle)
        if free[middle]:
            yield middle


def _ready(now: Situation) -> Bools:
    """Which commits have a kernel that nobody has looked at."""
    evidence = now.evidence
    ready = np.zeros(len(now.graph), dtype=np.bool_)
    ready[sorted(evidence.built)] = True
    settled = evidence.skipped | evidence.marked_good | evidence.marked_bad | {now.graph.good, now.graph.bad}
    ready[sorted(settled | {boot.commit for boot in evidence.boots})] = False
    return ready


def _halves(graph: Graph, part: Floats, commit: int) -> list[Floats]:
    inside = graph.ancestors([commit])[0]
    return [np.where(inside, part, 0.0), np.where(inside, 0.0, part)]

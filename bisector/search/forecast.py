"""What is believed, for reports and the live view."""

import numpy as np

from bisector.model.outcome import Purpose
from bisector.search import gate as gates
from bisector.search.audit import FEWEST_PAIRS, judge
from bisector.search.engine import audit_of, set_sides
from bisector.search.gate import FIRST_PAIRS
from bisector.search.graph import Graph
from bisector.search.plan import information
from bisector.search.situation import Situation, situation
from bisector.search.types import Assessment, Evidence, Options
from bisector.search.verdict import verdicts


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

"""The sentences people read. Commits are "it" and "its parent" here: the search knows no names."""

import numpy as np

from bisector.search.audit import Audit
from bisector.search.belief import Belief
from bisector.search.gate import FIRST_PAIRS, Gate, GateVerdict, clear_t
from bisector.search.noise import Readings
from bisector.search.plan import Proposal, boots_for_all
from bisector.search.types import Evidence, Options

SAME_IMAGE = "Both ends are one and the same kernel image: no change between them can be measured."
CONTRADICTION = (
    "What was marked by hand, or kernels that are identical, leaves no commit that could be the first bad one: "
    "take back a mark, or check the two ends."
)
NO_AUDIT = "The commit or its parent cannot be booted, so the last proof of a jump between them is missing."
BOOKED_OUT = "The boots under way are the last of the budget."
GATE_COVERED = "The pairs of the two ends that other machines are at should be enough."
NOTHING_BESIDE = "The looks that other machines are at will tell nearly all that one more could."
OWN_LEVELS = "this machine's own levels: it has not booted both ends yet"
NOTHING_LEFT = "No commit that can be tested would tell more."


def percent(value: float) -> str:
    """Return a percentage with as many digits as it deserves, signed."""
    size = abs(value)
    return f"{value:+.0f} %" if size >= 100 else f"{value:+.1f} %" if size >= 1 else f"{value:+.2f} %"


def seconds(value: float) -> str:
    """Return a duration the way people read it."""
    if value < 600:
        return f"{value:.0f} s"
    return f"{value / 60:.0f} min" if value < 3 * 3600 else f"{value / 3600:.1f} h"


def split(bad: float) -> str:
    """Return a probability as the two sides of a split, never rounded to a certainty."""
    side = min(bad, 1 - bad)
    digits = 0 if side >= 0.01 else 1 if side >= 0.001 else 2
    return f"{100 * bad:.{digits}f}/{100 * (1 - bad):.{digits}f}"


def end_untestable(name: str) -> str:
    """Return why a hunt without an end is none."""
    return (
        f"The {name} end cannot be tested (it does not build, boot or survive), so nothing can be compared with it: "
        f"choose another {name} commit."
    )


def gate_look(gate: Gate, readings: Readings, *, end_name: str, searching: bool) -> str:
    """Return why an end is booted; in a search, why it is booted again."""
    boots = gate.good_boots + gate.bad_boots
    if gate.pairs == 0:
        return f"are the two ends different at all? Boot {boots + 1} of at least {2 * FIRST_PAIRS}, the {end_name} end"
    seen = f"the bad end shows {percent(readings.percent(gate.delta))} at {abs(gate.t):.1f} standard errors"
    if searching:
        return f"the {end_name} end again: all else is measured against the ends, and {seen} only"
    if gate.pairs < FIRST_PAIRS:
        return f"the {end_name} end, boot {boots + 1} of at least {2 * FIRST_PAIRS} at the ends: {seen} so far"
    return f"the {end_name} end once more: {seen}, {clear_t(gate.pairs):.1f} are wanted"


def not_reproduced(gate: Gate, readings: Readings, options: Options, *, needed: int, runs: int) -> str:
    """Return what the ends showed instead of the effect, and what it would take to see the smallest of interest."""
    boots = gate.good_boots + gate.bad_boots
    if gate.pairs == 0:
        return "The budget ended before both ends were measured."
    low, high = sorted(readings.percent(gate.delta + side * 1.96 * gate.se) for side in (-1, 1))
    seen = (
        f"The bad end shows {percent(readings.percent(gate.delta))} against the good end "
        f"(95 % interval {percent(low)} to {percent(high)}) in {boots} boots; "
        f"deviation {readings.run_sd:.2g} % within a boot, {gate.boot_sd:.2g} % between boots."
    )
    if gate.verdict is GateVerdict.SWAPPED:
        if options.find_improvement:
            return f"{seen} It is worse, not better: search with `--set search.find=regression`, or swap the ends."
        return f"{seen} It is better, not worse: to find what improved it use `--set search.find=improvement`."
    smallest = f"the smallest effect of interest, {options.min_effect_percent:g} %"
    if gate.verdict is GateVerdict.TOO_SMALL:
        return f"{seen} That excludes {smallest}."
    return f"{seen} Too little to tell: about {needed} boots of {runs} runs would show {smallest}."


def search_look(proposal: Proposal) -> str:
    """Return why this commit is next."""
    kernel = "its kernel is ready" if proposal.built else "its kernel must be built"
    boots = "" if proposal.boots == 1 else f" and {proposal.boots} boots"
    return (
        f"it splits the belief {split(proposal.bad)} and {kernel}: "
        f"{proposal.bits:.2g} bit for {seconds(proposal.cost_s)}{boots}"
    )


def reference(since_s: float) -> str:
    """Return why an end is booted in the middle of a search."""
    return f"no boot of a known side for {seconds(since_s)}: has the lab itself drifted?"


def audit_look(audit: Audit, mass: float, *, accused_next: bool) -> str:
    """Return why the accused or its parent is booted afresh."""
    who = "the accused commit" if accused_next else "the parent of the accused commit"
    return (
        f"{100 * mass:.1f} % point to one commit; before it is named, fresh pairs of it and its parent: "
        f"{who}, pair {audit.pairs + 1}"
    )


def found(readings: Readings, ends: float, audit: Audit | None, part: float) -> str:
    """Return the sentence of an accusation."""
    whole = percent(readings.percent(ends))
    if audit is None:
        return f"It alone is left with the change of {whole}; no audit was asked for."
    jump = percent(readings.percent(audit.jump))
    sentence = f"{audit.pairs} fresh pairs of it and its parent show {jump}, the ends {whole}."
    if part < 1:
        sentence += (
            f" It explains about {100 * part:.0f} % of the difference; the rest came before or after it: "
            "search again on either side."
        )
    return sentence


def refuted(readings: Readings, ends: float, audit: Audit) -> str:
    """Return why a commit that the search pointed to is not named."""
    jump, whole = percent(readings.percent(audit.jump)), percent(readings.percent(ends))
    return (
        f"The search pointed to one commit, but {audit.pairs} fresh pairs of it and its parent show {jump} "
        f"where the ends show {whole}: the change may be gradual, in several steps, or the lab may have moved."
    )


def inseparable(count: int, skipped: int) -> str:
    """Return why a set is the answer."""
    untested = f"{skipped} of them could not be tested" if skipped else "no commit is left that could be tested"
    return f"The first bad commit is one of {count}: {untested} and nothing else separates them."


def set_look(audit: Audit, count: int, *, after_next: bool) -> str:
    """Return why a kernel beside a set is booted afresh."""
    who = "the kernel after them" if after_next else "the kernel before them"
    return (
        f"{count} commits are left that nothing separates; before they are named, fresh pairs of the kernels "
        f"on both sides: {who}, pair {audit.pairs + 1}"
    )


def set_refuted(readings: Readings, ends: float, audit: Audit) -> str:
    """Return why a set is wider than the search made it."""
    jump, whole = percent(readings.percent(audit.jump)), percent(readings.percent(ends))
    return (
        f"The search pointed to a few commits, but {audit.pairs} fresh pairs of the kernels on both sides show {jump} "
        f"where the ends show {whole}: the change may be gradual, in several steps, or the lab may have moved."
    )


def spent(evidence: Evidence, options: Options, state: str) -> str:
    """Return which budget ended, and with what."""
    if len(evidence.boots) >= options.max_boots:
        return f"The budget of {options.max_boots} boots is spent: {state}."
    return f"The budget of {seconds(options.budget_s or np.inf)} is spent: {state}."


def outlook(readings: Readings, belief: Belief, best: Proposal) -> str:
    """Return what it would take to go on from here in this lab; begins with a space, to be put behind a reason."""
    boots = boots_for_all(belief, best)
    time = seconds(boots / best.boots * best.cost_s)
    differ, scatter = percent(readings.percent(belief.delta)), float(np.sqrt(belief.boot_variance))
    return (
        f" The ends differ by {differ}; runs scatter by {readings.run_sd:.2g} %, boots by {scatter:.2g} %. At what the "
        f"best next boot would tell, about {boots:.0f} more are needed ({time}). A quieter machine "
        "or a benchmark in which the change shows more would save most of them."
    )


def gradual(between: int, boots: int) -> str:
    """Return why a search ends that found a slope where it looked for a step."""
    return (
        f"The change is gradual or made by several commits: the levels of {between} commits lie between those of the "
        f"two ends, in order, and the last {boots} boots told nearly nothing."
    )


def stalled(boots: int) -> str:
    """Return why a search that learns nothing is ended."""
    return f"The last {boots} boots told nearly nothing: the lab is too noisy, or the change is not one step."

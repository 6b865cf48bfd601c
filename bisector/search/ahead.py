"""Which kernels to build before a machine asks for them: the search is asked what it would want after each outcome."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from bisector.model.outcome import Purpose
from bisector.search.belief import Belief, Levels
from bisector.search.classes import split_classes
from bisector.search.engine import decide
from bisector.search.gate import FIRST_RUNS
from bisector.search.graph import Graph
from bisector.search.plan import next_look, testable
from bisector.search.situation import Situation, situation
from bisector.search.types import Costs, Evidence, Finding, Look, Options

WORTH_A_BUILD = 0.02
"""What the search will want with less probability than this is not built for."""

OUTCOMES_PER_BUILD = 4
"""How many imagined outcomes are followed for each kernel asked for: the bound on the time of one ranking."""

CLEAR_STEP = 8.0
"""Before the gate is passed the ends are imagined this many deviations apart: one look tells good from bad."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Branch:
    """A chain of imagined outcomes: how likely it is, and what is known and believed at its end.

    The last look's outcome is not in the belief yet: most branches are never followed. `inside` is True for the
    commit of that look and its ancestors, `bad` the side it showed.
    """

    chance: float
    evidence: Evidence
    belief: Belief
    inside: NDArray[np.bool_] | None = None
    bad: bool = False

    def believed(self) -> Belief:
        """Return the belief with the classes that the last look cuts in two; levels and deviations stay."""
        if self.inside is None:
            return self.belief
        share = np.where(self.inside == self.bad, self.belief.probability, 0.0)
        share /= share.sum()
        share.flags.writeable = False
        of_class = split_classes(self.belief.of_class, self.inside)
        mass = np.bincount(of_class + 1, weights=share)[1:].astype(np.float64)
        return replace(self.belief, of_class=of_class, mass=mass, probability=share)


def rank_builds(graph: Graph, evidence: Evidence, costs: Costs, options: Options, limit: int) -> list[int]:
    """Return at most `limit` commits without a kernel, the one most likely wanted first.

    Before the gate is passed both ends come first, in an audit the parents. Then the search itself is asked: what it
    looks at now, what it would want next if that shows good, bad, or cannot be tested, and so on along the likeliest
    outcomes. A kernel that stands ready counts for what the search makes of it, so its neighbours are built only
    where they are worth the wait. `evidence` may hold the runs so far of a look that is under way: they tell which
    of its outcomes to prepare for. Looks that are pending are imagined to have ended, one way or the other. Raises
    ValueError for evidence that does not fit the graph.
    """
    now = situation(graph, evidence, options)
    step = decide(now, costs)
    if isinstance(step, Finding) or limit <= 0:
        return []
    free = testable(graph, evidence)
    wanted: list[int] = []
    missing = [end for end in (graph.good, graph.bad) if end not in evidence.built | evidence.skipped]
    wanted += [end for end in missing if not any(boot.commit == end for boot in evidence.boots)]
    chance = 1.0
    if isinstance(step, Look) and step.purpose is Purpose.AUDIT:
        leading = int(np.argmax(now.belief.mass))
        accused = now.belief.members(leading)
        wanted += [parent for one in accused[:1] for parent in graph.parents[int(one)] if free[parent]]
        # Only an audit that fails sends the search on.
        chance = 1.0 - float(now.belief.mass[leading])
    wanted += _likeliest(now, costs, chance, OUTCOMES_PER_BUILD * limit)
    return list(dict.fromkeys(wanted))[:limit]


def _likeliest(now: Situation, costs: Costs, chance: float, most: int) -> list[int]:
    """Return the commits without a kernel by the probability that the search comes to want them, the highest first."""
    booted = {boot.commit for boot in now.evidence.boots}
    branches = [_Branch(chance=chance, evidence=replace(now.evidence, pending=()), belief=_with_levels(now))]
    for commit in sorted({look.commit for look in now.evidence.pending} - {now.graph.good, now.graph.bad}):
        before, branches = branches, []
        for one in before:
            belief = one.believed()
            bad = float(belief.bad_probability(now.graph, [commit])[0])
            branches += _outcomes(now.graph, one, belief, commit, bad, tried=commit in booted)
    wanted: dict[int, float] = {}
    for _ in range(most):
        # Of equally likely branches the earlier one is the nearer one, and max() takes it.
        branch = max(branches, key=lambda one: round(one.chance, 9), default=None)
        if branch is None or branch.chance < WORTH_A_BUILD:
            break
        branches.remove(branch)
        belief = branch.believed()
        look = next_look(now.graph, branch.evidence, now.readings, belief, costs)
        if look is None:
            continue
        if not look.built:
            wanted[look.commit] = wanted.get(look.commit, 0.0) + branch.chance
        branches += _outcomes(now.graph, branch, belief, look.commit, look.bad, tried=look.commit in booted)
    return sorted(wanted, key=lambda commit: -round(wanted[commit], 9))


def _with_levels(now: Situation) -> Belief:
    belief = now.belief
    if belief.levels and now.searching:
        return belief
    deviation = np.sqrt(belief.boot_variance + float(now.readings.run_variance(FIRST_RUNS)) + belief.layout_variance)
    return replace(belief, levels={0: Levels(good=0.0, bad=CLEAR_STEP * float(deviation), good_sd=0.0, bad_sd=0.0)})


def _outcomes(graph: Graph, branch: _Branch, belief: Belief, commit: int, bad: float, *, tried: bool) -> list[_Branch]:
    """What a look may come to: the commit is good, it is bad, or it cannot be tested and keeps its mass."""
    evidence = branch.evidence
    fails = 0.0 if tried else _share_of_failures(evidence)
    known = replace(evidence, built=evidence.built | {commit})
    inside = graph.ancestors([commit])[0]
    branches = []
    for share, is_bad in ((1 - bad, False), (bad, True)):
        chance = (1 - fails) * share * branch.chance
        if chance >= WORTH_A_BUILD:
            branches.append(_Branch(chance=chance, evidence=known, belief=belief, inside=inside, bad=is_bad))
    if fails * branch.chance >= WORTH_A_BUILD:
        without = replace(evidence, skipped=evidence.skipped | {commit})
        branches.append(_Branch(chance=fails * branch.chance, evidence=without, belief=belief))
    return branches


def _share_of_failures(evidence: Evidence) -> float:
    """How likely a commit cannot be tested: one in twenty, and what this range has shown weighs more the longer."""
    tried = evidence.built | evidence.skipped | {boot.commit for boot in evidence.boots}
    return (len(evidence.skipped) + 1) / (len(tried) + 20)

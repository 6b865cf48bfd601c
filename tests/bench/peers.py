"""What else would find the commit, in the same labs: the rivals, and the package git-bayesect itself.

`pip install git-bayesect` (1.2, MIT licence) for the package's own rows; without it they are left out.
"""

from collections.abc import Callable, Iterator

import numpy as np

from bisector.cli.trials import Plan
from bisector.model.outcome import Purpose
from bisector.search import Costs, Evidence, Finding, Graph, Look, Options, Tally, World
from bisector.search.rivals import RIVALS
from bisector.search.rivals.halves import boot_means, measure_ends, named, not_reproduced, spent

try:
    from git_bayesect import Bisector
except ImportError:
    Bisector = None

ROWS = ("n16000-5", "n16000-20", "n16000-2-calm")
"""Rows 1, 3 and 4."""
RIGHT_ENOUGH = 0.95
FEW_TRIALS = 50
ITS_OWN_CONFIDENCE = 0.95
"""What `git bayesect run` stops at if nothing else is said."""

Step = Callable[[Graph, Evidence, Costs, Options], Look | Finding]


def git_bayesect(*, runs: int, confidence: float | None) -> Step:
    """Return the package as a step: its belief, its choice of the next commit, a boot of so many runs an observation.

    A person must find out where failing begins: three boots of each end, the middle between them; these boots are
    observations as well. `confidence` None is the one that everybody is asked for.
    """

    def step(graph: Graph, evidence: Evidence, costs: Costs, options: Options) -> Look | Finding:
        del costs
        means = boot_means(evidence, options)
        first = measure_ends(graph, evidence, means, boots=3, runs=runs)
        if first is not None:
            return first
        good, bad = (float(means[end][:3].mean()) for end in (graph.good, graph.bad))
        if bad <= good:
            return not_reproduced("the bad end is not worse")
        newest = len(graph) - 1
        # Its index 0 is the newest commit, and what it counts is failures.
        bisector = Bisector(np.ones(len(graph)))
        for commit, of in means.items():
            for mean in of:
                bisector.record(newest - commit, bool(mean > (good + bad) / 2))
        for commit in evidence.skipped:
            bisector.record(newest - commit, None)
        leading = int(np.argmax(bisector.distribution))
        probability = float(bisector.distribution[leading])
        if probability >= (options.confidence if confidence is None else confidence):
            return named(newest - leading, probability)
        return spent(evidence, options) or Look(
            commit=newest - bisector.select(), runs=runs, purpose=Purpose.SEARCH, reason="git bayesect"
        )

    return step


PACKAGE: dict[str, Step] = {
    "git-bayesect": git_bayesect(runs=5, confidence=None),
    "git-bayesect@95": git_bayesect(runs=5, confidence=ITS_OWN_CONFIDENCE),
    "git-bayesect@95x1": git_bayesect(runs=1, confidence=ITS_OWN_CONFIDENCE),
}
"""At the confidence asked for, at its own, and at its own with one run a boot, which is how it is used as it comes."""

if Bisector is not None:
    RIVALS.update(PACKAGE)

UNAUDITED = "belief@95"


def plans(world: World, seed: int) -> dict[str, Plan]:
    """Return everybody's plan for a world, this search first.

    The package at its own 95 % accuses without a last proof; this search asked for no more stands beside it.
    """
    asked = {name: (name, Options()) for name in ("belief", *RIVALS)}
    asked[UNAUDITED] = ("belief", Options(confidence=ITS_OWN_CONFIDENCE, audit=False))
    return {
        name: Plan(world=world, options=options, strategy=strategy, seed=seed)
        for name, (strategy, options) in asked.items()
    }


def lines(row: str, tallies: dict[str, Tally]) -> Iterator[str]:
    """Yield the comparison of one row: seconds, kernels and boots as ratios to this search's."""
    ours = tallies["belief"]
    head = ("right", "wrong", "other", "claims", "mean s", "x ours", "p90 x", "kernels x", "boots x")
    yield f"{row:18}" + "".join(f"{name:>10}" for name in head)
    for name, tally in tallies.items():
        shares = [tally.correct, tally.wrong, tally.set + tally.none, tally.claimed]
        ratios = [
            tally.machine_s_mean / ours.machine_s_mean,
            tally.machine_s_p90 / ours.machine_s_p90,
            tally.builds / ours.builds,
            tally.boots / ours.boots,
        ]
        cells = [f"{100 * share:.1f}%" for share in shares] + [f"{tally.machine_s_mean:.0f}"]
        yield f"{name:18}" + "".join(f"{cell:>10}" for cell in cells + [f"{ratio:.2f}" for ratio in ratios])
    sure = {name: tally for name, tally in tallies.items() if "@95" not in name}
    yield f"  asked for 99 %: {cheapest(sure)}"
    yield f"  at any confidence: {cheapest(tallies)}"


def cheapest(tallies: dict[str, Tally]) -> str:
    """Return which is the cheapest of all that are right 95 times in a hundred, and by how much."""
    able = {name: tally for name, tally in tallies.items() if tally.correct >= RIGHT_ENOUGH}
    ranked = sorted(able, key=lambda name: able[name].machine_s_mean)
    if not ranked:
        return "none is right 95 times in a hundred"
    said = f"the cheapest that is right in >= {100 * RIGHT_ENOUGH:g} % is {ranked[0]}"
    if len(ranked) > 1:
        ratio = able[ranked[1]].machine_s_mean / able[ranked[0]].machine_s_mean
        said += f"; the next, {ranked[1]}, takes {ratio:.2f} times as long"
    if tallies[ranked[0]].trials < FEW_TRIALS:
        said += " (too few trials to rely on)"
    return said

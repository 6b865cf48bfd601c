"""What no search can reach in two of the worlds, worked out from the very labs that the rows hunt in."""

from collections.abc import Iterator

import numpy as np
from rows import ROWS, Row

from bisector.search import Graph, Options
from bisector.search.world import Lab, history

CONFIDENCE = 0.99
UNBUILDABLE, LAYOUT = "realistic", "layout-1"


def lines(wanted: list[str], *, seed: int, trials: int) -> Iterator[str]:
    """Yield a sentence for each of the two worlds that is wanted."""
    if UNBUILDABLE in wanted:
        share = nameable(ROWS[UNBUILDABLE], seed=seed, trials=trials)
        yield (
            f"{UNBUILDABLE}: the first bad commit and the one before it compile in {100 * share:.1f} % of these labs; "
            "in the others no single commit can be named, and a set that holds it is the best answer there is"
        )
    if LAYOUT in wanted:
        sure, guessed = oracle(ROWS[LAYOUT], seed=seed, trials=trials)
        yield (
            f"{LAYOUT}: who knew every kernel's own level without any noise, both ends' levels and how far kernels "
            f"scatter would be {100 * CONFIDENCE:.0f} % sure of the right commit in {100 * sure:.1f} % of these labs, "
            f"and guess it in {100 * guessed:.1f} %"
        )


def nameable(row: Row, *, seed: int, trials: int) -> float:
    """Return the share of labs in which the first bad commit and its parent both build."""
    both = 0
    for graph, lab in labs(row, seed=seed, trials=trials):
        first_bad = lab.first_bad[0]
        both += all(lab.builds(commit) for commit in (first_bad, *graph.parents[first_bad]))
    return both / trials


def oracle(row: Row, *, seed: int, trials: int) -> tuple[float, float]:
    """Return in what share of labs the right commit gets 99 % of an all-knowing posterior, and the most of it.

    On a line, with levels x known exactly: log p(c) = sum over i < c of log N(x_i; 0, s) + over i >= c of
    log N(x_i; delta, s), s the deviation of the kernels' own offsets.
    """
    sure = guessed = 0
    delta = 100 * np.log1p(row.world.effect_percent / 100)
    for _, lab in labs(row, seed=seed, trials=trials):
        level, deviation = lab.true_levels, row.world.layout_sd_percent
        gain = (level**2 - (level - delta) ** 2) / (2 * deviation**2)
        # Of commit c: what all commits from c on gain by being on the bad side. The good end cannot be the first bad.
        score = np.cumsum(gain[::-1])[::-1][1:]
        chance = np.exp(score - score.max())
        chance /= chance.sum()
        right = chance[lab.first_bad[0] - 1]
        sure += right >= CONFIDENCE
        guessed += right == chance.max()
    return sure / trials, guessed / trials


def labs(row: Row, *, seed: int, trials: int) -> Iterator[tuple[Graph, Lab]]:
    """Yield the labs of a row's trials: the same as its hunts are in, see `Hunts`."""
    graph = history(row.world, np.random.default_rng([seed, 2**31]))
    for number in range(trials):
        yield graph, Lab(graph, row.world, np.random.default_rng([seed, number]), Options())

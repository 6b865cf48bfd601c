"""The git bisect of everyday: one run a commit, and what it says is believed."""

import numpy as np

from bisector.model.outcome import AnswerKind, Purpose
from bisector.search.graph import Graph
from bisector.search.noise import worse_sign
from bisector.search.types import Costs, Evidence, Finding, Look, Options

END_RUNS = 3


def classic(graph: Graph, evidence: Evidence, costs: Costs, options: Options) -> Look | Finding:
    """Return the next step of git bisect: halve what is left, judge by one run against the middle of the ends.

    The ends get one boot of three runs each. As in git the next commit is the one whose ancestors are nearest half
    of what is left; one that cannot be tested is left out of the choice.
    """
    del costs
    for end in (graph.good, graph.bad):
        if end in evidence.skipped:
            return Finding(kind=AnswerKind.NONE, commits=(), probability=0.0, reason="an end cannot be tested")
        if not any(boot.commit == end for boot in evidence.boots):
            return Look(commit=end, runs=END_RUNS, purpose=Purpose.GATE, reason="one boot of each end")
    sign = worse_sign(options)
    level = {boot.commit: sign * float(np.mean(np.log(boot.values))) for boot in evidence.boots}
    middle = (level[graph.good] + level[graph.bad]) / 2
    left = graph.candidates.copy()
    for commit in level.keys() - {graph.good, graph.bad}:
        inside = graph.ancestors([commit])[0]
        left &= inside if level[commit] > middle else ~inside
    commits = np.flatnonzero(left)
    if commits.size == 1:
        return Finding(kind=AnswerKind.COMMIT, commits=(int(commits[0]),), probability=1.0, reason="one is left")
    open_commits = np.array(
        [one for one in commits if one not in level and one not in evidence.skipped], dtype=np.int64
    )
    below = graph.mass_below(open_commits, left.astype(np.float64)) if open_commits.size else np.zeros(0)
    even = np.minimum(below, commits.size - below)
    if not even.size or even.max() < 0.5:
        return Finding(
            kind=AnswerKind.SET, commits=tuple(map(int, commits)), probability=1.0, reason="skipped ones left"
        )
    best = int(open_commits[int(np.argmax(even))])
    return Look(commit=best, runs=1, purpose=Purpose.SEARCH, reason="halves what is left")

"""The commits as the search sees them: who is an ancestor of whom. Indexes only, no ids."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from bisector.search.ancestry import Ancestry

Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Graph:
    """A commit range in topological order, parents first. Make it with `Graph.from_parents`.

    A commit x is bad exactly when the first bad commit is x or an ancestor of x. `candidates` are the commits that
    can be the first bad one: ancestors-or-self of the bad end that are not ancestors-or-self of the good end.
    """

    parents: tuple[tuple[int, ...], ...]
    good: int
    bad: int
    weights: Floats
    candidates: Bools
    linear: bool
    _ancestry: Ancestry | None
    _remembered: list[tuple[Floats, Floats]] = field(default_factory=list)

    @classmethod
    def from_parents(
        cls,
        parents: Sequence[Sequence[int]],
        good: int = 0,
        bad: int | None = None,
        weights: Sequence[float] | None = None,
    ) -> "Graph":
        """Return the graph of these commits.

        `parents[i]` holds indexes below i; a parent outside the range stands as the good end's index. `weights` are
        prior weights of the commits (default: all equal). Time and memory grow with the commits and what their merges
        bring in (200000: under a second, 50 MB on the way, 20 MB to keep). Raises ValueError for a parent that is not
        before its child, for ends that are the same or not joined, and for weights not finite and positive.
        """
        count = len(parents)
        bad = count - 1 if bad is None else bad
        if not (0 <= good < count and 0 <= bad < count):
            raise ValueError(f"the ends must be indexes of the {count} commits, got good={good}, bad={bad}")
        if good == bad:
            raise ValueError(f"the good and the bad end are the same commit, {good}")
        frozen = tuple(tuple(map(int, of)) for of in parents)
        for child, of in enumerate(frozen):
            if of and not (min(of) >= 0 and max(of) < child):
                raise ValueError(f"commit {child} must come after its parents, got {of}")
        linear = good == 0 and not frozen[0] and frozen[1:] == tuple((child,) for child in range(count - 1))
        ancestry = None if linear else Ancestry.of(frozen, bad)
        weight = np.ones(count) if weights is None else np.asarray(weights, dtype=np.float64)
        if weight.shape != (count,) or not np.all(np.isfinite(weight) & (weight > 0)):
            raise ValueError("weights must be one finite positive number for each commit")
        graph = cls(
            parents=frozen,
            good=good,
            bad=bad,
            weights=weight,
            candidates=np.zeros(count, dtype=np.bool_),
            linear=linear,
            _ancestry=ancestry,
        )
        rows = graph.ancestors([good, bad])
        np.copyto(graph.candidates, rows[1] & ~rows[0])
        if not rows[1][good]:
            raise ValueError(f"the good end {good} is not an ancestor of the bad end {bad}")
        return graph

    def __len__(self) -> int:
        return len(self.parents)

    def ancestors(self, commits: Sequence[int] | Ints) -> Bools:
        """Return shape (len(commits), n): True where the column is the row's commit or an ancestor of it."""
        count = len(self.parents)
        index = np.asarray(commits, dtype=np.int64)
        if self._ancestry is None:
            linear: Bools = np.arange(count) <= index[:, None]
            return linear
        return self._ancestry.rows(index)

    def descendants(self, commits: Sequence[int] | Ints) -> Bools:
        """Return shape (len(commits), n): True where the column is the row's commit or a descendant of it."""
        index = np.asarray(commits, dtype=np.int64)
        if self._ancestry is None:
            linear: Bools = np.arange(len(self.parents)) >= index[:, None]
            return linear
        return self._ancestry.columns(index)

    def mass_below(self, commits: Sequence[int] | Ints, mass: Floats) -> Floats:
        """Return for each commit the summed `mass` (shape (n,)) of it and its ancestors: its probability to be bad."""
        return self.masses_below(mass)[np.asarray(commits, dtype=np.int64)]

    def masses_below(self, mass: Floats) -> Floats:
        """Return that for all commits, shape (n,), read-only: it costs no more than for one.

        Of the last mass that cannot change (read-only, as a belief's probabilities are) the answer is remembered.
        """
        for known, sums in self._remembered:
            if known is mass:
                return sums
        sums = np.cumsum(mass) if self._ancestry is None else self._ancestry.sums(mass)
        sums.flags.writeable = False
        if not mass.flags.writeable:
            self._remembered[:] = [(mass, sums)]
        return sums

"""The commits as the search sees them: who is an ancestor of whom, in packed bits. Indexes only, no ids."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

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
    _packed: NDArray[np.uint64] | None

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
        prior weights of the commits (default: all equal). A history of n commits takes n^2 / 8 bytes (16000: 32 MB),
        a linear one nothing. Raises ValueError for a parent that is not before its child, for ends that are the
        same or not joined, and for weights that are not finite and positive.
        """
        count = len(parents)
        bad = count - 1 if bad is None else bad
        if not (0 <= good < count and 0 <= bad < count):
            raise ValueError(f"the ends must be indexes of the {count} commits, got good={good}, bad={bad}")
        if good == bad:
            raise ValueError(f"the good and the bad end are the same commit, {good}")
        frozen = tuple(tuple(int(parent) for parent in of) for of in parents)
        for child, of in enumerate(frozen):
            if any(not 0 <= parent < child for parent in of):
                raise ValueError(f"commit {child} must come after its parents, got {of}")
        linear = good == 0 and all(of == (child - 1,) for child, of in enumerate(frozen) if child)
        packed = None if linear else _pack(frozen)
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
            _packed=packed,
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
        if self._packed is None:
            linear: Bools = np.arange(count) <= index[:, None]
            return linear
        rows = self._packed[index].view(np.uint8)
        bits: Bools = np.unpackbits(rows, axis=1, count=count, bitorder="little").view(np.bool_)
        return bits

    def descendants(self, commits: Sequence[int] | Ints) -> Bools:
        """Return shape (len(commits), n): True where the column is the row's commit or a descendant of it."""
        index = np.asarray(commits, dtype=np.int64)
        if self._packed is None:
            linear: Bools = np.arange(len(self.parents)) >= index[:, None]
            return linear
        columns = self._packed[:, index // 64] >> (index % 64).astype(np.uint64)
        return (columns & np.uint64(1)).astype(np.bool_).T

    def mass_below(self, commits: Sequence[int] | Ints, mass: Floats) -> Floats:
        """Return for each commit the summed `mass` (shape (n,)) of it and its ancestors: its probability to be bad."""
        index = np.asarray(commits, dtype=np.int64)
        if self._packed is None:
            return np.cumsum(mass)[index]
        heavy = np.flatnonzero(mass > 0)
        first, last = (int(heavy[0]) // 64, int(heavy[-1]) // 64 + 1) if heavy.size else (0, 1)
        light = mass[first * 64 : last * 64].astype(np.float32)
        # Blocks of rows: a whole unpacked 16000 x 16000 matrix would be 256 MB.
        parts = [np.zeros(0, dtype=np.float64)]
        for start in range(0, index.size, 256):
            rows = np.ascontiguousarray(self._packed[index[start : start + 256], first:last]).view(np.uint8)
            bits = np.unpackbits(rows, axis=1, count=light.size, bitorder="little").astype(np.float32)
            parts.append((bits @ light).astype(np.float64))
        return np.concatenate(parts)


def _pack(parents: tuple[tuple[int, ...], ...]) -> NDArray[np.uint64]:
    count = len(parents)
    words = (count + 63) // 64
    packed = np.zeros((count, words), dtype="<u8")
    for child, of in enumerate(parents):
        row = packed[child]
        # Ancestors have smaller indexes, so only the words up to the child's own can be set.
        end = child // 64 + 1
        for parent in of:
            np.bitwise_or(row[:end], packed[parent, :end], out=row[:end])
        row[child // 64] |= np.uint64(1 << (child % 64))
    return packed

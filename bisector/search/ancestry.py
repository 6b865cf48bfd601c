"""Who is an ancestor of whom in a history with merges, in memory that grows with the commits and not their square.

Each commit hangs under one of its parents, its base: a tree. A commit with one parent has its base's ancestors and
itself; a merge has those of its base, itself, and the commits that it brings in, which are listed. So a commit c is an
ancestor of x exactly when c, or a merge that brings c in, stands on the way from the root of the tree to x: ranges of
a preorder, no sets. With the parent that has most ancestors as the base the lists are as short as they can be: in
histories of branches that are merged once, one entry a commit.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Parents = Sequence[Sequence[int]]

# Sets of ancestors kept while merges are read: one for each branch that grows at the same time.
BRANCHES_KEPT = 256


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Ancestry:
    """The tree of bases and the lists of the merges. Make it with `Ancestry.of`.

    `place[x]` is the place of commit x in a preorder of the tree, `end[x]` the place after its last descendant there.
    `brought[i]` is a commit that the merge `merge[i]` brings in, merges in ascending order.
    """

    place: Ints
    end: Ints
    merge: Ints
    brought: Ints

    @classmethod
    def of(cls, parents: Parents, tip: int) -> "Ancestry":
        """Return the ancestry of this history, parents first; `tip` is whose first parents make the main line."""
        line, entry = _main_line(parents, tip)
        bases = _Bases(parents, line, entry)
        bases.read()
        place, end = _preorder(bases.base)
        merge, brought = bases.lists()
        return cls(place=place, end=end, merge=merge, brought=brought)

    def rows(self, commits: Ints) -> Bools:
        """Return shape (len(commits), n): True where the column is the row's commit or an ancestor of it."""
        rows = np.empty((commits.size, self.place.size), dtype=np.bool_)
        for row, at in zip(rows, self.place[commits], strict=True):
            np.logical_and(self.place <= at, at < self.end, out=row)
            row[self.brought[row[self.merge]]] = True
        return rows

    def columns(self, commits: Ints) -> Bools:
        """Return shape (len(commits), n): True where the column is the row's commit or a descendant of it."""
        rows = np.empty((commits.size, self.place.size), dtype=np.bool_)
        for row, commit in zip(rows, commits, strict=True):
            # No way down the tree meets the same commit twice, so these ranges do not overlap.
            ways = np.append(self.merge[self.brought == commit], commit)
            step = np.zeros(self.place.size + 1, dtype=np.int64)
            step[self.place[ways]] += 1
            np.subtract.at(step, self.end[ways], 1)
            row[:] = np.cumsum(step)[self.place] > 0
        return rows

    def sums(self, mass: Floats) -> Floats:
        """Return for each commit the summed `mass` of it and its ancestors, all in one pass."""
        count = self.place.size
        own = mass.astype(np.float64)
        if self.merge.size:
            own += np.bincount(self.merge, weights=own[self.brought], minlength=count)
        step = np.zeros(count + 1)
        step[self.place] = own
        step -= np.bincount(self.end, weights=own, minlength=count + 1)
        sums: Floats = np.cumsum(step)[self.place]
        return sums


def _main_line(parents: Parents, tip: int) -> tuple[list[int], list[int]]:
    """Return the line of first parents, oldest first, and for each commit the first place on it that contains it."""
    line = [tip]
    while parents[line[-1]]:
        line.append(parents[line[-1]][0])
    line.reverse()
    entry = [len(line)] * len(parents)
    for place, commit in enumerate(line):
        entry[commit] = place
    for commit in range(len(parents) - 1, -1, -1):
        first = entry[commit]
        for parent in parents[commit]:
            if entry[parent] > first:
                entry[parent] = first
    return line, entry


class _Bases:
    """Chooses the bases and lists what merges bring in, commit by commit, parents first."""

    def __init__(self, parents: Parents, line: list[int], entry: list[int]) -> None:
        self._parents, self._entry = parents, entry
        self._on_line = [False] * len(parents)
        self.base = [-1] * len(parents)
        # How many ancestors a commit has, itself included, and the highest place of the main line among them.
        self._total = [1] * len(parents)
        self._low = [-1] * len(parents)
        inside = np.cumsum(np.bincount(entry, minlength=len(line) + 1))
        for place, commit in enumerate(line):
            self._on_line[commit] = True
            self._total[commit], self._low[commit] = int(inside[place]), place
            self.base[commit] = line[place - 1] if place else -1
        self._line = line
        self._brought: dict[int, list[int]] = {}
        self._ancestors: dict[int, set[int]] = {}

    def read(self) -> None:
        """Go over all commits. On the main line there is nothing to do: a merge brings in what enters at its place."""
        parents, total, low, base, on_line = self._parents, self._total, self._low, self.base, self._on_line
        for commit, of in enumerate(parents):
            if on_line[commit] or not of:
                continue
            best = of[0] if len(of) == 1 else max(of, key=lambda parent: total[parent])
            base[commit] = best
            if len(of) == 1:
                total[commit], low[commit] = total[best] + 1, low[best]
            else:
                new = self._bring(commit, best)
                total[commit], low[commit] = total[best] + len(new) + 1, max(low[parent] for parent in of)

    def _bring(self, merge: int, base: int) -> list[int]:
        floor, entry, parents = self._low[base], self._entry, self._parents
        known = self._beside_the_line(base)
        new: list[int] = []
        left = [parent for parent in parents[merge] if parent != base]
        while left:
            commit = left.pop()
            if entry[commit] > floor and commit not in known:
                known.add(commit)
                new.append(commit)
                left.extend(parents[commit])
        known.add(merge)
        if len(self._ancestors) >= BRANCHES_KEPT:
            self._ancestors.clear()
        self._ancestors[merge] = known
        self._brought[merge] = new
        return new

    def _beside_the_line(self, commit: int) -> set[int]:
        """The ancestors of a commit down to where the tree leaves the main line; the set is the caller's."""
        way: list[int] = []
        known: set[int] = set()
        while commit >= 0 and not self._on_line[commit]:
            if commit in self._ancestors:
                known = self._ancestors.pop(commit)
                break
            way.append(commit)
            commit = self.base[commit]
        known.update(way)
        for one in way:
            known.update(self._brought.get(one, ()))
        return known

    def lists(self) -> tuple[Ints, Ints]:
        """Return (merge, brought), one element for each commit that a merge brings in."""
        entry, line = np.array(self._entry, dtype=np.int64), np.array(self._line, dtype=np.int64)
        beside = np.flatnonzero((entry < line.size) & ~np.array(self._on_line))
        merge, brought = [line[entry[beside]]], [beside]
        for one, new in self._brought.items():
            merge.append(np.full(len(new), one, dtype=np.int64))
            brought.append(np.array(new, dtype=np.int64))
        merges, commits = np.concatenate(merge), np.concatenate(brought)
        order = np.argsort(merges, kind="stable")
        return merges[order], commits[order]


def _preorder(base: list[int]) -> tuple[Ints, Ints]:
    """Return each commit's place in a preorder of the tree, and the place after its last descendant's."""
    count = len(base)
    size = [1] * count
    for commit in range(count - 1, -1, -1):
        if base[commit] >= 0:
            size[base[commit]] += size[commit]
    # The next free place under each commit; the last element is the ground that roots stand on.
    free = [0] * (count + 1)
    place = [0] * count
    for commit in range(count):
        at = free[base[commit]]
        free[base[commit]] = at + size[commit]
        place[commit] = at
        free[commit] = at + 1
    places = np.array(place, dtype=np.int64)
    return places, places + np.array(size, dtype=np.int64)

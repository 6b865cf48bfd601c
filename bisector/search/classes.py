"""The hypotheses of a search: commits that no looked-at commit tells apart form one class, whatever their number."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bisector.search.graph import Graph
from bisector.search.types import Evidence

Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

# Log-odds against what a person's mark or an identical kernel image excludes: more than any boots can outweigh.
EXCLUDED = -1e4


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Frame:
    """The classes, and which tested unit is bad under which class. A unit is all commits with one kernel image.

    `of_class[i]` is the class of commit i, -1 if it cannot be the first bad one; `class_weight` the classes' prior
    weights and `prior` the logarithms of their shares; `weight` the commits' own. Rows of `looked_bits` and
    `unit_bits` are classes.
    """

    of_class: Ints
    prior: Floats
    class_weight: Floats
    weight: Floats
    looked: tuple[int, ...]
    looked_bits: Bools
    unit_of: dict[int, int]
    unit_bits: Bools
    penalty: Floats


def frame_of(graph: Graph, evidence: Evidence) -> Frame:
    """Return the classes that this evidence makes of the graph, and what marks and shared images exclude."""
    measured = {boot.commit for boot in evidence.boots} | {graph.good, graph.bad}
    images: dict[str, list[int]] = {}
    for commit in sorted(evidence.signatures):
        images.setdefault(evidence.signatures[commit], []).append(commit)
    shared = [group for group in images.values() if len(group) > 1]
    twins = {commit: group for group in shared for commit in group}
    marked = evidence.marked_good | evidence.marked_bad
    looked = tuple(sorted(measured | set(twins) | marked))
    place = {commit: row for row, commit in enumerate(looked)}
    of_class, looked_bits = classes_of(graph, graph.ancestors(looked))
    weight = np.bincount(of_class + 1, weights=graph.weights)[1:].astype(np.float64)
    units: list[int] = []
    unit_of: dict[int, int] = {}
    for commit in sorted(measured):
        if commit not in unit_of:
            unit_of.update(dict.fromkeys([commit, *twins.get(commit, [])], len(units)))
            units.append(place[commit])
    penalty = np.zeros(weight.size)
    for group in shared:
        # One image is one speed: a first bad commit that stands between two of its commits is as good as excluded.
        bits = looked_bits[:, [place[commit] for commit in group]]
        penalty += EXCLUDED * (bits.any(axis=1) & ~bits.all(axis=1))
    for commit in marked:
        said_bad = commit in evidence.marked_bad
        penalty += EXCLUDED * (looked_bits[:, place[commit]] != said_bad)
    return Frame(
        of_class=of_class,
        prior=np.log(weight / weight.sum()),
        class_weight=weight,
        weight=graph.weights,
        looked=looked,
        looked_bits=looked_bits,
        unit_of=unit_of,
        unit_bits=looked_bits[:, units],
        penalty=penalty,
    )


def classes_of(graph: Graph, rows: Bools) -> tuple[Ints, Bools]:
    """Group the candidates by their column of `rows` (one row for each looked-at commit, its ancestors).

    Return the class of each commit (-1: no candidate), numbered by first commits, and shape (classes, rows): the
    column that the members of a class share. Eight rows at a time split the classes of those before, by counting:
    no sorting of all commits.
    """
    candidates = np.flatnonzero(graph.candidates)
    key, classes = np.zeros(candidates.size, dtype=np.int64), 1
    for octet in np.packbits(rows, axis=0):
        key, found = renumbered(key * 256 + octet[candidates], classes * 256)
        classes = found.size
    first = np.empty(classes, dtype=np.int64)
    # Of several values for one place the last is kept: backwards that is the first commit.
    first[key[::-1]] = np.arange(candidates.size)[::-1]
    order = np.argsort(first)
    rank = np.empty_like(order)
    rank[order] = np.arange(order.size)
    of_class = np.full(len(graph), -1, dtype=np.int64)
    of_class[candidates] = rank[key]
    return of_class, rows[:, candidates[first[order]]].T


def split_classes(of_class: Ints, inside: Bools) -> Ints:
    """Return the classes cut in two by one more commit: `inside` is True for it and its ancestors."""
    split = np.full(of_class.size, -1, dtype=np.int64)
    candidates = of_class >= 0
    key = 2 * of_class[candidates] + inside[candidates]
    split[candidates], _ = renumbered(key, int(key.max()) + 1)
    return split


def renumbered(key: Ints, bound: int) -> tuple[Ints, Ints]:
    """Return the keys (all below `bound`) as consecutive numbers in the same order, and the key of each number.

    What `np.unique` returns, without sorting: for keys that take few values.
    """
    present = np.zeros(bound, dtype=np.bool_)
    present[key] = True
    number = np.cumsum(present) - 1
    return number[key], np.flatnonzero(present)

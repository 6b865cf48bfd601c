"""A hunt told in git's own words: a log that `git bisect replay` accepts. Pure text, no git.

git's model is stricter than ours: it keeps one bad commit, and asks for merge bases when a good one is not its
ancestor. So only marks that git can hold become commands; the others stand as comments, or as the merge base that
they imply.
"""

from collections.abc import Sequence
from typing import Literal

from bisector.model.commit import Commit, CommitRange

Mark = tuple[int, Literal["good", "bad", "skip"]]


def write_bisect_log(
    range_: CommitRange, marks: Sequence[Mark], first_bad: Sequence[int] = (), *, first_parent: bool = False
) -> str:
    """The text, for settled marks in the order they were made; `first_bad` are the accused, most probable first.

    Replayed in any clone that holds the range, it leads to the commits that are ancestors of the earliest bad mark
    and not of a good one. Marks on the two ends are not repeated. `first_parent`: the range is such a line.
    """
    commits = range_.commits
    ancestors = _ancestors(range_.parents)
    last = len(commits) - 1
    line = "'--first-parent' " if first_parent else ""
    lines = [
        f"# bad: {_name(commits[last])}",
        f"# good: {_name(commits[0])}",
        f"git bisect start {line}'{commits[last].id}' '{commits[0].id}'",
    ]
    inner = [mark for mark in marks if mark[0] not in (0, last)]
    bad = last
    for index, word in inner:
        if word == "bad" and ancestors[bad] >> index & 1:
            bad = index
    current = last
    for index, word in inner:
        lines.append(f"# {word}: {_name(commits[index])}")
        if word == "skip":
            lines.append(f"git bisect skip {commits[index].id}")
        elif word == "bad" and ancestors[current] >> index & 1:
            current = index
            lines.append(f"git bisect bad {commits[index].id}")
        elif word == "good" and not ancestors[index] >> bad & 1:
            for implied in _newest(ancestors[index] & ancestors[bad], ancestors):
                if implied != 0:
                    lines.append(f"git bisect good {commits[implied].id}")
    if len(first_bad) == 1:
        lines.append(f"# first bad commit: {_name(commits[first_bad[0]])}")
    elif first_bad:
        lines.append("# only skipped or undecided commits left to test")
        lines += [f"# possible first bad commit: {_name(commits[index])}" for index in first_bad]
    return "\n".join(lines) + "\n"


def _name(commit: Commit) -> str:
    # A subject may hold anything but NUL and a line end; an escape sequence must not reach a terminal from here.
    subject = "".join(character if character.isprintable() else "?" for character in commit.subject)
    return f"[{commit.id}] {subject}"


def _ancestors(parents: tuple[tuple[int, ...], ...]) -> list[int]:
    """For each commit the set of its ancestors and itself, as bits of an integer."""
    reach: list[int] = []
    for index, of in enumerate(parents):
        bits = 1 << index
        for parent in of:
            bits |= reach[parent]
        reach.append(bits)
    return reach


def _newest(candidates: int, ancestors: list[int]) -> list[int]:
    """The members of a set that are nobody's ancestor in it (of common ancestors: the merge bases)."""
    newest = []
    while candidates:
        index = candidates.bit_length() - 1
        newest.append(index)
        candidates &= ~ancestors[index]
    return newest

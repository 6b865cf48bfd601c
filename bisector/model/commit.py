"""Commits and ranges: what history reads once, and everybody else only looks at."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """One commit: full 40-hex id, parents' indexes in its range, and what a person wants to read about it."""

    id: str
    parents: tuple[int, ...]
    subject: str
    author_date: str

    @property
    def short(self) -> str:
        """The first 12 digits, as the kernel's `Fixes:` lines use."""
        return self.id[:12]


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitRange:
    """All commits of `good..bad` in topological order, parents first; index 0 is good, the last is bad.

    A parent outside the range is an ancestor of good, and stands as index 0.
    """

    commits: tuple[Commit, ...]

    @property
    def good(self) -> Commit:
        """The end believed good."""
        return self.commits[0]

    @property
    def bad(self) -> Commit:
        """The end believed bad."""
        return self.commits[-1]

    def __len__(self) -> int:
        return len(self.commits)

    @property
    def parents(self) -> tuple[tuple[int, ...], ...]:
        """Indexes of each commit's parents, the shape `search.Graph.from_parents` takes."""
        return tuple(commit.parents for commit in self.commits)

    def index_of(self, commit_id: str) -> int:
        """Index of a full id. Raises KeyError if the range does not hold it."""
        for index, commit in enumerate(self.commits):
            if commit.id == commit_id:
                return index
        raise KeyError(commit_id)

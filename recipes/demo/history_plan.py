"""The commits to make, as history.toml tells them: edits of a source, and where each commit stands in the graph.

Pure: texts in, texts out. Used by make_history.py, which has the files and the repository.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

PACKAGE = "linux-source-6.1"


class HistoryError(Exception):
    """The history cannot be made; `resolution` says what to do about it."""

    def __init__(self, brief: str, *, resolution: str = "") -> None:
        super().__init__(brief)
        self.brief, self.resolution = brief, resolution


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """In `file`, `old` (which must stand there exactly once) becomes `new`."""

    file: str
    old: bytes
    new: bytes

    def applied_to(self, text: bytes, *, subject: str) -> bytes:
        """Return the edited text. Raises HistoryError if `old` is missing or stands there more than once."""
        found = text.count(self.old)
        if found != 1:
            first_line = self.old.strip().splitlines()[0].decode(errors="replace").strip()
            raise HistoryError(
                f"the lines to change stand {found} times, not once, in {self.file}, near: {first_line} ({subject})",
                resolution=f"The changes fit the source of the package {PACKAGE}; use that one.",
            )
        return text.replace(self.old, self.new)


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One commit to make: see the head of history.toml for the meaning of `line`, `merges` and `role`."""

    subject: str
    body: str
    author: str
    line: str = "main"
    merges: str | None = None
    role: str | None = None
    edits: tuple[Edit, ...] = ()

    @property
    def author_address(self) -> str:
        """Return "Name <name@example.org>"."""
        return f"{self.author} <{self.author.lower().replace(' ', '.')}@example.org>"

    @property
    def message(self) -> str:
        """Return the whole commit message."""
        return f"{self.subject}\n\n{self.body.strip()}\n\nSigned-off-by: {self.author_address}\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """A change in its place: `parents` are positions in the plan, -1 being the imported source."""

    change: Change
    parents: tuple[int, ...]
    files: dict[str, bytes] = field(default_factory=dict)


def load_changes(path: Path) -> tuple[Change, ...]:
    """Return the changes of history.toml, oldest first."""
    changes = []
    for entry in tomllib.loads(path.read_text(encoding="utf-8"))["commit"]:
        edits = tuple(
            Edit(file=edit["file"], old=edit["old"].encode(), new=edit["new"].encode())
            for edit in entry.pop("edit", [])
        )
        changes.append(Change(**entry, edits=edits))
    return tuple(changes)


def plan_history(changes: Iterable[Change], sources: dict[str, bytes]) -> tuple[Planned, ...]:
    """Return the commits with their parents and the files each one writes.

    A line that is new leaves the main line where it first appears; a merge replays its edits on the main line.
    Raises HistoryError for a file that is not among `sources`, or an edit that does not fit.
    """
    planned: list[Planned] = []
    tips = {"main": -1}
    texts = {"main": dict(sources)}
    made_on: dict[str, list[Change]] = {}

    def edited(change: Change, text: dict[str, bytes]) -> dict[str, bytes]:
        written = {}
        for edit in change.edits:
            if edit.file not in text:
                raise HistoryError(
                    f"the source has no {edit.file} ({change.subject})",
                    resolution=f"The changes fit the source of the package {PACKAGE}; use that one.",
                )
            text[edit.file] = written[edit.file] = edit.applied_to(text[edit.file], subject=change.subject)
        return written

    for position, change in enumerate(changes):
        if change.line not in tips:
            tips[change.line], texts[change.line] = tips["main"], dict(texts["main"])
        parents: tuple[int, ...] = (tips[change.line],)
        files: dict[str, bytes] = {}
        if change.merges is not None:
            parents += (tips[change.merges],)
            for merged in made_on[change.merges]:
                files |= edited(merged, texts[change.line])
        files |= edited(change, texts[change.line])
        made_on.setdefault(change.line, []).append(change)
        tips[change.line] = position
        planned.append(Planned(change=change, parents=parents, files=files))
    return tuple(planned)


def positions_between(planned: tuple[Planned, ...], *, cause: str, repair: str) -> tuple[int, ...]:
    """Return the positions whose ancestry has a `cause` and no `repair` of it."""
    seen: list[frozenset[str]] = []
    for commit in planned:
        inherited = frozenset().union(*(seen[parent] for parent in commit.parents if parent >= 0))
        seen.append(inherited | ({commit.change.role} if commit.change.role else set()))
    return tuple(place for place, roles in enumerate(seen) if cause in roles and repair not in roles)

"""A hunt that people began with git: what `git bisect log` says becomes the ends of a range and marks in it.

The commands count, as for `git bisect replay`; lines that begin with # are for people, but where `git bisect start`
was given names ("HEAD"), only they tell the commits. Source: git-bisect(1), and git 2.39's logs.
"""

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from bisector.history.repository import Repository
from bisector.model.errors import RevisionError, UsageError

Word = Literal["good", "bad", "skip"]

_TOLD = re.compile(r"# \S+: \[([0-9a-f]{40,64})\] ")


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """One word on one revision, at a line (from 1) of the log."""

    word: Word
    revision: str
    line: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Begun:
    """What a log says, in its order. `source` is its name to people; `first_parent` was asked for at its start."""

    source: str
    said: tuple[Said, ...]
    first_parent: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class TakenUp:
    """Where such a hunt stands: full ids of the ends, and what was said of commits between them, oldest word first."""

    good: str
    bad: str
    marks: tuple[tuple[str, Word], ...]


def read_bisect_log(text: str, source: str) -> Begun:
    """What a log says; a `git bisect start` in it begins anew. `source` names it to people.

    Raises UsageError with the line for a command that is not one of git's, and if there is no good or no bad commit.
    """
    said: list[Said] = []
    terms: dict[str, Word] = {}
    first_parent = False
    told: list[str] = []
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip() or line.lstrip().startswith("#"):
            told += _TOLD.findall(line)
            continue
        try:
            words = shlex.split(line)
        except ValueError as error:
            raise _not_a_log(source, number, line, str(error)) from None
        if words[:2] != ["git", "bisect"] or len(words) < 3:
            raise _not_a_log(source, number, line, "it is no `git bisect` command")
        command, arguments = words[2], words[3:]
        if command == "start":
            terms, revisions = _start(arguments)
            first_parent = "--first-parent" in arguments
            revisions = told if len(told) == len(revisions) else revisions
            said = [
                Said(word="good" if index else "bad", revision=one, line=number) for index, one in enumerate(revisions)
            ]
        elif command in terms:
            said += [Said(word=terms[command], revision=one, line=number) for one in arguments]
        elif command not in ("terms", "log", "visualize", "view", "run", "next"):
            raise _not_a_log(source, number, line, f"{command} is not a word of this log")
        told = []
    for word in ("bad", "good"):
        if not any(one.word == word for one in said):
            raise UsageError(
                f"{source}: no commit is marked {word}",
                resolution=f"Mark one (git bisect {word} REV) and write the log anew: git bisect log",
            )
    return Begun(source=source, said=tuple(said), first_parent=first_parent)


def take_up(repository: Repository, begun: Begun, *, first_parent: bool = False) -> TakenUp:
    """The ends that are left: the last bad commit, and the good one next to it; the other words that lie between.

    A good commit beside the bad one says that their merge bases are good: that is how git takes it as well.
    Raises RevisionError for what names no commit, UsageError for a commit that is called both good and bad.
    """
    source, said = begun.source, begun.said
    ids = {one: _resolve(repository, one, source) for one in said}
    words: dict[str, Word] = {}
    for one in said:
        before = words.setdefault(ids[one], one.word)
        if before != one.word and {before, one.word} == {"good", "bad"}:
            raise UsageError(
                f"{source}:{one.line}: {repository.describe(ids[one])} is called both good and bad",
                resolution="Take the wrong line out",
            )
        words[ids[one]] = one.word
    bad = next(ids[one] for one in reversed(said) if one.word == "bad")
    goods = list(dict.fromkeys(_implied_good(repository, words, bad)))
    if not goods:
        raise RevisionError(f"{source}: no good commit shares history with the bad one, {repository.describe(bad)}")
    good = min(goods, key=lambda one: repository.distance(one, bad))
    commits = repository.read_range(good, bad, first_parent=first_parent).commits
    inside = {commit.id for commit in commits} - {good, bad}
    marks: dict[str, Word] = {one: "good" for one in goods if one in inside}
    marks |= {one: word for one, word in words.items() if one in inside}
    return TakenUp(good=good, bad=bad, marks=tuple(marks.items()))


def _start(arguments: list[str]) -> tuple[dict[str, Word], list[str]]:
    """The log's own words for good and bad, and the revisions: a bad one, then good ones."""
    terms: dict[str, Word] = {"good": "good", "old": "good", "bad": "bad", "new": "bad", "skip": "skip"}
    revisions: list[str] = []
    waiting = iter(arguments)
    for argument in waiting:
        name, equals, value = argument.partition("=")
        if argument == "--":
            break
        if name in ("--term-good", "--term-old"):
            terms[value if equals else next(waiting, "")] = "good"
        elif name in ("--term-bad", "--term-new"):
            terms[value if equals else next(waiting, "")] = "bad"
        elif not argument.startswith("-"):
            revisions.append(argument)
    return terms, revisions


def _implied_good(repository: Repository, words: dict[str, Word], bad: str) -> Iterator[str]:
    for commit, word in words.items():
        if word == "good" and commit != bad:
            yield from (base for base in repository.merge_bases(commit, bad) if base != bad)


def _resolve(repository: Repository, one: Said, source: str) -> str:
    try:
        return repository.resolve(one.revision)
    except RevisionError as error:
        raise RevisionError(
            f"{source}:{one.line}: {error.brief}", details=error.details, resolution=error.resolution
        ) from error


def _not_a_log(source: str, number: int, line: str, reason: str) -> UsageError:
    return UsageError(
        f"{source}:{number}: not a line of a `git bisect log`: {line.strip()[:80]!r}",
        details=reason,
        resolution="Write one in the hunt's checkout: git bisect log > bisect.log",
    )

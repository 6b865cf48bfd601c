"""The user's repository, read only: names become full commit ids once, and a range becomes a graph once."""

import difflib
import os
import re
from dataclasses import dataclass
from pathlib import Path

from bisector.history.plumbing import GitAnswer, ask, demand
from bisector.model.commit import Commit, CommitRange
from bisector.model.errors import RevisionError, UsageError

_ABBREVIATION = re.compile(r"[0-9a-fA-F]{4,39}")
_SUFFIX = re.compile(r"[~^@:]")
# Hash, parents, author date, subject: one record of four NUL-ended fields for each commit.
_FORMAT = "--format=%H%x00%P%x00%aI%x00%s"


@dataclass(frozen=True, slots=True, kw_only=True)
class Repository:
    """A whole, readable git repository. `path` is its top folder (or the bare one), `common` its .git.

    Made by `Repository.open`. Nothing here writes; every call is one short-lived git process.
    """

    path: Path
    common: Path

    @classmethod
    def open(cls, path: Path) -> "Repository":
        """The repository at `path`. Raises UsageError (not one, not its top, not ours), RevisionError (shallow)."""
        path = path.expanduser()
        if not path.is_dir():
            raise UsageError(
                f"{path}: no such folder", resolution="Name the kernel's git repository with --repo or `repo:`"
            )
        path = path.resolve()
        answer = ask(path, "rev-parse", "--is-bare-repository", "--is-shallow-repository", "--git-common-dir")
        if answer.status != 0:
            raise _cannot_open(path, answer)
        bare, shallow, common = answer.text.split("\n", 2)
        top = path if bare == "true" else _top_of(path)
        if top != path:
            # Going up in silence would hunt in whatever repository happens to hold this folder.
            raise UsageError(
                f"{path} lies inside the git repository {top} and is not its top folder", resolution=f"--repo {top}"
            )
        if shallow == "true":
            raise RevisionError(
                f"{path} is a shallow clone: its history is cut, so ancestry cannot be told",
                resolution=f"git -C {path} fetch --unshallow",
            )
        return cls(path=path, common=(path / common).resolve())

    def resolve(self, revision: str) -> str:
        """The full id of the one commit that `revision` names, tags peeled. Raises RevisionError."""
        _refuse_what_is_no_name(revision)
        self._refuse_ambiguous(revision)
        answer = ask(self.path, "rev-parse", "--verify", "--end-of-options", f"{revision}^{{commit}}")
        # In "REV:PATH" the path swallows the peeling, so what came out is asked once more.
        if answer.status == 0 and (":" not in revision or self._kind(answer.text) == "commit"):
            return answer.text
        raise self._explain(revision)

    def read_range(self, good: str, bad: str, *, first_parent: bool = False) -> CommitRange:
        """The commits of `good..bad`, parents first, good at index 0, bad last.

        `first_parent` leaves out what merges brought in: bad, its first parent, that one's, down to good.
        20000 commits take one git process and well under a second of Python. Raises RevisionError when the two ends
        are the same, are swapped, or good is not an ancestor of bad (not on its first-parent line).
        """
        good_id, bad_id = self.resolve(good), self.resolve(bad)
        if good_id == bad_id:
            raise RevisionError(
                f"good {good!r} and bad {bad!r} are the same commit: {self.describe(good_id)}",
                resolution="Name two commits: --good an older one that was fast, --bad a later one that is slow",
            )
        if not self.is_ancestor(good_id, bad_id):
            raise self._no_range(good, good_id, bad, bad_id)
        line = ["--first-parent"] if first_parent else []
        records = self._log("--no-walk", good_id) + self._log(*line, "--topo-order", "--reverse", bad_id, f"^{good_id}")
        if first_parent and records[1][1].split()[:1] != [good_id]:
            within = set(demand(self.path, "rev-list", "--ancestry-path", f"{good_id}..{bad_id}").text.split())
            first = next(record[0] for record in records[1:] if record[0] in within)
            raise self._not_on_the_line(good, good_id, bad, first)
        index_of = {record[0]: index for index, record in enumerate(records)}
        commits: list[Commit] = []
        for commit, parents, date, subject in records:
            # A parent that is not in the range is an ancestor of good; two such parents are one index.
            followed = parents.split()[:1] if first_parent else parents.split()
            known = dict.fromkeys(index_of.get(parent, 0) for parent in followed) if commits else {}
            commits.append(Commit(id=commit, parents=tuple(known), subject=subject, author_date=date))
        if commits[-1].id != bad_id:
            raise RevisionError(f"git lists {commits[-1].id} as the last commit of {good}..{bad}, not {bad_id}")
        return CommitRange(commits=tuple(commits))

    def is_ancestor(self, ancestor: str, descendant: str) -> bool:
        """Is one commit reachable from the other? An unknown object is an error, not a no."""
        answer = ask(self.path, "merge-base", "--is-ancestor", ancestor, descendant)
        if answer.status in (0, 1):
            return answer.status == 0
        raise RevisionError(
            f"git cannot compare {ancestor} with {descendant} in {self.path}",
            details=answer.stderr.strip(),
            resolution=f"git -C {self.path} fsck --connectivity-only",
        )

    def merge_bases(self, one: str, other: str) -> tuple[str, ...]:
        """The newest common ancestors of two commits; one of the two if it is an ancestor of the other."""
        return tuple(ask(self.path, "merge-base", "--all", one, other).text.split())

    def distance(self, ancestor: str, descendant: str) -> int:
        """How many commits `ancestor..descendant` has."""
        return int(demand(self.path, "rev-list", "--count", f"{ancestor}..{descendant}").text)

    def tree_id(self, commit: str) -> str:
        """Id of the tree of a commit: equal for two commits exactly when their files are."""
        return demand(self.path, "rev-parse", "--verify", "--end-of-options", f"{commit}^{{tree}}").text

    def parents(self, commit: str) -> tuple[str, ...]:
        """Full ids of a commit's parents, the first one first."""
        return tuple(self._log("--no-walk", commit)[0][1].split())

    def has_path(self, commit: str, path: str) -> bool:
        """Does the commit's tree have a file or folder of this name (from the top, no leading slash)?"""
        return bool(demand(self.path, "ls-tree", "--name-only", "-z", "--full-tree", commit, "--", path).fields)

    def author_date(self, commit: str) -> str:
        """The author's date, ISO 8601 with zone."""
        return self._log("--no-walk", commit)[0][2]

    def describe(self, commit: str) -> str:
        """Twelve digits and the subject, as people read it."""
        return f"{commit[:12]} ({self._log('--no-walk', commit)[0][3]})"

    def files_touched(self, commit: str) -> tuple[str, ...]:
        """Paths that differ from the first parent (all of them for a root), sorted. Renames show both names."""
        line = demand(self.path, "rev-list", "--parents", "-n", "1", "--end-of-options", commit).text.split()
        against = [line[1], line[0]] if len(line) > 1 else ["--root", "--no-commit-id", line[0]]
        return tuple(sorted(demand(self.path, "diff-tree", "-r", "-z", "--no-renames", "--name-only", *against).fields))

    def _log(self, *what: str) -> list[tuple[str, str, str, str]]:
        answer = demand(
            self.path, "log", "-z", "--no-color", "--no-notes", "--no-decorate", "--no-mailmap", "--no-patch",
            "--encoding=UTF-8", _FORMAT, *what, "--",
        )  # fmt: skip
        fields = iter(answer.fields)
        return list(zip(fields, fields, fields, fields, strict=True))

    def _kind(self, object_id: str) -> str:
        """commit, tree, blob, tag, or "" for an object that is not there."""
        return ask(self.path, "cat-file", "-t", object_id).text

    def _refuse_ambiguous(self, revision: str) -> None:
        base = _SUFFIX.split(revision, maxsplit=1)[0]
        if not base:
            return
        wanted = {f"refs/{base}", f"refs/tags/{base}", f"refs/heads/{base}", f"refs/remotes/{base}"}
        answer = ask(self.path, "for-each-ref", "--format=%(refname)", *sorted(wanted))
        names = [name for name in answer.text.split("\n") if name in wanted]
        meanings: dict[str, str] = {}
        for name in names:
            peeled = ask(self.path, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}")
            if peeled.status == 0:
                meanings.setdefault(peeled.text, name)
        if _ABBREVIATION.fullmatch(base):
            # An object's digits and a branch or tag of the same digits: git takes the name and only warns.
            for object_id in ask(self.path, "rev-parse", f"--disambiguate={base}").text.split():
                if self._kind(object_id) == "commit":
                    meanings.setdefault(object_id, "commit id")
        if len(meanings) > 1:
            raise RevisionError(
                f"revision {revision!r} is ambiguous in {self.path}",
                details="\n".join(f"{meaning}: {self.describe(commit)}" for commit, meaning in meanings.items()),
                resolution="Type the full 40 digits, or the whole name (refs/heads/..., refs/tags/...)",
            )

    def _explain(self, revision: str) -> RevisionError:
        for form in (f"{revision}^{{}}", revision):
            found = ask(self.path, "rev-parse", "--verify", "--quiet", "--end-of-options", form)
            kind = self._kind(found.text) if found.status == 0 else ""
            if kind not in ("", "commit"):
                return RevisionError(
                    f"revision {revision!r} names a {kind}, not a commit ({found.text[:12]} in {self.path})",
                    resolution="Name a commit, a branch, or a tag of a commit",
                )
        names = ask(self.path, "for-each-ref", "--format=%(refname:short)").text.split("\n")
        near = difflib.get_close_matches(revision, names, n=3, cutoff=0.7)
        return RevisionError(
            f"unknown revision {revision!r} in {self.path}",
            details=f"Near it: {', '.join(near)}" if near else "",
            resolution=f"See what there is: git -C {self.path} log --oneline --all, or get more: "
            f"git -C {self.path} fetch --tags",
        )

    def _no_range(self, good: str, good_id: str, bad: str, bad_id: str) -> RevisionError:
        if self.is_ancestor(bad_id, good_id):
            return RevisionError(
                f"the ends are swapped: bad {bad!r} is an ancestor of good {good!r}",
                details=f"good: {self.describe(good_id)}\nbad:  {self.describe(bad_id)}",
                resolution=f"--good {bad} --bad {good}, and `search: find: improvement` if the later one is faster",
            )
        bases = self.merge_bases(good_id, bad_id)
        if not bases:
            return RevisionError(
                f"good {good!r} and bad {bad!r} have no common ancestor in {self.path}",
                resolution="Name a good commit that bad was made from: git log --oneline " + bad,
            )
        return RevisionError(
            f"good {good!r} is not an ancestor of bad {bad!r}: they are on two branches",
            details="\n".join(f"merge base: {self.describe(base)}" for base in bases),
            resolution=f"If the merge base is good as well: --good {bases[0]}",
        )

    def _not_on_the_line(self, good: str, good_id: str, bad: str, first: str) -> RevisionError:
        return RevisionError(
            f"good {good!r} ({good_id[:12]}) is not on the first-parent line of bad {bad!r}: a merge brought it in",
            details=f"the first commit of that line that contains it: {self.describe(first)}",
            resolution=f"--good {first[:12]} if that one is good as well, or leave first-parent out",
        )


def _top_of(path: Path) -> Path:
    answer = ask(path, "rev-parse", "--show-toplevel")
    if answer.status != 0:
        raise UsageError(
            f"{path} is the inside of a repository, not its top folder", resolution=f"--repo {path.parent}"
        )
    return Path(answer.text).resolve()


def _cannot_open(path: Path, answer: GitAnswer) -> UsageError:
    if "dubious ownership" in answer.stderr:
        owner = path.stat().st_uid
        return UsageError(
            f"git refuses {path}: it belongs to user {owner}, and you are user {os.geteuid()}",
            details=answer.stderr.strip(),
            resolution=f"If you trust its content: git config --global --add safe.directory {path}",
        )
    return UsageError(
        f"{path} is not a git repository",
        details=answer.stderr.strip(),
        resolution="Name the kernel's git repository with --repo or `repo:`",
    )


def _refuse_what_is_no_name(revision: str) -> None:
    how = "Type one commit: a tag, a branch, or a commit id"
    if not revision.strip():
        raise RevisionError(f"the revision is empty: {revision!r}", resolution=how)
    if revision.startswith("-"):
        raise RevisionError(f"revision {revision!r} begins with a dash", resolution=how)
    if any(ord(character) < 32 or ord(character) == 127 for character in revision):
        raise RevisionError(f"revision {revision!r} holds a control character", resolution=how)
    if revision.startswith("^") or ".." in revision:
        raise RevisionError(f"revision {revision!r} is a range, not one commit", resolution=how)

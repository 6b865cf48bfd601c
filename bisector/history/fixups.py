"""A work tree whose commits get the recipe's fix-ups: read once from the repository, applied to our own files only.

Nothing is written into the user's repository: a change is applied to the files of the work tree, not to an index, and
the next move takes it back.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bisector.history.plumbing import ask, demand
from bisector.history.repository import Repository
from bisector.history.worktree import WorkTree
from bisector.model.errors import KernelError, RevisionError, UsageError
from bisector.model.outcome import Outcome
from bisector.recipe.fixups import FixupPart

# Whatever the user's settings say of diffs.
_PLAIN_DIFF = (
    "-p", "--binary", "--full-index", "--no-renames", "--no-ext-diff", "--no-textconv", "--no-color",
    "--src-prefix=a/", "--dst-prefix=b/",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Fixup:
    """A change as it will be applied: `diff` is a file of the session's own. The conditions are full commit ids."""

    name: str
    diff: Path
    contains: str | None
    lacks: str | None
    path: str | None


class FixedTree:
    """A work tree with fix-ups; satisfies `kernel.source.SourceTree`. Holding and closing is the tree's own matter."""

    def __init__(self, repository: Repository, tree: WorkTree, fixups: Sequence[Fixup]) -> None:
        self._repository = repository
        self._tree = tree
        self._fixups = tuple(fixups)

    def tree_id(self, commit: str) -> str:
        """The commit's tree, and what is applied to it: equal for two commits exactly when their files are."""
        wanted = self._wanted(commit)
        if not wanted:
            return self._tree.tree_id(commit)
        digest = hashlib.sha256()
        for fixup in wanted:
            digest.update(hashlib.sha256(fixup.diff.read_bytes()).digest())
        return f"{self._tree.tree_id(commit)} with {digest.hexdigest()}"

    def move_to(self, commit: str) -> Path:
        """The folder with the commit's files, its fix-ups applied. Raises BuilderError as `WorkTree.move_to`.

        Raises KernelError(build_failed) with git's words where one does not apply.
        """
        folder = self._tree.move_to(commit)
        for fixup in self._wanted(commit):
            _apply(fixup, folder, commit)
        return folder

    def verify(self, commit: str) -> None:
        """Raise BuilderError unless the tree still stands at `commit`."""
        self._tree.verify(commit)

    def fixups(self, commit: str) -> tuple[str, ...]:
        """Names of those that a commit gets, in order."""
        return tuple(fixup.name for fixup in self._wanted(commit))

    def _wanted(self, commit: str) -> list[Fixup]:
        return [fixup for fixup in self._fixups if self._gets(commit, fixup)]

    def _gets(self, commit: str, fixup: Fixup) -> bool:
        if fixup.contains is not None and not self._repository.is_ancestor(fixup.contains, commit):
            return False
        if fixup.lacks is not None and self._repository.is_ancestor(fixup.lacks, commit):
            return False
        return fixup.path is None or self._repository.has_path(commit, fixup.path)


def resolve_fixups(repository: Repository, parts: Sequence[FixupPart]) -> tuple[FixupPart, ...]:
    """The same with full commit ids, conditions written out: a branch that moves later changes nothing.

    Raises RevisionError for a revision that names no commit, a merge or a root that is to be picked or reverted;
    UsageError for a patch in which git finds no change.
    """
    resolved = []
    for part in parts:
        picked = {key: getattr(part, key) for key in ("cherry_pick", "revert")}
        conditions = {"contains": part.must_contain, "lacks": part.must_lack}
        ids = {
            key: None if revision is None else _resolve(repository, part, key, revision)
            for key, revision in (picked | conditions).items()
        }
        one = part.model_copy(update=ids)
        _look_at(repository, one)
        resolved.append(one)
    return tuple(resolved)


def keep_fixups(repository: Repository, parts: Sequence[FixupPart], folder: Path) -> tuple[Fixup, ...]:
    """What `resolve_fixups` gave, as files in `folder`: made at the first call, then read. Raises UsageError."""
    kept = []
    for part in parts:
        diff = folder / f"{part.name}.diff"
        if not diff.exists():
            folder.mkdir(parents=True, exist_ok=True)
            unfinished = folder / f".{part.name}.unfinished"
            unfinished.write_bytes(_content(repository, part))
            unfinished.replace(diff)
        kept.append(Fixup(name=part.name, diff=diff, contains=part.contains, lacks=part.lacks, path=part.path))
    return tuple(kept)


def _resolve(repository: Repository, part: FixupPart, key: str, revision: str) -> str:
    try:
        return repository.resolve(revision)
    except RevisionError as error:
        raise RevisionError(
            f"kernel.fixups: {part.name}: {key}: {error.brief}", details=error.details, resolution=error.resolution
        ) from error


def _look_at(repository: Repository, part: FixupPart) -> None:
    for commit in filter(None, (part.cherry_pick, part.revert)):
        parents = repository.parents(commit)
        if len(parents) != 1:
            raise RevisionError(
                f"kernel.fixups: {part.name}: {repository.describe(commit)} has {len(parents)} parents, not one",
                resolution="Make a file of what is wanted (git diff A B > my.patch) and name it: patch: my.patch",
            )
    if part.patch is not None:
        answer = ask(repository.path, "apply", "--numstat", part.patch)
        if answer.status != 0 or not answer.text:
            raise UsageError(
                f"kernel.fixups: {part.name}: {part.patch} is not a patch that git can apply",
                details=answer.stderr.strip(),
                resolution="Make it with: git diff > my.patch",
            )


def _content(repository: Repository, part: FixupPart) -> bytes:
    if part.patch is not None:
        try:
            return Path(part.patch).read_bytes()
        except OSError as error:
            raise UsageError(
                f"kernel.fixups: {part.name}: {part.patch} cannot be read: {error.strerror}",
                resolution="Put it back, then resume.",
            ) from error
    commit = part.cherry_pick or part.revert
    assert commit is not None, "the recipe has one of three"
    backwards = ["-R"] if part.revert else []
    return demand(repository.path, "diff-tree", *_PLAIN_DIFF, *backwards, f"{commit}^1", commit).stdout


def _apply(fixup: Fixup, folder: Path, commit: str) -> None:
    # Without --index: git would write objects into the repository. Without --3way for the same reason.
    words = ("apply", "--whitespace=nowarn", "--no-ignore-whitespace")
    answer = ask(folder, *words, str(fixup.diff))
    if answer.status == 0:
        return
    reject = answer.stderr.strip()
    first = next(iter(reject.splitlines()), "git did not say why")
    if ask(folder, *words, "--check", "-R", str(fixup.diff)).status == 0:
        raise KernelError(
            f"the fix-up {fixup.name} is in {commit[:12]} already",
            outcome=Outcome.BUILD_FAILED,
            details=reject,
            resolution="Name the commit that brought it as its `lacks:`",
        )
    raise KernelError(
        f"the fix-up {fixup.name} does not apply to {commit[:12]}: {first}",
        outcome=Outcome.BUILD_FAILED,
        details=reject,
        resolution="Give it a condition (contains, lacks, path), or a second fix-up with another patch",
    )

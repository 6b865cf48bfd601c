"""A work tree of our own beside the user's repository: moved from commit to commit, checked, mended, never shared.

Only the record under `.git/worktrees/` is added to the user's repository; the checkout, index and branches stay as
they are. Unchanged files keep their times, so that make compiles what a commit really changes.
"""

import contextlib
import fcntl
import os
import shutil
import time
from pathlib import Path

from bisector.history.plumbing import GitAnswer, ask, demand
from bisector.history.repository import Repository
from bisector.model.errors import BuilderError

_LOCK_REASON = "bisector builds kernels here"
# git writes an index of 80000 files in well under a second, on a busy disk in some; then its lock is gone.
_LOCK_WAIT_S = 60.0


class WorkTree:
    """One builder's private tree of `repository` in `folder`, held by one process at a time from the first use on.

    Satisfies `kernel.source.SourceTree`. All methods raise BuilderError when the tree cannot be had: that is our
    trouble, and says nothing of a commit.
    """

    def __init__(self, repository: Repository, folder: Path) -> None:
        self._repository = repository
        self._folder = folder.absolute()
        self._held: int | None = None

    @property
    def folder(self) -> Path:
        """Where the files are."""
        return self._folder

    def tree_id(self, commit: str) -> str:
        """Id of the commit's tree: two commits with one id have the same files."""
        return self._repository.tree_id(commit)

    def move_to(self, commit: str) -> Path:
        """The folder, holding exactly the files of `commit` (a full id); whatever was changed or added is gone."""
        self._hold()
        admin = self._ensure(commit)
        _clear_locks(admin)
        # --force would rewrite what only looks changed (a restored backup, a chmod), and make would compile it again.
        ask(self._folder, "update-index", "-q", "--refresh")
        answer = self._check_out(commit)
        if answer.status != 0:
            # An index that a full disk or a power cut has torn: without one, git writes every file anew.
            (admin / "index").unlink(missing_ok=True)
            answer = self._check_out(commit)
        if answer.status != 0:
            raise _cannot_move(self._folder, commit, answer)
        # Twice -f: left-over repositories inside (old submodules) go as well.
        demand(self._folder, "clean", "-ffdxq")
        self.verify(commit)
        changes = demand(self._folder, "status", "--porcelain=v1", "-z", "--untracked-files=all").fields
        if changes:
            raise BuilderError(
                f"the work tree {self._folder} is not clean at {commit[:12]}: {changes[0]}",
                details="\n".join(changes[:20]),
                resolution=f"Remove it, it is made again: rm -rf {self._folder}",
            )
        return self._folder

    def verify(self, commit: str) -> None:
        """Raise BuilderError unless the tree still stands at `commit`: somebody else may have moved it."""
        head = ask(self._folder, "rev-parse", "--verify", "--quiet", "HEAD")
        if head.text != commit:
            raise BuilderError(
                f"the work tree {self._folder} stands at {head.text[:12] or 'nothing'}, not at {commit[:12]}",
                details=head.stderr.strip(),
                resolution="Nothing else may use this folder; then resume the session",
            )

    def fixups(self, commit: str) -> tuple[str, ...]:
        """None: here a commit is as it is (see `fixups.FixedTree`)."""
        del commit
        return ()

    def close(self) -> None:
        """Let others have the tree. The files stay, for the next incremental build."""
        if self._held is not None:
            os.close(self._held)
            self._held = None

    def remove(self) -> None:
        """Delete the tree and its record in the repository."""
        self._hold()
        if self._record() is not None:
            ask(self._repository.path, "worktree", "unlock", str(self._folder))
            ask(self._repository.path, "worktree", "remove", "--force", str(self._folder))
        shutil.rmtree(self._folder, ignore_errors=True)
        self.close()

    def __enter__(self) -> "WorkTree":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _check_out(self, commit: str) -> GitAnswer:
        return ask(self._folder, "checkout", "--quiet", "--force", "--detach", commit)

    def _hold(self) -> None:
        if self._held is not None:
            return
        self._folder.parent.mkdir(parents=True, exist_ok=True)
        path = self._folder.with_name(self._folder.name + ".lock")
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            owner = os.read(handle, 32).decode(errors="replace").strip()
            os.close(handle)
            raise BuilderError(
                f"the work tree {self._folder} is in use by process {owner or 'unknown'}",
                resolution="Let that session end, or give this one a folder of its own",
            ) from error
        os.ftruncate(handle, 0)
        os.write(handle, f"{os.getpid()}\n".encode())
        self._held = handle

    def _ensure(self, commit: str) -> Path:
        admin = self._admin_folder()
        if admin is not None:
            return admin
        if self._folder.exists() and any(self._folder.iterdir()):
            # The repository may have been moved: git then knows how to join the two ends again.
            ask(self._repository.path, "worktree", "repair", str(self._folder))
            admin = self._admin_folder()
            if admin is not None:
                return admin
            self._clear_remains()
        self._add(commit)
        admin = self._admin_folder()
        if admin is None:
            raise BuilderError(
                f"git made no work tree in {self._folder}", resolution=f"git -C {self._repository.path} worktree list"
            )
        return admin

    def _admin_folder(self) -> Path | None:
        """This tree's folder under .git/worktrees, or None where `folder` is not (or no longer) a tree of ours."""
        if not (self._folder / ".git").is_file():
            return None
        answer = ask(self._folder, "rev-parse", "--absolute-git-dir", "--show-toplevel")
        if answer.status != 0:
            return None
        admin, top = (Path(line).resolve() for line in answer.text.split("\n", 1))
        ours = admin.parent == self._repository.common / "worktrees" and top == self._folder.resolve()
        return admin if ours else None

    def _clear_remains(self) -> None:
        """Delete a tree whose record is gone. A folder that never was a tree of this repository is not touched."""
        pointer = self._folder / ".git"
        target = pointer.read_text(errors="replace").removeprefix("gitdir:").strip() if pointer.is_file() else ""
        if Path(target).parent.resolve() != self._repository.common / "worktrees" or not target:
            raise BuilderError(
                f"{self._folder} is in the way: it is not a work tree of {self._repository.path}",
                resolution=f"Move it away: mv {self._folder} {self._folder}.old",
            )
        shutil.rmtree(self._folder)

    def _add(self, commit: str) -> None:
        repository, folder = self._repository.path, str(self._folder)
        record = self._record()
        if record not in (None, "", _LOCK_REASON):
            raise BuilderError(
                f"git keeps {folder} for a work tree that somebody locked: {record}",
                resolution=f"If it is not needed: git -C {repository} worktree unlock {folder}",
            )
        # --force twice: take over our own record, locked and with its folder deleted by hand. Pruning would do it as
        # well, but would also drop other people's records of disks that are not mounted now.
        force = [] if record is None else ["--force", "--force"]
        demand(repository, "worktree", "add", "--quiet", *force, "--detach", "--no-checkout", folder, commit)
        ask(repository, "worktree", "lock", "--reason", _LOCK_REASON, folder)

    def _record(self) -> str | None:
        """The lock reason of git's record of this folder ("" = not locked), None where there is no record."""
        listing = demand(self._repository.path, "worktree", "list", "--porcelain").text
        for block in listing.split("\n\n"):
            lines = block.split("\n")
            path = Path(lines[0].removeprefix("worktree "))
            if path != self._folder and path.resolve() != self._folder.resolve():
                continue
            for line in lines:
                if line == "locked" or line.startswith("locked "):
                    return line.removeprefix("locked").strip() or "(no reason given)"
            return ""
        return None


def _clear_locks(admin: Path) -> None:
    """Remove lock files that a dead git left in our own tree; wait for one that lives.

    We hold the tree, so whoever made the lock is a git that a killed controller started.
    """
    deadline = time.monotonic() + _LOCK_WAIT_S
    for lock in admin.glob("*.lock"):
        while (owner := _process_holding(lock)) is not None:
            if time.monotonic() > deadline:
                age_s = time.time() - lock.stat().st_mtime
                raise BuilderError(
                    f"process {owner} has held {lock} for {age_s:.0f} s",
                    resolution=f"See what it does: ps -fp {owner}; then resume the session",
                )
            time.sleep(0.1)
        lock.unlink(missing_ok=True)


def _process_holding(path: Path) -> int | None:
    """A process that has the file open (git keeps its lock files open until they are renamed), or None."""
    try:
        wanted = path.stat()
    except FileNotFoundError:
        return None
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal():
            continue
        # Processes end while we look, and other users' are closed to us.
        with contextlib.suppress(OSError):
            for handle in (entry / "fd").iterdir():
                with contextlib.suppress(OSError):
                    if os.path.samestat(handle.stat(), wanted):
                        return int(entry.name)
    return None


def _cannot_move(folder: Path, commit: str, answer: GitAnswer) -> BuilderError:
    message = answer.stderr.strip()
    if "promisor" in message or "Could not read from remote" in message:
        how = "The clone lacks files of this commit (partial clone): fetch them while its server answers: git fetch"
    elif "No space left" in message:
        how = f"Free space below {folder}, then resume the session"
    else:
        how = f"Look at it with: git -C {folder} checkout --detach {commit}"
    return BuilderError(f"git cannot check out {commit[:12]} in {folder}", details=message[-2000:], resolution=how)

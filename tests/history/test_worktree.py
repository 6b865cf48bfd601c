"""The private work tree: the user's checkout stays as it is, and ours is right whatever happened to it."""

import os
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from gitrepo import GitRepo

from bisector.history.repository import Repository
from bisector.history.worktree import WorkTree
from bisector.model.errors import BuilderError


@pytest.fixture
def repo(tmp_path: Path) -> GitRepo:
    repo = GitRepo(tmp_path / "repo")
    first = repo.commit(
        "c0", {"Makefile": "all:\n", "mm/memory.c": "int a;\n", "old.h": "1\n", "run.sh": "#!/bin/sh\n"}
    )
    second = repo.commit("c1", {"mm/memory.c": "int b;\n", "old.h": None, "new.h": "1\n"}, parents=[first])
    repo.commit("c2", {"mm/memory.c": "int a;\n"}, parents=[second])
    return repo


@pytest.fixture
def ids(repo: GitRepo) -> list[str]:
    return repo.git("rev-list", "--reverse", "main").split()


@pytest.fixture
def tree(repo: GitRepo, tmp_path: Path) -> WorkTree:
    return WorkTree(Repository.open(repo.path), tmp_path / "builder" / "src")


def test_moving_gives_exactly_the_files_of_the_commit(tree: WorkTree, ids: list[str]) -> None:
    assert _names(tree.move_to(ids[0])) == {"Makefile", "mm/memory.c", "old.h", "run.sh"}
    assert os.access(tree.folder / "run.sh", os.X_OK)
    assert _names(tree.move_to(ids[1])) == {"Makefile", "mm/memory.c", "new.h", "run.sh"}
    assert (tree.folder / "mm/memory.c").read_text() == "int b;\n"
    assert _names(tree.move_to(ids[0])) == {"Makefile", "mm/memory.c", "old.h", "run.sh"}


def test_unchanged_files_keep_their_times_and_changed_ones_get_new_ones(tree: WorkTree, ids: list[str]) -> None:
    tree.move_to(ids[0])
    for name in ("Makefile", "mm/memory.c"):
        os.utime(tree.folder / name, (1_000_000_000, 1_000_000_000))
    tree.move_to(ids[0])
    tree.move_to(ids[1])
    assert (tree.folder / "Makefile").stat().st_mtime == 1_000_000_000
    assert time.time() - (tree.folder / "mm/memory.c").stat().st_mtime < 60


def test_a_dirty_checkout_of_the_user_is_byte_for_byte_untouched(repo: GitRepo, tmp_path: Path, ids: list[str]) -> None:
    repo.git("checkout", "--quiet", "-f", "main")
    repo.git("tag", "v1", ids[0])
    (repo.path / "mm/memory.c").write_text("int mine;\n")
    (repo.path / "staged.c").write_text("int staged;\n")
    repo.git("add", "staged.c")
    (repo.path / "untracked").write_text("x")
    (repo.path / ".git/hooks/post-checkout").write_text(f"#!/bin/sh\ntouch {tmp_path}/hook-ran\nexit 3\n")
    (repo.path / ".git/hooks/post-checkout").chmod(0o755)
    before = _users_view(repo)
    with WorkTree(Repository.open(repo.path), tmp_path / "src") as tree:
        for commit in (ids[0], ids[2], ids[1]):
            tree.move_to(commit)
        assert _users_view(repo) == before
        tree.remove()
    assert _users_view(repo) == before
    assert repo.git("worktree", "list").count("\n") == 0
    assert not (tmp_path / "hook-ran").exists()


def test_what_a_build_changed_or_left_behind_is_gone(tree: WorkTree, ids: list[str], repo: GitRepo) -> None:
    (repo.path / ".git/info/exclude").write_text("*.o\n")
    folder = tree.move_to(ids[0])
    (folder / "mm/memory.c").write_text("generated\n")
    (folder / "mm/memory.o").write_text("ignored")
    (folder / "new.h").write_text("an untracked file that c1 has as a tracked one")
    (folder / "run.sh").unlink()
    (folder / "nested").mkdir()
    subprocess.run(["git", "init", "--quiet", str(folder / "nested")], check=True)
    tree.move_to(ids[1])
    assert _names(folder) == {"Makefile", "mm/memory.c", "new.h", "run.sh"}
    assert (folder / "new.h").read_text() == "1\n"
    assert (folder / "mm/memory.c").read_text() == "int b;\n"


def test_a_folder_deleted_by_hand_is_made_again_although_git_keeps_it_locked(
    tree: WorkTree, ids: list[str], repo: GitRepo
) -> None:
    tree.move_to(ids[0])
    assert "locked bisector" in repo.git("worktree", "list", "--porcelain")
    shutil.rmtree(tree.folder)
    assert (tree.move_to(ids[1]) / "new.h").exists()
    assert repo.git("worktree", "list", "--porcelain").count("worktree ") == 2


def test_a_record_deleted_by_hand_is_made_again(tree: WorkTree, ids: list[str], repo: GitRepo) -> None:
    tree.move_to(ids[0])
    shutil.rmtree(repo.path / ".git" / "worktrees")
    assert _names(tree.move_to(ids[1])) == {"Makefile", "mm/memory.c", "new.h", "run.sh"}


def test_a_record_that_somebody_else_locked_is_left_alone(tree: WorkTree, ids: list[str], repo: GitRepo) -> None:
    repo.git("worktree", "add", "--quiet", "--detach", str(tree.folder), ids[0])
    repo.git("worktree", "lock", "--reason", "on my USB disk", str(tree.folder))
    shutil.rmtree(tree.folder)
    with pytest.raises(BuilderError, match="on my USB disk") as caught:
        tree.move_to(ids[1])
    assert "worktree unlock" in caught.value.resolution


def test_stale_records_of_others_survive(tree: WorkTree, ids: list[str], repo: GitRepo, tmp_path: Path) -> None:
    repo.git("worktree", "add", "--quiet", "--detach", str(tmp_path / "theirs"), ids[0])
    shutil.rmtree(tmp_path / "theirs")
    tree.move_to(ids[0])
    shutil.rmtree(tree.folder)
    tree.move_to(ids[1])
    assert str(tmp_path / "theirs") in repo.git("worktree", "list")


def test_a_folder_with_somebodys_files_is_not_emptied(tree: WorkTree, ids: list[str]) -> None:
    tree.folder.mkdir(parents=True)
    (tree.folder / "thesis.tex").write_text("precious")
    with pytest.raises(BuilderError, match="is in the way"):
        tree.move_to(ids[0])
    assert (tree.folder / "thesis.tex").read_text() == "precious"


def test_a_work_tree_of_another_repository_is_not_taken(
    tree: WorkTree, ids: list[str], tmp_path: Path, repo: GitRepo
) -> None:
    other = GitRepo(tmp_path / "other")
    other.line(1)
    other.git("worktree", "add", "--quiet", "--detach", str(tree.folder), "main")
    with pytest.raises(BuilderError, match="is in the way"):
        tree.move_to(ids[0])
    assert (tree.folder / "f").exists()


def test_a_repository_that_was_moved_is_found_again(
    tree: WorkTree, ids: list[str], repo: GitRepo, tmp_path: Path
) -> None:
    tree.move_to(ids[0])
    tree.close()
    os.utime(tree.folder / "Makefile", (1_000_000_000, 1_000_000_000))
    repo.path.rename(tmp_path / "moved")
    moved = WorkTree(Repository.open(tmp_path / "moved"), tree.folder)
    assert (moved.move_to(ids[1]) / "new.h").exists()
    assert (tree.folder / "Makefile").stat().st_mtime == 1_000_000_000


def test_locks_of_a_dead_git_are_removed(tree: WorkTree, ids: list[str], repo: GitRepo) -> None:
    tree.move_to(ids[0])
    for name in ("index.lock", "HEAD.lock"):
        (repo.path / ".git/worktrees/src" / name).write_text("")
    assert (tree.move_to(ids[1]) / "new.h").exists()


def test_a_lock_that_a_living_git_holds_is_waited_for(tree: WorkTree, ids: list[str], repo: GitRepo) -> None:
    tree.move_to(ids[0])
    lock = repo.path / ".git/worktrees/src/index.lock"
    holder = lock.open("w")
    released: list[float] = []

    def release() -> None:
        released.append(time.monotonic())
        holder.close()

    timer = threading.Timer(0.6, release)
    timer.start()
    tree.move_to(ids[1])
    timer.join()
    assert released
    assert time.monotonic() >= released[0]


def test_a_torn_index_and_half_moved_files_are_mended(tree: WorkTree, ids: list[str], repo: GitRepo) -> None:
    tree.move_to(ids[0])
    index = repo.path / ".git/worktrees/src/index"
    index.write_bytes(index.read_bytes()[:40])
    (tree.folder / "mm/memory.c").write_text("int b;\n")
    tree.move_to(ids[2])
    assert _names(tree.folder) == {"Makefile", "mm/memory.c", "new.h", "run.sh"}
    assert (tree.folder / "mm/memory.c").read_text() == "int a;\n"


def test_a_checkout_killed_anywhere_leaves_nothing_stale(tree: WorkTree, repo: GitRepo, tmp_path: Path) -> None:
    # Enough files that SIGKILL falls into the middle of the checkout.
    one = repo.commit("many", {f"d/{n}.c": f"one {n}\n" for n in range(300)})
    two = repo.commit("more", {f"d/{n}.c": f"two {n}\n" for n in range(0, 300, 2)}, parents=[one])
    tree.move_to(one)
    for delay_s in (0.002, 0.004, 0.008, 0.016):
        checkout = subprocess.Popen(["git", "-C", str(tree.folder), "checkout", "-q", "-f", "--detach", two])
        time.sleep(delay_s)
        checkout.kill()
        checkout.wait()
        for commit, word in ((one, "one"), (two, "two"), (one, "one")):
            tree.move_to(commit)
            assert all((tree.folder / f"d/{n}.c").read_text() == f"{word} {n}\n" for n in range(0, 300, 2))
            assert all((tree.folder / f"d/{n}.c").read_text() == f"one {n}\n" for n in range(1, 300, 2))


def test_a_tree_serves_one_process_at_a_time(tree: WorkTree, ids: list[str], repo: GitRepo) -> None:
    tree.move_to(ids[0])
    rival = WorkTree(Repository.open(repo.path), tree.folder)
    with pytest.raises(BuilderError, match=f"in use by process {os.getpid()}"):
        rival.move_to(ids[1])
    tree.close()
    rival.move_to(ids[1])
    rival.close()


def test_the_lock_of_a_killed_process_is_free(tree: WorkTree, ids: list[str], repo: GitRepo) -> None:
    script = (
        "import sys, time\nfrom pathlib import Path\nfrom bisector.history.repository import Repository\n"
        "from bisector.history.worktree import WorkTree\n"
        "t = WorkTree(Repository.open(Path(sys.argv[1])), Path(sys.argv[2]))\nt.move_to(sys.argv[3])\n"
        "print('ready', flush=True)\ntime.sleep(60)\n"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", script, str(repo.path), str(tree.folder), ids[0]], stdout=subprocess.PIPE
    )
    try:
        assert child.stdout is not None
        assert child.stdout.readline() == b"ready\n"
        with pytest.raises(BuilderError, match="in use"):
            tree.move_to(ids[1])
    finally:
        child.kill()
        child.wait()
        child.stdout.close()
    assert (tree.move_to(ids[1]) / "new.h").exists()


def test_somebody_who_moves_the_tree_is_noticed(tree: WorkTree, ids: list[str]) -> None:
    tree.move_to(ids[0])
    tree.verify(ids[0])
    subprocess.run(["git", "-C", str(tree.folder), "checkout", "-q", "--detach", ids[1]], check=True)
    with pytest.raises(BuilderError, match=f"stands at {ids[1][:12]}, not at {ids[0][:12]}"):
        tree.verify(ids[0])


def test_inherited_git_variables_do_not_move_the_users_tree(
    tree: WorkTree, ids: list[str], repo: GitRepo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    decoy = GitRepo(tmp_path / "decoy")
    decoy.line(2)
    decoy.git("checkout", "-q", "-f", "main")
    before = _users_view(decoy)
    with monkeypatch.context() as shell:
        shell.setenv("GIT_DIR", str(decoy.path / ".git"))
        shell.setenv("GIT_INDEX_FILE", str(decoy.path / ".git/index"))
        shell.setenv("GIT_WORK_TREE", str(decoy.path))
        tree.move_to(ids[1])
    assert _names(tree.folder) == {"Makefile", "mm/memory.c", "new.h", "run.sh"}
    assert _users_view(decoy) == before


def test_a_sparse_checkout_of_the_user_does_not_thin_ours(tree: WorkTree, ids: list[str], repo: GitRepo) -> None:
    repo.git("config", "core.sparseCheckout", "true")
    (repo.path / ".git/info/sparse-checkout").write_text("/Makefile\n")
    assert _names(tree.move_to(ids[0])) == {"Makefile", "mm/memory.c", "old.h", "run.sh"}


def test_files_that_a_partial_clone_cannot_fetch_are_the_builders_trouble(
    repo: GitRepo, ids: list[str], tmp_path: Path
) -> None:
    repo.git("config", "uploadpack.allowFilter", "true")
    repo.git("clone", "-q", "--no-checkout", "--filter=blob:none", f"file://{repo.path}", str(tmp_path / "partial"))
    repo.path.rename(tmp_path / "away")
    with WorkTree(Repository.open(tmp_path / "partial"), tmp_path / "src") as tree:
        with pytest.raises(BuilderError, match="cannot check out") as caught:
            tree.move_to(ids[0])
        assert "partial clone" in caught.value.resolution


def test_an_unknown_commit_is_not_built(tree: WorkTree, ids: list[str]) -> None:
    tree.move_to(ids[0])
    with pytest.raises(BuilderError, match="cannot check out 0123"):
        tree.move_to("0123456789" * 4)


def _names(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file() and path.name != ".git"}


def _users_view(repo: GitRepo) -> dict[str, object]:
    git = repo.path / ".git"
    kept = [git / "index", git / "HEAD", git / "config", git / "packed-refs", *sorted((git / "refs").rglob("*"))]
    files = [path for path in sorted(repo.path.rglob("*")) if git not in path.parents and path.is_file()]
    return {str(path): (path.read_bytes(), path.stat().st_mtime_ns) for path in [*kept, *files] if path.is_file()} | {
        "status": repo.git("--no-optional-locks", "status", "--porcelain")
    }

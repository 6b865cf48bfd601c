"""Names to ids, ranges to graphs, and every bad input with its answer."""

import os
import shutil
import stat
import time
from pathlib import Path

import pytest
from gitrepo import GitRepo

from bisector.history import plumbing
from bisector.history.repository import Repository
from bisector.model.errors import MissingPackageError, RevisionError, UsageError


@pytest.fixture
def repo(tmp_path: Path) -> GitRepo:
    return GitRepo(tmp_path / "repo")


def test_a_line_is_read_parents_first_with_good_at_index_0(repo: GitRepo) -> None:
    ids = repo.line(5)
    read = Repository.open(repo.path).read_range(ids[1], "main")
    assert [commit.id for commit in read.commits] == ids[1:]
    assert read.parents == ((), (0,), (1,), (2,))
    assert [commit.subject for commit in read.commits] == ["c1", "c2", "c3", "c4"]
    assert read.good.author_date == "2020-09-13T13:28:40+01:00"


def test_a_merged_branch_from_before_good_hangs_on_good(repo: GitRepo) -> None:
    ids = repo.line(3)
    side = repo.commit("side", {"g": "1"}, parents=[ids[0]], ref="side")
    merge = repo.commit("merge", {"g": "1"}, parents=[ids[2], side])
    read = Repository.open(repo.path).read_range(ids[1], merge)
    by_subject = {commit.subject: index for index, commit in enumerate(read.commits)}
    assert by_subject["merge"] == 3
    assert read.commits[by_subject["side"]].parents == (0,)
    assert set(read.commits[3].parents) == {by_subject["c2"], by_subject["side"]}
    assert all(parent < child for child, of in enumerate(read.parents) for parent in of)


def test_two_parents_outside_the_range_are_one_index(repo: GitRepo) -> None:
    ids = repo.line(3)
    merge = repo.commit("merge", {}, parents=[ids[2], ids[1]])
    assert Repository.open(repo.path).read_range(ids[2], merge).parents == ((), (0,))


def test_a_range_equals_git_rev_list(repo: GitRepo) -> None:
    ids = repo.line(4)
    side = repo.commit("s1", {"g": "1"}, parents=[ids[1]], ref="side")
    merge = repo.commit("m", {"g": "1"}, parents=[ids[3], side])
    tip = repo.commit("tip", {"h": "1"}, parents=[merge])
    read = Repository.open(repo.path).read_range(ids[0], tip)
    listed = repo.git("rev-list", "--topo-order", "--reverse", f"{ids[0]}..{tip}").split()
    assert [commit.id for commit in read.commits] == [ids[0], *listed]


def test_tags_of_tags_are_peeled(repo: GitRepo) -> None:
    ids = repo.line(2)
    repo.git("tag", "-a", "-m", "one", "v6.1", ids[1])
    repo.git("tag", "-a", "-m", "two", "v6.1-ok", "v6.1")
    assert Repository.open(repo.path).resolve("v6.1-ok") == ids[1]


@pytest.mark.parametrize(
    ("revision", "says"),
    [
        ("", "is empty"),
        ("  ", "is empty"),
        ("-n1", "begins with a dash"),
        ("--output=/tmp/x", "begins with a dash"),
        ("main..side", "is a range"),
        ("main...side", "is a range"),
        ("^main", "is a range"),
        ("no-such", "unknown revision 'no-such'"),
        ("0123456789012345678901234567890123456789", "unknown revision"),
        ("main:f", "names a blob, not a commit"),
        ("main:f^{commit}", "unknown revision"),
        ("main^{tree}", "names a tree, not a commit"),
        ("blob-tag", "names a blob, not a commit"),
        ("main^@", "unknown revision"),
        ("main\nx", "control character"),
        ("maim", "unknown revision 'maim'"),
    ],
)
def test_what_is_not_one_commit_is_refused_with_the_value_seen(repo: GitRepo, revision: str, says: str) -> None:
    repo.line(2)
    repo.git("tag", "blob-tag", repo.git("rev-parse", "main:f"))
    with pytest.raises(RevisionError, match=says) as caught:
        Repository.open(repo.path).resolve(revision)
    assert repr(revision) in caught.value.brief or not revision.strip()
    assert caught.value.resolution
    assert caught.value.exit_code == 2


def test_an_unknown_name_is_answered_with_the_near_one(repo: GitRepo) -> None:
    repo.line(2)
    repo.git("tag", "v6.1-rc1")
    with pytest.raises(RevisionError) as caught:
        Repository.open(repo.path).resolve("v6.1rc1")
    assert "v6.1-rc1" in caught.value.details


def test_a_branch_named_like_an_abbreviation_is_ambiguous(repo: GitRepo) -> None:
    ids = repo.line(3)
    repo.git("update-ref", f"refs/heads/{ids[0][:7]}", ids[2])
    history = Repository.open(repo.path)
    with pytest.raises(RevisionError, match="ambiguous") as caught:
        history.resolve(ids[0][:7])
    assert ids[0][:12] in caught.value.details
    assert ids[2][:12] in caught.value.details
    assert history.resolve(ids[0]) == ids[0]
    assert history.resolve(f"refs/heads/{ids[0][:7]}") == ids[2]


def test_a_tag_and_a_branch_of_one_name_are_ambiguous_unless_equal(repo: GitRepo) -> None:
    ids = repo.line(3)
    repo.git("update-ref", "refs/heads/x", ids[0])
    repo.git("update-ref", "refs/tags/x", ids[1])
    with pytest.raises(RevisionError, match="ambiguous"):
        Repository.open(repo.path).resolve("x~0")
    repo.git("update-ref", "refs/tags/x", ids[0])
    assert Repository.open(repo.path).resolve("x") == ids[0]


def test_a_date_tag_of_digits_is_a_name(repo: GitRepo) -> None:
    ids = repo.line(2)
    repo.git("tag", "20240101", ids[0])
    assert Repository.open(repo.path).resolve("20240101") == ids[0]


def test_the_same_commit_at_both_ends_is_refused(repo: GitRepo) -> None:
    repo.line(2)
    repo.git("tag", "v1")
    repo.git("tag", "v1-rc9")
    with pytest.raises(RevisionError, match=r"'v1' and bad 'v1-rc9' are the same commit: [0-9a-f]{12} \(c1\)"):
        Repository.open(repo.path).read_range("v1", "v1-rc9")


def test_swapped_ends_are_named_not_swapped(repo: GitRepo) -> None:
    ids = repo.line(4)
    with pytest.raises(RevisionError, match="the ends are swapped") as caught:
        Repository.open(repo.path).read_range("main", ids[1])
    assert f"--good {ids[1]} --bad main" in caught.value.resolution


def test_two_branches_are_answered_with_the_merge_base(repo: GitRepo) -> None:
    ids = repo.line(4)
    repo.commit("side", {"g": "1"}, parents=[ids[1]], ref="side")
    with pytest.raises(RevisionError, match="not an ancestor") as caught:
        Repository.open(repo.path).read_range("main", "side")
    assert f"merge base: {ids[1][:12]} (c1)" in caught.value.details
    assert f"--good {ids[1]}" in caught.value.resolution


def test_unrelated_histories_have_no_merge_base(repo: GitRepo) -> None:
    repo.line(2)
    repo.commit("alone", {"g": "1"}, ref="alone")
    with pytest.raises(RevisionError, match="no common ancestor"):
        Repository.open(repo.path).read_range("main", "alone")


def test_a_folder_that_is_no_repository_is_refused(tmp_path: Path) -> None:
    (tmp_path / "plain").mkdir()
    with pytest.raises(UsageError, match="is not a git repository"):
        Repository.open(tmp_path / "plain")
    with pytest.raises(UsageError, match="no such folder"):
        Repository.open(tmp_path / "absent")


def test_a_folder_inside_a_repository_is_not_taken_for_it(repo: GitRepo) -> None:
    repo.line(1)
    (repo.path / "sub").mkdir()
    with pytest.raises(UsageError, match="lies inside") as caught:
        Repository.open(repo.path / "sub")
    assert caught.value.resolution == f"--repo {repo.path}"
    with pytest.raises(UsageError, match="not its top folder"):
        Repository.open(repo.path / ".git")


def test_a_bare_repository_will_do(repo: GitRepo, tmp_path: Path) -> None:
    ids = repo.line(3)
    repo.git("clone", "--quiet", "--bare", str(repo.path), str(tmp_path / "bare.git"))
    assert len(Repository.open(tmp_path / "bare.git").read_range(ids[0], "main")) == 3


def test_a_shallow_clone_is_refused_with_the_way_to_deepen_it(repo: GitRepo, tmp_path: Path) -> None:
    repo.line(20)
    repo.git("clone", "--quiet", "--depth", "3", f"file://{repo.path}", str(tmp_path / "shallow"))
    with pytest.raises(RevisionError, match="shallow clone") as caught:
        Repository.open(tmp_path / "shallow")
    assert "fetch --unshallow" in caught.value.resolution


def test_somebody_elses_repository_is_named_with_the_remedy(
    repo: GitRepo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo.line(1)
    _shim(tmp_path, monkeypatch, 'GIT_TEST_ASSUME_DIFFERENT_OWNER=1 exec "$real" "$@"')
    with pytest.raises(UsageError, match="it belongs to user") as caught:
        Repository.open(repo.path)
    assert f"safe.directory {repo.path}" in caught.value.resolution


def test_git_speaks_plainly_whatever_the_users_language(
    repo: GitRepo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = repo.line(2)
    monkeypatch.setenv("LC_ALL", "de_DE.UTF-8")
    monkeypatch.setenv("LANGUAGE", "de")
    _shim(tmp_path, monkeypatch, '[ "$LC_ALL$LANGUAGE" = CC ] || exit 99; exec "$real" "$@"')
    assert Repository.open(repo.path).resolve("main") == ids[1]


def test_inherited_git_variables_do_not_reach_git(
    repo: GitRepo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = repo.line(2)
    decoy = GitRepo(tmp_path / "decoy")
    decoy.commit("decoy", {"d": "1"})
    before = _snapshot(decoy.path)
    monkeypatch.setenv("GIT_DIR", str(decoy.path / ".git"))
    monkeypatch.setenv("GIT_WORK_TREE", str(decoy.path))
    monkeypatch.setenv("GIT_INDEX_FILE", str(decoy.path / ".git" / "index"))
    monkeypatch.setenv("GIT_OBJECT_DIRECTORY", str(decoy.path / ".git" / "objects"))
    monkeypatch.setenv("GIT_CONFIG_COUNT", "1")
    monkeypatch.setenv("GIT_CONFIG_KEY_0", "core.bare")
    monkeypatch.setenv("GIT_CONFIG_VALUE_0", "nonsense")
    read = Repository.open(repo.path).read_range(ids[0], ids[1])
    assert [commit.id for commit in read.commits] == ids
    assert _snapshot(decoy.path) == before


def test_replace_refs_and_grafts_change_nothing(repo: GitRepo) -> None:
    ids = repo.line(6)
    repo.git("replace", "--graft", ids[4], ids[1])
    (repo.path / ".git" / "info" / "grafts").write_text(f"{ids[3]} {ids[1]}\n")
    read = Repository.open(repo.path).read_range(ids[1], ids[5])
    assert [commit.id for commit in read.commits] == ids[1:]


def test_a_subject_that_is_not_utf_8_is_kept_readable(repo: GitRepo) -> None:
    ids = repo.line(1)
    tree = repo.git("rev-parse", "main^{tree}")
    raw = f"tree {tree}\nparent {ids[0]}\nauthor A <a@b> 1600000100 +0000\ncommitter A <a@b> 1600000100 +0000\n\n"
    latin = repo.git(
        "hash-object", "-t", "commit", "-w", "--stdin", given=raw.encode() + b"caf\xe9 \xff\xfe \x1b[31m\n"
    )
    read = Repository.open(repo.path).read_range(ids[0], latin)
    assert read.bad.subject.startswith("caf\N{REPLACEMENT CHARACTER}")
    read.bad.subject.encode("utf-8")


def test_files_touched_are_those_against_the_first_parent(repo: GitRepo) -> None:
    root = repo.commit("root", {"a": "1", "dir/b": "1"})
    side = repo.commit("side", {"s": "1"}, parents=[root], ref="side")
    main = repo.commit("main", {"a": "2", "dir/b": None, "é\tx": "1"}, parents=[root])
    merge = repo.commit("merge", {"s": "1"}, parents=[main, side])
    history = Repository.open(repo.path)
    assert history.files_touched(root) == ("a", "dir/b")
    assert history.files_touched(main) == ("a", "dir/b", "é\tx")
    assert history.files_touched(merge) == ("s",)
    assert history.author_date(merge) == "2020-09-13T13:30:40+01:00"


def test_20000_commits_load_in_seconds(repo: GitRepo) -> None:
    # One commit in ten merges a side commit, by fast-import; git itself needs about a third of a second to list them.
    lines = []
    mark = 0
    for number in range(18_000):
        mark += 1
        who = f"committer A <a@b> {1_600_000_000 + number} +0000\ndata 4\nc{number % 1000:03d}\n"
        lines.append(f"commit refs/heads/main\nmark :{mark}\n{who}")
        if number % 9 == 8:
            mark += 1
            lines[-1] = (
                f"commit refs/heads/side\nmark :{mark}\n{who}from :{mark - 3}\n"
                f"commit refs/heads/main\nmark :{mark - 1}\n{who}from :{mark - 2}\nmerge :{mark}\n"
            )
            lines.append(f"reset refs/heads/main\nfrom :{mark - 1}\n")
            mark += 1
            lines.append(f"commit refs/heads/main\nmark :{mark}\n{who}")
    repo.git("fast-import", "--quiet", "--force", given="".join(lines).encode())
    first = repo.git("rev-list", "--max-parents=0", "main")
    count = int(repo.git("rev-list", "--count", "main"))
    history = Repository.open(repo.path)
    begin = time.process_time()
    read = history.read_range(first, "main")
    assert len(read) == count > 20_000
    assert sum(len(of) > 1 for of in read.parents) == 2000
    assert time.process_time() - begin < 5


def test_nothing_is_left_open_after_many_questions(repo: GitRepo) -> None:
    ids = repo.line(2)
    history = Repository.open(repo.path)
    before = _open_files(), _children()
    for _ in range(50):
        history.resolve("main")
        history.is_ancestor(ids[0], ids[1])
    assert (_open_files(), _children()) == before


def test_a_machine_without_git_is_told_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MissingPackageError, match="git is not installed") as caught:
        Repository.open(tmp_path)
    assert caught.value.resolution == "apt-get install git"


def test_hooks_and_commands_in_the_repositorys_settings_do_not_run(repo: GitRepo, tmp_path: Path) -> None:
    repo.line(2)
    marker = tmp_path / "ran"
    program = tmp_path / "evil"
    program.write_text(f"#!/bin/sh\ntouch {marker}\n")
    program.chmod(0o755)
    repo.git("config", "core.fsmonitor", str(program))
    repo.git("config", "core.pager", str(program))
    plumbing.demand(repo.path, "status", "--porcelain")
    Repository.open(repo.path).read_range("main~1", "main")
    assert not marker.exists()


def _shim(folder: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    real = shutil.which("git")
    shim = folder / "bin" / "git"
    shim.parent.mkdir()
    shim.write_text(f"#!/bin/sh\nreal={real}\n{script}\n")
    shim.chmod(shim.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{shim.parent}:{os.environ['PATH']}")


def _snapshot(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def _open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def _children() -> str:
    return Path(f"/proc/self/task/{os.getpid()}/children").read_text()


def test_along_first_parents_a_merge_is_one_step(repo: GitRepo) -> None:
    ids, _, merge, last = repo.merged(branches_at=1)
    read = Repository.open(repo.path).read_range(ids[0], last, first_parent=True)
    assert [commit.id for commit in read.commits] == [*ids, merge, last]
    assert read.parents == ((), (0,), (1,), (2,), (3,))
    assert len(Repository.open(repo.path).read_range(ids[0], last)) == 6


def test_a_good_commit_that_a_merge_brought_in_is_not_on_the_line(repo: GitRepo) -> None:
    _, side, merge, last = repo.merged(branches_at=1)
    with pytest.raises(RevisionError, match="not on the first-parent line") as caught:
        Repository.open(repo.path).read_range(side, last, first_parent=True)
    # Not c2, the oldest of the line that is newer: the good commit is not in it.
    assert f"contains it: {merge[:12]} (merge)" in caught.value.details
    assert f"--good {merge[:12]}" in caught.value.resolution

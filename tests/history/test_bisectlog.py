"""The log that git itself replays: same first bad commit, or the same commits left."""

import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest
from gitrepo import GitRepo
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bisector.history.bisectlog import Mark, write_bisect_log
from bisector.history.replay import read_bisect_log
from bisector.history.repository import Repository
from bisector.model.commit import Commit, CommitRange


@pytest.fixture
def repo(tmp_path: Path) -> GitRepo:
    return GitRepo(tmp_path / "repo")


def test_a_line_replays_to_the_first_bad_commit(repo: GitRepo) -> None:
    ids = repo.line(9)
    read = Repository.open(repo.path).read_range(ids[0], ids[8])
    text = write_bisect_log(read, [(4, "good"), (6, "bad"), (5, "bad")], [5])
    assert f"# first bad commit: [{ids[5]}] c5\n" in text
    assert _replay(repo, text).first_bad == ids[5]


def test_an_earlier_bad_mark_is_not_widened_by_a_later_one(repo: GitRepo) -> None:
    ids = repo.line(9)
    read = Repository.open(repo.path).read_range(ids[0], ids[8])
    text = write_bisect_log(read, [(5, "bad"), (7, "bad"), (4, "good")], [5])
    assert f"git bisect bad {ids[7]}" not in text
    assert f"# bad: [{ids[7]}] c7" in text
    assert _replay(repo, text).first_bad == ids[5]


def test_skips_leave_the_set(repo: GitRepo) -> None:
    ids = repo.line(9)
    read = Repository.open(repo.path).read_range(ids[0], ids[8])
    text = write_bisect_log(read, [(3, "good"), (6, "bad"), (4, "skip"), (5, "skip")], [5, 4, 6])
    replayed = _replay(repo, text)
    assert replayed.first_bad is None
    assert replayed.possible == {ids[4], ids[5], ids[6]}
    assert f"# possible first bad commit: [{ids[4]}] c4\n" in text


def test_a_good_commit_beside_the_bad_one_stands_as_its_merge_base(repo: GitRepo) -> None:
    ids = repo.line(6)
    side = [repo.commit("s0", {"g": "0"}, parents=[ids[2]], ref="side")]
    side.append(repo.commit("s1", {"g": "1"}, parents=side, ref="side"))
    merge = repo.commit("merge", {"g": "1"}, parents=[ids[5], side[1]])
    read = Repository.open(repo.path).read_range(ids[0], merge)
    at = {commit.id: index for index, commit in enumerate(read.commits)}
    # Main's c4 is bad; the side tip is good, which says that c2 is.
    text = write_bisect_log(read, [(at[side[1]], "good"), (at[ids[4]], "bad"), (at[ids[3]], "good")], [at[ids[4]]])
    assert f"git bisect good {ids[2]}" in text
    assert f"git bisect good {side[1]}" not in text
    assert _replay(repo, text).first_bad == ids[4]


def test_a_mark_against_the_order_of_history_is_only_told(repo: GitRepo) -> None:
    ids = repo.line(9)
    read = Repository.open(repo.path).read_range(ids[0], ids[8])
    text = write_bisect_log(read, [(3, "bad"), (5, "good"), (2, "good")], [3])
    assert f"git bisect good {ids[5]}" not in text
    assert _replay(repo, text).first_bad == ids[3]


def test_marks_on_the_ends_are_not_repeated(repo: GitRepo) -> None:
    ids = repo.line(3)
    read = Repository.open(repo.path).read_range(ids[0], ids[2])
    text = write_bisect_log(read, [(0, "good"), (2, "bad")])
    assert text.count("git bisect") == 1
    assert _replay(repo, text).left == {ids[1], ids[2]}


def test_a_subject_cannot_add_a_command() -> None:
    commits = tuple(
        Commit(id=str(n) * 40, parents=(n - 1,) if n else (), subject=subject, author_date="")
        for n, subject in enumerate(("a", "x\ngit bisect reset\r\x1b[31m\x85\u2028git", "c"))
    )
    text = write_bisect_log(CommitRange(commits=commits), [(1, "good")])
    assert [line for line in text.splitlines() if not line.startswith("#")] == [
        f"git bisect start '{'2' * 40}' '{'0' * 40}'",
        f"git bisect good {'1' * 40}",
    ]
    assert "\x1b" not in text


@st.composite
def _graphs(draw: st.DrawFn) -> list[list[int]]:
    """Parents of each commit; the last reaches all, as the bad end of a range does."""
    count = draw(st.integers(4, 12))
    parents: list[list[int]] = [[]]
    for index in range(1, count):
        parents.append(sorted(draw(st.sets(st.integers(max(0, index - 4), index - 1), min_size=1, max_size=3))))
    heads = set(range(count)) - {parent for of in parents for parent in of}
    parents.append(sorted(heads))
    return parents


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(parents=_graphs(), data=st.data())
def test_git_is_led_to_the_same_commits_on_any_graph(
    parents: list[list[int]], data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    repo = GitRepo(tmp_path_factory.mktemp("graph") / "repo")
    ids: list[str] = []
    for index, of in enumerate(parents):
        ids.append(repo.commit(f"n{index}", {"f": f"{index}\n"}, parents=[ids[parent] for parent in of]))
    read = Repository.open(repo.path).read_range(ids[0], ids[-1])
    at = {commit.id: index for index, commit in enumerate(read.commits)}
    inner = list(range(1, len(ids)))
    true_first_bad = data.draw(st.sampled_from(inner))
    reach = _reach(read)
    marks: list[Mark] = []
    for index in data.draw(st.permutations(inner[:-1])):
        word = data.draw(st.sampled_from(["measured", "measured", "skip", "nothing"]))
        if word == "measured":
            marks.append((index, "bad" if true_first_bad in reach[index] else "good"))
        elif word == "skip":
            marks.append((index, "skip"))
    replayed = _replay(repo, write_bisect_log(read, marks))
    bad = len(ids) - 1
    for index, word in marks:
        if word == "bad" and index in reach[bad]:
            bad = index
    good = set().union(*(reach[index] for index, word in marks if word == "good"), reach[0])
    expected = reach[bad] - good
    skipped = {index for index, word in marks if word == "skip"}
    assert {at[commit] for commit in replayed.left} == expected
    assert at[ids[0]] == 0
    if len(expected) == 1:
        assert replayed.first_bad == read.commits[bad].id
    elif expected <= skipped | {bad}:
        assert {at[commit] for commit in replayed.possible} == expected


class _Replayed:
    """What git makes of a log: the commits left by its refs, and what it says."""

    def __init__(self, clone: Path, output: str) -> None:
        found = re.search(r"^([0-9a-f]{40}) is the first bad commit", output, re.MULTILINE)
        self.first_bad = found[1] if found else None
        self.possible = set(re.findall(r"^([0-9a-f]{40})$", output, re.MULTILINE))
        refs = _git(clone, "for-each-ref", "--format=%(refname)", "refs/bisect/").stdout.split()
        goods = [f"^{ref}" for ref in refs if ref.startswith("refs/bisect/good")]
        self.left = set(_git(clone, "rev-list", "refs/bisect/bad", *goods).stdout.split())


def _replay(repo: GitRepo, text: str) -> _Replayed:
    clone = repo.path.with_name("clone")
    repo.git("clone", "-q", "--shared", str(repo.path), str(clone))
    log = clone.with_name("log")
    log.write_text(text)
    done = _git(clone, "bisect", "replay", str(log))
    # 2: only skipped commits are left; 10 (older) or 0: done or one more to test.
    assert done.returncode in (0, 2, 10), done.stderr + done.stdout
    assert "merge base" not in (done.stdout + done.stderr).lower()
    return _Replayed(clone, done.stdout + done.stderr)


def _git(folder: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(["git", "-C", str(folder), *arguments], capture_output=True, text=True, check=False)


def _reach(read: CommitRange) -> list[set[int]]:
    reach: list[set[int]] = []
    of: Sequence[int]
    for index, of in enumerate(read.parents):
        reach.append({index}.union(*(reach[parent] for parent in of)))
    return reach


def test_a_hunt_along_first_parents_is_replayed_along_them(repo: GitRepo) -> None:
    ids, _, merge, last = repo.merged(branches_at=0)
    read = Repository.open(repo.path).read_range(ids[0], last, first_parent=True)
    at = {commit.id: index for index, commit in enumerate(read.commits)}
    text = write_bisect_log(read, [(at[ids[2]], "good"), (at[merge], "bad")], [at[merge]], first_parent=True)
    # Without the option git would go into the side branch first.
    assert _replay(repo, text).first_bad == merge
    assert read_bisect_log(text, "log").first_parent

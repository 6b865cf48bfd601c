"""Hunts begun with git: the same commits are left as git itself has left."""

import re
import subprocess
from pathlib import Path

import pytest
from gitrepo import GitRepo
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bisector.history.bisectlog import write_bisect_log
from bisector.history.replay import TakenUp, read_bisect_log, take_up
from bisector.history.repository import Repository
from bisector.model.errors import RevisionError, UsageError


class Diamond:
    """m0 to m3, a side branch s0 to s2 from m1, merged as m4, then m5 to m7."""

    def __init__(self, folder: Path) -> None:
        self.repo = repo = GitRepo(folder)
        self.main = repo.line(4, name="m")
        side = [repo.commit("s0", {"g": "0"}, parents=[self.main[1]], ref="side")]
        side += [repo.commit("s1", {"g": "1"}, parents=side[-1:], ref="side")]
        side += [repo.commit("s2", {"g": "2"}, parents=side[-1:], ref="side")]
        self.side = side
        self.main.append(repo.commit("m4", {"g": "2"}, parents=[self.main[3], side[2]]))
        for number in (5, 6, 7):
            self.main.append(repo.commit(f"m{number}", {"f": f"{number}\n"}, parents=self.main[-1:]))

    def bisect(self, *lines: str) -> str:
        """git's own log after these commands in a clone."""
        clone = self.repo.path.with_name("clone")
        subprocess.run(["rm", "-rf", str(clone)], check=True)
        subprocess.run(["git", "clone", "-q", str(self.repo.path), str(clone)], check=True)
        for line in lines:
            words = line.split()
            subprocess.run(["git", "-C", str(clone), "bisect", *words], check=False, capture_output=True)
        return self._git(clone, "bisect", "log")

    def left(self) -> set[str]:
        """What git has left in the clone of the last `bisect`."""
        clone = self.repo.path.with_name("clone")
        goods = self._git(clone, "for-each-ref", "--format=%(objectname)", "refs/bisect/good-*").split()
        bad = self._git(clone, "rev-parse", "refs/bisect/bad").strip()
        return set(self._git(clone, "rev-list", bad, "--not", *goods).split())

    @staticmethod
    def _git(folder: Path, *words: str) -> str:
        done = subprocess.run(["git", "-C", str(folder), *words], check=True, capture_output=True, text=True)
        return done.stdout


@pytest.fixture(scope="module")
def diamond(tmp_path_factory: pytest.TempPathFactory) -> Diamond:
    return Diamond(tmp_path_factory.mktemp("diamond") / "repo")


def taken(diamond: Diamond, text: str) -> TakenUp:
    return take_up(Repository.open(diamond.repo.path), read_bisect_log(text, "bisect.log"))


def candidates(diamond: Diamond, up: TakenUp) -> set[str]:
    """Of the range that was taken up, what no good mark covers."""
    commits = Repository.open(diamond.repo.path).read_range(up.good, up.bad)
    covered: set[int] = {0}
    for commit, word in up.marks:
        waiting = [commits.index_of(commit)] if word == "good" else []
        while waiting:
            at = waiting.pop()
            covered.add(at)
            waiting += [parent for parent in commits.commits[at].parents if parent not in covered]
    return {commit.id for index, commit in enumerate(commits.commits) if index not in covered}


def test_ends_and_marks_are_those_of_the_log(diamond: Diamond) -> None:
    main = diamond.main
    text = diamond.bisect("start", f"bad {main[7]}", f"good {main[0]}", f"skip {main[5]}", f"good {main[2]}")
    up = taken(diamond, text)
    assert (up.good, up.bad) == (main[2], main[7])
    assert up.marks == ((main[5], "skip"),)
    assert candidates(diamond, up) == diamond.left()


def test_a_good_commit_beside_the_bad_one_makes_the_merge_base_good(diamond: Diamond) -> None:
    text = diamond.bisect(f"start {diamond.main[3]} {diamond.main[0]}") + f"git bisect good {diamond.side[0]}\n"
    up = taken(diamond, text)
    assert (up.good, up.bad) == (diamond.main[1], diamond.main[3])


@pytest.mark.parametrize("terms", [("old", "new"), ("fast", "slow")])
def test_other_words_for_good_and_bad_are_understood(diamond: Diamond, terms: tuple[str, str]) -> None:
    old, new = terms
    own = [] if terms == ("old", "new") else [f"--term-old={old}", f"--term-new={new}"]
    text = diamond.bisect(" ".join(["start", *own]), f"{new} {diamond.main[7]}", f"{old} {diamond.main[0]}")
    up = taken(diamond, text)
    assert (up.good, up.bad) == (diamond.main[0], diamond.main[7])


def test_names_that_moved_since_are_taken_from_what_git_told_of_them(diamond: Diamond) -> None:
    text = diamond.bisect("start --first-parent HEAD HEAD~3", f"good {diamond.main[5]}")
    assert "'HEAD'" in text
    begun = read_bisect_log(text, "bisect.log")
    assert begun.first_parent
    assert [one.revision for one in begun.said] == [diamond.main[7], diamond.main[4], diamond.main[5]]


def test_a_start_anew_forgets_what_was_said(diamond: Diamond) -> None:
    main = diamond.main
    begun = f"git bisect start '{main[7]}' '{main[0]}'\ngit bisect good {main[4]}\n"
    text = begun + f"git bisect start '{main[6]}' '{main[1]}'\n"
    up = taken(diamond, text)
    assert (up.good, up.bad, up.marks) == (main[1], main[6], ())


def test_our_own_log_comes_back_with_the_same_commits_left(diamond: Diamond) -> None:
    main = diamond.main
    commits = Repository.open(diamond.repo.path).read_range(main[0], main[7])
    at = {commit.id: index for index, commit in enumerate(commits.commits)}
    text = write_bisect_log(commits, [(at[main[5]], "bad"), (at[main[2]], "good"), (at[main[3]], "skip")])
    up = taken(diamond, text)
    assert (up.good, up.bad) == (main[2], main[5])
    assert up.marks == ((main[3], "skip"),)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=12, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(["good", "bad", "skip"]), st.integers(0, 3)), max_size=3))
def test_git_and_we_have_the_same_commits_left(diamond: Diamond, words: list[tuple[str, int]]) -> None:
    """Words in the order of history, so that git itself does not stop at a contradiction."""
    main, side = diamond.main, diamond.side
    places = {
        "good": [main[1], side[0], main[2], side[1]],
        "bad": [main[6], main[5], main[4]],
        "skip": [*main[3:], side[2]],
    }
    lines = [f"{word} {places[word][number % len(places[word])]}" for word, number in words]
    text = diamond.bisect(f"start {main[7]} {main[0]}", *lines)
    up = taken(diamond, text)
    assert candidates(diamond, up) == diamond.left()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "no commit is marked bad"),
        ("git bisect start\ngit bisect bad HEAD\n", "no commit is marked good"),
        ("hello\n", "log:1: not a line of a `git bisect log`: 'hello'"),
        ("git bisect start\n\ngit bisect frob HEAD\n", "log:3: .*frob is not a word of this log"),
        ("git bisect good 'HEAD\n", "log:1: .*closing quotation"),
        ("git bisect start --term-old=fast --term-new=slow\ngit bisect swift HEAD\n", "log:2"),
    ],
)
def test_what_is_no_log_is_refused_with_its_line(text: str, words: str) -> None:
    with pytest.raises(UsageError) as caught:
        read_bisect_log(text, "log")
    assert re.search(words, f"{caught.value.brief} {caught.value.details}".lower(), re.IGNORECASE)


def test_a_commit_that_is_gone_or_contradicted_is_named_with_its_line(diamond: Diamond) -> None:
    gone = f"git bisect start '{diamond.main[7]}' '{diamond.main[0]}'\ngit bisect good {'1' * 40}\n"
    with pytest.raises(RevisionError, match=r"bisect\.log:2: unknown revision"):
        taken(diamond, gone)
    both = f"git bisect start '{diamond.main[7]}' '{diamond.main[0]}'\ngit bisect bad {diamond.main[0]}\n"
    with pytest.raises(UsageError, match=r"bisect\.log:2: .* both good and bad"):
        taken(diamond, both)

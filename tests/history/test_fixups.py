"""Fix-ups: which commits get one, what it does to their files, and what is said where it cannot be applied."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from gitrepo import GitRepo
from hypothesis import given
from hypothesis import strategies as st

from bisector.history.fixups import FixedTree, Fixup, keep_fixups, resolve_fixups
from bisector.history.repository import Repository
from bisector.history.worktree import WorkTree
from bisector.model.errors import KernelError, RevisionError, UsageError
from bisector.model.outcome import Outcome
from bisector.recipe.fixups import FixupPart

LINES = "".join(f"line {number}\n" for number in range(1, 9))
BROKEN = LINES.replace("line 4", "broken 4")
REPAIRED = LINES.replace("line 4", "repaired 4")
PATCH = """A mail's first words.

--- a/mm.c
+++ b/mm.c
@@ -3,3 +3,3 @@
 line 3
-broken 4
+patched 4
 line 5
"""


class Bench:
    """good, broken, in between, repaired, later: a stretch that does not compile, as people meet it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.repo = repo = GitRepo(folder / "repo")
        self.good = repo.commit("good", {"mm.c": LINES})
        self.broken = repo.commit("broken", {"mm.c": BROKEN}, parents=[self.good])
        self.between = repo.commit("between", {"other.c": "x\n"}, parents=[self.broken])
        self.repaired = repo.commit("repaired", {"mm.c": REPAIRED}, parents=[self.between])
        self.later = repo.commit("later", {"other.c": "y\n"}, parents=[self.repaired])
        self.repository = Repository.open(repo.path)
        self.work = WorkTree(self.repository, folder / "tree")
        (folder / "fix.patch").write_text(PATCH)

    @property
    def patch(self) -> str:
        return str(self.folder / "fix.patch")

    def tree(self, *parts: FixupPart) -> FixedTree:
        resolved = resolve_fixups(self.repository, parts)
        return FixedTree(self.repository, self.work, keep_fixups(self.repository, resolved, self.folder / "fixups"))


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    bench = Bench(tmp_path)
    yield bench
    bench.work.close()


def test_a_patch_changes_the_commits_that_meet_its_conditions_and_no_others(bench: Bench) -> None:
    tree = bench.tree(FixupPart(name="fix", patch=bench.patch, contains=bench.broken, lacks=bench.repaired))
    held = {}
    for commit in (bench.good, bench.broken, bench.between, bench.repaired, bench.later, bench.between):
        held[commit] = (tree.move_to(commit) / "mm.c").read_text().splitlines()[3]
        tree.verify(commit)
    assert held == {
        bench.good: "line 4",
        bench.broken: "patched 4",
        bench.between: "patched 4",
        bench.repaired: "repaired 4",
        bench.later: "repaired 4",
    }
    assert [tree.fixups(commit) for commit in held] == [(), ("fix",), ("fix",), (), ()]


def test_the_repository_is_left_as_it_was(bench: Bench) -> None:
    bench.tree().move_to(bench.good)
    before = sorted((bench.repo.path / ".git" / "objects").rglob("*"))
    bench.tree(FixupPart(name="fix", patch=bench.patch)).move_to(bench.broken)
    assert sorted((bench.repo.path / ".git" / "objects").rglob("*")) == before
    assert not (bench.repo.path / "mm.c").exists()


def test_a_picked_commit_is_for_those_that_do_not_have_it_yet(bench: Bench) -> None:
    tree = bench.tree(FixupPart(name="repair", cherry_pick="main~1", contains=bench.broken))
    assert (tree.move_to(bench.between) / "mm.c").read_text() == REPAIRED
    assert (tree.move_to(bench.later) / "mm.c").read_text() == REPAIRED
    assert [tree.fixups(commit) for commit in (bench.between, bench.repaired, bench.later)] == [("repair",), (), ()]


def test_a_reverted_commit_is_taken_back_where_it_is(bench: Bench) -> None:
    tree = bench.tree(FixupPart(name="undo", revert=bench.broken, lacks=bench.repaired))
    assert (tree.move_to(bench.between) / "mm.c").read_text() == LINES
    assert tree.fixups(bench.good) == ()


def test_a_path_can_be_the_condition(bench: Bench) -> None:
    tree = bench.tree(FixupPart(name="fix", patch=bench.patch, path="other.c", lacks=bench.repaired))
    assert tree.fixups(bench.broken) == ()
    assert tree.fixups(bench.between) == ("fix",)


def test_files_that_a_patch_adds_or_removes_are_gone_or_back_with_the_next_commit(bench: Bench) -> None:
    new = "--- /dev/null\n+++ b/new.h\n@@ -0,0 +1 @@\n+new\n--- a/mm.c\n+++ /dev/null\n@@ -1,8 +0,0 @@\n"
    Path(bench.patch).write_text(new + "".join(f"-{line}\n" for line in BROKEN.splitlines()))
    tree = bench.tree(FixupPart(name="fix", patch=bench.patch, contains=bench.broken, lacks=bench.between))
    folder = tree.move_to(bench.broken)
    assert sorted(path.name for path in folder.iterdir() if path.name != ".git") == ["new.h"]
    tree.move_to(bench.between)
    assert sorted(path.name for path in folder.iterdir() if path.name != ".git") == ["mm.c", "other.c"]


def test_the_tree_is_known_by_what_was_done_to_it(bench: Bench) -> None:
    part = FixupPart(name="fix", patch=bench.patch, contains=bench.broken, lacks=bench.repaired)
    tree, plain = bench.tree(part), bench.work
    assert tree.tree_id(bench.good) == plain.tree_id(bench.good)
    assert tree.tree_id(bench.broken) != plain.tree_id(bench.broken)
    Path(bench.patch).write_text(PATCH.replace("patched", "mended"))
    other = bench.tree(part.model_copy(update={"name": "other"}))
    assert other.tree_id(bench.broken) not in (tree.tree_id(bench.broken), plain.tree_id(bench.broken))


def test_a_session_keeps_the_patch_that_it_began_with(bench: Bench) -> None:
    part = FixupPart(name="fix", patch=bench.patch)
    bench.tree(part)
    Path(bench.patch).unlink()
    [kept] = keep_fixups(bench.repository, [part], bench.folder / "fixups")
    assert kept.diff.read_text() == PATCH


def test_a_branch_that_moves_later_changes_nothing(bench: Bench) -> None:
    [part] = resolve_fixups(bench.repository, [FixupPart(name="repair", cherry_pick="main~1", contains="main~3")])
    assert (part.cherry_pick, part.contains, part.lacks) == (bench.repaired, bench.broken, bench.repaired)
    bench.repo.commit("newer", {"f": "1"}, parents=[bench.later])
    assert resolve_fixups(bench.repository, [part]) == (part,)


def test_the_users_settings_of_diffs_do_not_get_into_a_picked_change(bench: Bench) -> None:
    for key, value in (("diff.noprefix", "true"), ("color.ui", "always"), ("diff.renames", "copies")):
        bench.repo.git("config", key, value)
    tree = bench.tree(FixupPart(name="repair", cherry_pick=bench.repaired))
    assert (tree.move_to(bench.broken) / "mm.c").read_text() == REPAIRED


def test_a_patch_that_does_not_apply_is_the_commits_trouble_with_gits_words(bench: Bench) -> None:
    tree = bench.tree(FixupPart(name="fix", patch=bench.patch))
    with pytest.raises(KernelError, match="fix-up fix does not apply") as caught:
        tree.move_to(bench.good)
    assert caught.value.outcome is Outcome.BUILD_FAILED
    assert "mm.c:3" in caught.value.brief
    assert "condition" in caught.value.resolution
    # Nothing half done stays.
    assert (bench.work.move_to(bench.good) / "mm.c").read_text() == LINES


def test_a_change_that_is_there_already_says_so(bench: Bench) -> None:
    tree = bench.tree(FixupPart(name="repair", cherry_pick=bench.repaired, lacks=bench.later))
    with pytest.raises(KernelError, match=f"repair is in {bench.repaired[:12]} already") as caught:
        tree.move_to(bench.repaired)
    assert "lacks:" in caught.value.resolution


def test_what_cannot_be_a_fixup_is_refused_before_anything_is_built(bench: Bench) -> None:
    merge = bench.repo.commit("merge", {}, parents=[bench.later, bench.good])
    for part, words in (
        (FixupPart(name="a", cherry_pick=merge), "has 2 parents"),
        (FixupPart(name="b", revert=bench.good), "has 0 parents"),
        (FixupPart(name="c", cherry_pick="nowhere"), "c: cherry_pick: unknown revision 'nowhere'"),
        (FixupPart(name="d", patch=bench.patch, contains="--all"), "d: contains"),
    ):
        with pytest.raises(RevisionError, match=words):
            resolve_fixups(bench.repository, [part])
    (bench.folder / "words.patch").write_text("no change at all\n")
    with pytest.raises(UsageError, match="not a patch"):
        resolve_fixups(bench.repository, [FixupPart(name="e", patch=str(bench.folder / "words.patch"))])


@given(st.lists(st.sampled_from(["contains", "lacks"]), unique=True), st.integers(0, 4), st.integers(0, 4))
def test_conditions_are_those_of_the_graph(keys: list[str], contains: int, lacks: int) -> None:
    """On a line a commit contains exactly those before it, and itself."""

    class Line:
        def is_ancestor(self, ancestor: str, descendant: str) -> bool:
            return int(ancestor) <= int(descendant)

    fixup = Fixup(
        name="f",
        diff=Path("/nowhere"),
        contains=str(contains) if "contains" in keys else None,
        lacks=str(lacks) if "lacks" in keys else None,
        path=None,
    )
    tree = FixedTree(Line(), WorkTree.__new__(WorkTree), [fixup])  # type: ignore[arg-type]
    for at in range(5):
        wanted = ("contains" not in keys or contains <= at) and ("lacks" not in keys or at < lacks)
        assert tree.fixups(str(at)) == (("f",) if wanted else ())

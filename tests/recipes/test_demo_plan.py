"""What the list of commits says: edits, lines, and which commits are sick."""

from pathlib import Path
from types import ModuleType

import pytest

DEMO = Path(__file__).resolve().parents[2] / "recipes" / "demo"


def change(plan: ModuleType, subject: str, old: str, new: str, **more: object) -> object:
    edit = plan.Edit(file="a.c", old=old.encode(), new=new.encode())
    return plan.Change(subject=subject, body="why", author="Ada Bell", edits=(edit,), **more)


def test_a_missing_anchor_names_the_file_the_lines_and_the_package(plan: ModuleType) -> None:
    with pytest.raises(plan.HistoryError) as caught:
        plan.plan_history([change(plan, "a: b", "absent\n", "x\n")], {"a.c": b"text\n"})
    assert "stand 0 times, not once, in a.c, near: absent (a: b)" in caught.value.brief
    assert "linux-source-6.1" in caught.value.resolution


def test_an_anchor_that_stands_twice_is_refused(plan: ModuleType) -> None:
    with pytest.raises(plan.HistoryError, match="stand 2 times"):
        plan.plan_history([change(plan, "a: b", "two\n", "x\n")], {"a.c": b"two\ntwo\n"})


def test_a_file_that_the_source_lacks_is_named(plan: ModuleType) -> None:
    with pytest.raises(plan.HistoryError, match=r"the source has no a\.c \(a: b\)"):
        plan.plan_history([change(plan, "a: b", "x\n", "y\n")], {"b.c": b"x\n"})


def test_a_side_line_leaves_the_main_one_and_a_merge_brings_its_edits(plan: ModuleType) -> None:
    changes = [
        change(plan, "one", "1\n", "one\n"),
        change(plan, "side", "2\n", "two\n", line="side"),
        change(plan, "three", "3\n", "three\n"),
        plan.Change(subject="merge", body="", author="Ada Bell", merges="side"),
        change(plan, "two again", "two\n", "zwei\n"),
    ]
    made = plan.plan_history(changes, {"a.c": b"1\n2\n3\n"})
    assert [commit.parents for commit in made] == [(-1,), (0,), (0,), (2, 1), (3,)]
    assert [commit.files["a.c"] for commit in made] == [
        b"one\n2\n3\n",
        b"one\ntwo\n3\n",
        b"one\n2\nthree\n",
        b"one\ntwo\nthree\n",
        b"one\nzwei\nthree\n",
    ]


def test_sick_commits_are_those_that_inherit_the_cause_and_not_its_repair(plan: ModuleType) -> None:
    changes = [
        change(plan, "side", "1\n", "one\n", line="side"),
        change(plan, "breaks", "2\n", "two\n", role="breaks-build"),
        change(plan, "ordinary", "3\n", "three\n"),
        plan.Change(subject="merge", body="", author="Ada Bell", merges="side"),
        change(plan, "repairs", "4\n", "four\n", role="repairs-build"),
        change(plan, "later", "5\n", "five\n"),
    ]
    made = plan.plan_history(changes, {"a.c": b"1\n2\n3\n4\n5\n"})
    assert plan.positions_between(made, cause="breaks-build", repair="repairs-build") == (1, 2, 3)


def test_the_demonstration_has_the_promised_shape(plan: ModuleType, small_tree: dict[str, tuple[int, str]]) -> None:
    changes = plan.load_changes(DEMO / "history.toml")
    made = plan.plan_history(changes, {path: text.encode() for path, (_, text) in small_tree.items()})
    assert len(changes) >= 42
    merges = [commit for commit in made if len(commit.parents) == 2]
    assert len(merges) == 1
    broken = plan.positions_between(made, cause="breaks-build", repair="repairs-build")
    panicking = plan.positions_between(made, cause="panics", repair="repairs-boot")
    (slow,) = [place for place, each in enumerate(changes) if each.role == "slow"]
    assert len(broken) == 3
    assert len(panicking) == 1
    sick = {*broken, *panicking}
    neighbours = {slow, *made[slow].parents, *(at for at, commit in enumerate(made) if slow in commit.parents)}
    assert not neighbours & sick
    assert 4 < slow < len(changes) - 4
    # The look in the middle of the range must meet the commits that do not build.
    ancestors: list[set[int]] = []
    for place, commit in enumerate(made):
        ancestors.append({place}.union(*(ancestors[parent] for parent in commit.parents if parent >= 0)))
    middle = min(range(len(made)), key=lambda place: abs(len(ancestors[place]) - len(made) / 2))
    assert middle in broken


def test_every_change_is_small_and_reads_like_a_kernel_commit(plan: ModuleType) -> None:
    for each in plan.load_changes(DEMO / "history.toml"):
        assert len(each.subject) <= 72, each.subject
        if each.merges is None:
            assert len({edit.file for edit in each.edits}) == 1
            assert each.edits[0].file.split("/")[0] in {"mm", "fs", "kernel", "lib"}
            assert each.edits[0].file.endswith(".c"), "a header would make half the kernel compile again"
            assert all(len(edit.old.splitlines()) <= 10 for edit in each.edits), each.subject
        assert "regress" not in each.message.lower()

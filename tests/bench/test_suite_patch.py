"""The small program that patch_series starts, against unified diffs of others."""

import difflib
import random
import subprocess
from pathlib import Path

import pytest

from bisector.bench.compile import C_FLAGS, SOURCES
from tests.bench.conftest import Ended, RunSuite


@pytest.mark.skipif(not Path("/lib64/ld-linux-x86-64.so.2").exists(), reason="its start is written for x86-64")
def test_it_needs_nothing_of_the_c_library_which_has_not_started_yet(tmp_path: Path) -> None:
    for level in ("-O2", "-O3"):
        made = tmp_path / f"patch{level}.o"
        subprocess.run(
            ["gcc", *C_FLAGS, level, "-c", str(SOURCES / "patch.c"), "-o", str(made)], check=True, timeout=60
        )
        assert subprocess.run(["nm", "-u", str(made)], capture_output=True, check=True, timeout=30).stdout == b""


def _patch_of(name: str, old: list[str], new: list[str]) -> str:
    return "".join(difflib.unified_diff(old, new, f"a/{name}", f"b/{name}"))


def _edited(lines: list[str], chance: random.Random) -> list[str]:
    edited = list(lines)
    for _ in range(chance.randint(1, 12)):
        at = chance.randrange(len(edited) + 1)
        edited[at : at + chance.randint(0, 3)] = [f"new {chance.random()}\n" for _ in range(chance.randint(0, 3))]
    return edited


@pytest.mark.parametrize("seed", range(12))
def test_a_patch_makes_the_new_files_and_its_reverse_the_old_ones(
    seed: int, run_suite: RunSuite, tmp_path: Path
) -> None:
    chance = random.Random(seed)
    (tmp_path / "d").mkdir()
    sides: list[dict[str, str]] = [{}, {}]
    patch = ""
    for name in ("d/one", "two", "d/three"):
        old = [f"line {line} {chance.random()}\n" for line in range(chance.randint(60, 200))]
        new = _edited(old, chance)
        patch += _patch_of(name, old, new)
        for side, lines in zip(sides, (old, new), strict=True):
            side[name] = "".join(lines)
        (tmp_path / name).write_text(sides[0][name])
    (tmp_path / "patch").write_text(patch)
    for what, wanted in (("apply", sides[1]), ("reverse", sides[0])):
        ended = run_suite("patch", what, "patch", cwd=tmp_path)
        assert (ended.returncode, ended.stdout, ended.stderr) == (0, b"", b"")
        assert {name: (tmp_path / name).read_text() for name in wanted} == wanted
    changed = [name for name in sides[0] if sides[0][name] != sides[1][name]]
    assert run_suite("patch", "files", "patch", cwd=tmp_path).stdout.decode().split() == changed


def _assert_refused(ended: Ended, reason: str) -> None:
    assert (ended.returncode, ended.stdout) == (1, b"")
    assert reason in ended.stderr.decode()
    assert ended.stderr.endswith(b"\n")


def test_a_patch_that_does_not_fit_changes_nothing(run_suite: RunSuite, tmp_path: Path) -> None:
    old = [f"line {line}\n" for line in range(30)]
    patch = _patch_of("file", old, [*old[:12], "new\n", *old[12:]])
    (tmp_path / "patch").write_text(patch)
    # One line lower, another context, a line too few, and nothing at all.
    for text in (["more\n", *old], [*old[:11], "other\n", *old[12:]], old[:14], []):
        (tmp_path / "file").write_text("".join(text))
        _assert_refused(run_suite("patch", "apply", "patch", cwd=tmp_path), "file: is not what the patch says in line ")
        assert (tmp_path / "file").read_text() == "".join(text)
    (tmp_path / "file").write_text("".join(old))
    for cut in range(1, len(patch) - 1, 7):
        (tmp_path / "cut").write_text(patch[:cut])
        ended = run_suite("patch", "apply", "cut", cwd=tmp_path)
        assert ended.returncode == 1, patch[:cut]
        assert (tmp_path / "file").read_text() == "".join(old)


def test_other_steps_of_the_scripts_end_well_only_if_they_are_done(run_suite: RunSuite, tmp_path: Path) -> None:
    (tmp_path / "list").write_text("01\n02\n")
    taken = [run_suite("patch", "take", "list", cwd=tmp_path) for _ in range(3)]
    assert [(ended.returncode, ended.stdout) for ended in taken] == [(0, b"02\n"), (0, b"01\n"), (0, b"")]
    (tmp_path / "one").write_text("text\n")
    assert run_suite("patch", "copy", "one", "other", cwd=tmp_path).returncode == 0
    (tmp_path / "one").write_text("texts\n")
    _assert_refused(run_suite("patch", "restored", "one", "other", cwd=tmp_path), "one: is not what it was")
    (tmp_path / "one").write_text("text\n")
    assert run_suite("patch", "restored", "one", "other", cwd=tmp_path).returncode == 0
    assert not (tmp_path / "other").exists()
    for words in (
        ("restored", "one", "other"),
        ("take", "nothing"),
        ("copy", "nothing", "other"),
        ("apply", "nothing"),
    ):
        _assert_refused(run_suite("patch", *words, cwd=tmp_path), "cannot be opened: error 2")


@pytest.mark.parametrize(
    "words", [(), ("apply",), ("copy", "list"), ("restored", "list"), ("push", "list"), ("", "list")]
)
def test_what_it_does_not_understand_is_refused(words: tuple[str, ...], run_suite: RunSuite, tmp_path: Path) -> None:
    (tmp_path / "list").write_text("01\n")
    _assert_refused(run_suite("patch", *words, cwd=tmp_path), "bisector-suite patch: ")
    assert (tmp_path / "list").read_text() == "01\n"


def test_words_that_only_begin_like_it_go_to_the_command_line(run_suite: RunSuite) -> None:
    for word in ("patc", "patchy", "p", ""):
        assert run_suite(word, "files", "list").returncode == 2

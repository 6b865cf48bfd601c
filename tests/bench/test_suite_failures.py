"""Work that did not run gives no number: limits, lost files, killed processes, a compiler that is too clever."""

import resource
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from bisector.bench.compile import SOURCES, build_suite
from tests.bench.atwork import at_work
from tests.bench.conftest import RunSuite, assert_no_number

GRAINS = {"page_test": 1700, "creat-clo": 1000, "patch_series": 99}


def _at_work(program: Path, name: str, *arguments: str, **options: Any) -> Any:
    return at_work(program, name, GRAINS.get(name, 1), *arguments, **options)


@pytest.mark.parametrize("shell", ["/bin/dash", "/bin/busybox"])
def test_a_script_that_fails_is_not_a_fast_script(shell: str, suite: Path, tmp_path: Path) -> None:
    program = tmp_path / "program"
    shutil.copy(suite, program)
    with _at_work(program, "shell_rtns_1", "--param", f"shell={shell}", "--dir", str(tmp_path)) as (process, _):
        program.unlink()
        stdout, stderr = process.communicate(timeout=30)
    assert_no_number(process, stdout, stderr, 3)
    assert f"shell_rtns_1: what the script of {shell} does failed".encode() in stderr
    assert list(tmp_path.iterdir()) == []


@contextmanager
def _second_series(suite: Path, folder: Path) -> Iterator[tuple[subprocess.Popen[bytes], Path]]:
    """patch_series at work, and its tree: what fails in the first series, a warm-up, is the environment's."""
    with _at_work(suite, "patch_series", "--dir", str(folder)) as (process, _):
        tree = next(folder.glob("bisector-*"))
        until = time.monotonic() + 30
        for full in (True, False):
            while ((tree / "applied").stat().st_size == 99 * len("01\n")) is not full:
                assert time.monotonic() < until
                time.sleep(0.005)
        yield process, tree


def _replace(path: Path, text: str) -> None:
    (new := path.with_name("replaced")).write_text(text)
    new.replace(path)


def test_patches_that_do_not_apply_are_not_a_fast_series(suite: Path, tmp_path: Path) -> None:
    with _second_series(suite, tmp_path) as (process, tree):
        # Another line than the one that is in the tree: of the context, or to be taken away.
        patch = tree / "patches" / "50"
        _replace(patch, patch.read_text().replace("\n line ", "\n lime ").replace("\n-line ", "\n-lime "))
        stdout, stderr = process.communicate(timeout=30)
    assert_no_number(process, stdout, stderr, 3)
    assert b"is not what the patch says in line" in stderr
    assert b"patch_series: what the script of /bin/sh does failed" in stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("phase", "done"), [("push", "pushed"), ("pop", "popped")])
def test_a_script_that_ends_well_without_its_work_is_not_a_fast_series(
    phase: str, done: str, suite: Path, tmp_path: Path
) -> None:
    with _second_series(suite, tmp_path) as (process, tree):
        _replace(tree / phase, 'exit "$1"\n')
        stdout, stderr = process.communicate(timeout=30)
    assert_no_number(process, stdout, stderr, 3)
    assert f"after the patches were {done} the files have the hash" in stderr.decode()


def test_a_script_that_is_not_found_is_not_a_fast_script_as_in_aim9(suite: Path, tmp_path: Path) -> None:
    with _at_work(suite, "shell_rtns_1", "--dir", str(tmp_path)) as (process, _):
        next(tmp_path.glob("bisector-*/script")).unlink()
        stdout, stderr = process.communicate(timeout=30)
    assert_no_number(process, stdout, stderr, 3)


def test_a_sample_does_not_outlive_its_program(suite: Path) -> None:
    with _at_work(suite, "page_test") as (process, sample):
        process.kill()
        process.wait()
        until = time.monotonic() + 10
        while Path(f"/proc/{sample}").exists():
            assert time.monotonic() < until, "it goes on"
            time.sleep(0.02)


def test_an_environment_that_does_not_allow_a_test_is_refused_and_not_blamed_on_the_kernel(
    run_suite: RunSuite, tmp_path: Path
) -> None:
    low = 1024 * 1024
    ended = run_suite(
        "run",
        "page_test",
        "--ops",
        "1700",
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_DATA, (low, low)),
    )
    assert_no_number(ended, ended.stdout, ended.stderr, 4)
    assert b"RLIMIT_DATA" in ended.stderr

    file = tmp_path / "file"
    file.touch()
    ended = run_suite("run", "creat-clo", "--ops", "1000", "--dir", str(file))
    assert_no_number(ended, ended.stdout, ended.stderr, 4)
    assert b"Not a directory" in ended.stderr

    ended = run_suite("run", "page_test", "--ops", "1700", "--cpu", "8000")
    assert_no_number(ended, ended.stdout, ended.stderr, 4)
    assert b"cannot be pinned to CPU 8000" in ended.stderr


def test_output_that_cannot_be_written_is_not_success(suite: Path) -> None:
    with Path("/dev/full").open("wb") as full:
        ended = subprocess.run(
            [suite, "run", "page_test", "--ops", "1700"], stdout=full, stderr=subprocess.PIPE, check=False, timeout=30
        )
    assert ended.returncode == 4
    assert b"cannot be written" in ended.stderr


def _changed(tmp_path: Path, file: str, old: str, new: str) -> Path:
    """The suite with one line of it changed, compiled."""
    sources = tmp_path / "sources"
    shutil.copytree(SOURCES, sources)
    text = (sources / file).read_text()
    assert text.count(old) == 1, f"{old!r} is not in {file} once"
    (sources / file).write_text(text.replace(old, new))
    return build_suite(tmp_path / "built", sources=sources)


SHRINK = "wide ? wide_step : -(intptr_t)WINDOW_BYTES;"
TOUCH = """                touch_page(fresh, mark);
            }
        }
        check_window(end, mark);
"""
NO_TOUCH = """                (void)fresh, (void)touch_page, (void)check_window;
            }
        }
        (void)mark;
"""
GROW = """                end = move_break(end, PAGE_BYTES);
        }
"""


@pytest.mark.parametrize(
    ("name", "old", "new", "complaint"),
    [
        # As if the compiler had removed the writes.
        ("page_test", "bytes[at] = mark;", "(void)mark, (void)bytes;", "where"),
        ("page_test", TOUCH, NO_TOUCH, "minor faults per operation, expected 0.9412"),
        # AIM9's own mistake on 64-bit systems: it takes as many faults.
        ("page_test", SHRINK, SHRINK.replace("-(intptr_t)WINDOW_BYTES", "(uint32_t)-WINDOW_BYTES"), "the break"),
        ("brk_test", GROW, GROW.replace(";", ", touch_page(end - PAGE_BYTES, 1);"), "expected at most 0.0010"),
    ],
    ids=["writes removed", "writes and their check removed", "a shrink that grows", "touched by mistake"],
)
def test_another_operation_than_declared_fails_its_check(
    name: str, old: str, new: str, complaint: str, tmp_path: Path, run_suite: RunSuite
) -> None:
    program = _changed(tmp_path, "memory.c", old, new)
    ended = run_suite("run", name, "--ops", "17000", program=program)
    assert_no_number(ended, ended.stdout, ended.stderr, 3)
    assert complaint in ended.stderr.decode()


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        # Each is undetectable by return values: the calls succeed, on something else or not at all.
        (
            "mprotect(at, bytes, step->protection) < 0",
            "mprotect(at, bytes, PROT_READ | PROT_WRITE) < 0",
            "has protection 3",
        ),
        ("*(volatile unsigned char *)at = step->mark;", "(void)*(volatile unsigned char *)at;", "holds 0, expected"),
        (
            "mremap(at, bytes, bytes, MREMAP_MAYMOVE",
            "mremap(at, bytes, bytes, MREMAP_DONTUNMAP | MREMAP_MAYMOVE",
            "has",
        ),
        ("MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED", "MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED", "has protection 25"),
    ],
)
def test_another_mix_than_the_model_tells_fails_its_check(
    old: str, new: str, complaint: str, tmp_path: Path, run_suite: RunSuite
) -> None:
    program = _changed(tmp_path, "mix.c", old, new)
    ended = run_suite("run", "vma_mix", "--ops", "1000", program=program)
    assert_no_number(ended, ended.stdout, ended.stderr, 3)
    assert complaint in ended.stderr.decode()


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        # What a child reads back is right all the same: only the count of faults tells.
        (
            "touch_pages(parents_pages, pages, 1, mark);",
            "touch_pages(parents_pages, pages / 64 * 63, 1, mark);",
            "0.98",
        ),
        (
            "fork_and_touch(COW_PAGES, (unsigned char)(forks | 2));",
            "touch_pages(parents_pages, COW_PAGES, 1, 2);",
            "parent",
        ),
    ],
    ids=["four pages of 256 left out", "written by the parent"],
)
def test_pages_that_were_not_copied_fail_fault_cow(
    old: str, new: str, complaint: str, tmp_path: Path, run_suite: RunSuite
) -> None:
    ended = run_suite("run", "fault_cow", "--ops", "10240", program=_changed(tmp_path, "faults.c", old, new))
    assert_no_number(ended, ended.stdout, ended.stderr, 3)
    assert complaint in ended.stderr.decode()


def test_a_child_that_ends_otherwise_than_told_fails_fork_test(tmp_path: Path, run_suite: RunSuite) -> None:
    program = _changed(tmp_path, "process.c", "_exit((int)expected);", "_exit(0);")
    ended = run_suite("run", "fork_test", "--ops", "10", program=program)
    assert_no_number(ended, ended.stdout, ended.stderr, 3)
    assert b"a child of fork_test ended with status 0, expected" in ended.stderr

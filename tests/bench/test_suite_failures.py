"""Work that did not run gives no number: limits, lost files, killed processes, a compiler that is too clever."""

import os
import resource
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from bisector.bench.compile import SOURCES, build_suite
from tests.bench.conftest import Ended, RunSuite

ENOUGH_FOR_MINUTES = {
    "page_test": "17000000000",
    "fork_test": "100000000",
    "exec_test": "100000000",
    "creat-clo": "1000000000",
    "vma_mix": "1000000000",
    "shell_rtns_1": "100000000",
    "fork_shell": "100000000",
    "patch_series": "9900000",
}
TICKS_AT_WORK = 8


def _assert_no_number(ended: Ended | subprocess.Popen[bytes], stdout: bytes, stderr: bytes, code: int) -> None:
    assert ended.returncode == code, (ended.returncode, stderr)
    assert b'"ok":true' not in stdout
    assert b'"type":"end"' not in stdout
    # A shell complains on its own account before that.
    assert stderr.splitlines()[-1].startswith(b"bisector-suite: ")


def _processes() -> Iterator[tuple[int, int, int]]:
    """(pid, parent, clock ticks of CPU) of every process, children it waited for included."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except (FileNotFoundError, ProcessLookupError):
                continue
            yield int(entry.name), int(fields[1]), sum(map(int, fields[11:15]))


def _sample_process(program: subprocess.Popen[bytes]) -> int:
    """The process that measures, once it has worked for a while: set-up and warm-up never take that long... or do.

    A warm-up is a tenth of the operations asked for, here minutes: what fails in it fails in measured work.
    """
    until = time.monotonic() + 30
    while time.monotonic() < until:
        for pid, parent, ticks in _processes():
            if parent == program.pid and ticks >= TICKS_AT_WORK:
                return pid
        time.sleep(0.02)
    raise AssertionError("no sample process was seen at work")


@contextmanager
def _at_work(
    program: Path, name: str, *arguments: str, **options: Any
) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    process = subprocess.Popen(
        [str(program), "run", name, "--ops", ENOUGH_FOR_MINUTES[name], *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        **options,
    )
    try:
        yield process, _sample_process(process)
    finally:
        process.kill()
        process.wait()


def test_a_break_that_stops_moving_is_not_a_fast_page_test(suite: Path) -> None:
    with _at_work(suite, "page_test") as (process, sample):
        resource.prlimit(sample, resource.RLIMIT_DATA, (4096, 4096))
        stdout, stderr = process.communicate(timeout=30)
    _assert_no_number(process, stdout, stderr, 3)
    assert b"page_test: brk: moving the break by" in stderr


def test_mappings_that_are_refused_are_not_a_fast_mix(suite: Path) -> None:
    with _at_work(suite, "vma_mix") as (process, sample):
        resource.prlimit(sample, resource.RLIMIT_AS, (4096, 4096))
        stdout, stderr = process.communicate(timeout=30)
    _assert_no_number(process, stdout, stderr, 3)
    assert b"of the sequence: mmap: Cannot allocate memory" in stderr


def test_creations_that_fail_are_not_fast_creations(suite: Path, tmp_path: Path) -> None:
    with _at_work(suite, "creat-clo", "--dir", str(tmp_path)) as (process, sample):
        resource.prlimit(sample, resource.RLIMIT_NOFILE, (0, 0))
        stdout, stderr = process.communicate(timeout=30)
    _assert_no_number(process, stdout, stderr, 3)
    assert b"creat-clo: creat: Too many open files" in stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("name", "complaint"),
    [("fork_test", b"fork: Resource temporarily unavailable after"), ("fork_shell", b"fork_shell: ")],
)
def test_forks_that_fail_are_not_fast_forks(name: str, complaint: bytes, suite: Path) -> None:
    # RLIMIT_NPROC does not bind root: as root the program runs as a user whom nobody else is, opened beforehand
    # because that user may not enter the folder it lies in.
    identity: dict[str, Any] = {}
    if os.getuid() == 0:
        identity = {"user": 100_000_000 + os.getpid(), "group": 65534, "extra_groups": []}
    descriptor = os.open(suite, os.O_RDONLY)
    program = Path(f"/proc/self/fd/{descriptor}")
    try:
        with _at_work(program, name, pass_fds=[descriptor], **identity) as (process, sample):
            subprocess.run(["prlimit", f"--pid={sample}", "--nproc=1:1"], check=True, timeout=30, **identity)
            stdout, stderr = process.communicate(timeout=30)
    finally:
        os.close(descriptor)
    _assert_no_number(process, stdout, stderr, 3)
    assert complaint in stderr


def test_a_helper_that_vanishes_is_not_a_fast_program_load(suite: Path, tmp_path: Path) -> None:
    program = tmp_path / "program"
    shutil.copy(suite, program)
    with _at_work(program, "exec_test") as (process, _):
        program.unlink()
        stdout, stderr = process.communicate(timeout=30)
    _assert_no_number(process, stdout, stderr, 3)
    assert b"exec_test: exec_test: ./program could not be executed" in stderr


@pytest.mark.parametrize("shell", ["/bin/dash", "/bin/busybox"])
def test_a_script_that_fails_is_not_a_fast_script(shell: str, suite: Path, tmp_path: Path) -> None:
    program = tmp_path / "program"
    shutil.copy(suite, program)
    with _at_work(program, "shell_rtns_1", "--param", f"shell={shell}", "--dir", str(tmp_path)) as (process, _):
        program.unlink()
        stdout, stderr = process.communicate(timeout=30)
    _assert_no_number(process, stdout, stderr, 3)
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
    _assert_no_number(process, stdout, stderr, 3)
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
    _assert_no_number(process, stdout, stderr, 3)
    assert f"after the patches were {done} the files have the hash" in stderr.decode()


def test_a_script_that_is_not_found_is_not_a_fast_script_as_in_aim9(suite: Path, tmp_path: Path) -> None:
    with _at_work(suite, "shell_rtns_1", "--dir", str(tmp_path)) as (process, _):
        next(tmp_path.glob("bisector-*/script")).unlink()
        stdout, stderr = process.communicate(timeout=30)
    _assert_no_number(process, stdout, stderr, 3)


def test_a_helper_that_is_killed_is_not_a_fast_program_load(suite: Path) -> None:
    with _at_work(suite, "exec_test") as (process, sample):
        resource.prlimit(sample, resource.RLIMIT_AS, (65536, 65536))
        stdout, stderr = process.communicate(timeout=30)
    _assert_no_number(process, stdout, stderr, 3)


def test_a_killed_sample_is_no_sample_and_leaves_no_file(suite: Path, tmp_path: Path) -> None:
    with _at_work(suite, "creat-clo", "--dir", str(tmp_path)) as (process, sample):
        os.kill(sample, signal.SIGKILL)
        stdout, stderr = process.communicate(timeout=30)
    _assert_no_number(process, stdout, stderr, 3)
    assert b"the sample's process was killed by signal 9" in stderr
    assert list(tmp_path.iterdir()) == []


def test_a_sample_does_not_outlive_its_program(suite: Path) -> None:
    with _at_work(suite, "page_test") as (process, sample):
        process.kill()
        process.wait()
        until = time.monotonic() + 10
        while any(pid == sample for pid, _, _ in _processes()):
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
    _assert_no_number(ended, ended.stdout, ended.stderr, 4)
    assert b"RLIMIT_DATA" in ended.stderr

    file = tmp_path / "file"
    file.touch()
    ended = run_suite("run", "creat-clo", "--ops", "1000", "--dir", str(file))
    _assert_no_number(ended, ended.stdout, ended.stderr, 4)
    assert b"Not a directory" in ended.stderr

    ended = run_suite("run", "page_test", "--ops", "1700", "--cpu", "8000")
    _assert_no_number(ended, ended.stdout, ended.stderr, 4)
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
    _assert_no_number(ended, ended.stdout, ended.stderr, 3)
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
    _assert_no_number(ended, ended.stdout, ended.stderr, 3)
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
    _assert_no_number(ended, ended.stdout, ended.stderr, 3)
    assert complaint in ended.stderr.decode()


def test_a_child_that_ends_otherwise_than_told_fails_fork_test(tmp_path: Path, run_suite: RunSuite) -> None:
    program = _changed(tmp_path, "process.c", "_exit((int)expected);", "_exit(0);")
    ended = run_suite("run", "fork_test", "--ops", "10", program=program)
    _assert_no_number(ended, ended.stdout, ended.stderr, 3)
    assert b"a child of fork_test ended with status 0, expected" in ended.stderr

"""The suite's program, run for real."""

import ctypes
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.bench.conftest import RunSuite

SMALL = {
    "page_test": 17000,
    "brk_test": 17000,
    "fork_test": 30,
    "exec_test": 10,
    "creat-clo": 1000,
    "link_test": 63,
    "dir_rtns_1": 10000,
    "disk_src": 75,
    "signal_test": 1000,
    "pipe_cpy": 200,
    "stream_pipe": 200,
    "dgram_pipe": 200,
    "tcp_test": 200,
    "udp_test": 200,
    "shared_memory": 100,
    "shell_rtns_1": 20,
    "getppid": 1000,
    "getpriority": 1000,
    "stat": 100,
    "open_close": 100,
    "fault_anon": 1024,
    "fault_file_private": 1024,
    "fault_file_shared": 1024,
    "fault_cow": 1024,
    "mmap_cycle": 1000,
    "mprotect_split": 100,
    "mremap_move": 100,
    "vma_mix": 2000,
    "fork_shell": 5,
    "patch_series": 99,
    "ctl_alu": 1000000,
    "ctl_memcpy": 10000,
}

Lines = Callable[..., list[dict[str, Any]]]


def test_every_test_runs_once_between_an_env_line_and_an_end(run_suite: RunSuite, lines: Lines) -> None:
    ended = run_suite("run-all", "--batches", ",".join(f"{name}={ops}" for name, ops in SMALL.items()), "--tag", "abc")
    assert ended.returncode == 0, ended.stderr
    assert ended.stderr == b""
    env, *samples, end = lines(ended)
    assert env["type"] == "env"
    assert env["release"] == os.uname().release
    assert env["boot_id"] == Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    assert env["tag"] == "abc"
    assert env["thp_disabled"] is True
    assert [(line["type"], line["test"], line["ops"]) for line in samples] == [
        ("sample", name, ops) for name, ops in SMALL.items()
    ]
    assert all(line["checks"]["ok"] and line["wall_ns"] > 0 for line in samples)
    assert end == {"v": 1, "type": "end", "samples": len(SMALL), "ok": True}


def test_page_test_takes_sixteen_faults_for_seventeen_operations(run_suite: RunSuite, lines: Lines) -> None:
    for ops in (1700, 17000, 34000):
        sample = lines(run_suite("run", "page_test", "--ops", str(ops)))[1]
        assert sample["minflt"] == pytest.approx(ops * 16 / 17, rel=0.01)
        assert sample["checks"]["faults_per_op"] == pytest.approx(16 / 17, rel=0.01)


@pytest.mark.parametrize("grains", [1, 9])
@pytest.mark.parametrize(
    "name", ["fault_anon", "fault_file_private", "fault_file_shared", "fault_cow", "mmap_cycle", "page_test"]
)
def test_what_is_a_fault_takes_as_many_faults_as_declared(
    name: str, grains: int, run_suite: RunSuite, lines: Lines
) -> None:
    test = next(test for test in lines(run_suite("--list", "--json"))[0]["tests"] if test["name"] == name)
    sample = lines(run_suite("run", name, "--ops", str(test["grain"] * grains)))[1]
    assert sample["checks"]["faults_per_op"] == pytest.approx(test["faults_per_op"], rel=0.01)


def test_the_faults_of_fork_itself_are_not_those_of_copying_pages(run_suite: RunSuite, lines: Lines) -> None:
    sample = lines(run_suite("run", "fault_cow", "--ops", "10240"))[1]
    # Forty children: each cannot begin to run, nor its parent go on, without faults of their own.
    assert sample["minflt"] > 10240 + 3 * 40
    assert sample["checks"]["faults_per_op"] == pytest.approx(1, abs=0.001)


def test_brk_test_takes_no_faults(run_suite: RunSuite, lines: Lines) -> None:
    assert lines(run_suite("run", "brk_test", "--ops", "34000"))[1]["minflt"] <= 10


@pytest.mark.parametrize("name", ["fork_test", "exec_test"])
def test_children_are_created_waited_for_and_counted(name: str, run_suite: RunSuite, lines: Lines) -> None:
    sample = lines(run_suite("run", name, "--ops", "50"))[1]
    # A child cannot run without faults of its own, and the parent cannot wait for it without giving up the CPU or
    # letting the other CPU do it: both counters are of the parent and of the children it has waited for.
    assert sample["minflt"] > 3 * 50
    assert sample["nvcsw"] >= 50


def test_the_layout_of_fork_test_does_not_depend_on_chance(run_suite: RunSuite, lines: Lines) -> None:
    # The stack lies elsewhere in every one of these programs, also within its page. Before the measured part got a
    # stack of its own making, one run in five took two more faults for an operation.
    faults = {
        lines(run_suite("run", "fork_test", "--ops", "100", "--tag", "x" * length))[1]["minflt"] // 100
        for length in range(1, 200, 8)
    }
    assert len(faults) == 1


def test_a_pinned_sample_stays_on_its_cpu(run_suite: RunSuite, lines: Lines) -> None:
    cpu = max(os.sched_getaffinity(0))
    env, sample, _ = lines(run_suite("run", "fork_test", "--ops", "50", "--cpu", str(cpu)))
    assert (env["cpu"], sample["cpu_start"], sample["cpu_end"]) == (cpu, cpu, cpu)
    assert lines(run_suite("run", "fork_test", "--ops", "1"))[0]["cpu"] is None


def test_calibration_finds_whole_grains_that_last_about_as_long_as_asked(run_suite: RunSuite, lines: Lines) -> None:
    names = ",".join(SMALL)
    env, *found, end = lines(run_suite("calibrate", names, "--sample-ms", "40"))
    assert env["type"] == "env"
    assert [line["test"] for line in found] == list(SMALL)
    assert end == {"v": 1, "type": "end", "calibrations": len(SMALL), "ok": True}
    batches = {line["test"]: line["ops"] for line in found}
    assert batches["page_test"] % 1700 == batches["brk_test"] % 17000 == batches["creat-clo"] % 1000 == 0
    asked = ",".join(f"{name}={ops}" for name, ops in batches.items())
    lengths_ms = [sample["wall_ns"] / 1e6 for sample in lines(run_suite("run-all", "--batches", asked))[1:-1]]
    # Wide, because this machine may be busy at one time and idle at the other; one operation takes 0.1 to 0.5 ms.
    assert sum(8 < length_ms < 800 for length_ms in lengths_ms) >= 3, lengths_ms


def test_a_run_without_operations_calibrates_first_and_takes_the_samples_asked_for(
    run_suite: RunSuite, lines: Lines
) -> None:
    _, *samples, end = lines(run_suite("run", "page_test", "--sample-ms", "10", "--samples", "3"))
    assert [sample["sample"] for sample in samples] == [0, 1, 2]
    assert len({sample["ops"] for sample in samples}) == 1
    assert end["samples"] == 3


def test_creat_clo_leaves_nothing_behind(run_suite: RunSuite, tmp_path: Path) -> None:
    assert run_suite("run", "creat-clo", "--ops", "2000", "--dir", str(tmp_path)).returncode == 0
    assert list(tmp_path.iterdir()) == []


def test_the_directory_for_files_is_that_of_the_environment(run_suite: RunSuite, tmp_path: Path) -> None:
    missing = tmp_path / "not-there"
    ended = run_suite("run", "creat-clo", "--ops", "1000", env={"TMPDIR": str(missing)})
    assert ended.returncode == 4
    assert str(missing) in ended.stderr.decode()


def test_ignored_signals_of_the_caller_do_not_matter(run_suite: RunSuite) -> None:
    # Without a default SIGCHLD the kernel reaps children itself, and every wait fails.
    ended = run_suite(
        "run", "fork_test", "--ops", "20", preexec_fn=lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    )
    assert ended.returncode == 0, ended.stderr


def test_a_layout_that_is_the_same_at_every_start_does_not_make_it_start_for_ever(
    run_suite: RunSuite, lines: Lines
) -> None:
    no_randomisation = 0x0040000
    libc = ctypes.CDLL(None)
    ended = run_suite("run", "fork_test", "--ops", "10", preexec_fn=lambda: libc.personality(no_randomisation))
    assert ended.returncode == 0, ended.stderr
    assert lines(ended)[-1]["samples"] == 1


def test_the_table_of_tests_is_printed_for_people_and_for_programs(run_suite: RunSuite, lines: Lines) -> None:
    assert [test["name"] for test in lines(run_suite("--list", "--json"))[0]["tests"]] == list(SMALL)
    text = run_suite("--list").stdout.decode()
    assert all(name in text for name in SMALL)


def test_the_helper_of_exec_test_does_nothing_and_says_nothing(run_suite: RunSuite) -> None:
    ended = run_suite("true")
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, b"", b"")
    assert run_suite("true", "or", "not").returncode == 2
    assert run_suite("truer").returncode == 2


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("--list", "--yaml"),
        ("run",),
        ("run", "page"),
        ("run", "page_test", "--ops"),
        ("run", "page_test", "--ops", "1000"),
        ("run", "page_test", "--ops", "0"),
        ("run", "page_test", "--ops", "-1700"),
        ("run", "page_test", "--ops", " 1700"),
        ("run", "page_test", "--ops", "1700.0"),
        ("run", "page_test", "--ops", "99999999999999999999999"),
        ("run", "page_test", "--op", "1700"),
        ("run", "page_test", "--ops --cpu", "1700"),
        ("run", "page_test", "--batches", "page_test=1700"),
        ("run", "page_test", "--cpu", "first"),
        ("run", "page_test", "--sample-ms", "0"),
        ("run-all",),
        ("run-all", "--batches", ""),
        ("run-all", "--batches", "page_test"),
        ("run-all", "--batches", "page_test=1700,"),
        ("run-all", "--batches", "page_test=1700,page_test=1700"),
        ("run-all", "--batches", "page_test=17"),
        ("calibrate", "page_test,page_test"),
        ("calibrate", "page_test=1700"),
    ],
)
def test_what_it_does_not_understand_is_refused_before_anything_runs(
    arguments: tuple[str, ...], run_suite: RunSuite
) -> None:
    ended = run_suite(*arguments)
    assert ended.returncode == 2
    assert ended.stdout == b""
    assert ended.stderr != b""

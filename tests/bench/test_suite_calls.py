"""The system calls that the table declares are the ones that are made: counted by strace, exactly."""

import itertools
import os
import re
import subprocess
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from bisector.bench.compile import build_suite
from bisector.bench.tests import Test, known_tests

# A start that finds an unlucky layout starts over, which costs an execve: told that it did so often enough.
NO_RESTART = {**os.environ, "BISECTOR_SUITE_STARTS": "30"}

# Not the tests' own: the clock, where the kernel does not let it be read without a call, and the random name of a
# private directory, for which libc now and then draws twice.
NOT_COUNTED = {"clock_gettime", "getrandom"}

GRAINS = 10
"""A warm-up is a tenth of the operations: twice the grains are then one more grain of warm-up as well."""

MANY_CALLS = 10_000
"""In one grain. brk_test's 17 002 take half a second under strace: one grain against two, and a warm-up of one each."""


@pytest.fixture(scope="module")
def declared(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Test]:
    return {test.name: test for test in known_tests(build_suite(tmp_path_factory.getbasetemp().parent / "suite"))}


def _calls(suite: Path, test: Test, grains: int, folder: Path, params: Sequence[str]) -> Counter[str]:
    # Line by line, not with strace's own table: that has no call which does not return (exit_group).
    trace = folder / "trace"
    command = ["strace", "-f", "-o", str(trace)]
    if test.name == "patch_series":  # some 50 000 calls for one series: the others are not even stopped
        command += ["--seccomp-bpf", "-e", f"trace={','.join([*test.calls_per_grain, *FORK_CALLS])}"]
    command += [str(suite), "run", test.name]
    command += [word for param in params for word in ("--param", param)]
    subprocess.run(
        [*command, "--ops", str(test.grain * grains), "--dir", str(folder)],
        check=True,
        capture_output=True,
        timeout=120,
        env=NO_RESTART,
    )
    return Counter(re.findall(r"^\d+ +(\w+)\(", trace.read_text(), flags=re.MULTILINE))


def _measured(suite: Path, test: Test, folder: Path, *params: str) -> dict[str, float]:
    # For the tests whose grain is one operation, enough of them that a call made once cannot hide.
    many = sum(test.calls_per_grain.values()) > MANY_CALLS or test.name == "patch_series"
    grains = 1 if many else GRAINS * (1 if test.name in IN_SHELLS else max(1, 20 // test.grain))
    once, twice = (_calls(suite, test, grains * times, folder, params) for times in (1, 2))
    more = grains + grains // 10
    changed = {name: (twice[name] - once[name]) / more for name in twice | once if name not in NOT_COUNTED}
    return {name: calls for name, calls in changed.items() if calls}


NAMES = [
    "page_test",
    "brk_test",
    "fork_test",
    "exec_test",
    "creat-clo",
    "link_test",
    "dir_rtns_1",
    "disk_src",
    "signal_test",
    "getppid",
    "getpriority",
    "stat",
    "open_close",
    "pipe_cpy",
    "stream_pipe",
    "dgram_pipe",
    "tcp_test",
    "udp_test",
    "shared_memory",
    "fault_anon",
    "fault_file_private",
    "fault_file_shared",
    "fault_cow",
    "mmap_cycle",
    "mprotect_split",
    "mremap_move",
    "vma_mix",
]

# They declare what every shell has to do for their script, and no more: the rest is the shell's own affair, and one
# operation is dozens of calls, each of which strace stops.
IN_SHELLS = ["shell_rtns_1", "fork_shell", "patch_series"]
FORKS = {"shell_rtns_1": 2, "fork_shell": 21, "patch_series": 784}
FORK_CALLS = ("clone", "vfork", "fork", "clone3")
SHELLS = ["/bin/dash", "/bin/busybox"]

CONTROLS_IN_ORDER = ["ctl_alu", "ctl_memcpy"]
CONTROLS = set(CONTROLS_IN_ORDER)


def test_every_test_with_declared_calls_is_counted(declared: dict[str, Test]) -> None:
    assert {name for name, test in declared.items() if test.calls_per_grain} == {*NAMES, *IN_SHELLS}


def test_only_the_controls_declare_no_calls(declared: dict[str, Test]) -> None:
    assert {name for name, test in declared.items() if not test.calls_per_grain} == CONTROLS


@pytest.mark.parametrize("name", [*NAMES, *CONTROLS_IN_ORDER])
def test_strace_counts_the_declared_system_calls_exactly(
    name: str, suite: Path, declared: dict[str, Test], tmp_path: Path
) -> None:
    assert _measured(suite, declared[name], tmp_path) == declared[name].calls_per_grain


def test_another_seed_makes_other_calls_of_the_mix_and_the_same_ones_every_time(
    suite: Path, declared: dict[str, Test], tmp_path: Path
) -> None:
    mix = declared["vma_mix"]
    first, again = (_measured(suite, mix, tmp_path, "seed=2") for _ in range(2))
    assert first == again
    assert first.keys() == mix.calls_per_grain.keys()
    assert first != mix.calls_per_grain
    # One of them empties the window; the rest are steps, and the steps that are no calls are writes.
    assert all(calls == int(calls) for calls in first.values())
    assert 600 < sum(first.values()) - 1 < 900


@pytest.mark.parametrize(
    ("name", "shell"), [*itertools.product(("shell_rtns_1", "fork_shell"), SHELLS), ("patch_series", SHELLS[0])]
)
def test_every_shell_makes_the_processes_that_its_script_wants(
    name: str, shell: str, suite: Path, declared: dict[str, Test], tmp_path: Path
) -> None:
    measured = _measured(suite, declared[name], tmp_path, f"shell={shell}")
    assert {call: measured[call] for call in declared[name].calls_per_grain} == declared[name].calls_per_grain
    assert sum(measured.get(call, 0) for call in FORK_CALLS) == FORKS[name]
    assert all(calls == int(calls) for calls in measured.values())


def test_a_dynamic_program_is_loaded_once_an_operation_and_takes_the_loaders_calls_besides(
    suite: Path, declared: dict[str, Test], tmp_path: Path
) -> None:
    measured = _measured(suite, declared["exec_test"], tmp_path, "variant=dynamic")
    static = declared["exec_test"].calls_per_grain
    assert {call: measured[call] for call in ("clone", "execve", "exit_group", "wait4")} == {
        call: static[call] for call in ("clone", "execve", "exit_group", "wait4")
    }
    # The C library is found, read and mapped.
    assert measured["openat"] >= 1
    assert measured["mmap"] >= 4

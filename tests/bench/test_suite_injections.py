"""Every test of the suite against everything that can be taken from it, before it measures and in mid-batch.

Two tables: what each injection makes of each test that it touches, and why it cannot touch the others. A test that
stands in neither fails here, so a new one has to say what it does without memory, files, processes and helpers.
"""

import os
import resource
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from bisector.bench.tests import Test, known_tests
from tests.bench.atwork import at_work, children_of
from tests.bench.conftest import assert_no_number

OF_ROOT = {"no inodes", "no bytes", "no segments", "no semaphores", "no loopback"}
"""Mounts and namespaces."""

SHELLS = ("shell_rtns_1", "fork_shell", "patch_series")
FORKERS = ("fork_test", "exec_test", "fault_cow", *SHELLS)
MESSAGES = ("pipe_cpy", "stream_pipe", "dgram_pipe", "tcp_test", "udp_test")
BARE_CALLS = ("signal_test", "getppid", "getpriority")
CONTROLS = ("ctl_alu", "ctl_memcpy")
NAMES = ("creat-clo", "link_test", "disk_src", "dir_rtns_1", "stat", "open_close")
MAPPINGS = ("fault_anon", "fault_file_private", "mmap_cycle")
BREAKS = ("page_test", "brk_test")
FAR_TOO_LITTLE = {"DATA": 4096, "AS": 65536, "NOFILE": 0, "FSIZE": 0}
"""Soft and hard limit that a sample's process gets while it measures."""

OUT_OF_MEMORY = "Cannot allocate memory"
TOO_MANY = "Too many open files"
NO_SPACE = "No space left on device"

IN_MID_BATCH: dict[str, dict[str, str]] = {
    "DATA": {
        **dict.fromkeys(BREAKS, "brk: moving the break by"),
        **dict.fromkeys((*MAPPINGS, "mprotect_split", "vma_mix"), OUT_OF_MEMORY),
        "exec_test": "the helper of exec_test was killed by signal",
        **dict.fromkeys(SHELLS, "the shell was killed by signal"),
    },
    "AS": {
        **dict.fromkeys(BREAKS, "brk: moving the break by"),
        **dict.fromkeys((*MAPPINGS, "fault_file_shared", "shared_memory", "vma_mix"), OUT_OF_MEMORY),
        "exec_test": "the helper of exec_test was killed by signal",
        **dict.fromkeys(SHELLS, "the shell was killed by signal"),
    },
    "NOFILE": {
        **dict.fromkeys(("creat-clo", "link_test", "disk_src", "dir_rtns_1", "open_close"), TOO_MANY),
        "shell_rtns_1": "could not be executed",
        "fork_shell": "could not be executed",
        "patch_series": "",  # the shell, its program or the check of the tree, whichever opens a file first
    },
    "FSIZE": {"patch_series": ""},
    "NPROC": dict.fromkeys(FORKERS, "fork: Resource temporarily unavailable"),
    "no inodes": {**dict.fromkeys(("creat-clo", "link_test", "disk_src"), NO_SPACE), "patch_series": ""},
    "no bytes": {"patch_series": ""},
    "no helper": {"exec_test": "could not be executed", **dict.fromkeys(("shell_rtns_1", "patch_series"), "failed")},
    "a killed child": {
        "fork_test": "a child of fork_test was killed by signal 9",
        "exec_test": "the helper of exec_test was killed by signal 9",
        "fault_cow": "a child of fault_cow was killed by signal 9",
        **dict.fromkeys(SHELLS, ""),  # the shell, or one of its own children, which it tells as a failure
    },
    "no segments": {"shared_memory": "semget or shmget: No space left on device"},
    "no semaphores": {"shared_memory": "semop: Argument list too long"},
}

NOT_TOUCHED: dict[str, dict[str, tuple[str, ...]]] = {
    "DATA": {
        "a limit of private memory that grows; nothing of it grows in the batch": (
            *("fork_test", "fault_cow", "mremap_move", *MESSAGES, *BARE_CALLS, *CONTROLS, *NAMES),
        ),
        "its memory is shared": ("shared_memory", "fault_file_shared"),
    },
    "AS": {
        "a limit of the address space when it grows; a fork copies it, and nothing else here makes it larger": (
            *("fork_test", "fault_cow", "mremap_move", "mprotect_split", *MESSAGES, *BARE_CALLS, *CONTROLS, *NAMES),
        ),
    },
    "NOFILE": {
        "no descriptor is opened in the batch": (
            *(
                "stat",
                "fork_test",
                "exec_test",
                "fault_cow",
                "mremap_move",
                "mprotect_split",
                "vma_mix",
                "shared_memory",
            ),
            *(*BREAKS, *MAPPINGS, "fault_file_shared", *MESSAGES, *BARE_CALLS, *CONTROLS),
        ),
    },
    "FSIZE": {
        "no regular file grows in the batch: files are empty, and a pipe or a socket has no size": (
            *("fork_test", "exec_test", "fault_cow", "mremap_move", "mprotect_split", "vma_mix", "shared_memory"),
            *("shell_rtns_1", "fork_shell", *BREAKS, *MAPPINGS, "fault_file_shared", *MESSAGES),
            *(*BARE_CALLS, *CONTROLS, *NAMES),
        ),
    },
    "NPROC": {
        "it makes no process": (
            *("mremap_move", "mprotect_split", "vma_mix", "shared_memory", *BREAKS, *MAPPINGS, "fault_file_shared"),
            *(*MESSAGES, *BARE_CALLS, *CONTROLS, *NAMES),
        ),
    },
    "no inodes": {
        "it makes no file in the batch": ("dir_rtns_1", "stat", "open_close", "shell_rtns_1", "fork_shell"),
        "it has no directory": (),
    },
    "no bytes": {
        "its files are empty, or written in set-up": (*NAMES, "shell_rtns_1", "fork_shell"),
        "it has no directory": (),
    },
    "no helper": {"the shell itself does all of it": ("fork_shell",), "it executes nothing": ()},
    "a killed child": {"it has none": ()},
    "no segments": {"it has none": ()},
    "no semaphores": {"it has none": ()},
}
"""An injection that only a few tests could meet ends with a reason without names: it is that of all the others."""

BEFORE: dict[str, dict[str, str]] = {
    "DATA": {
        **dict.fromkeys(BREAKS, "is RLIMIT_DATA or RLIMIT_AS set?"),
        **dict.fromkeys(("fault_anon", "fault_file_private", "fault_cow"), OUT_OF_MEMORY),
    },
    "AS": {
        **dict.fromkeys(BREAKS, "is RLIMIT_DATA or RLIMIT_AS set?"),
        **dict.fromkeys(
            ("fault_anon", "fault_file_private", "fault_file_shared", "fault_cow", "vma_mix"), OUT_OF_MEMORY
        ),
    },
    "FSIZE": {
        **dict.fromkeys(("fault_file_private", "fault_file_shared"), "ftruncate: File too large"),
        **dict.fromkeys(SHELLS, "cannot be written: File too large"),
    },
    "no inodes": dict.fromkeys((*NAMES, *SHELLS), "no directory can be made in"),
    "no bytes": dict.fromkeys(SHELLS, "cannot be written: No space left on device"),
    "no loopback": dict.fromkeys(("tcp_test", "udp_test"), "is the interface lo up?"),
}
"""NOFILE and NPROC are beside it: they refuse every test, before its set-up."""

LOW = {"DATA": 1024 * 1024, "AS": 3 * 1024 * 1024, "NOFILE": 3, "FSIZE": 0, "NPROC": 1}
"""Enough to start the program, and no more."""

ANOTHER_USER: dict[str, Any] = (
    {"user": 100_000_000 + os.getpid(), "group": 65534, "extra_groups": []} if os.getuid() == 0 else {}
)
"""RLIMIT_NPROC does not bind root: one whom nobody else is."""


@pytest.fixture(scope="module")
def tests(suite: Path) -> dict[str, Test]:
    return {test.name: test for test in known_tests(suite)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """A program of its own, so that it can be taken away, and a file system of its own for its files."""

    program: Path
    files: Path


def _scene(suite: Path, options: str) -> Iterator[Scene]:
    # Below /tmp: as another user the program has to be found, and pytest's folders are closed to others.
    folder = Path(tempfile.mkdtemp(prefix="bisector-injections-"))
    folder.chmod(0o755)
    scene = Scene(program=folder / "program", files=folder / "files")
    scene.files.mkdir()
    shutil.copy(suite, scene.program)
    if os.getuid() == 0:
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"{options},mode=777", "tmpfs", scene.files], check=True)
    try:
        yield scene
    finally:
        if os.getuid() == 0:
            subprocess.run(["umount", "-l", scene.files], check=True)
        shutil.rmtree(folder)


@pytest.fixture
def scene(suite: Path) -> Iterator[Scene]:
    yield from _scene(suite, "size=2m,nr_inodes=600")


Inject = Callable[[subprocess.Popen[bytes], int, Scene], object]


def _until_it_ends(step: Callable[[], object]) -> Inject:
    def inject(process: subprocess.Popen[bytes], sample: int, scene: Scene) -> None:
        until = time.monotonic() + 30
        while process.poll() is None and time.monotonic() < until:
            step()

    return inject


def _fill_inodes(process: subprocess.Popen[bytes], sample: int, scene: Scene) -> None:
    made = 0

    def step() -> None:
        nonlocal made
        try:
            (scene.files / f"filler{made}").touch(exist_ok=False)
            made += 1
        except OSError:
            pass  # full: until the test gives an inode back

    _until_it_ends(step)(process, sample, scene)


def _fill_bytes(process: subprocess.Popen[bytes], sample: int, scene: Scene) -> None:
    with (scene.files / "filler").open("wb", buffering=0) as filler:

        def step() -> None:
            with suppress(OSError):
                filler.write(bytes(4096))

        _until_it_ends(step)(process, sample, scene)


def _kill_a_child(process: subprocess.Popen[bytes], sample: int, scene: Scene) -> None:
    def step() -> None:
        for child in children_of(sample):
            with suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)

    _until_it_ends(step)(process, sample, scene)


def _limit(name: str) -> Inject:
    value = FAR_TOO_LITTLE[name]
    return lambda _, sample, __: resource.prlimit(sample, getattr(resource, f"RLIMIT_{name}"), (value, value))


def _one_process(process: subprocess.Popen[bytes], sample: int, scene: Scene) -> None:
    subprocess.run(["prlimit", f"--pid={sample}", "--nproc=1:1"], check=True, timeout=30, **ANOTHER_USER)


def _in_its_namespace(setting: str, value: str) -> Inject:
    line = f"echo {value} >/proc/sys/kernel/{setting}"
    return lambda _, sample, __: subprocess.run(["nsenter", "-t", str(sample), "--ipc", "sh", "-c", line], check=True)


INJECTIONS: dict[str, Inject] = {
    **{name: _limit(name) for name in FAR_TOO_LITTLE},
    "NPROC": _one_process,
    "no inodes": _fill_inodes,
    "no bytes": _fill_bytes,
    "no helper": lambda _, __, scene: scene.program.unlink(),
    "a killed child": _kill_a_child,
    "no segments": _in_its_namespace("shmmni", "0"),
    "no semaphores": _in_its_namespace("sem", "0 0 0 0"),
}


def test_every_test_is_in_the_tables_for_every_injection(tests: dict[str, Test]) -> None:
    assert INJECTIONS.keys() == IN_MID_BATCH.keys() == NOT_TOUCHED.keys()
    for injection, touched in IN_MID_BATCH.items():
        reasons = NOT_TOUCHED[injection]
        named = [*touched, *(name for names in reasons.values() for name in names)]
        assert len(named) == len(set(named)), injection
        if all(reasons.values()):
            assert set(named) == set(tests), injection
    with_directory = {*NAMES, *SHELLS}
    for injection in ("no inodes", "no bytes"):
        told = {*IN_MID_BATCH[injection], *(name for names in NOT_TOUCHED[injection].values() for name in names)}
        assert told == with_directory
    assert set(IN_MID_BATCH["a killed child"]) == set(FORKERS) == set(IN_MID_BATCH["NPROC"])


@pytest.mark.parametrize(
    ("injection", "name"), [(injection, name) for injection, names in IN_MID_BATCH.items() for name in names]
)
def test_what_is_taken_in_mid_batch_ends_it_as_failed_and_gives_no_number(
    injection: str, name: str, scene: Scene, tests: dict[str, Test]
) -> None:
    _skip_unless_allowed(injection)
    identity = ANOTHER_USER if injection == "NPROC" else {}
    place = ("--dir", str(scene.files))
    with at_work(scene.program, name, tests[name].grain, *place, **identity) as (process, sample):
        INJECTIONS[injection](process, sample, scene)
        stdout, stderr = process.communicate(timeout=30)
    # The set-up of patch_series pushes and pops a whole series, and may not be over yet.
    code = process.returncode if name == "patch_series" and process.returncode == 4 else 3
    assert_no_number(process, stdout, stderr, code)
    assert IN_MID_BATCH[injection][name] in stderr.decode()
    assert f"bisector-suite: {name}: " in stderr.decode()
    assert not list(scene.files.glob("bisector-*"))


@pytest.mark.parametrize(
    "name",
    [
        *BREAKS,
        *FORKERS,
        *MESSAGES,
        *BARE_CALLS,
        *CONTROLS,
        *NAMES,
        *MAPPINGS,
        *sorted({"mprotect_split", "mremap_move", "vma_mix", "shared_memory", "fault_file_shared"}),
    ],
)
def test_a_killed_sample_is_no_sample_and_what_cannot_touch_it_had_not(
    name: str, suite: Path, tmp_path: Path, tests: dict[str, Test]
) -> None:
    untouched = [limit for limit in FAR_TOO_LITTLE if name not in IN_MID_BATCH[limit]]
    with at_work(suite, name, tests[name].grain, "--dir", str(tmp_path)) as (process, sample):
        for limit in untouched:
            value = FAR_TOO_LITTLE[limit]
            resource.prlimit(sample, getattr(resource, f"RLIMIT_{limit}"), (value, value))
        time.sleep(0.1)
        assert process.poll() is None, process.communicate()
        os.kill(sample, signal.SIGKILL)
        stdout, stderr = process.communicate(timeout=30)
    assert_no_number(process, stdout, stderr, 3)
    assert f"{name}: the sample's process was killed by signal 9" in stderr.decode()
    assert list(tmp_path.iterdir()) == []


def test_every_test_is_killed_once(tests: dict[str, Test]) -> None:
    marks = test_a_killed_sample_is_no_sample_and_what_cannot_touch_it_had_not.pytestmark  # type: ignore[attr-defined]
    assert set(marks[0].args[1]) == set(tests)


def _skip_unless_allowed(injection: str) -> None:
    if injection in OF_ROOT and os.getuid() != 0:
        pytest.skip("mounts and namespaces are root's")


@pytest.fixture(params=list(BEFORE))
def refused(request: pytest.FixtureRequest, suite: Path) -> Iterator[tuple[str, Scene]]:
    _skip_unless_allowed(request.param)
    full = {"no inodes": "nr_inodes=1", "no bytes": "size=4k"}.get(request.param, "size=8m")
    for scene in _scene(suite, full):
        if request.param == "no bytes":
            (scene.files / "filler").write_bytes(bytes(4096))
        yield request.param, scene


def test_what_is_missing_before_it_measures_refuses_the_environment(
    refused: tuple[str, Scene], tests: dict[str, Test]
) -> None:
    injection, scene = refused
    before = ["unshare", "-n"] if injection == "no loopback" else []
    for name, complaint in BEFORE[injection].items():
        command = [*before, str(scene.program), "run", name, "--ops", str(tests[name].grain), "--dir", str(scene.files)]
        ended = subprocess.run(command, capture_output=True, timeout=60, check=False, preexec_fn=_lowered(injection))
        assert_no_number(ended, ended.stdout, ended.stderr, 4)
        assert f"bisector-suite: {name}: " in ended.stderr.decode()
        assert complaint in ended.stderr.decode(), (name, ended.stderr)
        assert not list(scene.files.glob("bisector-*"))


@pytest.mark.parametrize(("limit", "complaint"), [("NOFILE", TOO_MANY), ("NPROC", "no process for the sample: fork")])
def test_without_a_pipe_or_a_process_for_its_sample_every_test_is_refused(
    limit: str, complaint: str, scene: Scene, tests: dict[str, Test]
) -> None:
    identity = ANOTHER_USER if limit == "NPROC" else {}
    for test in tests.values():
        command = [str(scene.program), "run", test.name, "--ops", str(test.grain), "--dir", str(scene.files)]
        ended = subprocess.run(
            command, capture_output=True, timeout=60, check=False, preexec_fn=_lowered(limit), **identity
        )
        assert_no_number(ended, ended.stdout, ended.stderr, 4)
        assert complaint in ended.stderr.decode()
    assert list(scene.files.iterdir()) == []


def _lowered(limit: str) -> Callable[[], None]:
    def lower() -> None:
        if limit in LOW:
            resource.setrlimit(getattr(resource, f"RLIMIT_{limit}"), (LOW[limit], LOW[limit]))

    return lower

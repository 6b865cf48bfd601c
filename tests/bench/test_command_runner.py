"""A command as the benchmark: what it measures here, and who is at fault when it does not."""

import os
import shutil
import signal
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from bisector.bench.command import CommandRunner
from bisector.bench.local import LocalJobs
from bisector.bench.runner import JobResult, OnPoll
from bisector.model.errors import KernelError, MachineError, UsageError
from bisector.model.outcome import Outcome
from bisector.model.progress import Progress
from bisector.recipe.schema import BenchmarkPart


class Here:
    """This host, without translation of paths: the folder on the "machine" is the real one in /tmp."""

    def __init__(self) -> None:
        self.jobs = LocalJobs()

    def put(self, local: Path, remote: str, *, mode: int) -> None:
        shutil.copyfile(local, remote)
        Path(remote).chmod(mode)


class Told:
    """A machine whose jobs end as told."""

    def __init__(self, exit_code: int = 0, stdout: bytes = b"", stderr: bytes = b"") -> None:
        self.ending = JobResult(exit_code=exit_code, stdout=stdout, stderr=stderr)
        self.asked: list[Sequence[str]] = []

    @property
    def jobs(self) -> "Told":
        return self

    def run(self, argv: Sequence[str], *, timeout_s: float, on_poll: OnPoll) -> JobResult:
        self.asked.append(argv)
        return self.ending

    def put(self, local: Path, remote: str, *, mode: int) -> None:
        raise AssertionError("nothing is uploaded")


def part(benchmark: dict[str, Any] | None = None, **command: Any) -> BenchmarkPart:
    if "line" in command:
        command["shell"] = command.pop("line")
    command = {"parser": "key-value", "metrics": ({"name": "push", "better": "lower", "unit": "s"},), **command}
    return BenchmarkPart.model_validate({"test": "push", "cpu": None, "command": command, **(benchmark or {})})


@pytest.fixture
def folders() -> Iterator[None]:
    before = set(Path("/tmp").glob("bisector-command-*"))
    yield
    for made in set(Path("/tmp").glob("bisector-command-*")) - before:
        shutil.rmtree(made)


def measured(benchmark: BenchmarkPart, log: Path) -> list[float]:
    runner, here = CommandRunner(benchmark), Here()
    runner.install(here)
    record = runner.run(here, runner.calibrate(here, log), log)
    return [sample.value for sample in record.samples]


@pytest.mark.usefixtures("folders")
def test_a_script_with_phases_is_measured_as_the_recipe_says(tmp_path: Path) -> None:
    script = tmp_path / f"patches-{os.getpid()}.sh"
    script.write_text("#!/bin/sh\ncat figures\n")
    script.chmod(0o755)
    metrics = (
        {"name": "push", "better": "lower", "unit": "s"},
        {"name": "both", "sum": ("push", "pop"), "better": "lower", "unit": "s"},
    )
    benchmark = part(
        {"test": "both", "also": ("push",)},
        argv=(script.name,),
        files=(str(script),),
        setup='printf "push: 25.541 s\\npop: 18.433 s\\n" >figures',
        metrics=metrics,
    )
    runner, here, seen = CommandRunner(benchmark), Here(), list[Progress]()
    runner.install(here)
    record = runner.run(here, (), tmp_path / "log", on_progress=seen.append)
    assert [(s.test, s.value, s.unit, s.higher_is_better) for s in record.samples] == [
        ("both", pytest.approx(43.974), "s", False),
        ("push", 25.541, "s", False),
    ]
    assert record.samples[0].wall_ns is None
    assert runner.higher_is_better is False
    assert (tmp_path / "log").read_text() == "push: 25.541 s\npop: 18.433 s\n# exit code 0\n"


@pytest.mark.usefixtures("folders")
def test_a_real_tool_is_timed_by_the_shell_and_read_from_standard_error(tmp_path: Path) -> None:
    metrics = ({"name": "push", "reads": "elapsed", "better": "lower", "unit": "s"},)
    benchmark = part(argv=("bash", "-c", "time sleep 0.2"), output="stderr", parser="time", metrics=metrics)
    [value] = measured(benchmark, tmp_path / "log")
    assert 0.2 <= value < 5


@pytest.mark.usefixtures("folders")
def test_a_command_sees_the_c_locale_its_cpu_and_a_fresh_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LC_ALL", "de_DE.UTF-8")
    line = 'test "$LC_ALL" = C && test -z "$(ls)" && touch left && echo "push: $(nproc) s"'
    cpu = min(os.sched_getaffinity(0))
    for _ in range(2):  # the folder is made anew after each boot
        assert measured(part({"cpu": cpu}, line=line), tmp_path / "log") == [1.0]


@pytest.mark.usefixtures("folders")
def test_a_command_that_takes_too_long_is_ended_and_is_lab_trouble(tmp_path: Path) -> None:
    with pytest.raises(MachineError, match=r"was not done after 0.3 s"):
        measured(part({"timeout_s": 0.3}, line="sleep 60"), tmp_path / "log")


def run(told: Told, log: Path, **command: Any) -> None:
    CommandRunner(part(line="x", **command)).run(told, (), log)


def test_exit_code_125_skips_the_commit(tmp_path: Path) -> None:
    with pytest.raises(KernelError, match=r"cannot be tested \(exit code 125\): no futex2 here") as raised:
        run(Told(125, b"", b"no futex2 here\n"), tmp_path / "log")
    assert raised.value.outcome is Outcome.CRASHED


@pytest.mark.parametrize("code", [128 + signal.SIGSEGV, -signal.SIGBUS, 128 + signal.SIGKILL])
def test_a_fatal_signal_is_the_kernels_fault(code: int, tmp_path: Path) -> None:
    with pytest.raises(KernelError, match="was killed by SIG"):
        run(Told(code, b"push: 1 s\n"), tmp_path / "log")


@pytest.mark.parametrize(
    ("code", "says"),
    [
        (1, "ended with exit code 1: disk full"),
        (3, "ended with exit code 3"),
        (126, "cannot be run on the machine"),
        (127, "is not found on the machine"),
        (128 + signal.SIGTERM, "ended with exit code 143"),
        (-1, "ended with exit code -1"),
    ],
)
def test_any_other_end_says_nothing_of_the_kernel_even_with_a_good_figure(code: int, says: str, tmp_path: Path) -> None:
    with pytest.raises(MachineError) as raised:
        run(Told(code, b"push: 0.001 s\n", b"disk full\n"), tmp_path / "log")
    assert says in raised.value.brief
    assert "125" in raised.value.resolution
    assert (tmp_path / "log").read_bytes().startswith(b"push: 0.001 s\n# exit code")


@pytest.mark.parametrize(
    ("printed", "line", "says"),
    [
        (b"", 1, "there is no output"),
        (b"hello\npush: 1", 2, "cut off in the middle of a line"),
        (b"hello\npush: 0 s\n", 2, "push is 0"),
        (b"push: 1 s\npush: nan s\n", 2, "was not measured"),
        (b"push: 27,7 s\n", 1, "decimal comma"),
        (b"push: 1 ms\n", 1, "push is in ms, but the recipe says s"),
        (b"pop: 1 s\n", 1, "there is no push in the output"),
    ],
)
def test_what_cannot_be_read_is_no_measurement_and_is_shown_with_its_line(
    printed: bytes, line: int, says: str, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    with pytest.raises(MachineError) as raised:
        run(Told(0, printed), log)
    assert says in raised.value.brief
    assert raised.value.details.startswith(f"{log}:{line},")


@pytest.mark.parametrize("stdout", [b"", b"working", b"working\ndone\n", b"\n\n"])
def test_a_line_of_standard_error_is_told_as_it_stands_in_the_log(stdout: bytes, tmp_path: Path) -> None:
    log = tmp_path / "log"
    with pytest.raises(MachineError) as raised:
        run(Told(0, stdout, b"note\npush: 0 s\n"), log, output="stderr")
    line = int(raised.value.details.partition(",")[0].rpartition(":")[2])
    assert log.read_text().splitlines()[line - 1] == "# push: 0 s"


@pytest.mark.usefixtures("folders")
def test_a_failed_set_up_is_told_as_one() -> None:
    with pytest.raises(MachineError, match="ended with exit code 2: no rule") as raised:
        CommandRunner(part(line="x", setup="echo no rule >&2; exit 2")).install(Here())
    assert "its set-up failed" in raised.value.details
    with pytest.raises(KernelError, match="cannot be tested"):
        CommandRunner(part(line="x", setup="exit 125")).install(Here())


def test_a_parser_that_there_is_not_is_refused_before_anything_runs() -> None:
    with pytest.raises(UsageError, match="there is no parser hackbensh"):
        CommandRunner(part(line="x", parser="hackbensh"))


def test_pinning_goes_by_taskset_and_can_be_changed_by_the_machine(tmp_path: Path) -> None:
    told = Told(0, b"push: 1 s\n")
    runner = CommandRunner(part({"cpu": 3}, argv=("a", "b c")))
    runner.run(told, (), tmp_path / "log")
    runner.pinned(7).run(told, (), tmp_path / "log")
    assert [list(argv[-5:]) for argv in told.asked] == [["taskset", "-c", cpu, "a", "b c"] for cpu in ("3", "7")]

"""The suite on a machine: who is at fault, and what is kept. The machine is this host, or ends as told."""

import json
import shutil
import signal
from collections.abc import Sequence
from pathlib import Path

import pytest

from bisector.bench.local import LocalMachine
from bisector.bench.runner import JobResult, OnPoll, SuiteRunner
from bisector.model.errors import KernelError, MachineError, UsageError
from bisector.model.outcome import Outcome
from bisector.model.progress import Progress
from bisector.recipe.schema import BenchmarkPart

ALL = BenchmarkPart(test="page_test", also=("brk_test", "fork_test", "exec_test", "creat-clo"), sample_ms=20, cpu=0)
SMALL = (("page_test", 17000), ("brk_test", 17000), ("fork_test", 30), ("exec_test", 10), ("creat-clo", 1000))
TWO = BenchmarkPart(test="page_test", also=("fork_test",), cpu=None)
TWO_BATCHES = (("page_test", 1700), ("fork_test", 3))


class ToldJobs:
    """Jobs that end as told; "TAG" in what they print becomes the tag they were given."""

    def __init__(self, exit_code: int, stdout: bytes, stderr: bytes) -> None:
        self.ending = JobResult(exit_code=exit_code, stdout=stdout, stderr=stderr)
        self.asked: list[Sequence[str]] = []

    def run(self, argv: Sequence[str], *, timeout_s: float, on_poll: OnPoll) -> JobResult:
        self.asked.append(argv)
        on_poll()
        tag = argv[argv.index("--tag") + 1].encode()
        ending = self.ending
        return JobResult(exit_code=ending.exit_code, stdout=ending.stdout.replace(b"TAG", tag), stderr=ending.stderr)


class ToldMachine:
    def __init__(self, exit_code: int = 0, stdout: bytes = b"", stderr: bytes = b"") -> None:
        self.jobs = ToldJobs(exit_code, stdout, stderr)
        self.files: dict[str, tuple[Path, int]] = {}

    def put(self, local: Path, remote: str, *, mode: int) -> None:
        self.files[remote] = (local, mode)


@pytest.fixture
def runner(suite: Path) -> SuiteRunner:
    return SuiteRunner(TWO, suite)


@pytest.fixture
def printed(suite: Path, tmp_path: Path) -> bytes:
    """What a real run of two tests prints, with its tag to be filled in."""
    with LocalMachine() as machine:
        real = SuiteRunner(TWO, suite)
        real.install(machine)
        real.run(machine, TWO_BATCHES, tmp_path / "real.log")
    lines = (tmp_path / "real.log").read_bytes().splitlines(keepends=True)[:4]
    tag = json.loads(lines[0])["tag"].encode()
    return b"".join(lines).replace(tag, b"TAG")


def test_a_whole_cycle_on_this_host(suite: Path, tmp_path: Path) -> None:
    runner = SuiteRunner(ALL, suite)
    seen: list[Progress] = []
    with LocalMachine() as machine:
        runner.install(machine)
        batches = runner.calibrate(machine, tmp_path / "calibration.log")
        record = runner.run(machine, batches, tmp_path / "run.log", on_progress=seen.append)
    assert [test for test, _ in batches] == [test.name for test in runner.tests] == [ALL.test, *ALL.also]
    assert [(sample.test, sample.ops) for sample in record.samples] == list(batches)
    assert record.artefact == ""
    assert 0 < record.duration_s < 60
    page = record.samples[0]
    assert page.value == pytest.approx(page.ops * 1e9 / page.wall_ns)
    assert page.minor_faults / page.ops == pytest.approx(16 / 17, rel=0.01)
    assert all(progress.text.startswith("measuring page_test, brk_test") for progress in seen)


def test_every_number_can_be_traced_to_its_line_in_the_log(suite: Path, tmp_path: Path) -> None:
    with LocalMachine() as machine:
        runner = SuiteRunner(ALL, suite)
        runner.install(machine)
        record = runner.run(machine, SMALL, tmp_path / "run.log")
    lines = (tmp_path / "run.log").read_text().splitlines()
    assert [json.loads(line)["wall_ns"] for line in lines[1:6]] == [sample.wall_ns for sample in record.samples]
    assert lines[7:] == ["# exit code 0"]
    assert [path.name for path in tmp_path.iterdir()] == ["run.log"]


def test_every_kernel_does_the_work_that_was_calibrated_once(runner: SuiteRunner, tmp_path: Path) -> None:
    machine = ToldMachine()
    with pytest.raises(MachineError):
        runner.run(machine, TWO_BATCHES, tmp_path / "log")
    assert "page_test=1700,fork_test=3" in machine.jobs.asked[0]
    assert "--cpu" not in machine.jobs.asked[0]


def test_the_program_is_uploaded_executable_under_its_own_name(
    runner: SuiteRunner, suite: Path, printed: bytes, tmp_path: Path
) -> None:
    machine = ToldMachine(0, printed)
    runner.install(machine)
    runner.run(machine, TWO_BATCHES, tmp_path / "log")
    assert machine.files == {machine.jobs.asked[0][0]: (suite, 0o755)}


def test_an_unknown_test_is_refused_before_anything_is_measured(suite: Path) -> None:
    with pytest.raises(UsageError, match="there is no test getpid"):
        SuiteRunner(BenchmarkPart(test="getpid"), suite)


@pytest.mark.parametrize(
    "code",
    [3, 128 + signal.SIGSEGV, -signal.SIGSEGV, 128 + signal.SIGBUS, 128 + signal.SIGKILL, -signal.SIGILL],
)
def test_a_failed_check_or_a_fatal_signal_is_the_kernels_fault(code: int, runner: SuiteRunner, tmp_path: Path) -> None:
    failure = b'{"v":1,"type":"error","exit":3,"test":"page_test","reason":"0.1 minor faults per operation"}\n'
    with pytest.raises(KernelError) as caught:
        runner.run(ToldMachine(code, failure, b"bisector-suite: said so\n"), TWO_BATCHES, tmp_path / "log")
    assert caught.value.outcome is Outcome.CRASHED
    assert "under this kernel" in caught.value.brief
    assert "page_test: 0.1 minor faults per operation" in str(caught.value)
    assert str(tmp_path / "log") in caught.value.details


@pytest.mark.parametrize(
    "code",
    [1, 2, 4, 77, 124, 126, 127, 255, -1, 128 + signal.SIGHUP, 128 + signal.SIGINT, 128 + signal.SIGTERM, -15],
)
def test_every_other_ending_is_ours_and_never_a_verdict(code: int, runner: SuiteRunner, tmp_path: Path) -> None:
    with pytest.raises(MachineError) as caught:
        runner.run(ToldMachine(code, b"", b"noise\nthe last word\n"), TWO_BATCHES, tmp_path / "log")
    assert "the last word" in caught.value.brief
    assert caught.value.resolution
    assert (tmp_path / "log").read_text() == f"# exit code {code}\n# noise\n# the last word\n"


def test_success_without_a_whole_output_is_ours_and_the_log_keeps_it(
    runner: SuiteRunner, printed: bytes, tmp_path: Path
) -> None:
    for length in (0, 100, len(printed) - 1):
        with pytest.raises(MachineError, match="does not count"):
            runner.run(ToldMachine(0, printed[:length]), TWO_BATCHES, tmp_path / "log")
        kept = (tmp_path / "log").read_bytes()
        assert len(kept) >= length
        assert kept.endswith(b"# exit code 0\n")


def test_output_of_an_earlier_job_is_not_taken_for_this_one(
    runner: SuiteRunner, printed: bytes, tmp_path: Path
) -> None:
    with pytest.raises(MachineError, match="another job"):
        runner.run(ToldMachine(0, printed.replace(b"TAG", b"yesterday")), TWO_BATCHES, tmp_path / "log")
    assert runner.run(ToldMachine(0, printed), TWO_BATCHES, tmp_path / "log").samples


def test_the_answer_of_another_suite_is_refused(runner: SuiteRunner, printed: bytes, tmp_path: Path) -> None:
    digest = json.loads(printed.splitlines()[0])["digest"].encode()
    with pytest.raises(MachineError, match="another suite"):
        runner.run(ToldMachine(0, printed.replace(digest, b"0" * 64)), TWO_BATCHES, tmp_path / "log")


def test_other_work_than_asked_is_refused(runner: SuiteRunner, printed: bytes, tmp_path: Path) -> None:
    for batches in (TWO_BATCHES[::-1], TWO_BATCHES[:1], (("page_test", 3400), ("fork_test", 3))):
        with pytest.raises(MachineError, match="asked for"):
            runner.run(ToldMachine(0, printed), batches, tmp_path / "log")


def test_a_calibration_of_other_tests_than_the_recipes_is_refused(
    runner: SuiteRunner, printed: bytes, tmp_path: Path
) -> None:
    env = printed.splitlines(keepends=True)[0]
    one = b'{"v":1,"type":"calibration","test":"page_test","ops":1700,"sample_ms":500}\n'
    output = env + one + b'{"v":1,"type":"end","calibrations":1,"ok":true}\n'
    with pytest.raises(MachineError, match="asked for page_test, fork_test"):
        runner.calibrate(ToldMachine(0, output), tmp_path / "log")


def test_a_local_run_that_is_not_done_in_time_is_ended_with_all_its_processes(suite: Path, tmp_path: Path) -> None:
    part = BenchmarkPart(test="page_test", cpu=None, timeout_s=0.5)
    with LocalMachine() as machine:
        runner = SuiteRunner(part, suite)
        runner.install(machine)
        place = machine.jobs.folder / suite.name
        with pytest.raises(MachineError, match=r"not done after 0\.5 s"):
            runner.run(machine, (("page_test", 17_000_000_000),), tmp_path / "log")
        assert not [exe for exe in _executables() if exe == place]


def test_a_program_that_cannot_be_started_is_the_machines_fault(suite: Path, tmp_path: Path) -> None:
    with LocalMachine() as machine, pytest.raises(MachineError, match="cannot be started"):
        SuiteRunner(TWO, suite).run(machine, TWO_BATCHES, tmp_path / "log")


def test_this_host_is_left_as_it_was(suite: Path) -> None:
    with LocalMachine() as machine:
        folder = machine.jobs.folder
        SuiteRunner(TWO, suite).install(machine)
        assert [path.name for path in folder.iterdir()] == [suite.name]
    assert not folder.exists()


def test_a_copy_that_cannot_be_made_is_the_machines_fault(suite: Path) -> None:
    with LocalMachine() as machine:
        shutil.rmtree(machine.jobs.folder)
        with pytest.raises(MachineError, match="cannot be copied"):
            SuiteRunner(TWO, suite).install(machine)


def _executables() -> list[Path]:
    found = []
    for entry in Path("/proc").glob("[0-9]*/exe"):
        try:
            found.append(entry.readlink())
        except OSError:
            continue
    return found


def test_counters_are_asked_for_when_measuring_and_come_with_every_sample(suite: Path, tmp_path: Path) -> None:
    part = TWO.model_copy(update={"counters": ("page-faults", "cycles:k")})
    with LocalMachine() as machine:
        runner = SuiteRunner(part, suite)
        runner.install(machine)
        runner.calibrate(machine, tmp_path / "calibration.log")
        record = runner.run(machine, TWO_BATCHES, tmp_path / "run.log")
    assert b"counters" not in (tmp_path / "calibration.log").read_bytes()
    for sample in record.samples:
        told = [counter.name for counter in sample.counters] + [missing.name for missing in sample.missing_counters]
        assert sorted(told) == ["cycles:k", "page-faults"]
        assert sample.per_op("page-faults") == pytest.approx(sample.minor_faults / sample.ops, rel=0.1)


def test_a_suite_that_does_not_tell_of_its_counters_is_not_believed(
    suite: Path, printed: bytes, tmp_path: Path
) -> None:
    runner = SuiteRunner(TWO.model_copy(update={"counters": ("page-faults",)}), suite)
    with pytest.raises(MachineError, match="asked for page-faults"):
        runner.run(ToldMachine(0, printed), TWO_BATCHES, tmp_path / "log")

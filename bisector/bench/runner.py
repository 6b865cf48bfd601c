"""The suite on a machine: install, calibrate, run, and say who is at fault when a run does not count.

A run is one detached job that measures every test of the recipe once. Whatever it printed is in `log`, synced, before
a line of it is parsed.
"""

import copy
import os
import secrets
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from bisector.bench.parse import SuiteOutputError, failure_reason, parse_calibrations, parse_samples
from bisector.bench.tests import Test, full_params, read_listing, wanted_tests
from bisector.model.errors import KernelError, MachineError
from bisector.model.outcome import Outcome
from bisector.model.progress import OnProgress, Progress
from bisector.model.sample import RunRecord
from bisector.recipe.schema import BenchmarkPart

REMOTE_FOLDER = "/tmp"
EXECUTABLE_MODE = 0o755

# The suite's exit codes (suite/suite.h) and a shell's.
EXIT_DONE = 0
EXIT_USAGE = 2
EXIT_CHECK_FAILED = 3
EXIT_REFUSED = 4
EXIT_UNSUPPORTED = 77
SIGNAL_BASE = 128

# Signals that the program or the kernel under it raises. SIGTERM, SIGINT or SIGHUP come from somebody who ended the
# job, and -1 is what some SSH libraries return for a lost connection: these say nothing of the kernel.
KERNEL_SIGNALS = frozenset(
    {
        signal.SIGILL,
        signal.SIGTRAP,
        signal.SIGABRT,
        signal.SIGBUS,
        signal.SIGFPE,
        signal.SIGKILL,  # the out-of-memory killer
        signal.SIGSEGV,
        signal.SIGSYS,
    }
)

Batches = tuple[tuple[str, int], ...]
OnPoll = Callable[[], None]
"""Called now and then while a job runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobResult:
    """A job that ended: its exit code (negative or 128 + n: killed by signal n) and all that it wrote."""

    exit_code: int
    stdout: bytes
    stderr: bytes


class EndedJob(Protocol):
    """What a machine hands back for a job that ended; `JobResult` is one."""

    @property
    def exit_code(self) -> int:
        """Negative or 128 + n: killed by signal n."""
        ...

    @property
    def stdout(self) -> bytes:
        """All of it."""
        ...

    @property
    def stderr(self) -> bytes:
        """All of it."""
        ...


class Jobs(Protocol):
    """Runs programs on a machine, detached: a lost connection does not end them."""

    def run(self, argv: Sequence[str], *, timeout_s: float, on_poll: OnPoll) -> EndedJob:
        """Start a job, wait for its end, collect it. Nothing of it is left running, whatever happens.

        Raises MachineError (machine or job lost, time limit) or KernelError (crashed: the kernel died under it).
        """
        ...


class RemoteMachine(Protocol):
    """What the runner needs of a machine. `bisector.lab` has the remote one, `local.LocalMachine` this host."""

    @property
    def jobs(self) -> Jobs:
        """Its jobs."""
        ...

    def put(self, local: Path, remote: str, *, mode: int) -> None:
        """Upload a file, compare checksums, set its mode. Raises MachineError."""
        ...


class SuiteRunner:
    """Measures a recipe's tests with one compiled suite (`compile.build_suite`).

    Making one raises UsageError if the recipe names a test or a parameter that the suite does not have.
    """

    def __init__(self, part: BenchmarkPart, binary: Path) -> None:
        self._part = part
        self._binary = binary
        self._listing = read_listing(binary)
        self._tests = wanted_tests(part, self._listing.tests)
        self._params = {test.name: full_params(test, part) for test in self._tests}
        self._remote = f"{REMOTE_FOLDER}/{binary.name}"
        self._prefix: tuple[str, ...] = ()

    @property
    def tests(self) -> tuple[Test, ...]:
        """The tests that the recipe's metrics are measured by, that of the deciding one first."""
        return self._tests

    @property
    def higher_is_better(self) -> bool:
        """The direction of the test that decides."""
        return self._tests[0].higher_is_better

    def pinned(self, cpu: int | None) -> "SuiteRunner":
        """The same on this CPU, on any if None."""
        other = copy.copy(self)
        other._part = self._part.model_copy(update={"cpu": cpu})  # noqa: SLF001 - a copy of ours
        return other

    def under(self, prefix: Sequence[str]) -> "SuiteRunner":
        """The same, run by another program: `perf record ... --`."""
        other = copy.copy(self)
        other._prefix = tuple(prefix)  # noqa: SLF001 - a copy of ours
        return other

    def install(self, remote: RemoteMachine) -> None:
        """Put the program on a machine that just booted. Raises MachineError."""
        remote.put(self._binary, self._remote, mode=EXECUTABLE_MODE)

    def calibrate(self, remote: RemoteMachine, log: Path, *, on_progress: OnProgress | None = None) -> Batches:
        """(test, operations per sample) in the recipe's order, for samples of `sample_ms` on the running kernel.

        Raises KernelError (crashed) or MachineError.
        """
        names = ",".join(test.name for test in self._tests)
        arguments = ["calibrate", names, "--sample-ms", str(self._part.sample_ms)]
        output = self._job(remote, arguments, log, on_progress, "calibrating")
        try:
            env, batches = parse_calibrations(output.stdout)
            self._check_env(env, output.tag)
            _check_names([test for test, _ in batches], [test.name for test in self._tests])
        except SuiteOutputError as error:
            raise _unreadable(error, log) from error
        return batches

    def run(
        self, remote: RemoteMachine, batches: Batches, log: Path, *, on_progress: OnProgress | None = None
    ) -> RunRecord:
        """One run: every test once, with exactly these operations. `artefact` is left empty.

        Raises KernelError (crashed) or MachineError. There is no partial result.
        """
        asked = ",".join(f"{test}={ops}" for test, ops in batches)
        started = time.monotonic()
        counters = ["--counters", ",".join(self._part.counters)] if self._part.counters else []
        output = self._job(remote, ["run-all", "--batches", asked, *counters], log, on_progress, "measuring")
        duration_s = time.monotonic() - started
        try:
            env, samples = parse_samples(output.stdout, self._listing.tests, self._params, self._part.counters)
            self._check_env(env, output.tag)
            whole = {test.name for test in self._tests}
            measured = [f"{sample.test}={sample.ops}" for sample in samples if sample.test in whole]
            _check_names(measured, [f"{test}={ops}" for test, ops in batches])
        except SuiteOutputError as error:
            raise _unreadable(error, log) from error
        return RunRecord(samples=samples, artefact="", duration_s=duration_s)

    def _job(
        self, remote: RemoteMachine, arguments: list[str], log: Path, on_progress: OnProgress | None, doing: str
    ) -> "_Output":
        # The tag comes back in the first line: output of an earlier job, printed again, is not taken for ours.
        tag = secrets.token_hex(8)
        params = [
            word
            for test, values in self._part.params.items()
            for name, value in values.items()
            for word in ("--param", f"{test}.{name}={value}")
        ]
        cpu = cpu_number(self._part)
        pinning = [] if cpu is None else ["--cpu", str(cpu)]
        names = ", ".join(test.name for test in self._tests)

        started = time.monotonic()

        def polled() -> None:
            if on_progress is not None:
                elapsed_s = time.monotonic() - started
                on_progress(Progress(fraction=None, text=f"{doing} {names}, {elapsed_s:.0f} s"))

        job = remote.jobs.run(
            [*self._prefix, self._remote, *arguments, *params, *pinning, "--tag", tag],
            timeout_s=self._part.timeout_s,
            on_poll=polled,
        )
        save_output(log, job)
        judge_exit(job, log)
        return _Output(stdout=job.stdout, tag=tag)

    def _check_env(self, env: dict[str, Any], tag: str) -> None:
        if env["tag"] != tag:
            raise SuiteOutputError(f'the output is of another job: tag "{env["tag"]}", expected "{tag}"', line=1)
        if env["digest"] != self._listing.digest:
            raise SuiteOutputError(
                f"another suite answered: digest {env['digest']}, expected {self._listing.digest}", line=1
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Output:
    stdout: bytes
    tag: str


def cpu_number(part: BenchmarkPart) -> int | None:
    """The CPU of a recipe's benchmark. Raises ValueError for a role: which CPU that is, only a booted kernel says."""
    if isinstance(part.cpu, str):
        raise ValueError(f"the benchmark's cpu is {part.cpu}: `pinned` must name one before it runs")
    return part.cpu


def save_output(log: Path, job: EndedJob) -> None:
    """Write what a job printed to `log`, synced and renamed into place: first its standard output as it came, so that
    line numbers agree, then, each line marked with "# ", its exit code and standard error.
    """
    tail = [f"exit code {job.exit_code}", *job.stderr.decode(errors="replace").splitlines()]
    gap = b"" if not job.stdout or job.stdout.endswith(b"\n") else b"\n"
    unfinished = log.with_name(f".{log.name}.unfinished")
    with unfinished.open("wb") as file:
        file.write(job.stdout + gap + "".join(f"# {line}\n" for line in tail).encode())
        file.flush()
        os.fsync(file.fileno())
    unfinished.replace(log)


def judge_exit(job: EndedJob, log: Path) -> None:
    """Return if the job ended well; otherwise raise KernelError or MachineError, by exit code.

    3, "a check failed": the set-up had worked, so the environment allows the test, and then the operation failed or
    did other work than declared *under this kernel* (faults per operation, a child that died): the commit is
    skipped, not called slow. A fatal signal is judged the same way. 2, 4 and 77 are about how and where we run it.
    """
    code = job.exit_code
    if code == EXIT_DONE:
        return
    reason = failure_reason(job.stdout) or last_words(job.stderr)
    if code == EXIT_CHECK_FAILED:
        raise KernelError(
            f"A test refused to count under this kernel: {reason}", outcome=Outcome.CRASHED, details=f"output: {log}"
        )
    if (killer := fatal_signal(code)) is not None:
        raise KernelError(
            f"The benchmark was killed by {killer.name} under this kernel.",
            outcome=Outcome.CRASHED,
            details=f"{reason}\noutput: {log}",
        )
    meaning = {
        EXIT_USAGE: "does not understand what it was asked",
        EXIT_REFUSED: "refused this environment",
        EXIT_UNSUPPORTED: "needs something that this machine does not have",
    }.get(code, f"ended with exit code {code}")
    raise MachineError(
        f"The benchmark {meaning}: {reason}",
        details=f"output: {log}",
        resolution="Put that right on the machine, then resume the session.",
    )


def fatal_signal(exit_code: int) -> signal.Signals | None:
    """The signal of `KERNEL_SIGNALS` that an exit code tells of (negative, or a shell's 128 + n), or None."""
    number = -exit_code if exit_code < 0 else exit_code - SIGNAL_BASE
    return signal.Signals(number) if number in KERNEL_SIGNALS else None


def last_words(stderr: bytes) -> str:
    """The last line of what a program said to standard error."""
    lines = stderr.decode(errors="replace").strip().splitlines()
    return lines[-1] if lines else "it did not say why"


def _check_names(got: list[str], expected: list[str]) -> None:
    if got != expected:
        raise SuiteOutputError(f"measured {', '.join(got)}; asked for {', '.join(expected)}", line=1)


def _unreadable(error: SuiteOutputError, log: Path) -> MachineError:
    # It ended well and yet did not print a whole run: lost on the way or not our program. Never the kernel's speed.
    return MachineError(
        f"The benchmark's output does not count: {error.reason}",
        details=f"{log}:{error.line}",
        resolution="Look at that line; if it is cut off, look at the machine's disk space and at the connection.",
    )

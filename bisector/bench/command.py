"""A command of the user's own as the benchmark: uploaded, set up, run, read by a parser, and judged.

It has the suite's rules (`runner.py`): whatever it printed is kept before a line of it is parsed, and what does not
count is an outcome, never a fast number. There is nothing to calibrate: the command is the work.
"""

import copy
import hashlib
import json
import os
import time
from collections.abc import Sequence
from pathlib import Path

from bisector.bench.formats.reading import FormatError
from bisector.bench.formats.registry import Measured, measure, reader
from bisector.bench.runner import (
    EXECUTABLE_MODE,
    EXIT_DONE,
    REMOTE_FOLDER,
    Batches,
    EndedJob,
    RemoteMachine,
    cpu_number,
    fatal_signal,
    last_words,
    save_output,
)
from bisector.model.errors import BisectorError, KernelError, MachineError
from bisector.model.outcome import Outcome
from bisector.model.progress import OnProgress, Progress
from bisector.model.sample import RunRecord, Sample
from bisector.recipe.command import SKIP_EXIT_CODE, CommandPart
from bisector.recipe.schema import BenchmarkPart

NOT_FOUND = 127
CANNOT_RUN = 126
_FOLDER_TIMEOUT_S = 60.0

# LC_ALL: a decimal comma is not a number. exec: the job's signals and exit code are the command's own.
_ENTER = 'cd "$1" || exit 126; shift; PATH=$PWD:$PATH; LC_ALL=C; export PATH LC_ALL; exec "$@"'
_FRESH = 'rm -rf "$1" && mkdir -p "$1"'


class CommandRunner:
    """Measures a recipe's metrics with its command. The same protocol as `SuiteRunner`.

    `files` are uploaded in place of the recipe's own (a session keeps copies). Making one raises UsageError if there
    is no such parser, or its pattern cannot be used.
    """

    def __init__(self, part: BenchmarkPart, files: Sequence[Path] | None = None) -> None:
        if part.command is None:
            raise ValueError("the recipe's benchmark is no command")
        self._part = part
        self._command: CommandPart = part.command
        self._files = tuple(map(Path, self._command.files)) if files is None else tuple(files)
        self._read = reader(self._command.parser, regex=self._command.regex)
        by_name = {metric.name: metric for metric in self._command.metrics}
        self._metrics = tuple(by_name[name] for name in (part.test, *part.also))
        self._prefix: tuple[str, ...] = ()
        written = json.dumps(self._command.model_dump(mode="json"), sort_keys=True)
        self._folder = f"{REMOTE_FOLDER}/bisector-command-{hashlib.sha256(written.encode()).hexdigest()[:16]}"

    @property
    def higher_is_better(self) -> bool:
        """The direction of the metric that decides."""
        return self._metrics[0].better == "higher"

    def pinned(self, cpu: int | None) -> "CommandRunner":
        """The same on this CPU, on any if None."""
        other = copy.copy(self)
        other._part = self._part.model_copy(update={"cpu": cpu})  # noqa: SLF001 - a copy of ours
        return other

    def under(self, prefix: Sequence[str]) -> "CommandRunner":
        """The same, run by another program: `perf record ... --`."""
        other = copy.copy(self)
        other._prefix = tuple(prefix)  # noqa: SLF001 - a copy of ours
        return other

    def install(self, remote: RemoteMachine) -> None:
        """Make the command's folder anew, upload its files, and run its set-up.

        Raises MachineError, or KernelError if the set-up shows that this kernel cannot be tested.
        """
        self._plain_job(remote, ["sh", "-c", _FRESH, "bisector", self._folder], "its folder cannot be made")
        for file in self._files:
            mode = EXECUTABLE_MODE if os.access(file, os.X_OK) else 0o644
            remote.put(file, f"{self._folder}/{file.name}", mode=mode)
        if self._command.setup is not None:
            self._plain_job(remote, self._inside(["sh", "-c", self._command.setup]), "its set-up failed")

    def calibrate(self, remote: RemoteMachine, log: Path, *, on_progress: OnProgress | None = None) -> Batches:
        """One operation a sample for each metric: the command defines its work."""
        del remote, log, on_progress
        return tuple((metric.name, 1) for metric in self._metrics)

    def run(
        self, remote: RemoteMachine, batches: Batches, log: Path, *, on_progress: OnProgress | None = None
    ) -> RunRecord:
        """One run of the command: every metric once. `artefact` is left empty.

        Raises KernelError (crashed, or the command asks to skip) or MachineError. There is no partial result.
        """
        del batches
        cpu = cpu_number(self._part)
        pinning = [] if cpu is None else ["taskset", "-c", str(cpu)]
        started = time.monotonic()

        def polled() -> None:
            if on_progress is not None:
                elapsed_s = time.monotonic() - started
                on_progress(Progress(fraction=None, text=f"measuring {self._part.test}, {elapsed_s:.0f} s"))

        job = remote.jobs.run(
            self._inside([*self._prefix, *pinning, *self._argv()]), timeout_s=self._part.timeout_s, on_poll=polled
        )
        duration_s = time.monotonic() - started
        save_output(log, job)
        judge_command(job, f"output: {log}")
        return RunRecord(
            samples=tuple(_to_sample(found) for found in self._measure(job, log)), artefact="", duration_s=duration_s
        )

    def _argv(self) -> list[str]:
        return list(self._command.argv) or ["sh", "-c", self._command.shell or ""]

    def _inside(self, argv: list[str]) -> list[str]:
        return ["sh", "-c", _ENTER, "bisector", self._folder, *argv]

    def _plain_job(self, remote: RemoteMachine, argv: list[str], failed: str) -> None:
        timeout_s = max(_FOLDER_TIMEOUT_S, self._command.setup_timeout_s)
        try:
            judge_command(remote.jobs.run(argv, timeout_s=timeout_s, on_poll=lambda: None), "")
        except BisectorError as error:
            error.details = "\n".join(part for part in (f"The benchmark's command: {failed}.", error.details) if part)
            raise

    def _measure(self, job: EndedJob, log: Path) -> tuple[Measured, ...]:
        from_stderr = self._command.output == "stderr"
        try:
            return measure(self._read(job.stderr if from_stderr else job.stdout), self._metrics)
        except FormatError as error:
            # As with the suite: it ended well and yet told no whole result, which is no kernel's speed.
            # In the log, standard error follows standard output and the line with the exit code.
            before = job.stdout.count(b"\n") + (not job.stdout.endswith(b"\n") and bool(job.stdout)) + 1
            line = error.line + (before if from_stderr else 0)
            raise MachineError(
                f"The benchmark's output does not count: {error.reason}",
                details=f"{log}:{line}, read by parser {self._command.parser}",
                resolution="Look at that line. If this commit cannot be tested, let the command end with "
                f"{SKIP_EXIT_CODE}; if the recipe asks for the wrong thing, start a session with one that does not.",
            ) from error


def judge_command(job: EndedJob, place: str) -> None:
    """Return if a command ended well; otherwise raise KernelError or MachineError, by exit code.

    125 asks to skip the commit (as with `git bisect run`), and a fatal signal speaks of the kernel: KernelError. Every
    other code says that the command could not do its work here, which no commit answers for.
    """
    code = job.exit_code
    if code == EXIT_DONE:
        return
    reason = last_words(job.stderr)
    if code == SKIP_EXIT_CODE:
        raise KernelError(
            f"The benchmark's command says that this commit cannot be tested (exit code {code}): {reason}",
            outcome=Outcome.CRASHED,
            details=place,
        )
    if (killer := fatal_signal(code)) is not None:
        raise KernelError(
            f"The benchmark's command was killed by {killer.name} under this kernel.",
            outcome=Outcome.CRASHED,
            details="\n".join(part for part in (reason, place) if part),
        )
    meaning = {NOT_FOUND: "is not found on the machine", CANNOT_RUN: "cannot be run on the machine"}.get(
        code, f"ended with exit code {code}"
    )
    raise MachineError(
        f"The benchmark's command {meaning}: {reason}",
        details=place,
        resolution="Put that right on the machine, then resume the session. "
        f"If this commit cannot be tested, let the command end with {SKIP_EXIT_CODE}.",
    )


def _to_sample(found: Measured) -> Sample:
    # Nobody measured what the other fields are for: absent, not zero.
    return Sample(
        test=found.metric,
        value=found.value,
        unit=found.unit,
        higher_is_better=found.higher_is_better,
        ops=1,
        wall_ns=None,
        user_ns=None,
        sys_ns=None,
        minor_faults=None,
        cpu=None,
    )

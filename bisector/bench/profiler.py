"""One run of a benchmark under `perf record`, for people who ask where the time went. Never a measurement."""

import os
import secrets
from pathlib import Path

from bisector.bench.command import CommandRunner
from bisector.bench.formats.profiles import read_report
from bisector.bench.formats.reading import FormatError
from bisector.bench.runner import REMOTE_FOLDER, Batches, RemoteMachine, SuiteRunner, last_words
from bisector.model.errors import MachineError
from bisector.model.progress import OnProgress

FREQUENCY_HZ = 999
"""Not 1000: in step with the timer, samples would see the same places again and again."""

_REPORT_TIMEOUT_S = 300.0
_REPORT = ("--stdio", "--no-children", "-g", "none", "-F", "overhead,sample,sym")
_KEPT = "LC_ALL=C; export LC_ALL; "


def profile_run(
    runner: SuiteRunner | CommandRunner,
    remote: RemoteMachine,
    batches: Batches,
    log: Path,
    profile: Path,
    *,
    on_progress: OnProgress | None = None,
) -> None:
    """Run the benchmark once under perf on an installed machine; `perf report` of it goes to `profile`, synced.

    perf takes its own default event: cycles, or a clock where the processor's counters cannot be had.

    Raises MachineError (no perf there, or nothing that can be read) or KernelError.
    """
    if remote.jobs.run(["sh", "-c", "command -v perf"], timeout_s=_REPORT_TIMEOUT_S, on_poll=_nothing).exit_code:
        raise MachineError("perf is not on the machine", resolution="Install it there, or leave profile: out.")
    data = f"{REMOTE_FOLDER}/bisector-profile-{secrets.token_hex(8)}"
    record = ["perf", "record", "-q", "-F", str(FREQUENCY_HZ), "-o", data, "--"]
    try:
        runner.under(record).run(remote, batches, log, on_progress=on_progress)
        report = ["sh", "-c", f'{_KEPT}exec perf report -i "$0" "$@"', data, *_REPORT]
        job = remote.jobs.run(report, timeout_s=_REPORT_TIMEOUT_S, on_poll=_nothing)
    finally:
        remote.jobs.run(["rm", "-f", data], timeout_s=_REPORT_TIMEOUT_S, on_poll=_nothing)
    if job.exit_code:
        raise MachineError(f"perf report ended with exit code {job.exit_code}: {last_words(job.stderr)}")
    try:
        read_report(job.stdout)
    except FormatError as error:
        raise MachineError(f"perf's report cannot be read: {error.reason}", details=f"line {error.line}") from error
    with profile.open("wb") as file:
        file.write(job.stdout)
        file.flush()
        os.fsync(file.fileno())


def _nothing() -> None:
    """Nobody is told while perf writes its report."""

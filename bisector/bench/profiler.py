"""One run of a benchmark under a profiler, for people who ask where the time went. Never a measurement."""

import gzip
import os
import secrets
import zlib
from pathlib import Path
from typing import Literal

from bisector.bench.command import CommandRunner
from bisector.bench.formats.profiles import PROFILES
from bisector.bench.formats.reading import FormatError
from bisector.bench.formats.ticks import ticks_text
from bisector.bench.runner import REMOTE_FOLDER, Batches, EndedJob, RemoteMachine, SuiteRunner, last_words
from bisector.model.errors import MachineError
from bisector.model.progress import OnProgress

Profiler = Literal["perf", "readprofile"]

FORMAT_OF: dict[Profiler, str] = {"perf": "perf-report", "readprofile": "readprofile"}
"""Which of `formats.profiles.PROFILES` reads what a profiler leaves."""

FREQUENCY_HZ = 999
"""Not 1000: in step with the timer, samples would see the same places again and again."""

_TIMEOUT_S = 300.0
_REPORT = ("--stdio", "--no-children", "-g", "none", "-F", "overhead,sample,sym")
_KEPT = "LC_ALL=C; export LC_ALL; "


def profile_run(
    runner: SuiteRunner | CommandRunner,
    remote: RemoteMachine,
    batches: Batches,
    log: Path,
    profile: Path,
    *,
    profiler: Profiler = "perf",
    on_progress: OnProgress | None = None,
) -> None:
    """Run the benchmark once on an installed machine; what the profiler says of it goes to `profile`, synced.

    perf follows the benchmark's own processes, by its own default event: cycles, or a clock where the processor's
    counters cannot be had. `readprofile` reads the timer's ticks in the whole kernel, as that program would, for which
    it must have been booted with profile=2.

    Raises MachineError (no perf there, a kernel that counts no ticks, or nothing that can be read) or KernelError.
    """
    collect = _perf if profiler == "perf" else _ticks
    told = collect(runner, remote, batches, log, on_progress)
    try:
        PROFILES[FORMAT_OF[profiler]](told)
    except FormatError as error:
        raise MachineError(
            f"What {profiler} printed cannot be read: {error.reason}", details=f"line {error.line}"
        ) from error
    with profile.open("wb") as file:
        file.write(told)
        file.flush()
        os.fsync(file.fileno())


def _perf(
    runner: SuiteRunner | CommandRunner,
    remote: RemoteMachine,
    batches: Batches,
    log: Path,
    on_progress: OnProgress | None,
) -> bytes:
    if _shell(remote, "command -v perf").exit_code:
        raise MachineError("perf is not on the machine", resolution="Install it there, or leave profile: out.")
    data = f"{REMOTE_FOLDER}/bisector-profile-{secrets.token_hex(8)}"
    record = ["perf", "record", "-q", "-F", str(FREQUENCY_HZ), "-o", data, "--"]
    try:
        runner.under(record).run(remote, batches, log, on_progress=on_progress)
        report = _shell(remote, f'{_KEPT}exec perf report -i "$0" "$@"', data, *_REPORT)
        return _checked(report, "perf report failed").stdout
    finally:
        _shell(remote, 'rm -f "$0"', data)


def _ticks(
    runner: SuiteRunner | CommandRunner,
    remote: RemoteMachine,
    batches: Batches,
    log: Path,
    on_progress: OnProgress | None,
) -> bytes:
    if _shell(remote, "[ -e /proc/profile ] && [ -e /proc/kallsyms ]").exit_code:
        raise MachineError(
            "this kernel counts no ticks for readprofile",
            details="/proc/profile or /proc/kallsyms is not there",
            resolution="It needs CONFIG_PROFILING and CONFIG_KALLSYMS, and the machine's entry cmdline: profile=2.",
        )
    # Whatever is written sets the counts to zero, but not four bytes: those set the timer's rate.
    _checked(_shell(remote, "echo 0 >/proc/profile"), "the kernel's ticks cannot be set to zero")
    runner.run(remote, batches, log, on_progress=on_progress)
    counts, symbols = (_fetched(remote, f"/proc/{name}") for name in ("profile", "kallsyms"))
    try:
        return ticks_text(counts, symbols)
    except FormatError as error:
        raise MachineError(f"The kernel's ticks cannot be read: {error.reason}") from error


def _fetched(remote: RemoteMachine, path: str) -> bytes:
    """A file's content, packed on the way: a table of counts is nearly all zeros."""
    job = _checked(_shell(remote, 'gzip -c <"$0"', path), f"{path} cannot be read")
    try:
        return gzip.decompress(job.stdout)
    except (OSError, EOFError, zlib.error) as error:
        raise MachineError(f"{path} arrived damaged: {error}") from error


def _checked(job: EndedJob, failed: str) -> EndedJob:
    if job.exit_code:
        raise MachineError(f"{failed}: exit code {job.exit_code}, {last_words(job.stderr)}")
    return job


def _shell(remote: RemoteMachine, script: str, *arguments: str) -> EndedJob:
    return remote.jobs.run(["sh", "-c", script, *arguments], timeout_s=_TIMEOUT_S, on_poll=_nothing)


def _nothing() -> None:
    """Nobody is told meanwhile."""

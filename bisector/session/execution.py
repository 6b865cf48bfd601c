"""How an order is carried out: which port is called, and which event each ending becomes.

This is the one place where `KernelError` becomes a skip's event and `LabError` becomes trouble. Everything here runs
on a worker's thread and returns events; nothing here touches the journal.
"""

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from bisector.model.errors import BisectorError, KernelError, LabError, UsageError
from bisector.model.events import (
    BatchesCalibrated,
    Booted,
    BootFailed,
    BuilderTrouble,
    BuildFailed,
    Event,
    KernelBuilt,
    MachineTrouble,
    RunFailed,
    RunFinished,
)
from bisector.model.kernel import KernelImage
from bisector.model.machine import BootRecord, MachineFacts
from bisector.session.artefacts import Artefacts
from bisector.session.ports import Builder, Machine, OnProgress, Progress
from bisector.session.workers import Job, in_one_line

Result = TypeVar("Result")

OURS = (LabError, UsageError)
"""Errors that say nothing of the kernel. A UsageError here is a missing program, found only when it was needed."""


def recover_job(machine: Machine) -> Job:
    """End what a dead controller left on a machine."""

    def job(report: OnProgress) -> tuple[Event, ...]:
        del report
        try:
            machine.recover()
        except OURS as error:
            return (_trouble(machine, "", 0, error),)
        return ()

    return job


def after_pause(job: Job, pause_s: float, why: str, stopping: Callable[[], bool]) -> Job:
    """The same job, later: trouble that a moment mends is not met three times within a second.

    Comes to nothing when the session is to stop meanwhile; no event follows, as after a crash.
    """

    def waiting(report: OnProgress) -> tuple[Event, ...]:
        until = time.monotonic() + pause_s
        while (left_s := until - time.monotonic()) > 0:
            if stopping():
                return ()
            report(Progress(fraction=None, text=f"waiting {left_s:.0f} s before it tries again: {why}"))
            time.sleep(min(0.5, left_s))
        return job(report)

    return waiting


def build_job(builder: Builder, commit: str, attempt: int, artefacts: Artefacts) -> Job:
    """Make a kernel."""

    def job(report: OnProgress) -> tuple[Event, ...]:
        begun = time.monotonic()
        return _step(
            artefacts,
            f"build-{commit[:12]}-{attempt}.log",
            lambda log: builder.build(commit, log=log, on_progress=report),
            done=lambda image, _: KernelBuilt(commit=commit, image=image),
            failed=lambda error, artefact: BuildFailed(
                commit=commit,
                outcome=error.outcome,
                reason=error.brief,
                artefact=artefact,
                duration_s=time.monotonic() - begun,
            ),
            trouble=lambda error: BuilderTrouble(commit=commit, reason=in_one_line(error), resolution=error.resolution),
        )

    return job


def boot_job(
    machine: Machine, boot: int, image: KernelImage, expected: MachineFacts | None, artefacts: Artefacts
) -> Job:
    """Boot a kernel and prove it; facts that differ from the session's are lab trouble."""

    def booted(record: BootRecord, artefact: str) -> Event:
        changed = [] if expected is None else record.facts.differences(expected)
        if changed:
            machine.release()
            reason = f"the machine is not as it was at this session's first boot: {'; '.join(changed)}"
            mend = "Set it back, or start a new session for the machine as it is now."
            return MachineTrouble(machine=machine.name, commit=image.commit, boot=boot, reason=reason, resolution=mend)
        return Booted(boot=boot, machine=machine.name, commit=image.commit, record=replace(record, artefact=artefact))

    def job(report: OnProgress) -> tuple[Event, ...]:
        begun = time.monotonic()
        # The guest goes on writing to the file after it was renamed; what stands there now is synced.
        return _step(
            artefacts,
            f"boot-{boot:04d}-console.log",
            lambda console: machine.boot(image, console=console, on_progress=report),
            done=booted,
            failed=lambda error, artefact: BootFailed(
                boot=boot,
                machine=machine.name,
                commit=image.commit,
                outcome=error.outcome,
                reason=error.brief,
                artefact=artefact,
                duration_s=time.monotonic() - begun,
            ),
            trouble=lambda error: _trouble(machine, image.commit, boot, error),
        )

    return job


def calibrate_job(machine: Machine, boot: int, commit: str, artefacts: Artefacts) -> Job:
    """Find the operations per sample."""

    def job(report: OnProgress) -> tuple[Event, ...]:
        del report
        return _step(
            artefacts,
            f"boot-{boot:04d}-calibration.jsonl",
            lambda log: machine.calibrate(log=log),
            done=lambda batches, _: BatchesCalibrated(machine=machine.name, batches=batches),
            failed=lambda error, artefact: _run_failed(machine, boot, 0, commit, error, artefact),
            trouble=lambda error: _trouble(machine, commit, boot, error),
        )

    return job


def run_job(
    machine: Machine, boot: int, run: int, commit: str, batches: tuple[tuple[str, int], ...], artefacts: Artefacts
) -> Job:
    """Measure every test once."""

    def job(report: OnProgress) -> tuple[Event, ...]:
        return _step(
            artefacts,
            f"boot-{boot:04d}-run-{run:02d}.jsonl",
            lambda log: machine.run(batches, log=log, on_progress=report),
            done=lambda record, artefact: RunFinished(
                boot=boot, run=run, machine=machine.name, commit=commit, record=replace(record, artefact=artefact)
            ),
            failed=lambda error, artefact: _run_failed(machine, boot, run, commit, error, artefact),
            trouble=lambda error: _trouble(machine, commit, boot, error),
        )

    return job


def _step(
    artefacts: Artefacts,
    name: str,
    work: Callable[[Path], Result],
    *,
    done: Callable[[Result, str], Event],
    failed: Callable[[KernelError, str], Event],
    trouble: Callable[[BisectorError], Event],
) -> tuple[Event, ...]:
    """The event that becomes of a step. What it writes is kept before any event can name it."""
    try:
        result = work(artefacts.begin(name))
    except KernelError as error:
        return (failed(error, artefacts.keep(name)),)
    except OURS as error:
        artefacts.keep(name)
        return (trouble(error),)
    return (done(result, artefacts.keep(name)),)


def _run_failed(machine: Machine, boot: int, run: int, commit: str, error: KernelError, artefact: str) -> RunFailed:
    return RunFailed(
        boot=boot,
        run=run,
        machine=machine.name,
        commit=commit,
        outcome=error.outcome,
        reason=error.brief,
        artefact=artefact,
    )


def _trouble(machine: Machine, commit: str, boot: int, error: BisectorError) -> MachineTrouble:
    return MachineTrouble(
        machine=machine.name, commit=commit, boot=boot, reason=in_one_line(error), resolution=error.resolution
    )

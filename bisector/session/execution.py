"""How an order is carried out: which port is called, and which event each ending becomes.

This is the one place where `KernelError` becomes a skip's event and `LabError` becomes trouble. Everything here runs
on a worker's thread and returns events; nothing here touches the journal.
"""

import time
from collections.abc import Callable
from dataclasses import replace

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
from bisector.model.machine import MachineFacts
from bisector.session.artefacts import Artefacts
from bisector.session.ports import Builder, Machine, OnProgress, Progress
from bisector.session.workers import Job, in_one_line

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
    name = f"build-{commit[:12]}-{attempt}.log"

    def job(report: OnProgress) -> tuple[Event, ...]:
        begun = time.monotonic()
        try:
            image = builder.build(commit, log=artefacts.begin(name), on_progress=report)
        except KernelError as error:
            return (
                BuildFailed(
                    commit=commit,
                    outcome=error.outcome,
                    reason=error.brief,
                    artefact=artefacts.keep(name),
                    duration_s=time.monotonic() - begun,
                ),
            )
        except OURS as error:
            artefacts.keep(name)
            return (BuilderTrouble(commit=commit, reason=in_one_line(error), resolution=error.resolution),)
        artefacts.keep(name)
        return (KernelBuilt(commit=commit, image=image),)

    return job


def boot_job(
    machine: Machine, boot: int, image: KernelImage, expected: MachineFacts | None, artefacts: Artefacts
) -> Job:
    """Boot a kernel and prove it; facts that differ from the session's are lab trouble."""
    name = f"boot-{boot:04d}-console.log"

    def job(report: OnProgress) -> tuple[Event, ...]:
        begun = time.monotonic()
        try:
            record = machine.boot(image, console=artefacts.begin(name), on_progress=report)
        except KernelError as error:
            return (
                BootFailed(
                    boot=boot,
                    machine=machine.name,
                    commit=image.commit,
                    outcome=error.outcome,
                    reason=error.brief,
                    artefact=artefacts.keep(name),
                    duration_s=time.monotonic() - begun,
                ),
            )
        except OURS as error:
            artefacts.keep(name)
            return (_trouble(machine, image.commit, boot, error),)
        # The guest goes on writing to the file after it was renamed; what stands there now is synced.
        record = replace(record, artefact=artefacts.keep(name))
        changed = [] if expected is None else record.facts.differences(expected)
        if changed:
            machine.release()
            reason = f"the machine is not as it was at this session's first boot: {'; '.join(changed)}"
            mend = "Set it back, or start a new session for the machine as it is now."
            return (
                MachineTrouble(machine=machine.name, commit=image.commit, boot=boot, reason=reason, resolution=mend),
            )
        return (Booted(boot=boot, machine=machine.name, commit=image.commit, record=record),)

    return job


def calibrate_job(machine: Machine, boot: int, commit: str, artefacts: Artefacts) -> Job:
    """Find the operations per sample."""
    name = f"boot-{boot:04d}-calibration.jsonl"

    def job(report: OnProgress) -> tuple[Event, ...]:
        del report
        try:
            batches = machine.calibrate(log=artefacts.begin(name))
        except KernelError as error:
            return (_run_failed(machine, boot, 0, commit, error, artefacts.keep(name)),)
        except OURS as error:
            artefacts.keep(name)
            return (_trouble(machine, commit, boot, error),)
        artefacts.keep(name)
        return (BatchesCalibrated(machine=machine.name, batches=batches),)

    return job


def run_job(
    machine: Machine, boot: int, run: int, commit: str, batches: tuple[tuple[str, int], ...], artefacts: Artefacts
) -> Job:
    """Measure every test once."""
    name = f"boot-{boot:04d}-run-{run:02d}.jsonl"

    def job(report: OnProgress) -> tuple[Event, ...]:
        try:
            record = machine.run(batches, log=artefacts.begin(name), on_progress=report)
        except KernelError as error:
            return (_run_failed(machine, boot, run, commit, error, artefacts.keep(name)),)
        except OURS as error:
            artefacts.keep(name)
            return (_trouble(machine, commit, boot, error),)
        kept = replace(record, artefact=artefacts.keep(name))
        return (RunFinished(boot=boot, run=run, machine=machine.name, commit=commit, record=kept),)

    return job


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

"""An A/A test: one kernel, booted and measured so many times on one machine. No search decides anything here.

It is a session whose range is a single commit: the same journal, jobs and artefacts, so that what a hunt would have
seen is what is seen here, and whoever reads sessions reads this one.
"""

import time
from pathlib import Path

from bisector import __version__
from bisector.model.events import (
    BootEnded,
    BootStarted,
    Event,
    KernelBuilt,
    MachineLeft,
    RunStarted,
    SessionPaused,
    SessionResumed,
)
from bisector.model.kernel import KernelImage
from bisector.model.outcome import Purpose
from bisector.session.artefacts import Artefacts
from bisector.session.blame import record_of
from bisector.session.controller import StopRequest
from bisector.session.execution import boot_job, calibrate_job, recover_job, run_job
from bisector.session.journal import Journal
from bisector.session.machines import first_facts, given_up
from bisector.session.ports import Machine, Observer
from bisector.session.state import ALL_RUNS_IN, Look, SessionState, Status, fold
from bisector.session.workers import Job

FRESH_S = 24 * 3600.0
"""An unfinished test is gone on with within this time: a machine of the week before is another machine."""


def whole_looks(state: SessionState) -> list[Look]:
    """The boots that gave all their runs."""
    return [look for look in state.looks if len(look.runs) == look.planned_runs]


def goes_on(state: SessionState, *, recipe_text: str, image: KernelImage | None, runs: int, boots: int) -> bool:
    """Is this an unfinished test of the same kernel, machine and benchmark, young enough to be gone on with?"""
    built = state.builds[0].image if 0 in state.builds else None
    return (
        state.recipe_text == recipe_text
        and (built is None or image is None or built.build_id == image.build_id)
        and all(look.planned_runs == runs for look in state.looks)
        and len(whole_looks(state)) < boots
        and time.time() - state.last_at < FRESH_S
    )


class Qualification:
    """Drives one A/A test until it has its boots, pauses, or is interrupted. Everything happens on one thread."""

    def __init__(
        self,
        journal: Journal,
        folder: Path,
        *,
        machine: Machine,
        observer: Observer,
        stop: StopRequest,
    ) -> None:
        self._journal = journal
        self._artefacts = Artefacts(folder)
        self._machine = machine
        self._observer = observer
        self._stop = stop
        self._state = fold(journal.entries)

    @property
    def state(self) -> SessionState:
        """The state after the last durable event."""
        return self._state

    def run(self, image: KernelImage, *, boots: int, runs: int) -> SessionState:
        """Boot until there are `boots` boots with all of their `runs` runs; return the state then.

        Raises nothing of the lab's: the state is paused then, with the reason, and what was measured stays.
        """
        try:
            if 0 in self._state.builds:
                self._append(SessionResumed(program=f"bisector {__version__}"))
            else:
                self._append(KernelBuilt(commit=image.commit, image=image))
            self._do(recover_job(self._machine))
            look = self._state.live_look(self._machine.name)
            if look is not None:
                self._end(look, "its controller died; what it had measured counts")
            while self._state.status is Status.RUNNING and len(whole_looks(self._state)) < boots:
                self._boot(image, runs)
                self._pause_if_it_must()
        finally:
            left = self._machine.release()
        if left is not None:
            name = self._machine.name
            self._append(MachineLeft(machine=name, reason=left.reason, resolution=left.resolution))
        return self._state

    def _boot(self, image: KernelImage, runs: int) -> None:
        number = len(self._state.looks) + 1
        name = self._machine.name
        self._append(
            BootStarted(
                boot=number,
                machine=name,
                commit=image.commit,
                runs=runs,
                purpose=Purpose.REFERENCE,
                reason="A/A test: the same kernel again",
            )
        )
        expected = first_facts(self._state.looks)
        self._do(boot_job(self._machine, number, image, expected, self._artefacts))
        if self._goes_on(number) and name not in self._state.batches:
            self._do(calibrate_job(self._machine, number, image.commit, self._artefacts))
        for run in range(1, runs + 1):
            if not self._goes_on(number) or self._stop.reason:
                break
            self._append(RunStarted(boot=number, run=run, machine=name, commit=image.commit))
            batches = self._state.batches[name]
            self._do(run_job(self._machine, number, run, image.commit, batches, self._artefacts))
        look = self._state.live_look(name)
        if look is not None:
            self._end(look, ALL_RUNS_IN if len(look.runs) == runs else "paused")

    def _goes_on(self, number: int) -> bool:
        look = self._state.live_look(self._machine.name)
        return look is not None and look.number == number

    def _pause_if_it_must(self) -> None:
        if self._stop.reason:
            self._pause(self._stop.reason, "")
            return
        machine = self._machine.name
        if trouble := given_up(self._state, machine):
            self._pause(trouble, self._state.last_trouble[machine].resolution)
            return
        if fault := record_of(self._state, machine).fault:
            self._pause(fault, "Take a kernel that runs there (--kernel), or mend the machine.")

    def _pause(self, reason: str, resolution: str) -> None:
        self._append(SessionPaused(reason=reason, resolution=resolution))

    def _end(self, look: Look, reason: str) -> None:
        commit = self._state.range.commits[0].id
        self._append(BootEnded(boot=look.number, machine=look.machine, commit=commit, reason=reason))

    def _do(self, job: Job) -> None:
        for event in job(lambda progress: self._observer.progressed(self._machine.name, progress)):
            self._append(event)

    def _append(self, event: Event) -> None:
        entry = self._journal.append(event)
        self._state = fold(self._journal.entries)
        self._observer.happened(entry.seq, entry.at, event)

"""The loop: fold, decide, hand out, make durable. The only writer of the journal.

Starting and resuming are the same path. Every intention is durable before the worker hears of it, every outcome
before anything is decided on it; so `kill -9` at any moment loses at most the step that was being done.
"""

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, SimpleQueue

from bisector import __version__
from bisector.model.answer import Answer
from bisector.model.events import (
    BootEnded,
    BootStarted,
    BuildStarted,
    Event,
    KernelBuilt,
    MachineLeft,
    RunStarted,
    SessionFinished,
    SessionPaused,
    SessionResumed,
)
from bisector.model.machine import MachineFacts
from bisector.recipe.schema import Recipe
from bisector.search.types import Finding
from bisector.session.artefacts import Artefacts
from bisector.session.decide import (
    BootOrder,
    BuildOrder,
    CalibrateOrder,
    EndLook,
    FetchOrder,
    Finish,
    Order,
    Pause,
    Plan,
    RunOrder,
    decide,
    plan_of,
)
from bisector.session.evidence import options_of
from bisector.session.execution import after_pause, boot_job, build_job, calibrate_job, recover_job, run_job
from bisector.session.journal import Journal
from bisector.session.machines import first_facts
from bisector.session.ports import Builder, Machine, Observer
from bisector.session.state import BUILDER, Look, SessionState, Status, fold
from bisector.session.workers import Broke, Done, Job, Message, Reported, Worker

TICK_S = 0.2
"""How long the controller sleeps at most before it looks for Ctrl-C."""

LONGEST_PAUSE = 64
"""After a worker's troubles in a row, in first pauses: half an hour where the first is half a minute."""


@dataclass(slots=True)
class StopRequest:
    """Set by a signal handler: with a reason in it, the running step is finished, then the session pauses."""

    reason: str = ""


class Controller:
    """Drives one session until it finishes, pauses, or is interrupted."""

    def __init__(
        self,
        journal: Journal,
        folder: Path,
        recipe: Recipe,
        *,
        builder: Builder,
        machines: Mapping[str, Machine],
        higher_is_better: bool,
        observer: Observer,
        stop: StopRequest,
        retry_pause_s: float = 0.0,
    ) -> None:
        """`retry_pause_s` lies between a worker's trouble and its next attempt; four times as long after each more.

        But never more than `LONGEST_PAUSE` times that.
        """
        self._journal = journal
        self._artefacts = Artefacts(folder)
        self._builder = builder
        self._machines = machines
        self._observer = observer
        self._stop = stop
        self._retry_pause_s = retry_pause_s
        self._messages: SimpleQueue[Message] = SimpleQueue()
        self._state = fold(journal.entries)
        options = options_of(recipe, higher_is_better=higher_is_better)
        self._plan: Plan = plan_of(self._state, recipe, options)
        self._workers = {name: Worker(name, self._messages) for name in (BUILDER, *self._state.machines)}
        self._idle: set[str] = set(self._workers)
        self._dropped: set[str] = set()
        self._uncached: set[int] = set()

    @property
    def state(self) -> SessionState:
        """The state after the last durable event."""
        return self._state

    def run(self) -> SessionState:
        """Drive the session; return its state when there is nothing more to do now.

        The last events name the machines that could not be given back.
        Raises what a worker raised if it was a bug; the journal is whole then too.
        """
        if self._state.status is Status.FINISHED:
            return self._state
        try:
            self._take_up()
            while self._state.status is Status.RUNNING:
                if self._stop.reason:
                    self._pause_for_people()
                    break
                self._hand_out()
                if self._state.status is Status.RUNNING:
                    self._wait()
        finally:
            left = self._let_go()
        for event in left:
            self._append(event)
        return self._state

    def _take_up(self) -> None:
        if len(self._journal.entries) > 1:
            self._append(SessionResumed(program=f"bisector {__version__}"))
        for name, machine in self._machines.items():
            self._give(name, recover_job(machine))
        self._drain(set(self._machines))
        for name in self._state.machines:
            look = self._state.live_look(name)
            if look is not None:
                self._end(look, "its controller died; what it had measured counts")

    def _hand_out(self) -> None:
        # Every order makes its worker busy, ends a look or the session, or is not given again: this comes to an end.
        while orders := decide(self._state, self._plan, frozenset(self._idle), frozenset(self._uncached)):
            for order in orders:
                self._carry_out(order)

    def _carry_out(self, order: Order) -> None:
        match order:
            case BuildOrder(commit=commit, ahead=ahead, reason=reason):
                commit_id = self._state.range.commits[commit].id
                self._append(BuildStarted(commit=commit_id, ahead=ahead, reason=reason))
                attempt = sum(
                    isinstance(entry.event, BuildStarted) and entry.event.commit == commit_id
                    for entry in self._journal.entries
                )
                job = build_job(self._builder, commit_id, attempt, self._artefacts)
                self._give(BUILDER, self._after_trouble(BUILDER, job))
            case FetchOrder(commit=commit):
                self._fetch(commit)
            case BootOrder():
                self._boot(order)
            case CalibrateOrder(machine=name):
                look = self._live(name)
                machine = self._machines[name]
                self._give(name, calibrate_job(machine, look.number, self._id_of(look), self._artefacts))
            case RunOrder(machine=name):
                self._run(name)
            case EndLook(machine=name, reason=reason):
                if name not in self._idle:
                    # What still comes of its step belongs to a look that is over.
                    self._dropped.add(name)
                    self._workers[name].drop()
                self._end(self._live(name), reason)
                if name in self._idle:
                    self._machines[name].rest()
            case Finish(finding=finding):
                self._append(SessionFinished(answer=self._answer(finding)))
            case Pause(reason=reason, resolution=resolution):
                self._append(SessionPaused(reason=reason, resolution=resolution))

    def _fetch(self, commit: int) -> None:
        # No intention goes before it: nothing is begun that a crash could leave behind.
        commit_id = self._state.range.commits[commit].id
        image = self._builder.find(commit_id)
        if image is None:
            self._uncached.add(commit)
        else:
            self._append(KernelBuilt(commit=commit_id, image=image))

    def _boot(self, order: BootOrder) -> None:
        number = len(self._state.looks) + 1
        image = self._state.builds[order.commit].image
        assert image is not None, "decide boots only what is built"
        self._append(
            BootStarted(
                boot=number,
                machine=order.machine,
                commit=image.commit,
                runs=order.runs,
                purpose=order.purpose,
                reason=order.reason,
            )
        )
        expected = self._first_facts(order.machine)
        job = boot_job(self._machines[order.machine], number, image, expected, self._artefacts)
        self._give(order.machine, self._after_trouble(order.machine, job))

    def _run(self, name: str) -> None:
        look = self._live(name)
        run, commit = len(look.runs) + 1, self._id_of(look)
        self._append(RunStarted(boot=look.number, run=run, machine=name, commit=commit))
        batches = self._state.batches[name]
        self._give(name, run_job(self._machines[name], look.number, run, commit, batches, self._artefacts))

    def _end(self, look: Look, reason: str) -> None:
        self._append(BootEnded(boot=look.number, machine=look.machine, commit=self._id_of(look), reason=reason))

    def _wait(self) -> None:
        """Until something happened that may change what is to be done: progress alone costs no new decision."""
        assert len(self._idle) < len(self._workers), "nothing to do and nothing going on: decide must end a search"
        while not self._stop.reason:
            with suppress(Empty):
                message = self._messages.get(timeout=TICK_S)
                self._take(message)
                if not isinstance(message, Reported):
                    return

    def _take(self, message: Message) -> None:
        match message:
            case Reported(worker=worker, progress=progress):
                self._observer.progressed(worker, progress)
            case Broke(error=error):
                raise error
            case Done(worker=worker, events=events):
                self._idle.add(worker)
                if worker in self._dropped:
                    self._dropped.remove(worker)
                    return
                for event in events:
                    self._append(event)

    def _after_trouble(self, worker: str, job: Job) -> Job:
        times = self._state.troubles.get(worker, 0)
        if not times or not self._retry_pause_s:
            return job
        pause_s = self._retry_pause_s * min(4 ** (times - 1), LONGEST_PAUSE)
        return after_pause(job, pause_s, self._state.last_trouble[worker].reason, lambda: bool(self._stop.reason))

    def _give(self, worker: str, job: Job) -> None:
        self._idle.discard(worker)
        self._workers[worker].give(job)

    def _drain(self, names: set[str]) -> None:
        while names - self._idle:
            with suppress(Empty):
                self._take(self._messages.get(timeout=TICK_S))

    def _append(self, event: Event) -> None:
        entry = self._journal.append(event)
        self._state = fold(self._journal.entries)
        self._observer.happened(entry.seq, entry.at, event)

    def _pause_for_people(self) -> None:
        """Let the machines finish the step they are at, drop the build, leave nothing running."""
        if BUILDER not in self._idle:
            self._builder.cancel()
        self._drain(set(self._machines))
        for name in self._state.machines:
            look = self._state.live_look(name)
            if look is not None:
                self._end(look, "paused")
        self._append(SessionPaused(reason=self._stop.reason, resolution=f"Go on: bisector resume {self._state.name}"))

    def _let_go(self) -> list[MachineLeft]:
        if BUILDER not in self._idle:
            self._builder.cancel()
        for worker in self._workers.values():
            worker.stop(timeout_s=30.0)
        # Side by side: each may have to reboot, and one that is lost is tried a few times.
        with ThreadPoolExecutor(max_workers=len(self._machines)) as pool:
            undone = dict(
                zip(self._machines, pool.map(lambda one: one.release(), self._machines.values()), strict=True)
            )
        return [
            MachineLeft(machine=name, reason=left.reason, resolution=left.resolution)
            for name, left in undone.items()
            if left is not None
        ]

    def _live(self, machine: str) -> Look:
        look = self._state.live_look(machine)
        assert look is not None, "decide gives such orders only during a look"
        return look

    def _id_of(self, look: Look) -> str:
        return self._state.range.commits[look.commit].id

    def _first_facts(self, machine: str) -> MachineFacts | None:
        return first_facts(look for look in self._state.looks if look.machine == machine)

    def _answer(self, finding: Finding) -> Answer:
        commits = self._state.range.commits
        return Answer(
            kind=finding.kind,
            commits=tuple(commits[index].id for index in finding.commits),
            probability=finding.probability,
            reason=finding.reason,
            share=finding.share,
        )

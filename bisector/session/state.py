"""What a session knows: `fold(entries)` makes it from the journal, and nothing else does. Pure.

Reports, the live view and `decide` read this state, never a machine. Commits are indexes of the session's range.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from bisector.model.answer import Answer
from bisector.model.commit import CommitRange
from bisector.model.events import (
    BatchesCalibrated,
    Booted,
    BootEnded,
    BootFailed,
    BootStarted,
    BuilderTrouble,
    BuildFailed,
    BuildStarted,
    Event,
    KernelBuilt,
    MachineLeft,
    MachineTrouble,
    Marked,
    RunFailed,
    RunFinished,
    RunStarted,
    SessionFinished,
    SessionPaused,
    SessionResumed,
    SessionStarted,
    Undone,
)
from bisector.model.kernel import KernelImage
from bisector.model.machine import BootRecord
from bisector.model.outcome import Outcome, Purpose, Verdict
from bisector.model.sample import RunRecord

BUILDER = "builder"
"""The builder's name among workers and in `SessionState.troubles`."""

ALL_RUNS_IN = "all runs are in"
"""The reason of a `BootEnded` that is the ordinary end of a look; any other is worth a word to people."""


class Status(StrEnum):
    """Where a session stands (`status --json` uses these words)."""

    RUNNING = "running"
    PAUSED = "paused"
    FINISHED = "finished"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One line of the journal: its number from 1, seconds since the epoch, and the event."""

    seq: int
    at: float
    event: Event


@dataclass(slots=True, kw_only=True)
class Build:
    """One build of one commit; `outcome` is None while it runs, MEASURED once the image is there."""

    commit: int
    ahead: bool
    started_at: float
    ended_at: float | None = None
    image: KernelImage | None = None
    outcome: Outcome | None = None
    reason: str = ""
    artefact: str = ""
    duration_s: float = 0.0


@dataclass(slots=True, kw_only=True)
class Look:
    """One boot of one commit on one machine, with its runs; `outcome` is None while it goes on.

    A look whose boot was lost keeps its whole runs. `booted_at` is None until the kernel was proven.
    """

    number: int
    machine: str
    commit: int
    planned_runs: int
    purpose: Purpose
    why: str
    started_at: float
    booted_at: float | None = None
    ended_at: float | None = None
    record: BootRecord | None = None
    runs: list[RunRecord] = field(default_factory=list)
    run_started: bool = False
    outcome: Outcome | None = None
    reason: str = ""
    artefact: str = ""
    forgotten: bool = False

    @property
    def machine_s(self) -> float:
        """Seconds of machine time from the order to boot to the end of the look; 0 while it goes on."""
        return 0.0 if self.ended_at is None else self.ended_at - self.started_at


@dataclass(slots=True, kw_only=True)
class SessionState:
    """All that the journal says, ready to read."""

    name: str
    recipe_text: str
    recipe_digest: str
    repo: str
    range: CommitRange
    machines: tuple[str, ...]
    seed: int
    started_at: float
    last_at: float
    last_seq: int
    status: Status = Status.RUNNING
    builds: dict[int, Build] = field(default_factory=dict)
    looks: list[Look] = field(default_factory=list)
    marks: dict[int, Verdict] = field(default_factory=dict)
    batches: dict[str, tuple[tuple[str, int], ...]] = field(default_factory=dict)
    troubles: dict[str, int] = field(default_factory=dict)
    last_trouble: dict[str, MachineTrouble | BuilderTrouble] = field(default_factory=dict)
    not_given_back: dict[str, MachineLeft] = field(default_factory=dict)
    pause_reason: str = ""
    pause_resolution: str = ""
    answer: Answer | None = None
    paused_s: float = 0.0
    resumed_at: float = 0.0

    def live_look(self, machine: str) -> Look | None:
        """The look that goes on at this machine, None if there is none."""
        for look in reversed(self.looks):
            if look.machine == machine:
                return look if look.ended_at is None else None
        return None


def fold(entries: Iterable[Entry]) -> SessionState:
    """Return the state after these entries. Raises ValueError if the first is not `SessionStarted`."""
    lines = list(entries)
    undone = {entry.event.seq for entry in lines if isinstance(entry.event, Undone)}
    if not lines or not isinstance(lines[0].event, SessionStarted):
        raise ValueError("a journal begins with session_started")
    state = _begin(lines[0].event, lines[0].at)
    indexes = {commit.id: index for index, commit in enumerate(state.range.commits)}
    for entry in lines[1:]:
        # A clock that jumped back must not make a duration negative.
        at = max(entry.at, state.last_at)
        if entry.seq not in undone:
            _apply(state, entry.event, at, indexes)
        state.last_at, state.last_seq = at, entry.seq
    return state


def _begin(started: SessionStarted, at: float) -> SessionState:
    return SessionState(
        name=started.session,
        recipe_text=started.recipe,
        recipe_digest=started.recipe_digest,
        repo=started.repo,
        range=started.range,
        machines=started.machines,
        seed=started.seed,
        started_at=at,
        last_at=at,
        last_seq=1,
    )


def _apply(state: SessionState, event: Event, at: float, indexes: Mapping[str, int]) -> None:
    match event:
        case BuildStarted() | KernelBuilt() | BuildFailed() | BuilderTrouble():
            _apply_build(state, event, at, indexes[event.commit])
        case BootStarted() | Booted() | BootFailed() | RunStarted() | RunFinished() | RunFailed() | BootEnded():
            _apply_look(state, event, at, indexes[event.commit])
        case MachineTrouble():
            _apply_trouble(state, event, at)
        case MachineLeft():
            state.not_given_back[event.machine] = event
        case BatchesCalibrated():
            state.batches[event.machine] = event.batches
        case Marked():
            _mark(state, indexes[event.commit], event.verdict)
        case SessionPaused():
            state.status = Status.PAUSED
            state.pause_reason, state.pause_resolution = event.reason, event.resolution
            _forget_unfinished_builds(state)
        case SessionResumed():
            state.paused_s += at - state.last_at
            state.resumed_at = at
            if state.status is not Status.FINISHED:
                state.status = Status.RUNNING
            state.pause_reason = state.pause_resolution = ""
            state.troubles.clear()
            state.not_given_back.clear()
            _forget_unfinished_builds(state)
        case SessionFinished():
            state.status, state.answer = Status.FINISHED, event.answer
        case SessionStarted() | Undone():
            pass


def _apply_trouble(state: SessionState, event: MachineTrouble, at: float) -> None:
    state.troubles[event.machine] = state.troubles.get(event.machine, 0) + 1
    state.last_trouble[event.machine] = event
    look = state.live_look(event.machine)
    if look is not None and look.number == event.boot:
        _end_look(look, at, Outcome.MEASURED if look.runs else Outcome.INFRA, event.reason)


def _apply_build(
    state: SessionState, event: BuildStarted | KernelBuilt | BuildFailed | BuilderTrouble, at: float, commit: int
) -> None:
    match event:
        case BuildStarted():
            state.builds[commit] = Build(commit=commit, ahead=event.ahead, started_at=at)
        case KernelBuilt():
            build = state.builds.setdefault(commit, Build(commit=commit, ahead=False, started_at=at))
            build.image, build.outcome, build.ended_at = event.image, Outcome.MEASURED, at
            build.duration_s = event.image.duration_s
            state.troubles.pop(BUILDER, None)
        case BuildFailed():
            build = state.builds.setdefault(commit, Build(commit=commit, ahead=False, started_at=at))
            build.outcome, build.reason, build.artefact = event.outcome, event.reason, event.artefact
            build.ended_at, build.duration_s = at, event.duration_s
            state.troubles.pop(BUILDER, None)
        case BuilderTrouble():
            state.builds.pop(commit, None)
            state.troubles[BUILDER] = state.troubles.get(BUILDER, 0) + 1
            state.last_trouble[BUILDER] = event


def _apply_look(
    state: SessionState,
    event: BootStarted | Booted | BootFailed | RunStarted | RunFinished | RunFailed | BootEnded,
    at: float,
    commit: int,
) -> None:
    if isinstance(event, BootStarted):
        look = Look(
            number=event.boot,
            machine=event.machine,
            commit=commit,
            planned_runs=event.runs,
            purpose=event.purpose,
            why=event.reason,
            started_at=at,
        )
        state.looks.append(look)
        return
    look = state.looks[event.boot - 1]
    match event:
        case Booted():
            look.record, look.booted_at = event.record, at
        case RunStarted():
            look.run_started = True
        case RunFinished():
            look.run_started = False
            look.runs.append(event.record)
            # Not at the boot: a machine that boots and then fails every time is lost too.
            state.troubles.pop(event.machine, None)
        case BootFailed() | RunFailed():
            _end_look(look, at, event.outcome, event.reason)
            look.artefact = event.artefact
        case BootEnded():
            _end_look(look, at, Outcome.MEASURED if look.runs else Outcome.INFRA, event.reason)


def _end_look(look: Look, at: float, outcome: Outcome, reason: str) -> None:
    look.ended_at, look.outcome, look.reason, look.run_started = at, outcome, reason, False


def _mark(state: SessionState, commit: int, verdict: Verdict | None) -> None:
    if verdict is None:
        state.marks.pop(commit, None)
        for look in state.looks:
            look.forgotten = look.forgotten or look.commit == commit
    else:
        state.marks[commit] = verdict


def _forget_unfinished_builds(state: SessionState) -> None:
    # The builder looks into its cache first, so a build that ended unseen is found, not repeated.
    for commit in [commit for commit, build in state.builds.items() if build.outcome is None]:
        del state.builds[commit]

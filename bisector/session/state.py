"""What a session knows: `fold(entries)` makes it from the journal, and nothing else does. Pure.

Reports, the live view and `decide` read this state, never a machine. Commits are indexes of the session's range.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum

from bisector.model.answer import Answer
from bisector.model.commit import CommitRange
from bisector.model.events import Event
from bisector.model.kernel import KernelImage
from bisector.model.machine import BootRecord
from bisector.model.outcome import Outcome, Purpose, Verdict
from bisector.model.sample import RunRecord


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
    pause_reason: str = ""
    pause_resolution: str = ""
    answer: Answer | None = None
    paused_s: float = 0.0


def fold(entries: Iterable[Entry]) -> SessionState:
    """The state after these entries, the first of which is `SessionStarted`. Raises ValueError if it is not."""
    raise NotImplementedError

"""The frozen facts a session is made of. Events are never edited; `Undone` is an event.

Intention, then outcome: `BuildStarted` ... `KernelBuilt | BuildFailed | BuilderTrouble`, `BootStarted` ...
`Booted | BootFailed | MachineTrouble`, `RunStarted` ... `RunFinished | RunFailed | MachineTrouble`. An intention
without an outcome means "unknown" after a crash: look first, then act. A kernel that was found in the cache while the
builder made another one is a `KernelBuilt` alone. Times (`at`) are the journal's, not here.
"""

from dataclasses import dataclass
from typing import Literal

from bisector.model.answer import Answer
from bisector.model.commit import CommitRange
from bisector.model.kernel import KernelImage
from bisector.model.machine import BootRecord
from bisector.model.outcome import Outcome, Purpose, Verdict
from bisector.model.sample import RunRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionStarted:
    """Everything that was asked for, resolved once. `recipe` is its text with the command line's changes applied."""

    session: str
    recipe: str
    recipe_digest: str
    repo: str
    range: CommitRange
    machines: tuple[str, ...]
    seed: int
    program: str
    kind: Literal["session_started"] = "session_started"


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildStarted:
    """The builder is told to make this commit's kernel; `ahead` when no machine waits for it yet."""

    commit: str
    ahead: bool
    reason: str
    kind: Literal["build_started"] = "build_started"


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelBuilt:
    """The image is in the cache, synced and named."""

    commit: str
    image: KernelImage
    kind: Literal["kernel_built"] = "kernel_built"


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildFailed:
    """This commit does not configure or compile; `reason` shows the first real error line."""

    commit: str
    outcome: Outcome
    reason: str
    artefact: str
    duration_s: float
    kind: Literal["build_failed"] = "build_failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class BuilderTrouble:
    """The builder failed for a reason that is not the commit's."""

    commit: str
    reason: str
    resolution: str
    kind: Literal["builder_trouble"] = "builder_trouble"


@dataclass(frozen=True, slots=True, kw_only=True)
class BootStarted:
    """One look begins: this machine boots this commit, for `runs` runs. `boot` counts a session's looks from 1."""

    boot: int
    machine: str
    commit: str
    runs: int
    purpose: Purpose
    reason: str
    kind: Literal["boot_started"] = "boot_started"


@dataclass(frozen=True, slots=True, kw_only=True)
class Booted:
    """The expected kernel was proven to run."""

    boot: int
    machine: str
    commit: str
    record: BootRecord
    kind: Literal["booted"] = "booted"


@dataclass(frozen=True, slots=True, kw_only=True)
class BootFailed:
    """This kernel did not come up; `outcome` is boot_failed, crashed or wrong_kernel."""

    boot: int
    machine: str
    commit: str
    outcome: Outcome
    reason: str
    artefact: str
    duration_s: float
    kind: Literal["boot_failed"] = "boot_failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStarted:
    """Run number `run` (from 1) of a boot begins on its machine."""

    boot: int
    run: int
    machine: str
    commit: str
    kind: Literal["run_started"] = "run_started"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFinished:
    """A whole run: every test, the closing line, every check passed."""

    boot: int
    run: int
    machine: str
    commit: str
    record: RunRecord
    kind: Literal["run_finished"] = "run_finished"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFailed:
    """The kernel crashed or a test refused to work under it."""

    boot: int
    run: int
    machine: str
    commit: str
    outcome: Outcome
    reason: str
    artefact: str
    kind: Literal["run_failed"] = "run_failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class BootEnded:
    """A look is over: all its runs are in, or the boot is gone (`reason` says why). Its whole runs count."""

    boot: int
    machine: str
    commit: str
    reason: str
    kind: Literal["boot_ended"] = "boot_ended"


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineTrouble:
    """The machine failed, not the kernel: never a verdict."""

    machine: str
    commit: str
    boot: int
    reason: str
    resolution: str
    kind: Literal["machine_trouble"] = "machine_trouble"


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineLeft:
    """The session let go of a machine that it could not give back: people have to, as `resolution` says."""

    machine: str
    reason: str
    resolution: str
    kind: Literal["machine_left"] = "machine_left"


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchesCalibrated:
    """Operations per sample of each test, measured on the first kernel and kept for all: identical work."""

    machine: str
    batches: tuple[tuple[str, int], ...]
    kind: Literal["batches_calibrated"] = "batches_calibrated"


@dataclass(frozen=True, slots=True, kw_only=True)
class Marked:
    """A person's word on a commit: good, bad or skipped; None forgets what was said and seen of it."""

    commit: str
    verdict: Verdict | None
    kind: Literal["marked"] = "marked"


@dataclass(frozen=True, slots=True, kw_only=True)
class Undone:
    """Event number `seq` does not count any more."""

    seq: int
    kind: Literal["undone"] = "undone"


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionPaused:
    """Nothing goes on until `bisector resume`; `resolution` says what to do first."""

    reason: str
    resolution: str
    kind: Literal["session_paused"] = "session_paused"


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionResumed:
    """A controller took the session up (again)."""

    program: str
    kind: Literal["session_resumed"] = "session_resumed"


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionFinished:
    """The hunt ended with this answer."""

    answer: Answer
    kind: Literal["session_finished"] = "session_finished"


Event = (
    SessionStarted
    | BuildStarted
    | KernelBuilt
    | BuildFailed
    | BuilderTrouble
    | BootStarted
    | Booted
    | BootFailed
    | RunStarted
    | RunFinished
    | RunFailed
    | BootEnded
    | MachineTrouble
    | MachineLeft
    | BatchesCalibrated
    | Marked
    | Undone
    | SessionPaused
    | SessionResumed
    | SessionFinished
)

"""The exception families, and what each may cause. Imports nothing of ours.

Two confusions ruin a tool like this one, so they are different types: `LabError` (our side failed: pause,
never a verdict) and `KernelError` (this kernel does not build, boot or survive: a skip, not "slow").
"""

from bisector.model.outcome import Outcome


class BisectorError(Exception):
    """What happened (with the value seen), where, and what to type next.

    `brief` is one sentence; `details` may span lines; `resolution` is what to do, a command where there is one.
    """

    exit_code = 4

    def __init__(self, brief: str, *, details: str = "", resolution: str = "") -> None:
        super().__init__(brief)
        self.brief = brief
        self.details = details
        self.resolution = resolution

    def __str__(self) -> str:
        return "\n".join(part for part in (self.brief, self.details, self.resolution) if part)


class UsageError(BisectorError):
    """What was typed cannot be done. Nothing was written. Exit 2."""

    exit_code = 2


class RecipeError(UsageError):
    """The recipe says something it must not; `brief` begins with file:line:column, all errors at once."""


class RevisionError(UsageError):
    """A revision does not name one commit, or the two ends do not make a range."""


class MissingPackageError(UsageError):
    """A program or package this machine needs is not installed; `resolution` names it."""


class SessionLockedError(UsageError):
    """Another controller drives this session."""


class LabError(BisectorError):
    """Our side failed. Retried within a budget, then the session pauses, resumable. Never a verdict. Exit 3."""

    exit_code = 3


class MachineError(LabError):
    """The lab machine is unreachable, busy, refused its host key, or did something it should not."""


class BuilderError(LabError):
    """The builder failed for a reason that is not the commit's: disk full, compiler killed, tool missing."""


class KernelError(BisectorError):
    """This kernel does not configure, build, boot or survive: the commit is skipped, with a kind and a reason."""

    def __init__(self, brief: str, *, outcome: Outcome, details: str = "", resolution: str = "") -> None:
        super().__init__(brief, details=details, resolution=resolution)
        self.outcome = outcome


class SessionError(BisectorError):
    """The journal is newer than this program, damaged, or does not fit the recipe. Exit 4."""

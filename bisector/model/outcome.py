"""The closed choices of the field: outcomes of looking at a commit, verdicts, purposes of a look."""

from enum import StrEnum


class Outcome(StrEnum):
    """What came of looking at a commit. Only `MEASURED` carries numbers; `INFRA` says nothing of the commit."""

    MEASURED = "measured"
    CONFIG_FAILED = "config_failed"
    BUILD_FAILED = "build_failed"
    BOOT_FAILED = "boot_failed"
    CRASHED = "crashed"
    WRONG_KERNEL = "wrong_kernel"
    INFRA = "infra"


class Verdict(StrEnum):
    """What people read beside a commit."""

    GOOD = "good"
    BAD = "bad"
    UNDECIDED = "undecided"
    SKIPPED = "skipped"


class Purpose(StrEnum):
    """Why a boot was made. `AUDIT` boots are the fresh, interleaved pairs of parent and accused."""

    GATE = "gate"
    SEARCH = "search"
    REFERENCE = "reference"
    AUDIT = "audit"


class AnswerKind(StrEnum):
    """How a hunt ends (`status --json` and `drive` use these words)."""

    COMMIT = "commit"
    SET = "set"
    NOT_REPRODUCED = "not_reproduced"
    NONE = "none"

"""Is the machine ours alone while it measures? Asked before and after each job, never during one."""

import math
import time
from collections.abc import Callable, Collection, Sequence

from bisector.lab.jobs import JobResult, Jobs
from bisector.lab.root import Root
from bisector.lab.ssh import Shell
from bisector.model.errors import MachineError

# By the mark in their environment, as `Jobs.kill` does for one job.
_SWEEP = """
for p in /proc/[0-9]*; do
  tr "\\0" "\\n" 2>/dev/null <"$p/environ" | grep -q "^BISECTOR_JOB=" && kill -s KILL "${p#/proc/}"
done 2>/dev/null
rm -rf /tmp/bisector-jobs
"""


_FRESH_S = 3.0
"""How long the look after one job serves as the look before the next."""


class QuietJobs:
    """Jobs whose results count only if nobody else was on the machine and the lease was ours before and after."""

    def __init__(self, jobs: Jobs, look: Callable[[], None]) -> None:
        self._jobs = jobs
        self._look = look
        self._looked_at = -math.inf

    def run(self, argv: Sequence[str], *, timeout_s: float, on_poll: Callable[[], None] | None = None) -> JobResult:
        """As `Jobs.run`. Raises MachineError too when somebody else is on the machine: the result is thrown away."""
        if time.monotonic() - self._looked_at >= _FRESH_S:
            self._look()
        result = self._jobs.run(argv, timeout_s=timeout_s, on_poll=on_poll)
        self._look()
        self._looked_at = time.monotonic()
        return result

    def forget(self) -> None:
        """The machine was rebooted, or left: look again before the next job."""
        self._looked_at = -math.inf


def require_alone(shell: Shell, ignored: Collection[str]) -> None:
    """Raises MachineError when somebody is logged in at a terminal. Our own connections have none."""
    said = shell.check(("sh", "-c", "who || true"), timeout_s=30)
    others = [line for line in said.splitlines() if line.strip() and line.split()[0] not in ignored]
    if others:
        raise MachineError(
            f"{shell.target.name}: {others[0].split()[0]} is logged in: what is measured now would not count",
            details="\n".join(others),
            resolution="Ask them to leave, or name them in the machine's ignore_logins, then resume.",
        )


def end_left_over_jobs(root: Root) -> None:
    """End every job that a dead controller left running. Raises MachineError if the machine is lost."""
    root.run(("sh", "-c", _SWEEP), timeout_s=60)

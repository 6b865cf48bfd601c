"""Is the machine ours alone and at full speed while it measures? Asked before and after each job, never during one."""

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


# In one command: each costs a round trip, and a second under emulation.
_LOOK = "who; echo @@; cat /sys/devices/system/cpu/cpu[0-9]*/thermal_throttle/*_throttle_count 2>/dev/null || :"

_CONDITIONS = "cut -d ' ' -f 1 /proc/loadavg; cat /sys/class/thermal/thermal_zone*/temp 2>/dev/null || :"

_FRESH_S = 3.0
"""How long the look after one job serves as the look before the next."""


class QuietJobs:
    """Jobs whose results count only if nothing disturbed the machine.

    `look` is asked before and after: it raises if somebody else is there or the lease is not ours any more, and tells
    how often the processor was throttled since the boot.
    """

    def __init__(self, jobs: Jobs, look: Callable[[], int], *, name: str) -> None:
        self._jobs = jobs
        self._look = look
        self._name = name
        self._looked_at = -math.inf
        self._throttled = 0

    def run(self, argv: Sequence[str], *, timeout_s: float, on_poll: Callable[[], None] | None = None) -> JobResult:
        """As `Jobs.run`. Raises MachineError too when the machine was disturbed: the result is thrown away."""
        if time.monotonic() - self._looked_at >= _FRESH_S:
            self._throttled = self._look()
        result = self._jobs.run(argv, timeout_s=timeout_s, on_poll=on_poll)
        before, self._throttled = self._throttled, self._look()
        self._looked_at = time.monotonic()
        if self._throttled > before:
            raise MachineError(
                f"{self._name}: the processor was throttled during the run: what was measured does not count",
                details=f"the kernel counted {self._throttled - before} throttlings",
                resolution="Look at its cooling, or take the boost off (prepare: {boost: false}), then resume.",
            )
        return result

    def forget(self) -> None:
        """The machine was rebooted, or left: look again before the next job."""
        self._looked_at = -math.inf


def require_alone(shell: Shell, ignored: Collection[str]) -> int:
    """How often the processor was throttled by heat or power since the boot; 0 where nobody counts.

    Raises MachineError when somebody is logged in at a terminal. Our own connections have none. Source of the counters:
    the kernel's arch/x86/kernel/cpu/mce/therm_throt.c; that of a package stands in each of its CPUs.
    """
    said, _, counters = shell.check(("sh", "-c", _LOOK), timeout_s=30).partition("@@")
    others = [line for line in said.splitlines() if line.strip() and line.split()[0] not in ignored]
    if others:
        raise MachineError(
            f"{shell.target.name}: {others[0].split()[0]} is logged in: what is measured now would not count",
            details="\n".join(others),
            resolution="Ask them to leave, or name them in the machine's ignore_logins, then resume.",
        )
    return sum(map(int, counters.split()))


def conditions(shell: Shell) -> dict[str, str]:
    """What changes by itself, for people to read: the load, and the temperature (the hottest, deg C) where told."""
    said = shell.check(("sh", "-c", _CONDITIONS), timeout_s=30).split()
    told = {"load": said[0]} if said else {}
    if heat := [int(word) for word in said[1:] if word.lstrip("-").isdecimal()]:
        told["temperature"] = f"{max(heat) / 1000:.0f}"
    return told


def end_left_over_jobs(root: Root) -> None:
    """End every job that a dead controller left running. Raises MachineError if the machine is lost."""
    root.run(("sh", "-c", _SWEEP), timeout_s=60)

"""Who is at fault when kernels do not come up or crash: a commit, or the machine. Pure.

The one place that decides how often a kernel is tried and when its commit is skipped; a machine makes one attempt for
each order and tells what it saw. Read off the journal's state, so a resume judges as the run before it did.

A kernel that failed is tried once more (the machine installs it anew). If it fails again its commit is left out of
the search, and the next other kernel that is measured on that machine is the control that makes this final. A kernel
that had been measured there and now fails right behind another, or two failures where nothing was ever measured, speak
against the machine: it is set aside, and those failures say nothing of any commit. Source: the rule of lab failure
scenario 5: again on a control commit or on two commits, the lab is at fault; only on this commit, skip.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from bisector.model.outcome import Outcome
from bisector.session.state import Look, SessionState

FAILED_LOOKS_TO_SKIP = 2
"""A kernel that failed is tried once more before its commit is skipped: labs hiccup."""

KERNEL_FAILED = (Outcome.BOOT_FAILED, Outcome.CRASHED, Outcome.WRONG_KERNEL)
"""Outcomes that say "this kernel did not come up, or not for long"."""


@dataclass(slots=True)
class Record:
    """What the looks of one machine say, in their order.

    `open` are the failures since the machine last measured anything, `confirmed` those after which it measured
    another commit; what lies in neither is void. `measured` maps each commit that gave numbers to its last look that
    did. `fault` tells why the machine itself is at fault, "" if it is not.
    """

    open: list[Look] = field(default_factory=list)
    confirmed: list[Look] = field(default_factory=list)
    measured: dict[int, Look] = field(default_factory=dict)
    fault: str = ""

    def add(self, look: Look) -> None:
        """Take in the machine's next look."""
        if look.runs:
            self.confirmed += [failed for failed in self.open if failed.commit != look.commit]
            self.open.clear()
            self.measured[look.commit] = look
            self.fault = ""
        if look.outcome in KERNEL_FAILED:
            self.open.append(look)
            self.fault = self._fault(look)
            if self.fault:
                self.open.clear()

    def control_for(self, commit: int) -> bool:
        """Has another commit's kernel been measured here?"""
        return any(other != commit for other in self.measured)

    def _fault(self, last: Look) -> str:
        failed = {look.commit for look in self.open}
        if len(self.open) < FAILED_LOOKS_TO_SKIP:
            return ""
        times = f"{len(self.open)} looks in a row failed on {last.machine} (the last: {last.reason})"
        if len(failed) > 1 and failed & self.measured.keys():
            return f"{times}, also of a kernel that had been measured there before"
        if not self.measured.keys() - failed:
            return f"{times}, and no other kernel has been measured there so far"
        return ""


def record_of(state: SessionState, machine: str) -> Record:
    """What the ended looks of a machine say. Its fault is that of the last life of the session: a resume forgives."""
    record = Record()
    last: Look | None = None
    for look in state.looks:
        if look.machine == machine and look.ended_at is not None and not look.forgotten:
            record.add(look)
            last = look
    if last is not None and last.started_at < state.resumed_at:
        record.fault = ""
    return record


def blamed(state: SessionState, unheard: Mapping[str, object]) -> dict[int, Look]:
    """The commits whose kernels are to be left alone, each with the last failed look.

    Failures on a machine of `unheard` count only once they are confirmed: it will boot no control.
    """
    records = {machine: record_of(state, machine) for machine in state.machines}
    failed: dict[int, list[Look]] = {}
    for look in state.looks:
        record = records[look.machine]
        if look.runs:
            failed.pop(look.commit, None)
        # By identity: two looks may be equal in all that they tell.
        counted = [*record.confirmed, *(() if look.machine in unheard else record.open)]
        if look.outcome in KERNEL_FAILED and any(one is look for one in counted):
            failed.setdefault(look.commit, []).append(look)
    return {
        commit: looks[-1]
        for commit, looks in failed.items()
        if len(looks) >= FAILED_LOOKS_TO_SKIP and any(records[look.machine].control_for(commit) for look in looks)
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Control:
    """A look that a machine owes: `like` is the last good one of a kernel that has nothing to do with the failures.

    It is `urgent` where two commits failed in a row; otherwise the search's next look may do as well.
    """

    like: Look
    urgent: bool


def controls_due(state: SessionState, machines: Mapping[str, object] | set[str]) -> dict[str, Control]:
    """For those of the machines on which a commit was blamed, or two failed, with nothing measured since."""
    due = {}
    for machine in machines:
        record = record_of(state, machine)
        failed = {look.commit for look in record.open}
        others = [look for commit, look in record.measured.items() if commit not in failed]
        if len(record.open) >= FAILED_LOOKS_TO_SKIP and others:
            due[machine] = Control(like=max(others, key=lambda look: look.number), urgent=len(failed) > 1)
    return due

"""Which machines a session counts on. Pure: read off the journal's state, so a resume sees what a run saw."""

from bisector.model.outcome import Outcome
from bisector.session.state import Look, SessionState

TROUBLES_TO_SET_ASIDE = 3
"""Troubles in a row before a worker is given up: a hiccup is retried, a dead machine is not hammered."""

FAILED_LOOKS_TO_SKIP = 2
"""A kernel that failed to come up is tried once more before its commit is skipped: labs hiccup."""

KERNEL_FAILED = (Outcome.BOOT_FAILED, Outcome.CRASHED, Outcome.WRONG_KERNEL)
"""Outcomes that say "this kernel did not come up, or not for long"."""


def set_aside(state: SessionState) -> dict[str, str]:
    """Return the machines that get no more looks before a resume, each with the reason.

    Either the machine itself failed several times in a row, or kernels did not come up on it before any ever did,
    while another machine boots: then the machine is at fault, not the kernels. What it has measured stays.
    """
    found = {}
    for machine in state.machines:
        times = state.troubles.get(machine, 0)
        here = [look for look in state.looks if look.machine == machine and look.started_at >= state.resumed_at]
        failed = [look for look in here if look.outcome in KERNEL_FAILED]
        if times >= TROUBLES_TO_SET_ASIDE:
            found[machine] = f"{machine} failed {times} times in a row"
        elif len(failed) >= FAILED_LOOKS_TO_SKIP and not has_booted(state, machine) and any_has_booted(state):
            found[machine] = f"{len(failed)} kernels did not come up on {machine}, where none has so far"
    return found


def has_booted(state: SessionState, machine: str) -> bool:
    """Has any kernel come up on this machine in this session?"""
    return any(look.record is not None for look in state.looks if look.machine == machine)


def any_has_booted(state: SessionState) -> bool:
    """Has any kernel come up anywhere in this session?"""
    return any(look.record is not None for look in state.looks)


def control_exists(state: SessionState, failed: Look) -> bool:
    """Has the machine of this failed look booted another commit's kernel in this session?"""
    return any(
        look.machine == failed.machine and look.commit != failed.commit and look.record is not None
        for look in state.looks
    )

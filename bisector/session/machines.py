"""Which machines a session counts on. Pure: read off the journal's state, so a resume sees what a run saw."""

from collections.abc import Iterable

from bisector.model.machine import MachineFacts
from bisector.session.blame import record_of
from bisector.session.budgets import errors_of
from bisector.session.state import Look, SessionState


def set_aside(state: SessionState) -> dict[str, str]:
    """Return the machines that get no more looks before a resume, each with the reason.

    Either the machine itself failed more often in a row than its budget allows, or kernels fail on it in a way that
    speaks against the machine and not against them. What it has measured stays.
    """
    found = {}
    for machine in state.machines:
        if failed := given_up(state, machine):
            found[machine] = failed
        elif fault := record_of(state, machine).fault:
            found[machine] = fault
    return found


def lost(state: SessionState, machine: str) -> bool:
    """Does its look boot after the machine failed, so that nobody knows whether it will ever come up?"""
    look = state.live_look(machine)
    return look is not None and look.record is None and state.troubles.get(machine, 0) > 0


def given_up(state: SessionState, worker: str) -> str:
    """Why a machine or the builder is not asked again before a resume, with its last words; "" if it still is."""
    errors = errors_of(state, worker)
    if not errors.spent:
        return ""
    times = "once" if errors.used == 1 else f"{errors.used} times in a row"
    return f"{worker} failed {times} ({errors.limit}), the last time: {errors.last}"


def first_facts(looks: Iterable[Look]) -> MachineFacts | None:
    """What a machine said of itself first, fact by fact; None before its first boot. `looks` are its own, in order.

    A fact that only later boots tell (the session goes on under a newer program) counts from there on.
    """
    known: MachineFacts | None = None
    for look in looks:
        if look.record is not None:
            known = look.record.facts if known is None else known.taking_in(look.record.facts)
    return known

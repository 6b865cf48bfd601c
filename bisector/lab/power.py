"""Cutting a machine's power by the user's commands. That they end with 0 proves nothing: only a new boot does."""

import time
from contextlib import suppress

from bisector.lab.command import run_here
from bisector.model.errors import MachineError
from bisector.recipe.machines import Power, SshMachine

_TRIES = 3
"""Management controllers stutter: a session error that vanishes on the next try is common."""


def power_cycle(machine: SshMachine, power: Power) -> None:
    """Cycle the power, or turn it off and on. Raises MachineError with the last answer if the commands keep failing."""
    if power.cycle is not None:
        _insist(machine, power, "cycle", power.cycle)
    if power.off is not None and power.on is not None:
        _insist(machine, power, "off", power.off)
        time.sleep(power.pause_s)
        _insist(machine, power, "on", power.on)


def _insist(machine: SshMachine, power: Power, name: str, command: str) -> None:
    variables = {"BISECTOR_MACHINE": machine.name, "BISECTOR_HOST": machine.host}
    what = f"{machine.name}: the command power.{name}"
    for _ in range(_TRIES - 1):
        with suppress(MachineError):
            run_here(what, command, variables=variables, timeout_s=power.timeout_s)
            return
        time.sleep(power.pause_s)
    run_here(what, command, variables=variables, timeout_s=power.timeout_s)

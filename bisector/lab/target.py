"""From a machine's entry to where it answers and which keys prove it."""

from pathlib import Path

from bisector.lab.known_hosts import pinned_keys
from bisector.lab.ssh import Target
from bisector.recipe.machines import JumpHost, SshMachine


def target_of(config: SshMachine) -> Target:
    """Where a machine of the recipe answers. Raises MachineError if its known_hosts file pins no key for it."""
    jump = None if config.jump is None else _target(f"{config.name}'s jump host", config.jump, None)
    return _target(config.name, config, jump)


def _target(name: str, host: SshMachine | JumpHost, jump: Target | None) -> Target:
    keys = host.host_key
    if host.known_hosts is not None:
        keys = pinned_keys(Path(host.known_hosts), host.host, host.port)
    return Target(
        name=name, host=host.host, port=host.port, user=host.user, key=Path(host.key), host_keys=keys, jump=jump
    )

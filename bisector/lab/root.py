"""What only root may do on a machine: as ourselves if we are root there, by sudo without a terminal otherwise."""

import secrets
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from bisector.lab.ssh import CommandResult, Shell
from bisector.model.errors import MachineError

# Whole or not at all also as root: what arrived in our own folder is copied beside its place, compared, and renamed.
_INSTALL = """
set -e
part=$2.part-$$
trap 'rm -f -- "$part"' EXIT
cp -- "$1" "$part"
chmod "$3" "$part"
cmp -- "$1" "$part"
mv -f -- "$part" "$2"
sync "$2" "${2%/*}" 2>/dev/null || sync
"""


_SAY = 'say() { echo "@@$1"; shift; "$@" 2>/dev/null; echo; }\n'


class Root:
    """Runs commands as root on one machine. It never waits for a password."""

    def __init__(self, shell: Shell, *, sudo: bool) -> None:
        self.shell = shell
        self._sudo = sudo

    @property
    def name(self) -> str:
        """The machine's."""
        return self.shell.target.name

    def run(self, argv: Sequence[str], *, timeout_s: float) -> CommandResult:
        """As `Shell.run`. Raises MachineError, also when sudo wants a password."""
        through = ("sudo", "-n", "--") if self._sudo else ()
        result = self.shell.run(argv, timeout_s=timeout_s, through=through)
        if self._sudo and result.exit_code == 1 and result.stderr.startswith("sudo: "):
            raise self._refused(result)
        return result

    def script(self, script: str, *arguments: str, timeout_s: float = 60.0) -> str:
        """What a shell script says that must end well. Raises MachineError with its own words."""
        result = self.run(("sh", "-c", script, "bisector", *arguments), timeout_s=timeout_s)
        if result.exit_code != 0:
            said = (result.stderr or result.stdout).strip()
            last = said.splitlines()[-1] if said else f"exit code {result.exit_code}"
            raise MachineError(f"{self.name}: {last[:300]}", details=said[-2000:])
        return result.stdout

    def told(self, script: str, *arguments: str) -> dict[str, str]:
        """What a script says that asks many things at once, by name: `say NAME COMMAND...`; "" if a command fails."""
        said = self.script(_SAY + script, *arguments)
        sections = (part.partition("\n") for part in ("\n" + said).split("\n@@")[1:])
        return {name: content.strip("\n") for name, _, content in sections}

    def put(self, local: Path, remote: str, mode: int) -> None:
        """As `Shell.put`, into a folder of root's."""
        if not self._sudo:
            self.shell.put(local, remote, mode)
            # The rename must outlive a power cut that may come within seconds.
            self.script('sync "$1" "${1%/*}" 2>/dev/null || sync', remote)
            return
        passing = f"/tmp/bisector-{secrets.token_hex(8)}"
        try:
            self.shell.put(local, passing, 0o600)
            self.script(_INSTALL, passing, remote, f"{mode:o}", timeout_s=300)
        finally:
            with suppress(MachineError):
                self.shell.run(("rm", "-f", passing), timeout_s=20)

    def _refused(self, result: CommandResult) -> MachineError:
        user = self.shell.target.user
        return MachineError(
            f"{self.name}: sudo does not let {user} act as root without a password",
            details=result.stderr.strip()[:500],
            resolution=f"On the machine: echo '{user} ALL=(ALL) NOPASSWD: ALL' >/etc/sudoers.d/bisector",
        )

"""A box's name and address, its console, and its power switch: a pipe to which whoever may cut the power writes."""

import os
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bisector.recipe.machines import SshMachine


class Powered:
    """What every box has. `plug_in` comes first."""

    root: Path
    name: str
    address: str
    port: int

    def plug_in(self) -> None:
        """Make its console and the pipe to its switch."""
        self.console.touch()
        os.mkfifo(self.root / "wire")
        # Both ends, so that neither we nor those who write to it ever wait for the other.
        self._wire = os.fdopen(os.open(self.root / "wire", os.O_RDWR), "r+b", buffering=0)

    def unplug(self) -> None:
        self._wire.close()

    @property
    def console(self) -> Path:
        """All that the machine ever said."""
        return self.root / "console.log"

    @property
    def power_command(self) -> str:
        """Cuts the power."""
        return f"echo cut >{shlex.quote(str(self.root / 'wire'))}"

    def order(self, word: str) -> None:
        self._wire.write(f"{word}\n".encode())

    def orders(self) -> Iterator[str]:
        """Each word as it comes."""
        for raw in self._wire:
            yield raw.decode().strip()

    def entry(self, changes: dict[str, Any], *, key: Path, host_key: str, pause_s: float, **more: Any) -> SshMachine:
        """Its entry in a machines file: where it answers, its power command, `more`, and over all that `changes`."""
        entry = {
            "kind": "ssh",
            "name": self.name,
            "host": self.address,
            "port": self.port,
            "key": str(key),
            "host_key": (host_key,),
            "power": {"cycle": self.power_command, "pause_s": pause_s},
        }
        return SshMachine.model_validate({**entry, **more, **changes})

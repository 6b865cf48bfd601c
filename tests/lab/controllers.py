"""What tests of a whole machine begin with, be it a fake box or one with a disk: its controllers, and one boot."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Protocol

from lab.machines import QUICK

from bisector.lab.physical import PhysicalMachine
from bisector.lab.ssh import Limits
from bisector.model.errors import KernelError, MachineError
from bisector.model.kernel import KernelImage
from bisector.model.machine import BootRecord
from bisector.recipe.machines import SshMachine

Make = Callable[..., PhysicalMachine]


class Box(Protocol):
    """A machine of a test, which knows its entry in a machines file."""

    def config(self, **changes: Any) -> SshMachine: ...


def proven_in(folder: Path) -> Path:
    """The folder of a session that has seen one-shot boots hold on its machine."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "one-shot-proven").touch()
    return folder


def let_go(machine: PhysicalMachine) -> None:
    """End what it left, wherever a test left it."""
    with suppress(KernelError, MachineError):
        machine.recover()
    machine.shell.close()


@contextmanager
def controllers(
    box: Box, folder: Path, *, limits: Limits = QUICK, end: Callable[[PhysicalMachine], object] = let_go
) -> Iterator[Make]:
    """Makes controllers of the box, by session, and in the end brings each to its own.

    They take changes of the box's entry. One-shot boots were proven there before, unless `proven` says otherwise.
    """
    made: list[PhysicalMachine] = []

    def machine(session: str = "hunt", *, proven: bool = True, **changes: Any) -> PhysicalMachine:
        own = proven_in(folder / session) if proven else folder / session
        made.append(PhysicalMachine(box.config(**changes), own, session=session, limits=limits))
        return made[-1]

    yield machine
    for one in made:
        end(one)


def booting_by(method: str, make: Make) -> Make:
    """The same, which take changes of `boot` instead, and have time for its detours."""

    def machine(*, proven: bool = True, **boot: Any) -> PhysicalMachine:
        return make(proven=proven, boot={"method": method, **boot}, boot_timeout_s=20.0, shutdown_timeout_s=20.0)

    return machine


def boot(machine: PhysicalMachine, image: KernelImage, folder: Path) -> BootRecord:
    return machine.boot(image, console=folder / "console.log", on_progress=lambda _: None)

"""What the tests of each bootloader on a fake box begin with: controllers of the box, and one boot."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from lab.fakebox import FakeBox
from lab.machines import QUICK

from bisector.lab.physical import PhysicalMachine
from bisector.model.errors import KernelError, MachineError
from bisector.model.kernel import KernelImage
from bisector.model.machine import BootRecord

Make = Callable[..., PhysicalMachine]


@contextmanager
def controllers(box: FakeBox, folder: Path, method: str) -> Iterator[Make]:
    """Makes controllers that boot by `method`, all of one session; one-shot boots were proven there unless not."""
    made: list[PhysicalMachine] = []

    def machine(*, proven: bool = True, **boot: object) -> PhysicalMachine:
        (folder / "hunt").mkdir(exist_ok=True)
        if proven:
            (folder / "hunt" / "one-shot-proven").touch()
        config = box.config(boot={"method": method, **boot}, boot_timeout_s=20.0, shutdown_timeout_s=20.0)
        made.append(PhysicalMachine(config, folder / "hunt", session="hunt", limits=QUICK))
        return made[-1]

    yield machine
    for one in made:
        with suppress(KernelError, MachineError):
            one.recover()
        one.shell.close()


def boot(machine: PhysicalMachine, image: KernelImage, folder: Path) -> BootRecord:
    return machine.boot(image, console=folder / "console.log", on_progress=lambda _: None)

"""What the session needs from the outside, and nothing more. `cli/wiring.py` plugs in the real ones, tests fakes.

All calls block and are made on a worker's thread. `KernelError` means this kernel is at fault, `LabError` means we
are; anything else is a bug and stops the controller with its stack trace.
"""

from pathlib import Path
from typing import Protocol

from bisector.model.events import Event
from bisector.model.kernel import KernelImage
from bisector.model.machine import BootRecord, NotGivenBack
from bisector.model.progress import OnProgress as OnProgress
from bisector.model.progress import Progress as Progress
from bisector.model.sample import RunRecord


class Builder(Protocol):
    """Makes kernels. One build at a time."""

    def build(self, commit: str, *, log: Path, on_progress: OnProgress) -> KernelImage:
        """Return the image of a commit, from the cache if it is there, built otherwise; the log goes to `log`.

        Raises KernelError (config_failed, build_failed) or BuilderError.
        """
        ...

    def find(self, commit: str) -> KernelImage | None:
        """The image of a commit if it is in the cache, at once, also while a build runs on another thread.

        None if it is not, or if that cannot be told now; raises nothing.
        """
        ...

    def cancel(self) -> None:
        """End a build that runs on another thread: it raises BuilderError there. Nothing half-made stays."""
        ...


class Machine(Protocol):
    """One lab machine, and the benchmark on it."""

    @property
    def name(self) -> str:
        """The name people gave it."""
        ...

    def recover(self) -> None:
        """End what a dead controller left on it: its guest, its job. Called before the first boot of a controller."""
        ...

    def boot(self, image: KernelImage, *, console: Path, on_progress: OnProgress) -> BootRecord:
        """Boot this kernel and prove that it runs; the console goes to `console`.

        Raises KernelError (boot_failed, crashed, wrong_kernel) or MachineError.
        """
        ...

    def calibrate(self, *, log: Path) -> tuple[tuple[str, int], ...]:
        """Operations per sample of each test on the running kernel, for the recipe's sample length."""
        ...

    def run(self, batches: tuple[tuple[str, int], ...], *, log: Path, on_progress: OnProgress) -> RunRecord:
        """Measure every test once, with these batches; the raw lines go to `log`.

        Raises KernelError (crashed) or MachineError. The record's `artefact` is left empty; the session names it.
        """
        ...

    def rest(self) -> None:
        """Nothing more is asked of this boot: let go of what it costs this computer. Raises nothing, takes no time.

        The one call that is not made on the machine's thread; its worker has nothing to do then.
        """
        ...

    def release(self) -> NotGivenBack | None:
        """Leave the machine as it was found (the embedded one: shut down); None if it is. Never raises a LabError."""
        ...


class Observer(Protocol):
    """Whoever watches: the live view, plain lines, nobody."""

    def happened(self, seq: int, at: float, event: Event) -> None:
        """An event was made durable. `at` is seconds since the epoch."""
        ...

    def progressed(self, worker: str, progress: Progress) -> None:
        """A worker ("builder" or a machine's name) reports a step on the way."""
        ...

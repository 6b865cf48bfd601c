"""What a physical machine needs of a bootloader. Whatever implements it never changes the default entry."""

from typing import Protocol

from bisector.model.errors import MachineError
from bisector.model.kernel import KernelImage

MARK = "bisector.boot"
"""The kernel's command line of our entries carries this word, and "=" what was booted; kernels pass over it."""


class OneShotError(MachineError):
    """One-shot boots cannot be trusted on this machine: nothing was booted."""


class BootMethod(Protocol):
    """One-shot boots on one machine. Every call raises MachineError when the machine says no or is lost."""

    def inspect(self) -> None:
        """Look at all that can be known without a reboot, and change nothing. Raises OneShotError with the reason."""
        ...

    def preflight(self) -> None:
        """The same on the default kernel, and remember what the default is. Raises OneShotError."""
        ...

    def arm_probe(self, token: str) -> bool:
        """Prepare one boot of the *default* kernel by our own means, its command line marked with `token`.

        False if this method cannot; then its `preflight` has to be proof enough.
        """
        ...

    def install(self, image: KernelImage, *, running: str, anew: bool) -> None:
        """Put the image where the bootloader finds it, unless it is there; `anew` puts it there in any case.

        Makes room first by removing our own kernels, never the running one (a release) or the default.
        """
        ...

    def boot_once(self, image: KernelImage) -> None:
        """Let the next boot, and only that one, be of this image."""
        ...

    @property
    def reboot_order(self) -> str | None:
        """A shell script that boots what was prepared, for a method whose test kernels no plain reboot leads to."""
        ...

    @property
    def starts_from_default(self) -> bool:
        """Must the default kernel run when `install` and `boot_once` are called?"""
        ...

    def armed(self) -> str | None:
        """What the next boot is set to, "" for the default; None if this method cannot know."""
        ...

    def disarm(self) -> None:
        """Let the next boot be the default's. Harmless when nothing is set."""
        ...

    def require_default(self) -> None:
        """Raises OneShotError if the default entry is not what it was at `preflight`."""
        ...

"""From an image to a proven kernel: install, boot once, judge what came up.

One attempt, and what was seen of it: whether the kernel or the machine is to blame when it did not come up takes more
attempts and other kernels, and the session decides on those.
"""

import secrets
from collections.abc import Callable

from bisector.lab import proof
from bisector.lab.boot.method import MARK, BootMethod, OneShotError
from bisector.lab.console import ConsoleText
from bisector.lab.reboot import Arrival, OnWait, Rebooter, Rung, Running
from bisector.lab.root import Root
from bisector.model.errors import KernelError
from bisector.model.kernel import KernelImage
from bisector.model.outcome import Outcome


class BringUp:
    """Boots kernels on one machine. Remembers those that did not come up, to install them anew the next time."""

    def __init__(
        self, root: Root, method: BootMethod, rebooter: Rebooter, *, console: Callable[[], ConsoleText | None]
    ) -> None:
        self._root = root
        self._method = method
        self._rebooter = rebooter
        self._console = console
        self._doubted: set[str] = set()
        self._last_boot_id: str | None = None
        self.away = False
        """Does the machine run a kernel of ours, so that it has to be returned to its default?"""

    def prove_one_shot(self, here: Running, on_wait: OnWait) -> Running:
        """Boot the default kernel once by our own entry and see that the setting is gone; what runs then.

        For a method that cannot do this, nothing happens. Raises OneShotError or UnreachableError.
        """
        token = f"probe-{secrets.token_hex(4)}"
        if not self._method.arm_probe(token):
            return here
        arrived = self._rebooter.reboot(here, on_wait, order=self._method.reboot_order).running
        self._require_cleared()
        if arrived.mark != token:
            raise OneShotError(
                f"{self._root.name}: a one-shot boot was set, but the machine booted its default entry instead",
                details=f"it runs {arrived.release} without {MARK}={token} on its command line",
                resolution="Does another bootloader, or another /boot, start this machine?",
            )
        return arrived

    def return_to_default(self, here: Running, on_wait: OnWait) -> Running:
        """Reboot plainly; what runs then. Raises OneShotError if that is a kernel of ours again."""
        back = self._rebooter.reboot(here, on_wait).running
        self.away = bool(back.mark)
        if back.mark:
            raise OneShotError(
                f"{self._root.name}: after a reboot it still runs our kernel {back.release}, not its default",
                resolution="Set the machine's default entry to a kernel of its own, then resume.",
            )
        return back

    def bring_up(self, image: KernelImage, here: Running, on_wait: OnWait) -> proof.RunningKernel:
        """Boot this kernel and prove it. Raises KernelError if something else came up, MachineError otherwise."""
        arrival = self._boot_once(image, here, on_wait, anew=image.release in self._doubted)
        self._doubted.add(image.release)
        proven = self._judge(arrival, image)
        self._doubted.remove(image.release)
        self._last_boot_id = proven.boot_id
        return proven

    def _boot_once(self, image: KernelImage, here: Running, on_wait: OnWait, *, anew: bool) -> Arrival:
        if here.mark and self._method.starts_from_default:
            here = self.return_to_default(here, on_wait)
        on_wait(f"installing {image.release}")
        self._method.install(image, running=here.release, anew=anew)
        self._method.boot_once(image)
        self.away = True
        arrival = self._rebooter.reboot(here, on_wait, order=self._method.reboot_order)
        self.away = bool(arrival.running.mark) or arrival.running.release == image.release
        return arrival

    def _judge(self, arrival: Arrival, image: KernelImage) -> proof.RunningKernel:
        """The kernel, if it is the right one. Raises KernelError otherwise, OneShotError if the setting stuck."""
        running = arrival.running
        if running.release == image.release:
            self._require_cleared()
            seen = proof.ask(self._root.shell)
            proof.require(seen, image, previous_boot_id=self._last_boot_id)
            return seen
        ignored = self._method.armed()
        if ignored:
            self._method.disarm()
        self._method.require_default()
        console = self._console()
        kernel, back = f"The kernel of {image.commit[:12]}", f"the machine is back on {running.release}"
        if console is not None and console.fault is not None:
            raise KernelError(
                f"{kernel} crashed while booting ({console.fault.fault}): {console.fault.lines[0][:200]}",
                outcome=Outcome.CRASHED,
                details="\n".join(console.fault.lines),
            )
        last = "\n".join(console.last_lines) if console is not None else "there is no console to tell why"
        if arrival.rung is Rung.POWER:
            raise KernelError(
                f"{kernel} hung: nothing answered by SSH until the power was cut; {back}",
                outcome=Outcome.BOOT_FAILED,
                details=last,
            )
        raise KernelError(
            f"{kernel} did not come up: {back}",
            outcome=Outcome.WRONG_KERNEL if ignored else Outcome.BOOT_FAILED,
            details=f"the one-shot boot was ignored: {ignored} was still set" if ignored else last,
        )

    def _require_cleared(self) -> None:
        """Raises OneShotError if the next boot is still set, or the default changed: then no boot can be trusted."""
        if armed := self._method.armed():
            self._method.disarm()
            raise OneShotError(
                f"{self._root.name}: the one-shot boot does not clear itself: {armed} was still set after it booted",
                details="Every reboot would enter the test kernel again.",
                resolution="Put the bootloader's environment where it can be written, or use another boot method.",
            )
        self._method.require_default()

"""From an image to a proven kernel: install, boot once, judge what came up, and call a witness before blaming it.

Nothing is a kernel's fault before the machine was seen to work without it. After a panic on the console, or a hang
that only the power switch ended, the default kernel is back and that is the witness. A kernel that did not come up
without a word is no different from a boot set-up that broke, so a control has to boot the same way.
"""

import secrets
from collections.abc import Callable

from bisector.lab import proof
from bisector.lab.boot.method import MARK, BootMethod, OneShotError
from bisector.lab.console import ConsoleText
from bisector.lab.reboot import Arrival, OnWait, Rebooter, Rung, Running
from bisector.lab.root import Root
from bisector.model.errors import KernelError, MachineError
from bisector.model.kernel import KernelImage
from bisector.model.outcome import Outcome

_ATTEMPTS = 2
"""A kernel that did not come up is installed anew and booted once more before anything is said of it."""


class BringUp:
    """Boots kernels on one machine. Remembers what booted, to have a control when something does not."""

    def __init__(
        self, root: Root, method: BootMethod, rebooter: Rebooter, *, console: Callable[[], ConsoleText | None]
    ) -> None:
        self._root = root
        self._method = method
        self._rebooter = rebooter
        self._console = console
        self._control: KernelImage | None = None
        self._suspects: set[str] = set()
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
        arrived = self._rebooter.reboot(here, on_wait).running
        self._require_cleared()
        if arrived.mark != token:
            raise OneShotError(
                f"{self._root.name}: a one-shot boot was set, but the machine booted its default entry instead",
                details=f"it runs {arrived.release} without {MARK}={token} on its command line",
                resolution="Does another bootloader, or another /boot, start this machine?",
            )
        return arrived

    def bring_up(self, image: KernelImage, here: Running, on_wait: OnWait) -> proof.RunningKernel:
        """Boot this kernel and prove it. Raises KernelError once a witness was heard, MachineError otherwise."""
        problem: KernelError | None = None
        arrival: Arrival | None = None
        for attempt in range(_ATTEMPTS):
            arrival = self._boot_once(image, here, on_wait, anew=attempt > 0)
            here = arrival.running
            try:
                proven = self._judge(arrival, image)
            except KernelError as error:
                problem = error
            else:
                self._control = image
                self._suspects.clear()
                self._last_boot_id = proven.boot_id
                return proven
        assert problem is not None, "there were attempts"
        assert arrival is not None, "there were attempts"
        if problem.outcome is not Outcome.CRASHED and arrival.rung is not Rung.POWER:
            self._call_witness(image, here, problem, on_wait)
        raise problem

    def _boot_once(self, image: KernelImage, here: Running, on_wait: OnWait, *, anew: bool) -> Arrival:
        on_wait(f"installing {image.release}")
        self._method.install(image, running=here.release, anew=anew)
        self._method.boot_once(image)
        self.away = True
        arrival = self._rebooter.reboot(here, on_wait)
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

    def _call_witness(self, image: KernelImage, here: Running, problem: KernelError, on_wait: OnWait) -> None:
        """Raises MachineError if what is known to boot does not boot either."""
        if self._control is not None and self._control.commit != image.commit:
            witness = f"the kernel of {self._control.commit[:12]}, which had booted before"
            arrived = self._boot_once(self._control, here, on_wait, anew=False).running
            works = arrived.release == self._control.release
        else:
            witness = "the default kernel by an entry of ours"
            try:
                works = self.prove_one_shot(here, on_wait) is not here
            except OneShotError:
                works = False
            else:
                if not works:
                    # No probe and no control: a second kernel that does not come up speaks against the machine.
                    others = self._suspects - {image.commit}
                    witness = f"the kernel of {min(others)[:12]}" if others else ""
                    works = not others
        if not works:
            raise MachineError(
                f"{self._root.name} boots no kernel of ours: the lab is at fault, not {image.commit[:12]}",
                details=f"{problem.brief}\nneither did the control come up: {witness}",
                resolution="Look at its bootloader and its console, then resume: nothing was counted.",
            ) from problem
        self._suspects.add(image.commit)

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

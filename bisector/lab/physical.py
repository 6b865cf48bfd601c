"""A physical lab machine over SSH: leased, rebooted into one kernel after the other, returned to its default."""

import time
from contextlib import suppress
from pathlib import Path

from bisector.lab import proof
from bisector.lab.boot import boot_method
from bisector.lab.boot.method import MARK
from bisector.lab.bringup import BringUp
from bisector.lab.console import ConsoleFile, ConsoleText
from bisector.lab.jobs import Jobs
from bisector.lab.lease import Lease, LeaseError, new_token, this_controller
from bisector.lab.prepare import Preparation
from bisector.lab.process import GuestProcess, end_left_over
from bisector.lab.reboot import OnWait, Rebooter, Running, UnreachableError, running_now
from bisector.lab.root import Root
from bisector.lab.ssh import ConnectError, Limits, Shell
from bisector.lab.target import target_of
from bisector.lab.watch import QuietJobs, end_left_over_jobs, require_alone
from bisector.lab.watchdog import arm as arm_watchdog
from bisector.model.errors import KernelError, LabError, MachineError
from bisector.model.kernel import KernelImage
from bisector.model.machine import BootRecord, MachineFacts, NotGivenBack
from bisector.model.outcome import Outcome
from bisector.model.progress import OnProgress, Progress
from bisector.recipe.machines import SshMachine

_OF_THIS_BOOT = ("BOOT_IMAGE=", "initrd=", f"{MARK}=")
"""Words of the kernel's command line that differ between two boots of one machine and change nothing."""

_TRIES_TO_GIVE_BACK = 3


class PhysicalMachine:
    """One machine, under one session's lease. `folder` is the session's: the lease's token, what was proven once.

    Calls come from one thread at a time; `check` and `release` are harmless at any moment.
    """

    def __init__(self, config: SshMachine, folder: Path, *, session: str, limits: Limits | None = None) -> None:
        self._config = config
        self._folder = folder.absolute()
        self._folder.mkdir(parents=True, exist_ok=True)
        self._shell = Shell(target_of(config), limits=limits, explain_loss=self.check, greet=self._require_same_boot)
        self._root = Root(self._shell, sudo=config.sudo)
        self._method = boot_method(config, self._root)
        self._lease = Lease(
            self._root,
            config.lease_folder,
            token=self._token(),
            holder=this_controller(),
            session=session,
            length_s=config.lease_h * 3600,
        )
        self._rebooter = Rebooter(config, self._root, may_touch=self._may_touch)
        self._jobs = Jobs(self._shell, check=self.check, reconnect_s=config.boot_timeout_s)
        self._quiet_jobs = QuietJobs(self._jobs, self._require_ours_alone, name=config.name)
        self._preparation = Preparation(self._root, config.prepare, state_folder=config.state_folder)
        self._console_process = GuestProcess(self._folder / "console.json")
        self._console: ConsoleFile | None = None
        self._image: KernelImage | None = None
        self._proven_boot: str | None = None
        self._bring_up = BringUp(self._root, self._method, self._rebooter, console=self._console_text)
        self._prepared = False
        # Whether the lease is ours is also known after a restart: a machine that does not answer may be power-cycled
        # by the session that held it, and by nobody else.
        self._leased = self._folder / "leased"

    @property
    def name(self) -> str:
        """The name people gave it."""
        return self._config.name

    @property
    def shell(self) -> Shell:
        """The shell on it. Connects by itself, but never to another boot than the one that was proven."""
        return self._shell

    @property
    def jobs(self) -> QuietJobs:
        """Jobs under the running kernel."""
        return self._quiet_jobs

    def put(self, local: Path, remote: str, *, mode: int) -> None:
        """Upload a file, compare checksums, set its mode. Raises MachineError, or KernelError after a crash."""
        folder = remote.rpartition("/")[0] or "/"
        self._shell.check(("mkdir", "-p", folder), timeout_s=30)
        self._shell.put(local, remote, mode)

    def recover(self) -> None:
        """End the jobs that a dead controller left, and take back the one-shot boot that it may have set.

        A machine that does not answer is left to the next boot, which has means for that. Raises MachineError when
        somebody else holds it.
        """
        end_left_over(self._console_process.record)
        self._forget_boot()
        try:
            self._shell.connect()
        except ConnectError as error:
            if error.stage == "reach":
                return
            raise
        self._take_lease()
        end_left_over_jobs(self._root)
        self._set_back()
        self._method.disarm()

    def boot(self, image: KernelImage, *, console: Path, on_progress: OnProgress) -> BootRecord:
        """Boot this kernel once and prove that it runs. The machine's console, where there is one, goes to `console`.

        One attempt: raises KernelError for what was seen of it, crashed (a panic), boot_failed or wrong_kernel; or
        MachineError, and UnreachableError when only a person can help.
        """
        started = time.monotonic()
        console.write_bytes(b"")
        self._forget_boot()
        self._image = image

        def on_wait(text: str) -> None:
            self._console_text()
            on_progress(Progress(fraction=None, text=text))

        here = self._prepare(on_wait)
        self._follow_console(console)
        running = self._bring_up.bring_up(image, here, on_wait)
        prepared = self._preparation.apply()
        own = {"prepared": prepared} if prepared else {}
        if self._config.watchdog_s is not None:
            own["watchdog"] = str(arm_watchdog(self._root, self._config.watchdog_s))
        # Asked again: a fact is what holds while it measures.
        facts = self._facts(proof.ask(self._shell) if prepared else running, own)
        require_alone(self._shell, self._config.ignore_logins)
        self._lease.renew()
        self._proven_boot = running.boot_id
        return BootRecord(
            boot_id=running.boot_id,
            release=running.release,
            build_id=running.build_id,
            facts=facts,
            duration_s=time.monotonic() - started,
            artefact="",
        )

    def prove_one_shot(self, on_wait: OnWait) -> None:
        """See by reboots of the default kernel that a one-shot boot holds and clears itself. Raises MachineError.

        The machine is leased then, until `release`.
        """
        self._prepare(on_wait)

    def prove_power(self, on_wait: OnWait) -> None:
        """Cut the power, and see that the machine boots anew. Raises UnreachableError if it does not."""
        here = self._prepare(on_wait)
        self._root.script("sync", timeout_s=60)
        self._shell.close()
        self._rebooter.cut_power(here.boot_id, on_wait, [])

    def check(self) -> None:
        """Look at the console, if there is one. Raises KernelError after a panic or an oops of a proven kernel."""
        if self._console is None or self._proven_boot is None:
            return
        fault = self._console.poll().fault
        if fault is not None:
            raise KernelError(
                f"{self._kernel()} crashed ({fault.fault}): {fault.lines[0][:200]}",
                outcome=Outcome.CRASHED,
                details="\n".join(fault.lines),
            )

    def release(self) -> NotGivenBack | None:
        """Return the machine to its default kernel and give the lease back; None if that is done. Raises no LabError.

        Tried a few times, since nobody comes back for a machine whose session is over. One that stays out of reach
        boots its default next in any case, and its lease expires.
        """
        self._forget_boot()
        undone: LabError | None = None
        for tries_left in reversed(range(_TRIES_TO_GIVE_BACK)):
            undone = None
            if not self._leased.exists():
                break
            try:
                self._give_back()
            except (LeaseError, UnreachableError) as error:
                undone = error
                break
            except LabError as error:
                undone = error
                time.sleep(self._shell.limits.connect_s if tries_left else 0.0)
        self._shell.close()
        return None if undone is None else self._not_given_back(undone)

    def _not_given_back(self, error: LabError) -> NotGivenBack:
        reason = ": ".join([error.brief.rstrip("."), *error.details.strip().splitlines()[:1]])
        if isinstance(error, LeaseError):
            return NotGivenBack(reason=reason, resolution=error.resolution)
        mend = f"Reset it by hand: that boots its default kernel. Then: bisector lab release {self.name} --force"
        return NotGivenBack(
            reason=reason, resolution=f"{mend} (its lease ends by itself within {self._config.lease_h:g} h)"
        )

    def _give_back(self) -> None:
        self._lease.renew()
        self._set_back()
        self._method.disarm()
        here = running_now(self._root)
        if self._bring_up.away or here.mark:
            self._rebooter.reboot(here, lambda _: None)
            self._bring_up.away = False
        self._lease.drop()
        self._leased.unlink()

    def _prepare(self, on_wait: OnWait) -> Running:
        """Reach the machine, make it ours, and know that one-shot boots hold here."""
        try:
            self._shell.connect()
            here = running_now(self._root)
        except ConnectError as error:
            if error.stage != "reach":
                raise
            here = self._bring_back(error, on_wait)
        self._take_lease()
        require_alone(self._shell, self._config.ignore_logins)
        if self._prepared:
            return here
        self._method.disarm()
        if here.mark:
            here = self._bring_up.return_to_default(here, on_wait)
        self._method.preflight()
        marker = self._folder / "one-shot-proven"
        if not marker.exists():
            here = self._bring_up.prove_one_shot(here, on_wait)
            marker.write_text(f"{self._config.boot.method}\n")
        self._prepared = True
        return here

    def _bring_back(self, error: ConnectError, on_wait: OnWait) -> Running:
        said = f"{error.brief}: {error.details}"
        if not self._leased.exists():
            raise UnreachableError(
                f"{self.name} does not answer, and nobody knows whose it is: its power was not touched",
                details=said,
                resolution="Bring it up, then resume.",
            )
        return self._rebooter.find(on_wait, [said])

    def _console_text(self) -> ConsoleText | None:
        return None if self._console is None else self._console.poll()

    def _require_same_boot(self) -> None:
        """Greets every new connection: after a reboot that nobody ordered nothing may go on as if it had not been."""
        if self._proven_boot is None:
            return
        here = running_now(self._root)
        if here.boot_id == self._proven_boot:
            return
        proven, self._proven_boot = self._proven_boot, None
        # Somebody who took the machine may have rebooted it.
        self._lease.renew()
        fault = self._console.poll().fault if self._console is not None else None
        raise KernelError(
            f"{self._kernel()} crashed: the machine rebooted by itself and runs {here.release} now",
            outcome=Outcome.CRASHED,
            details="\n".join(fault.lines) if fault else f"boot id {here.boot_id}, was {proven}",
        )

    def _require_ours_alone(self) -> int:
        self._lease.renew()
        return require_alone(self._shell, self._config.ignore_logins)

    def _may_touch(self) -> None:
        """Before anything that ends what runs there. A machine that cannot be asked is one that we hold still."""
        try:
            self._lease.renew()
        except ConnectError:
            return

    def _set_back(self) -> None:
        # Best effort: the reboot to the default kernel sets back most of it.
        with suppress(MachineError):
            self._preparation.restore()

    def _take_lease(self) -> None:
        self._lease.take()
        self._leased.touch()

    def _token(self) -> str:
        """The same after a restart of the controller, so that a session finds its own lease again."""
        path = self._folder / "lease-token"
        if not path.exists():
            path.write_text(new_token())
        return path.read_text().strip()

    def _follow_console(self, path: Path) -> None:
        if self._config.console is None:
            return
        self._console = ConsoleFile(path)
        variables = (f"BISECTOR_MACHINE={self.name}", f"BISECTOR_HOST={self._config.host}")
        self._console_process.start(["env", *variables, "sh", "-c", self._config.console], stderr=path)

    def _forget_boot(self) -> None:
        self._proven_boot = None
        self._quiet_jobs.forget()
        self._console_process.end()
        console, self._console = self._console, None
        if console is not None:
            console.finish()

    def _facts(self, running: proof.RunningKernel, own: dict[str, str]) -> MachineFacts:
        """What the machine said, and `own`: what was set there for test kernels."""
        facts = {**dict(running.facts), **own}
        words = facts.get("cmdline", "").split()
        facts["cmdline"] = " ".join(word for word in words if not word.startswith(_OF_THIS_BOOT))
        facts["boot method"] = self._config.boot.condition
        wrong = [
            f"{name}: {facts.get(name, 'not told')}, expected {value}"
            for name, value in sorted(self._config.facts.items())
            if facts.get(name) != value
        ]
        if wrong:
            raise MachineError(
                f"{self.name} is not as its entry says: {wrong[0]}",
                details="\n".join(wrong),
                resolution="Set the machine up so, or correct facts: in its entry.",
            )
        return MachineFacts(pairs=tuple(sorted(facts.items())))

    def _kernel(self) -> str:
        return "The kernel" if self._image is None else f"The kernel of {self._image.commit[:12]}"

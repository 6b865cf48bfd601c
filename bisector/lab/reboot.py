"""Making a machine boot again, by ever harder means, and believing only a new boot id.

`ssh` orders a reboot; if the old kernel still answers after its time, `sysrq` orders one without asking its processes;
if that does not help either, or nobody answers any more, `power` cuts it. After that only a person can help.
"""

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum

from bisector.lab.boot.method import MARK
from bisector.lab.power import power_cycle
from bisector.lab.root import Root
from bisector.lab.ssh import ConnectError
from bisector.model.errors import MachineError
from bisector.recipe.machines import SshMachine

_SHORTEST_PAUSE_S, _LONGEST_PAUSE_S = 0.1, 2.0
"""Between two looks at a machine that boots: a tenth of the time that it has taken so far, within these."""

_ASK = "cat /proc/sys/kernel/random/boot_id; uname -r; cat /proc/cmdline"

_ORDER = "sync; systemctl reboot || reboot || shutdown -r now"

# Sync, remount read-only, reboot. Without CONFIG_MAGIC_SYSRQ a program makes the same system call. No reply may come.
_ORDER_NOW = """
[ -e /proc/sysrq-trigger ] || { sync; exec reboot -ff; }
echo 1 >/proc/sys/kernel/sysrq
for key in s u b; do echo $key >/proc/sysrq-trigger; sleep 1; done
"""


class Rung(StrEnum):
    """The means, in the order they are tried."""

    SSH = "ssh"
    SYSRQ = "sysrq"
    POWER = "power"


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """What a machine runs now, in a few words. `mark` is our word on its command line, "" on anybody else's kernel."""

    boot_id: str
    release: str
    mark: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """A machine that booted: what runs, and the last means that it took."""

    running: Running
    rung: Rung


class UnreachableError(MachineError):
    """Every means is exhausted: a person has to look. Says nothing of the kernel that was to boot."""


class _StillOldError(Exception):
    pass


class _SilentError(Exception):
    pass


OnWait = Callable[[str], None]
"""Called about once a second with what is being waited for; may raise."""


def running_now(root: Root) -> Running:
    """Ask the machine on the connection there is. Raises MachineError."""
    said = root.shell.check(("sh", "-c", _ASK), timeout_s=30).splitlines()
    if len(said) < 2 or len(said[0]) != 36:
        raise MachineError(f"{root.name}: it does not tell its boot id", details="\n".join(said)[:500])
    words = said[2].split() if len(said) > 2 else []
    marks = [word.removeprefix(f"{MARK}=") for word in words if word.startswith(f"{MARK}=")]
    return Running(boot_id=said[0], release=said[1], mark=marks[-1] if marks else "")


class Rebooter:
    """Reboots one machine. `may_touch` is asked before each means: it raises if the machine is not ours any more."""

    def __init__(self, machine: SshMachine, root: Root, *, may_touch: Callable[[], None]) -> None:
        self._machine = machine
        self._root = root
        self._may_touch = may_touch

    def reboot(self, old: Running, on_wait: OnWait, *, order: str | None = None) -> Arrival:
        """Reboot from `old` and wait for another boot id. Raises UnreachableError, or what `on_wait` raises.

        `order` is a script to begin with, for what a plain reboot does not lead to.

        Each means has `shutdown_timeout_s` to make the old kernel go and `boot_timeout_s` to bring another one.
        """
        tried: list[str] = []
        for rung in (Rung.SSH, Rung.SYSRQ):
            self._may_touch()
            self._order(order or _ORDER if rung is Rung.SSH else _ORDER_NOW)
            try:
                return Arrival(running=self._wait(old.boot_id, on_wait), rung=rung)
            except _StillOldError:
                limit_s = self._machine.shutdown_timeout_s
                tried.append(f"{rung}: the old kernel still answered after {limit_s:.0f} s")
            except _SilentError:
                tried.append(f"{rung}: no answer within {self._machine.boot_timeout_s:.0f} s")
                break
        return self.cut_power(old.boot_id, on_wait, tried)

    def find(self, on_wait: OnWait, tried: list[str]) -> Running:
        """What runs on a machine that did not answer just now. Raises as `reboot` does.

        It may be booting, as after a controller that was killed meanwhile, so its power is cut only if it stays silent.
        """
        try:
            return self._wait(None, on_wait)
        except _SilentError:
            tried = [*tried, f"no answer within {self._machine.boot_timeout_s:.0f} s"]
        return self.cut_power(None, on_wait, tried).running

    def cut_power(self, old_boot_id: str | None, on_wait: OnWait, tried: list[str]) -> Arrival:
        """The last means, when no other helped (`tried`). Raises UnreachableError."""
        power = self._machine.power
        if power is None:
            raise self._unreachable([*tried, "power: no command is configured"])
        try:
            power_cycle(self._machine, power)
        except MachineError as error:
            raise self._unreachable([*tried, f"{error.brief} {error.details}".strip()]) from error
        try:
            return Arrival(running=self._wait(old_boot_id, on_wait), rung=Rung.POWER)
        except _StillOldError:
            tried.append("power: the command ended well, but the old kernel still answers: is it the right outlet?")
        except _SilentError:
            tried.append(f"power: no answer within {self._machine.boot_timeout_s:.0f} s after it")
        raise self._unreachable(tried)

    def _order(self, script: str) -> None:
        # A connection that breaks meanwhile is what we want, and no answer at all is judged by the wait.
        with suppress(MachineError):
            self._root.run(("sh", "-c", script), timeout_s=20)
        self._root.shell.close()

    def _wait(self, old_boot_id: str | None, on_wait: OnWait) -> Running:
        name = self._machine.name
        started = last_old = time.monotonic()
        while True:
            elapsed_s = time.monotonic() - started
            on_wait(f"waiting for {name} to boot, {elapsed_s:.0f} s")
            try:
                # A fresh connection each time: a half-open one would hide that the machine is back.
                self._root.shell.connect()
                running = running_now(self._root)
            except ConnectError as error:
                # Login is refused while a machine boots ("System is booting up"); a foreign host key never mends.
                if error.stage == "host_key":
                    raise
            except MachineError:
                pass
            else:
                if running.boot_id != old_boot_id:
                    return running
                last_old = time.monotonic()
                if last_old - started > self._machine.shutdown_timeout_s:
                    raise _StillOldError
            if time.monotonic() - last_old > self._machine.boot_timeout_s:
                raise _SilentError
            time.sleep(min(_LONGEST_PAUSE_S, max(_SHORTEST_PAUSE_S, elapsed_s / 10)))

    def _unreachable(self, tried: list[str]) -> UnreachableError:
        return UnreachableError(
            f"{self._machine.name} is unreachable: a person has to look",
            details="\n".join(tried),
            resolution="Bring it back to its default kernel (console, power button), then resume: nothing was counted.",
        )

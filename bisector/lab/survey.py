"""Is a machine fit for hunts? One answer for each requirement, without a reboot and without changing anything."""

import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from bisector.lab import proof
from bisector.lab.boot import boot_method
from bisector.lab.boot.initrd import FIND, TOOLS
from bisector.lab.boot.modules import ModuleFolder
from bisector.lab.lease import look
from bisector.lab.reboot import running_now
from bisector.lab.root import Root
from bisector.lab.ssh import Limits, Shell
from bisector.lab.target import target_of
from bisector.lab.watch import conditions, require_alone
from bisector.lab.watchdog import look as look_at_watchdog
from bisector.model.errors import BisectorError
from bisector.recipe.machines import Installed, KexecBoot, SshMachine

_TOOLS = (
    *("sh", "setsid", "mkfifo", "sha256sum", "base64", "tr", "grep", "awk", "ln", "who"),
    *("uname", "df", "cmp", "date", "stat", "sed", "env"),
)


# Of the folder that is there, or will be made in.
_SPACE = 'p=$1; while [ ! -d "$p" ]; do p=${p%/*}; p=${p:-/}; done; df -P -k "$p" | tail -n 1'
# A kernel and its initramfs in /boot; the suite, its outputs and the lease in the state folder.
_KERNEL_MIB = 32
_STATE_MIB = 8
# Those of a distribution's own configuration, stripped and not compressed, take most of it.
_MODULES_MIB = 400
_BUSY_LOAD = 0.5


class Grade(StrEnum):
    """What a requirement came out as. A `NOTE` costs nothing now, but a person may be needed at night."""

    PASS = "pass"
    NOTE = "note"
    FAIL = "fail"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One requirement: what was seen, and how to mend it ("" if there is nothing to mend)."""

    requirement: str
    grade: Grade
    seen: str
    mend: str = ""


class Survey:
    """Looks at one machine over a connection of its own. Nobody's lease is needed: nothing is changed."""

    def __init__(self, machine: SshMachine, *, limits: Limits | None = None) -> None:
        self._machine = machine
        self._limits = limits
        self._shell: Shell | None = None

    def close(self) -> None:
        """Drop the connection."""
        if self._shell is not None:
            self._shell.close()

    def findings(self) -> Iterator[Finding]:
        """Every requirement in the order they depend on each other; stops where the rest cannot be looked at."""
        first = self._finding("SSH", self._connect)
        yield first
        if first.grade is Grade.FAIL:
            return
        for requirement, step in (
            ("root", self._root_rights),
            ("programs", self._programs),
            ("uploads", self._uploads),
            ("lease", self._lease),
            ("alone", self._alone),
            ("space", self._space),
            ("initramfs", self._initramfs),
            ("quiet", self._quiet),
            ("default kernel", self._default_kernel),
            ("one-shot boot", self._one_shot),
            ("proof", self._proof),
            ("governor", self._governor),
            ("power", self._power),
            ("watchdog", self._watchdog),
            ("console", self._console),
        ):
            yield self._finding(requirement, step)

    def facts(self) -> proof.RunningKernel:
        """What the machine says of itself and of the kernel it runs. Raises MachineError."""
        self._connect()
        return proof.ask(self._connected)

    def conditions(self) -> dict[str, str]:
        """What changes by itself: load, temperature; and the hardware watchdog, if it has one. Raises MachineError."""
        watchdog = look_at_watchdog(self._connected)
        now = conditions(self._connected)
        return now if watchdog is None else {**now, "watchdog": f"{watchdog}{', active' if watchdog.is_active else ''}"}

    @property
    def root(self) -> Root:
        """Root's rights over the survey's connection. Raises MachineError if it cannot be had."""
        if self._shell is None:
            self._connect()
        return Root(self._connected, sudo=self._machine.sudo)

    @property
    def _connected(self) -> Shell:
        assert self._shell is not None, "the first step connects"
        return self._shell

    @staticmethod
    def _finding(requirement: str, step: Callable[[], "tuple[Grade, str, str] | str"]) -> Finding:
        try:
            found = step()
        except BisectorError as error:
            first = error.details.strip().splitlines()[:1]
            seen = ": ".join([error.brief.rstrip("."), *(line for line in first if line not in error.brief)])
            return Finding(requirement=requirement, grade=Grade.FAIL, seen=seen, mend=error.resolution)
        if isinstance(found, str):
            return Finding(requirement=requirement, grade=Grade.PASS, seen=found)
        grade, seen, mend = found
        return Finding(requirement=requirement, grade=grade, seen=seen, mend=mend)

    def _connect(self) -> str:
        target = target_of(self._machine)
        self._shell = Shell(target, limits=self._limits)
        self._shell.connect()
        return f"{target.user}@{target.host}:{target.port} answers with a pinned host key"

    def _root_rights(self) -> tuple[Grade, str, str] | str:
        uid = self.root.script("id -u").strip()
        if uid != "0":
            return Grade.FAIL, f"commands run as user id {uid}", "Log in as root, or say sudo: true in its entry."
        return "by sudo, without a password" if self._machine.sudo else "we log in as root"

    def _programs(self) -> tuple[Grade, str, str] | str:
        script = 'for p in "$@"; do command -v "$p" >/dev/null || echo "$p"; done'
        missing = self._connected.check(("sh", "-c", script, "look", *_TOOLS), timeout_s=30).split()
        if missing:
            return Grade.FAIL, f"missing: {', '.join(missing)}", "Debian: apt-get install coreutils util-linux mawk"
        return f"all {len(_TOOLS)} that are needed"

    def _uploads(self) -> str:
        remote = "/tmp/bisector-check"
        with tempfile.NamedTemporaryFile() as file:
            file.write(b"bisector\n" * 1000)
            file.flush()
            self._connected.put(Path(file.name), remote)
        self._connected.check(("rm", "-f", remote), timeout_s=30)
        return "SFTP works"

    def _lease(self) -> tuple[Grade, str, str] | str:
        holding = look(self.root, self._machine.lease_folder)
        if holding.state == "held":
            return Grade.NOTE, str(holding), "Wait for it, or take another machine."
        return str(holding)

    def _alone(self) -> str:
        throttled = require_alone(self._connected, self._machine.ignore_logins)
        return "nobody else is logged in" + (f"; throttled {throttled} times since the boot" if throttled else "")

    def _space(self) -> tuple[Grade, str, str] | str:
        needed = {"/boot": _KERNEL_MIB, self._machine.state_folder: _STATE_MIB}
        free = {place: self._free_mib(place) for place in needed}
        told = ", ".join(f"{place} {mib} MiB free" for place, mib in free.items())
        short = [f"{place} needs {mib} MiB" for place, mib in needed.items() if free[place] < mib]
        if short:
            return Grade.FAIL, told, f"{' and '.join(short)}: remove what the machine does not need."
        return told

    def _initramfs(self) -> tuple[Grade, str, str] | str:
        """Only kernels with modules need one: whether a hunt's do is not known here."""
        boot = self._machine.boot
        if not isinstance(boot, Installed):
            return "a matter of the entry's own commands"
        if boot.initrd != "auto":
            return self._given_initrd(boot.initrd)
        tool = self._connected.check(("sh", "-c", FIND, "find", *TOOLS), timeout_s=30).strip()
        unpacks = self._connected.run(("sh", "-c", "command -v tar && command -v gzip"), timeout_s=30).exit_code == 0
        free_mib = self._free_mib(ModuleFolder.PATH)
        told = f"{tool or 'no tool to make one'}, {ModuleFolder.PATH} {free_mib} MiB free"
        lacks = [
            what
            for wrong, what in (
                (not tool, f"{', '.join(TOOLS[:-1])} or {TOOLS[-1]}"),
                (not unpacks, "tar and gzip"),
                (free_mib < _MODULES_MIB, f"{_MODULES_MIB} MiB in {ModuleFolder.PATH}"),
            )
            if wrong
        ]
        if lacks:
            return Grade.NOTE, told, f"Kernels with modules need {' and '.join(lacks)}; others do not."
        return f"{told}; made for kernels with modules"

    def _given_initrd(self, initrd: str) -> tuple[Grade, str, str] | str:
        if initrd == "none":
            return "none, as its entry says"
        if self.root.run(("test", "-s", initrd), timeout_s=30).exit_code != 0:
            return Grade.FAIL, f"there is no {initrd}", "Put it there, or correct boot.initrd in its entry."
        return f"{initrd}, as its entry says"

    def _free_mib(self, place: str) -> int:
        said = self._connected.check(("sh", "-c", _SPACE, "space", place), timeout_s=30)
        return int(said.split()[3]) // 1024

    def _quiet(self) -> tuple[Grade, str, str] | str:
        now = conditions(self._connected)
        told = ", ".join(f"{name} {value}" for name, value in now.items())
        if float(now.get("load", "0")) > _BUSY_LOAD:
            return Grade.NOTE, told, "Something is at work there: find it and stop it, or its runs scatter."
        return told

    def _governor(self) -> tuple[Grade, str, str] | str:
        seen = dict(proof.ask(self._connected).facts).get("governor")
        wanted = self._machine.prepare.governor
        if seen is None:
            return "the kernel has none: the firmware or a hypervisor decides"
        if wanted is not None:
            return f"{seen}; {wanted} is set before each measurement, and taken back"
        if seen != "performance":
            mend = "In its entry, prepare: {governor: performance} sets it before a run and back after it."
            return Grade.NOTE, seen, mend
        return seen

    def _default_kernel(self) -> tuple[Grade, str, str] | str:
        running = running_now(self.root)
        if running.mark:
            mend = "A hunt is at work, or one died: the next one returns it, or reboot it."
            return Grade.NOTE, f"it runs a kernel of ours, {running.release}", mend
        return running.release

    def _one_shot(self) -> tuple[Grade, str, str] | str:
        boot_method(self._machine, self.root).inspect()
        if isinstance(self._machine.boot, KexecBoot):
            mend = "Such numbers compare with each other only, not with those after a cold boot."
            return Grade.NOTE, f"{self._machine.boot.condition}: no firmware sets the machine up", mend
        return f"{self._machine.boot.method}: nothing speaks against it; the first hunt proves it by a reboot"

    def _proof(self) -> tuple[Grade, str, str] | str:
        running = proof.ask(self._connected)
        facts = dict(running.facts)
        wrong = [
            f"{name}: {facts.get(name, 'not told')}, expected {value}"
            for name, value in sorted(self._machine.facts.items())
            if facts.get(name) != value
        ]
        if wrong:
            return Grade.FAIL, "; ".join(wrong), "Set the machine up so, or correct facts: in its entry."
        return f"{running.release}, build id {running.build_id[:12]}, {len(self._machine.facts)} facts as expected"

    def _power(self) -> tuple[Grade, str, str] | str:
        power = self._machine.power
        if power is None:
            return Grade.NOTE, "no command", "Without power: in its entry, a kernel that hangs needs a person."
        return "cycle" if power.cycle is not None else "off and on"

    def _watchdog(self) -> tuple[Grade, str, str] | str:
        seen, wanted_s = look_at_watchdog(self._connected), self._machine.watchdog_s
        if wanted_s is None:
            return (
                "no hardware watchdog is needed" if seen is None else f"{seen}; watchdog_s: in its entry would use it"
            )
        if seen is None:
            mend = "Load its driver (iTCO_wdt, sp5100_tco, i6300esb, ...), or take watchdog_s out of its entry."
            return Grade.FAIL, "none under the running kernel, and watchdog_s is set", mend
        return f"{seen}{' and active' if seen.is_active else ''}; resets a test kernel that hangs for {wanted_s} s"

    def _console(self) -> tuple[Grade, str, str] | str:
        if self._machine.console is None:
            return Grade.NOTE, "no command", "Without console: in its entry, nobody sees why a kernel did not come up."
        return "configured"

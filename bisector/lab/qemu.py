"""The embedded lab machine: QEMU boots each kernel directly, with a user space that we assemble.

A panic is read off the serial console within a second; a guest that says nothing until the time limit hangs. QEMU's
own troubles are the lab's and never the commit's.
"""

import functools
import re
import socket
import subprocess
import time
from pathlib import Path

from bisector.lab import proof
from bisector.lab.accelerator import choose_accelerator
from bisector.lab.console import ConsoleFile, ConsoleText
from bisector.lab.counter import counter_khz
from bisector.lab.initramfs import build_initramfs
from bisector.lab.jobs import Jobs
from bisector.lab.keys import SessionKeys, session_keys
from bisector.lab.process import GuestProcess, end_left_over
from bisector.lab.programs import QEMU, require_programs
from bisector.lab.ssh import ConnectError, Limits, Shell, Target
from bisector.model.errors import KernelError, MachineError
from bisector.model.kernel import KernelImage
from bisector.model.machine import BootRecord, MachineFacts
from bisector.model.outcome import Outcome
from bisector.model.progress import OnProgress, Progress
from bisector.recipe.schema import EmbeddedMachine as Config

# panic=-1 with -no-reboot: a panic, and with oops=panic an oops, ends QEMU at once.
# nokaslr: where the kernel lies is a boot effect nobody asked for; where programs lie is the benchmark's own business.
# trust_cpu: dropbear must not wait for entropy that an idle guest does not gather.
# tsc=reliable: without it the clocksource watchdog compares the counter with timer ticks that a busy host delivers
# late, and switches a guest in mid-measurement to the ticks (seen with 6.1 under TCG).
_CMDLINE = "console=ttyS0 panic=-1 oops=panic nokaslr random.trust_cpu=on tsc=reliable"

_PORT_TRIES = 5
_PORT_TAKEN = "Could not set up host forwarding rule"
_SSH_WITHOUT_READY_S = 10.0
"""A console that stays silent does not prove a dead kernel; from then on SSH is tried as well."""


# On the wall clock a guest under TCG reads the host's counter but calibrates it against an emulated timer: on a loaded
# host one boot in ten gave up, once five in a row, and counted time in ticks of 4 ms. So we tell the frequency.
_COUNTER_WORD = "tsc_early_khz="
_CLOCK_TRIES = 5
"""Boots until a guest has a clock better than timer ticks, for kernels that do not know that word."""


class _PortTakenError(MachineError):
    """Somebody took the port between our choice and QEMU's bind."""


class EmbeddedMachine:
    """One guest at a time. `folder` is the session's: keys, initramfs, the record of the running guest.

    Calls come from one thread at a time; `check` and `release` are harmless at any moment.
    """

    def __init__(self, config: Config, folder: Path) -> None:
        self._config = config
        self._folder = folder.absolute()
        self._guest = GuestProcess(self._folder / "guest.json")
        self._console: ConsoleFile | None = None
        self._shell: Shell | None = None
        self._jobs: Jobs | None = None
        self._booted = False
        self._image: KernelImage | None = None
        self._last_boot_id: str | None = None

    @property
    def name(self) -> str:
        """The name people gave it."""
        return self._config.name

    @property
    def shell(self) -> Shell:
        """The shell of the running guest. Raises MachineError when none runs."""
        if self._shell is None:
            raise MachineError(f"{self.name}: no guest is running")
        return self._shell

    @property
    def jobs(self) -> Jobs:
        """Detached jobs in the running guest; each poll also looks at the console. Raises MachineError."""
        if self._jobs is None:
            raise MachineError(f"{self.name}: no guest is running")
        return self._jobs

    def recover(self) -> None:
        """End the guest that a killed controller left in this folder; no other process is touched."""
        end_left_over(self._guest.record)

    def boot(self, image: KernelImage, *, console: Path, on_progress: OnProgress) -> BootRecord:
        """Boot this kernel and prove that it runs. The console is written to `console` for as long as the guest lives.

        Raises KernelError: crashed (panic, oops), boot_failed (hang, silent reset), wrong_kernel; or MachineError,
        MissingPackageError. The record's `artefact` is left empty; the session names it.
        """
        started = time.monotonic()
        self.release()
        self._image = image
        try:
            keys, initramfs = self._prepare()
            for _ in range(_CLOCK_TRIES):
                self._start(image, keys, initramfs, console, on_progress)
                running = proof.ask(self.shell)
                proof.require(running, image, previous_boot_id=self._last_boot_id)
                if not _counts_ticks(running):
                    break
                self.release()
            else:
                raise MachineError(
                    f"{self.name}: no guest of {_CLOCK_TRIES} could calibrate its clock: this computer is too busy",
                    details=f"clocksource {dict(running.facts).get('clocksource', 'unknown')}",
                    resolution="Stop other work on it, or say clock: instructions in the recipe.",
                )
        except BaseException:
            self.release()
            raise
        self._booted = True
        self._last_boot_id = running.boot_id
        return BootRecord(
            boot_id=running.boot_id,
            release=running.release,
            build_id=running.build_id,
            facts=self._facts(running),
            duration_s=time.monotonic() - started,
            artefact="",
        )

    def check(self) -> None:
        """Look at the console and at QEMU. Raises KernelError after a panic, an oops or a reset, MachineError when QEMU
        itself failed; otherwise nothing. Costs the guest nothing.
        """
        if self._console is None:
            return
        code = self._guest.exit_code()
        text = self._console.poll() if code is None else self._console.finish()
        if text.fault is not None and code is None:
            # The rest of the trace is on its way, and oops=panic ends the guest after it.
            self._guest.wait(2.0)
            text = self._console.poll()
        if (fault := text.fault) is not None:
            raise KernelError(
                f"{self._kernel()} crashed ({fault.fault}): {fault.lines[0][:200]}",
                outcome=Outcome.CRASHED,
                details="\n".join(fault.lines),
            )
        if code is not None:
            raise self._ended(code, text.last_lines)

    def _explain_loss(self) -> None:
        if self._booted:
            # A guest that resets drops its connections a moment before QEMU has ended.
            self._guest.wait(2.0)
        self.check()

    def release(self) -> None:
        """End the guest, if one runs. Never raises a LabError."""
        shell, self._shell, self._jobs, self._booted = self._shell, None, None, False
        if shell is not None:
            shell.close()
        # Nothing in the guest is worth a shutdown: its disk is its memory.
        self._guest.end()
        console, self._console = self._console, None
        if console is not None:
            console.finish()

    def _prepare(self) -> tuple[SessionKeys, Path]:
        require_programs()
        self._folder.mkdir(parents=True, exist_ok=True)
        keys = session_keys(self._folder / "keys")
        initramfs = self._folder / "initramfs.cpio.gz"
        # Kept for the whole session: an upgrade of busybox in mid-hunt must not change what is measured.
        newest = max(path.stat().st_mtime_ns for path in (keys.user, keys.host))
        if not initramfs.exists() or initramfs.stat().st_mtime_ns < newest:
            build_initramfs(initramfs, keys)
        return keys, initramfs

    def _start(
        self, image: KernelImage, keys: SessionKeys, initramfs: Path, console: Path, on_progress: OnProgress
    ) -> None:
        for attempt in range(1, _PORT_TRIES + 1):
            port = free_port()
            self._console = follower = ConsoleFile(console)
            self._guest.start(
                self.command(kernel=Path(image.path), initramfs=initramfs, console=console, port=port),
                stderr=self._stderr,
            )
            target = Target(
                name=self.name, host="127.0.0.1", port=port, user="root", key=keys.user, host_keys=(keys.host_public,)
            )
            # The guest is on this computer: whoever does not answer in seconds never will, but key exchange is slow
            # under emulation on a busy host.
            # No pulse: QEMU's end is seen at once, and what runs in the guest is counted by the instruction.
            limits = Limits(connect_s=5, banner_s=10, auth_s=60, channel_s=60, pulse_s=None)
            self._shell = Shell(target, limits=limits, explain_loss=self._explain_loss)
            self._jobs = Jobs(self._shell, check=self.check)
            try:
                self._await_ssh(self._shell, follower.text, on_progress)
            except _PortTakenError:
                if attempt == _PORT_TRIES:
                    raise
            else:
                return

    def _await_ssh(self, shell: Shell, text: ConsoleText, on_progress: OnProgress) -> None:
        started = time.monotonic()
        limit_s = self._config.boot_timeout_s
        next_try, next_word = started + _SSH_WITHOUT_READY_S, started
        last_error: ConnectError | None = None
        while (now := time.monotonic()) < started + limit_s:
            self.check()
            if now >= next_word:
                next_word = now + 0.5
                last = text.last_lines[-1] if text.last_lines else "no console output yet"
                on_progress(Progress(fraction=None, text=f"booting for {now - started:.0f} s: {last[:100]}"))
            if text.ready or now >= next_try:
                try:
                    shell.connect()
                except ConnectError as error:
                    if error.stage == "host_key":
                        raise
                    last_error = error
                    next_try = time.monotonic() + 1.0
                else:
                    return
            time.sleep(0.05)
        self.check()
        if last_error is not None and last_error.stage == "login":
            raise last_error
        raise KernelError(
            f"{self._kernel()} did not answer by SSH within {limit_s:.0f} s",
            outcome=Outcome.BOOT_FAILED,
            details="\n".join((*text.last_lines, f"SSH: {last_error.details if last_error else 'never tried'}")),
            resolution="If this computer is merely slow: raise boot_timeout_s in the recipe.",
        )

    def _ended(self, code: int, last_lines: tuple[str, ...]) -> KernelError | MachineError:
        said = self._stderr.read_text(errors="replace").strip() if self._stderr.exists() else ""
        if _PORT_TAKEN in said:
            return _PortTakenError(f"{self.name}: QEMU could not bind the port chosen for SSH", details=said)
        if code == 0 and "terminating on signal" not in said:
            # Only the guest can end QEMU like this: -no-reboot turns a reset into an exit.
            when = "after it was proven to run" if self._booted else "while booting"
            return KernelError(
                f"{self._kernel()} reset the machine without a word, {when}",
                outcome=Outcome.CRASHED if self._booted else Outcome.BOOT_FAILED,
                details="\n".join(last_lines),
            )
        how = f"was killed by signal {-code}" if code < 0 else f"ended with {code}"
        return MachineError(
            f"{self.name}: QEMU {how}",
            details=said or "\n".join(last_lines[-10:]),
            resolution="If this computer ran out of memory, lower memory_mib in the recipe.",
        )

    def command(self, *, kernel: Path, initramfs: Path, console: Path, port: int) -> list[str]:
        """The command line of QEMU for one guest: loopback SSH, no network beyond it, console to a file."""
        config = self._config
        argv = [str(QEMU.path()), "-no-user-config", "-nodefaults", "-display", "none", "-no-reboot"]
        argv += ["-machine", f"q35,accel={self._accelerator}", "-cpu", "max"]
        # Sockets: a kernel without ACPI reads the firmware's MP table, which names one CPU of each.
        argv += ["-smp", f"{config.cpus},sockets={config.cpus}", "-m", str(config.memory_mib)]
        # QEMU doubles a comma that is part of a value.
        argv += ["-chardev", f"file,id=console,path={str(console.absolute()).replace(',', ',,')}"]
        argv += ["-serial", "chardev:console"]
        argv += ["-netdev", f"user,id=net,restrict=on,hostfwd=tcp:127.0.0.1:{port}-:22"]
        argv += ["-device", "virtio-net-pci,netdev=net,romfile="]
        if config.clock == "instructions":
            argv += ["-icount", f"shift={config.icount_shift},align=off,sleep=off"]
        argv += ["-kernel", str(kernel.absolute()), "-initrd", str(initramfs)]
        return [*argv, "-append", self._cmdline()]

    def _cmdline(self) -> str:
        words = [_CMDLINE]
        if self._config.clock == "wall" and self._accelerator == "tcg" and (khz := _counter_khz()) is not None:
            words.append(f"{_COUNTER_WORD}{khz}")
        return " ".join((*words, self._config.cmdline)).strip()

    @property
    def _accelerator(self) -> str:
        return choose_accelerator(self._config.accelerator, self._config.clock)

    def put(self, local: Path, remote: str, *, mode: int) -> None:
        """Upload a file, compare checksums, set its mode. Raises MachineError, or KernelError if the guest crashed."""
        self.shell.put(local, remote, mode)

    @property
    def _stderr(self) -> Path:
        return self._folder / "qemu.stderr"

    def _facts(self, running: proof.RunningKernel) -> MachineFacts:
        config, facts = self._config, dict(running.facts)
        clock = f"instructions, shift {config.icount_shift}" if config.clock == "instructions" else "wall"
        facts |= {
            "accelerator": self._accelerator,
            "clock": clock,
            "memory_mib": str(config.memory_mib),
            "qemu": qemu_version(),
        }
        # Measured anew by each controller, so it may differ by a part in a million; the host has not changed.
        words = facts.get("cmdline", "").split()
        facts["cmdline"] = " ".join(word for word in words if not word.startswith(_COUNTER_WORD))
        return MachineFacts(pairs=tuple(sorted(facts.items())))

    def _kernel(self) -> str:
        return "The kernel" if self._image is None else f"The kernel of {self._image.commit[:12]}"


def check_programs() -> None:
    """Raises MissingPackageError naming everything the embedded machine needs and this computer lacks."""
    require_programs()


def _counts_ticks(running: proof.RunningKernel) -> bool:
    return "jiffies" in dict(running.facts).get("clocksource", "")


def free_port() -> int:
    """A TCP port of the loopback interface that nobody uses now; the caller must cope with losing it again."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


@functools.cache
def _counter_khz() -> int | None:
    return counter_khz()


@functools.cache
def qemu_version() -> str:
    """QEMU's version, "7.2.22". Raises MissingPackageError without QEMU."""
    done = subprocess.run(
        [str(QEMU.path()), "--version"], stdin=subprocess.DEVNULL, capture_output=True, timeout=60, check=False
    )
    found = re.search(rb"version ([0-9.]+)", done.stdout)
    return found[1].decode() if found else "unknown"

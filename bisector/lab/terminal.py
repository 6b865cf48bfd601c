"""A person's session on a machine, under the lease: a terminal there, and nobody's hunt beside it.

The lease is short and renewed while the session lasts, so that it dies by itself if we cannot give it back.
"""

import os
import select
import signal
import sys
import termios
import time
import tty
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Any

from bisector.lab.jobs import Jobs
from bisector.lab.lease import Holding, Lease, new_token
from bisector.lab.root import Root
from bisector.lab.ssh import Limits, Shell
from bisector.lab.target import target_of
from bisector.model.errors import MachineError
from bisector.recipe.machines import SshMachine

LEASE_S = 600.0
RENEW_S = 60.0
"""How often the lease is renewed: several can fail before it runs out."""

_CHUNK = 32768
_LOOK_S = 1.0
_ENDED_BY_SIGNAL = 255
"""What ssh ends with then, too."""

_ENDING = (signal.SIGTERM, signal.SIGHUP)


class Visit:
    """One session on one machine. `holder` is who it is and `purpose` what for, for whoever finds the machine leased.

    `lease_s` is how long the lease outlives the last renewal.
    """

    def __init__(
        self,
        machine: SshMachine,
        *,
        holder: str,
        purpose: str = "an interactive shell",
        lease_s: float = LEASE_S,
        limits: Limits | None = None,
    ) -> None:
        self._machine = machine
        self._shell = Shell(target_of(machine), limits=limits)
        self._lease = Lease(
            Root(self._shell, sudo=machine.sudo),
            machine.lease_folder,
            token=new_token(),
            holder=holder,
            session=purpose,
            length_s=lease_s,
        )

    @contextmanager
    def leased(self) -> Iterator[Holding | None]:
        """Hold the machine; gives whose dead lease was taken over, if it was one. Raises MachineError or LeaseError.

        What cannot be given back at the end, because the machine is lost, runs out by itself.
        """
        try:
            self._shell.connect()
            taken_over = self._lease.take()
            with _ended_by_signals():
                try:
                    yield taken_over
                finally:
                    self._give_back()
        finally:
            self._shell.close()

    def _give_back(self) -> None:
        # Twice: after a connection that was lost, the second time is on a new one.
        for _ in range(2):
            with suppress(MachineError):
                self._lease.drop()
                return

    @property
    def jobs(self) -> Jobs:
        """Detached jobs under the kernel that runs there. None of them renews the lease: see `renew`."""
        return Jobs(self._shell)

    def renew(self) -> None:
        """Hold the machine for another `lease_s`. Raises LeaseError when the lease was broken, or MachineError."""
        self._lease.renew()

    def put(self, local: Path, remote: str, *, mode: int) -> None:
        """Upload a file, compare checksums, set its mode. Raises MachineError."""
        self._shell.put(local, remote, mode)

    def interact(self, command: Sequence[str] = ()) -> int:
        """Join our standard streams to a login shell there, or to a command; its exit code.

        With a terminal it has one too, of the same size at any time; without one it has none, as ssh does it. Raises
        MachineError when the machine is lost, LeaseError when the lease was broken. The terminal is as before then.
        """
        channel = self._shell.channel()
        try:
            self._start(channel, command)
            with _raw_terminal(), _following_size(channel):
                self._pump(channel)
            # The library has -1 for what a signal ended, and for a lost connection.
            code = int(channel.recv_exit_status())
            if code < 0 and not channel.get_transport().is_active():
                raise MachineError(
                    f"{self._machine.name} was lost during the session",
                    resolution=f"Was it rebooted? If it is not back now, the lease runs out within {LEASE_S / 60:.0f} "
                    f"minutes; or: bisector lab release {self._machine.name} --force",
                )
            return code if code >= 0 else _ENDED_BY_SIGNAL
        finally:
            channel.close()

    def _start(self, channel: Any, command: Sequence[str]) -> None:
        channel.set_combine_stderr(True)
        if sys.stdin.isatty():
            # Of the terminal itself: $COLUMNS and $LINES may be those of another one.
            size = os.get_terminal_size(sys.stdin.fileno())
            channel.get_pty(os.environ.get("TERM", "vt100"), size.columns, size.lines)
        if command:
            # As ssh has it: the words are one line for the shell there.
            channel.exec_command(" ".join(command))
        else:
            channel.invoke_shell()

    def _pump(self, channel: Any) -> None:
        """Carry bytes both ways until the other side has nothing more to say."""
        renewed = time.monotonic()
        ours: list[int] = [sys.stdin.fileno()]
        while True:
            ready, _, _ = select.select([channel, *ours], [], [], _LOOK_S)
            if channel in ready:
                said = channel.recv(_CHUNK)
                if not said:
                    return
                _write(said)
            if ours and ours[0] in ready:
                typed = os.read(ours[0], _CHUNK)
                if typed:
                    channel.sendall(typed)
                else:
                    channel.shutdown_write()
                    ours = []
            if time.monotonic() - renewed > RENEW_S:
                self._lease.renew()
                renewed = time.monotonic()


def _write(said: bytes) -> None:
    while said:
        said = said[os.write(sys.stdout.fileno(), said) :]


@contextmanager
def _raw_terminal() -> Iterator[None]:
    """Every key goes to the machine, Ctrl-C too. Put back whatever happens."""
    if not sys.stdin.isatty():
        yield
        return
    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    try:
        # What was typed ahead is not thrown away.
        tty.setraw(descriptor, termios.TCSADRAIN)
        yield
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)


@contextmanager
def _following_size(channel: Any) -> Iterator[None]:
    def resize(number: int, frame: FrameType | None) -> None:
        del number, frame
        size = os.get_terminal_size(sys.stdin.fileno())
        channel.resize_pty(size.columns, size.lines)

    with _handling((signal.SIGWINCH,) if sys.stdin.isatty() else (), resize):
        yield


@contextmanager
def _ended_by_signals() -> Iterator[None]:
    """A closed terminal or a SIGTERM ends us in order: the lease is given back."""

    def end(number: int, frame: FrameType | None) -> None:
        del frame
        raise SystemExit(128 + number)

    with _handling(_ENDING, end):
        yield


@contextmanager
def _handling(numbers: Sequence[signal.Signals], handler: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    before = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, old)

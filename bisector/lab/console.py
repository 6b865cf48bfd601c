"""A serial console while it is written: has the kernel panicked, has it oopsed, is it ready. Pure but for the file."""

import re
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import BinaryIO

READY = "bisector: machine is ready"
"""What the embedded machine's /init prints before it opens SSH."""


class Fault(StrEnum):
    """What a console can show of a kernel that will give no numbers."""

    PANIC = "panic"
    OOPS = "oops"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsoleFault:
    """A fault and the lines that show it: the first decisive one first, at most 40."""

    fault: Fault
    lines: tuple[str, ...]


_PANIC = re.compile(r"Kernel panic - not syncing|\bend Kernel panic|Attempted to kill init!")
# "BUG: soft lockup" and the RCU stall warnings are left out: an overloaded host provokes them in a guest on the wall
# clock, so they are no proof against a commit. A real hang ends by the time limit, and they are quoted then.
_OOPS = re.compile(
    r"BUG: (?!soft lockup|sleeping function called|workqueue lockup)"
    r"|[kK]ernel BUG at |\bOops: |general protection fault|\bdivide error: |\binvalid opcode: |\bdouble fault: "
    r"|PANIC: double fault|Unable to handle kernel "
)
_STALL = re.compile(r"BUG: soft lockup|BUG: workqueue lockup|detected stall|blocked for more than \d+ seconds")
_ESCAPES = re.compile(r"\x1b\[[0-9;=?]*[A-Za-z]|\x1bc|[\x00-\x08\x0b-\x1f\x7f]")

_KEPT_LINES = 40
_LONGEST_LINE = 4096


class ConsoleText:
    """Console bytes as they come, cut anywhere; remembers the first fault, whether the guest is ready, and the end."""

    def __init__(self) -> None:
        self._partial = ""
        self._fault: Fault | None = None
        self._fault_lines: list[str] = []
        self._stalls: list[str] = []
        self._tail: list[str] = []
        self.ready = False

    def feed(self, chunk: bytes) -> None:
        """Take the next bytes; what is not UTF-8 is replaced, terminal escapes are dropped."""
        *lines, self._partial = (self._partial + chunk.decode(errors="replace")).split("\n")
        if len(self._partial) > _LONGEST_LINE:
            lines, self._partial = [*lines, self._partial], ""
        for line in lines:
            self._take(_ESCAPES.sub("", line).rstrip())

    def end(self) -> None:
        """Nothing more will come: the last line counts although it was never finished."""
        self.feed(b"\n")

    @property
    def fault(self) -> ConsoleFault | None:
        """The first fault seen, with the lines that followed it so far; a panic after an oops makes it a panic."""
        return None if self._fault is None else ConsoleFault(fault=self._fault, lines=tuple(self._fault_lines))

    @property
    def last_lines(self) -> tuple[str, ...]:
        """At most 40 lines from the end, warnings of stalls first: what to show of a hang."""
        old = [line for line in self._stalls if line not in self._tail]
        return (*old, *self._tail)

    def _take(self, line: str) -> None:
        if not line:
            return
        self._tail = [*self._tail[1 - _KEPT_LINES :], line]
        if READY in line:
            self.ready = True
        if _STALL.search(line) and len(self._stalls) < 5:
            self._stalls.append(line)
        if _PANIC.search(line):
            self._fault = Fault.PANIC
        elif self._fault is None and _OOPS.search(line):
            self._fault = Fault.OOPS
        if self._fault is not None and len(self._fault_lines) < _KEPT_LINES:
            self._fault_lines.append(line)


class ConsoleFile:
    """Follows a console file through its descriptor, so that the file may be renamed while it grows."""

    def __init__(self, path: Path) -> None:
        """Create the file, empty. Its writer must open it without replacing it."""
        path.write_bytes(b"")
        self._file: BinaryIO = path.open("rb")
        self.text = ConsoleText()

    def poll(self) -> ConsoleText:
        """Read what was written since the last time."""
        if not self._file.closed:
            while chunk := self._file.read(1 << 16):
                self.text.feed(chunk)
        return self.text

    def finish(self) -> ConsoleText:
        """Read the rest after the writer has ended, and close."""
        self.poll()
        if not self._file.closed:
            self.text.end()
            self._file.close()
        return self.text

"""One `make` of a kernel tree: its command line, its time limit, and what its failure means."""

import re
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from io import FileIO
from pathlib import Path

from bisector.kernel.diagnose import explain_failure, last_lines, read_tail
from bisector.kernel.process import CancelledError, TimedOutError, end_left_overs, run_logged
from bisector.kernel.toolchain import build_environment
from bisector.model.errors import KernelError
from bisector.model.outcome import Outcome
from bisector.model.progress import OnProgress, Progress

# kbuild's short log: two blanks, the tool in capitals, the target.
_TARGET_LINE = re.compile(rb"  [A-Z][A-Z0-9_+-]*(?: \[[MP]+\])? +\S")
_REPORT_EVERY_S = 0.2


class OverTimeError(KernelError):
    """make was ended at the time limit: the commit is skipped, and files may be torn."""


def ignore_line(line: bytes) -> None:
    """For runs whose lines nobody counts."""


@dataclass(slots=True, kw_only=True)
class Counter:
    """Turns kbuild's lines into progress: targets made so far against `expected` (0 = nobody knows)."""

    on_progress: OnProgress
    expected: int
    lines: int = 0
    reported_at: float = field(default=0.0)

    def __call__(self, line: bytes) -> None:
        """Count a line of make's output."""
        if _TARGET_LINE.match(line) is None:
            return
        self.lines += 1
        now = time.monotonic()
        if now - self.reported_at < _REPORT_EVERY_S:
            return
        self.reported_at = now
        # More targets than last time are common; only the end may say 1.
        fraction = min(0.99, self.lines / self.expected) if self.expected else None
        self.on_progress(Progress(fraction=fraction, text=line.decode(errors="replace").strip()))


@dataclass(frozen=True, slots=True, kw_only=True)
class Make:
    """How make is called for one commit: everything but the source folder and the targets."""

    commit: str
    arch: str
    cc: str
    folder: Path
    output: Path
    log: Path
    stream: FileIO
    deadline: float
    cancelled: threading.Event

    @property
    def local_version(self) -> str:
        """What ends the release of this commit's kernel, and of no other's."""
        return f"-bisector-{self.commit[:12]}"

    def configuring(self, source: Path) -> Callable[[Sequence[str]], None]:
        """What `settings` needs: calls with targets of kconfig; a failure is config_failed."""

        def run(words: Sequence[str]) -> None:
            self.run(source, words, outcome=Outcome.CONFIG_FAILED)

        return run

    def run(
        self, source: Path, words: Sequence[str], *, outcome: Outcome, on_line: Callable[[bytes], None] = ignore_line
    ) -> str:
        """make's output, at most its last 4 MiB. Raises KernelError with `outcome`, BuilderError, CancelledError."""
        begin = self.log.stat().st_size
        command = ["make", "-C", str(source), f"O={self.output}", f"ARCH={self.arch}", f"CC={self.cc}"]
        # Stated on the command line, even if the tree is not clean or not tagged, so that no "+" is added.
        command += [f"LOCALVERSION={self.local_version}", *words]
        try:
            status = run_logged(
                command,
                environment=build_environment(self.folder),
                log=self.stream,
                timeout_s=max(0.0, self.deadline - time.monotonic()),
                cancelled=self.cancelled,
                on_line=on_line,
            )
        except CancelledError:
            end_left_overs(self.folder)
            raise
        except TimedOutError as error:
            # The group was killed; wait until it is gone, with whatever had left it.
            end_left_overs(self.folder)
            raise OverTimeError(
                f"make {words[-1]} did not end within the time limit",
                outcome=outcome,
                details=last_lines(read_tail(self.log, begin)),
                resolution="If the machine is only slow, set `kernel: timeout_s:` higher",
            ) from error
        text = read_tail(self.log, begin)
        if status != 0:
            raise explain_failure(text, status=status, commit=self.commit, source=source, outcome=outcome)
        return text

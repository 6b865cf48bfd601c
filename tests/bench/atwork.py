"""A test of the suite in the middle of its work, so that something can be done to it there."""

import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

TICKS_AT_WORK = 6
GRAINS_FOR_MINUTES = 10**8


def children_of(process: int) -> list[int]:
    """Those that are there at this moment; none if the process itself is gone."""
    try:
        return [int(child) for child in Path(f"/proc/{process}/task/{process}/children").read_text().split()]
    except (FileNotFoundError, ProcessLookupError):
        return []


def ticks_of(process: int) -> int:
    """Clock ticks of CPU of a process and of the children it waited for; 0 if it is gone."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return sum(map(int, fields[11:15]))


def sample_process(program: subprocess.Popen[bytes]) -> int:
    """The process that measures, once it has worked for a while.

    A warm-up is a tenth of the operations asked for, here minutes: what fails in it fails in measured work.
    """
    until = time.monotonic() + 30
    while time.monotonic() < until and program.poll() is None:
        for child in children_of(program.pid):
            if ticks_of(child) >= TICKS_AT_WORK:
                return child
        time.sleep(0.01)
    raise AssertionError(f"no sample process was seen at work: {program.stderr.read() if program.stderr else b''!r}")


@contextmanager
def at_work(
    program: Path, name: str, grain: int, *arguments: str, before: tuple[str, ...] = (), **options: Any
) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """The program and its sample's process, in the middle of a batch that would last for minutes.

    `before` are the words of a program that executes ours.
    """
    process = subprocess.Popen(
        [*before, str(program), "run", name, "--ops", str(grain * GRAINS_FOR_MINUTES), *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        **options,
    )
    try:
        yield process, sample_process(process)
    finally:
        process.kill()
        process.wait()
        for pipe in (process.stdout, process.stderr):
            if pipe is not None:
                pipe.close()

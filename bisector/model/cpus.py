"""CPUs of a machine: lists of them as the kernel writes them, and the one that a benchmark is kept on. Pure."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, get_args

Role = Literal["housekeeping", "isolated", "nohz_full"]
"""What a CPU is there for: all that the kernel has to do, nothing unless it is named, one task without a tick.

Source: the kernel's Documentation, admin-guide/kernel-parameters (isolcpus=, nohz_full=) and timers/no_hz.
"""

ROLES: tuple[Role, ...] = get_args(Role)

PINNED = "pinned"
"""The fact that names the CPU (`PinnedCpu`): the same in every boot of a session, as all facts are."""

NOBODY_HAS = 1 << 16
"""No kernel knows a CPU of this number or beyond. Source: NR_CPUS of all architectures is 8192 or less."""

_PART = re.compile(r"([0-9]{1,6})(?:-([0-9]{1,6}))?", re.ASCII)
_TOLD = re.compile(r"CPU ([0-9]+)(?: \(([a-z_]+)\))?", re.ASCII)


def parse_cpus(listed: str) -> tuple[int, ...]:
    """The CPUs of a list like "0-3,8", in order, each once; "" is none. Raises ValueError for anything else.

    Source: the kernel's Documentation, admin-guide/cputopology and core-api/printk-formats ("%*pbl").
    """
    found: set[int] = set()
    for part in listed.split(",") if listed else ():
        match = _PART.fullmatch(part)
        if match is None:
            raise ValueError(f'"{listed}" is no list of CPUs: "{part}" is neither a number nor a range')
        first, last = int(match[1]), int(match[2] or match[1])
        if first > last:
            raise ValueError(f'"{listed}" is no list of CPUs: the range "{part}" runs backwards')
        if last >= NOBODY_HAS:
            raise ValueError(f'"{listed}" is no list of CPUs: nobody has a CPU {last}')
        found.update(range(first, last + 1))
    return tuple(sorted(found))


def list_of(cpus: Iterable[int]) -> str:
    """A list as the kernel writes it: of 3, 0 and 1 "0-1,3"."""
    runs: list[list[int]] = []
    for cpu in sorted(set(cpus)):
        if runs and cpu == runs[-1][-1] + 1:
            runs[-1].append(cpu)
        else:
            runs.append([cpu])
    return ",".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)


@dataclass(frozen=True, slots=True, kw_only=True)
class PinnedCpu:
    """Where a benchmark runs: on `number` alone, in the `role` that was asked for; anywhere if both are None."""

    number: int | None
    role: Role | None = None

    def __str__(self) -> str:
        if self.number is None:
            return "not pinned"
        return f"CPU {self.number}" if self.role is None else f"CPU {self.number} ({self.role})"


def pinned_of(told: str) -> PinnedCpu:
    """What was written by `PinnedCpu`, read back."""
    match = _TOLD.fullmatch(told)
    if match is None:
        return PinnedCpu(number=None)
    return PinnedCpu(number=int(match[1]), role=next((role for role in ROLES if role == match[2]), None))


def in_role(role: Role, facts: Mapping[str, str]) -> tuple[int, ...]:
    """The CPUs that a running kernel has online for a role, by its facts `cpus`, `isolated` and `nohz_full`.

    A housekeeping CPU is neither of the others. Raises ValueError for a list that is none.
    """
    online, isolated, full = (set(parse_cpus(facts.get(name, ""))) for name in ("cpus", "isolated", "nohz_full"))
    fits = {"housekeeping": online - isolated - full, "isolated": online & isolated, "nohz_full": online & full}
    return tuple(sorted(fits[role]))


def preferred(cpus: Iterable[int]) -> int | None:
    """The first CPU, but not CPU 0 where there is another; None of none.

    CPU 0 boots the machine, and takes the interrupts and timers that nobody moved.
    """
    ordered = sorted(cpus)
    return next((cpu for cpu in ordered if cpu != 0), ordered[0] if ordered else None)

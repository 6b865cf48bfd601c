"""Where a kernel spent its time, and what moved between two of them. Pure.

Ticks of two kernels are never compared as they are: a kernel with HZ=1000 counts ten times as many as one with
HZ=100. They are divided by HZ, or by the profile's own total.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

_IDLE = re.compile(
    r"(amd_e400|default|poll|intel|mwait|arch_cpu|acpi|do|tdx|cpu)_idle(_call|_irq|_ibrs|_do_entry)?"
    r"|((pv_)?native|acpi)_safe_halt|cpuidle_enter(_state)?|.*haltpoll.*"
)
_CLONE = re.compile(r"(\.(isra|constprop|part|cold|llvm|lto_priv)(\.[0-9]+)*)+$")


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """What each function took itself, without those it called, in ticks, percent or events; `total` is all of it.

    `per_s` is how many of these make a second, None where nothing says so. A function that is not in `weights` took
    less than `unlisted_below` (0: the list is complete).
    """

    weights: Mapping[str, float]
    total: float
    per_s: float | None = None
    unlisted_below: float = 0.0

    def with_hz(self, hz: float) -> "Profile":
        """The same, counted by a timer of `hz` (CONFIG_HZ of that kernel)."""
        return Profile(weights=self.weights, total=self.total, per_s=hz, unlisted_below=self.unlisted_below)

    def without_idle(self) -> "Profile":
        """The same without what a processor does while it waits: how long that was is no property of the kernel.

        All of it if there is nothing else.
        """
        busy = {symbol: weight for symbol, weight in self.weights.items() if not _IDLE.fullmatch(plain_symbol(symbol))}
        total = self.total - sum(self.weights.values()) + sum(busy.values())
        if not (busy and total > 0):
            return self
        return Profile(weights=busy, total=total, per_s=self.per_s, unlisted_below=self.unlisted_below)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mover:
    """A function in two profiles, in `Movers.unit`; None: not listed there, so less than `Movers.unlisted_below`.

    `change` is new minus base; of a function that one side does not list, the least that it must have been.
    """

    symbol: str
    base: float | None
    new: float | None
    change: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Movers:
    """Two profiles beside each other, largest change first. `unit` is "s" or "% of total"."""

    unit: str
    base_total: float
    new_total: float
    unlisted_below: tuple[float, float]
    rows: tuple[Mover, ...]


def plain_symbol(symbol: str) -> str:
    """A function's name without what the compiler puts behind a copy of it (".isra.0"): copies differ by kernel."""
    return _CLONE.sub("", symbol) or symbol


def movers(base: Profile, new: Profile) -> Movers:
    """What moved from `base` to `new`: in seconds if both can be told in seconds, in shares of the total if not.

    Raises ValueError if a profile's total is not > 0.
    """
    if not (base.total > 0 and new.total > 0):
        raise ValueError("a profile whose total is not more than zero has nothing to compare")
    if base.per_s is not None and new.per_s is not None:
        unit, scales = "s", (1 / base.per_s, 1 / new.per_s)
    else:
        unit, scales = "% of total", (100 / base.total, 100 / new.total)
    before, after = _scaled(base, scales[0]), _scaled(new, scales[1])
    limits = (base.unlisted_below * scales[0], new.unlisted_below * scales[1])
    rows = [_mover(symbol, before.get(symbol), after.get(symbol), limits) for symbol in {**before, **after}]
    return Movers(
        unit=unit,
        base_total=base.total * scales[0],
        new_total=new.total * scales[1],
        unlisted_below=limits,
        rows=tuple(sorted(rows, key=lambda row: (-abs(row.change), row.symbol))),
    )


def _scaled(profile: Profile, scale: float) -> dict[str, float]:
    scaled: dict[str, float] = {}
    for symbol, weight in profile.weights.items():
        name = plain_symbol(symbol)
        scaled[name] = scaled.get(name, 0.0) + weight * scale
    return scaled


def _mover(symbol: str, base: float | None, new: float | None, limits: tuple[float, float]) -> Mover:
    low, high = limits
    if base is not None and new is not None:
        change = new - base
    elif new is not None:
        change = max(0.0, new - low)
    else:
        change = min(0.0, high - (base or 0.0))
    # What a complete list does not hold took nothing.
    return Mover(
        symbol=symbol,
        base=0.0 if base is None and low == 0 else base,
        new=0.0 if new is None and high == 0 else new,
        change=change,
    )

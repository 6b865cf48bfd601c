"""The kernel's own tick counts, /proc/profile, as the rows that readprofile prints: no such program is needed there.

Layout (kernel/profile.c): native unsigned ints of 32 bits. The first is the step in bytes; each other counts the ticks
that found the processor in that many bytes of the kernel's text, from the symbol _stext on.
"""

from bisect import bisect_right

import numpy as np

from bisector.bench.formats.reading import FormatError, text_lines

_START, _TEXT = "_stext", frozenset("tTwW")
_MAX_STEP = 2**20


def ticks_text(profile: bytes, symbols: bytes) -> bytes:
    """Rows of address, symbol, ticks and load (ticks a byte), ascending by ticks, the row `total` last.

    `symbols` is that kernel's /proc/kallsyms. Raises FormatError if one of the two is not what it should be.
    """
    if len(profile) < 8 or len(profile) % 4:
        raise FormatError(f"/proc/profile has {len(profile)} bytes, which is no table of counts", line=1)
    counts = np.frombuffer(profile, dtype="<u4")
    step = int(counts[0])
    if step & (step - 1) or not 0 < step <= _MAX_STEP:
        raise FormatError(f"the first word of /proc/profile is {step}, which is no step", line=1)
    addresses, names = _text_symbols(symbols)
    start = addresses[names.index(_START)]
    ticks: dict[int, int] = {}
    for bucket in np.flatnonzero(counts[1:]):
        at = bisect_right(addresses, start + int(bucket) * step) - 1
        ticks[at] = ticks.get(at, 0) + int(counts[1:][bucket])
    rows = []
    for at, count in sorted(ticks.items(), key=lambda item: (item[1], item[0])):
        end = addresses[at + 1] if at + 1 < len(addresses) else addresses[at] + step
        load = count / max(1, end - addresses[at])
        rows.append(f"{addresses[at]:016x} {names[at]:<40} {count:6d} {load:8.4f}\n")
    total = sum(ticks.values())
    return "".join([*rows, f"{0:016x} {'total':<40} {total:6d} {total / (step * (len(counts) - 1)):8.4f}\n"]).encode()


def _text_symbols(symbols: bytes) -> tuple[list[int], list[str]]:
    """Addresses, each once, ascending, and the first name at each; of several, _stext where it is among them."""
    found: dict[int, str] = {}
    for number, line in text_lines(symbols):
        words = line.split()
        if len(words) < 3 or len(words[1]) != 1:
            raise FormatError(f"not a line of /proc/kallsyms: {line[:60]!r}", line=number)
        if words[1] not in _TEXT or len(words) > 3:  # a fourth word names a module
            continue
        try:
            address = int(words[0], 16)
        except ValueError:
            raise FormatError(f"not an address: {words[0][:60]!r}", line=number) from None
        if words[2] == _START or address not in found:
            found[address] = words[2]
    if _START not in found.values() or set(found) == {0}:
        raise FormatError(f"/proc/kallsyms does not tell where {_START} is: are addresses hidden there?", line=1)
    addresses = sorted(found)
    return addresses, [found[address] for address in addresses]

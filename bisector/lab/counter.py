"""The host's time-stamp counter: how fast it runs. Guests under TCG read this very counter."""

import ctypes
import mmap
import platform
import time

# rdtsc; shl rdx,32; or rax,rdx; ret
_READ_COUNTER = bytes.fromhex("0f3148c1e2204809d0c3")


def counter_khz(*, measure_s: float = 0.2, tries: int = 5) -> int | None:
    """Frequency of the counter in kHz, within some parts per million; None if this host has none or forbids it.

    No file tells it to an ordinary user ("cpu MHz" is the core's momentary clock), so it is measured against
    CLOCK_MONOTONIC_RAW, whose reading is bracketed by two of the counter; the tightest of `tries` brackets counts.
    """
    if platform.machine() != "x86_64":
        return None
    try:
        code = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    except OSError:
        # A hardened host refuses memory that is both writable and executable.
        return None
    code.write(_READ_COUNTER)
    view = ctypes.c_char.from_buffer(code)
    try:
        read = ctypes.CFUNCTYPE(ctypes.c_uint64)(ctypes.addressof(view))

        def moment() -> tuple[int, int]:
            best = None
            for _ in range(tries):
                before, at_ns, after = read(), time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW), read()
                if best is None or after - before < best[0]:
                    best = after - before, (before + after) // 2, at_ns
            return (best[1], best[2]) if best else (0, 0)

        first, first_ns = moment()
        time.sleep(measure_s)
        last, last_ns = moment()
    finally:
        del view
        code.close()
    return round((last - first) * 1_000_000 / (last_ns - first_ns))

"""Matrix products that stay on one processor."""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

# OpenBLAS starts threads from this many multiplications on (interface/gemm.c: 4 x 65536).
THREADS_FROM = 2**18


def product(left: Floats, right: Floats) -> Floats:
    """Return left @ right, in pieces of columns so small that the library does not start threads for them.

    Beside a kernel build on all processors its threads wait for each other: a decision took four times as long.
    """
    columns = max(1, (THREADS_FROM - 1) // max(1, left.size))
    if right.shape[1] <= columns:
        return left @ right
    whole = np.empty((left.shape[0], right.shape[1]))
    for start in range(0, right.shape[1], columns):
        whole[:, start : start + columns] = left @ right[:, start : start + columns]
    return whole

"""Trials in invented labs, spread over processes: the same trials whatever the number of jobs, in the same order.

The search knows no processes and no clock; both are here.
"""

import os
import signal
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from itertools import count, takewhile
from multiprocessing import get_context

from bisector.search import Hunts, Options, Trial, World

# So that no worker waits for the parent to read an answer and hand out the next trial.
AHEAD = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Which trials: a strategy in a world, by a seed."""

    world: World
    options: Options
    strategy: str
    seed: int


def usable_cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0))


@contextmanager
def crew(jobs: int) -> Iterator[Executor | None]:
    """Hold `jobs` processes for trials; None for a single one, which is this process itself."""
    if jobs <= 1:
        yield None
        return
    # Each trial is small: linear algebra in many threads would only make the processes wait for each other. The
    # library reads this when it is loaded, so it must stand before a process begins.
    before = os.environ.get("OPENBLAS_NUM_THREADS")
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    pool = ProcessPoolExecutor(jobs, mp_context=get_context("spawn"), initializer=_leave_interrupts_to_the_parent)
    try:
        yield pool
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
        if before is None:
            del os.environ["OPENBLAS_NUM_THREADS"]
        else:
            os.environ["OPENBLAS_NUM_THREADS"] = before


def _leave_interrupts_to_the_parent() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def hunt(
    plans: Sequence[Plan], pool: Executor | None, *, jobs: int, wanted: Callable[[int], bool]
) -> Iterator[tuple[int, Trial]]:
    """Yield (place of the plan, trial): trial 0 of every plan, then trial 1, and so on.

    `wanted(number)` is asked before a trial of that number is begun; what was begun is finished.
    Raises ValueError for a plan that makes no sense.
    """
    tasks = ((place, number) for number in takewhile(wanted, count()) for place in range(len(plans)))
    if pool is None:
        for place, number in tasks:
            yield place, one(plans[place], number)
        return
    under_way: deque[tuple[int, Future[Trial]]] = deque()
    for place, number in tasks:
        under_way.append((place, pool.submit(one, plans[place], number)))
        while len(under_way) >= AHEAD * jobs:
            first, future = under_way.popleft()
            yield first, future.result()
    for place, future in under_way:
        yield place, future.result()


def one(plan: Plan, number: int) -> Trial:
    """Return one trial, with the time that its decisions took."""
    return _hunts(plan)(number, time.perf_counter)


@lru_cache(maxsize=32)
def _hunts(plan: Plan) -> Hunts:
    # A history of thousands of commits is made once a process, not once a trial.
    return Hunts(plan.world, plan.options, seed=plan.seed, strategy=plan.strategy)

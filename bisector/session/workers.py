"""One thread for each machine and for the builder: carry an order out, put what happened on the queue.

A worker knows nothing of the session. Kernel trouble and lab trouble become different events here, once.
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass
from queue import SimpleQueue

from bisector.model.errors import BisectorError
from bisector.model.events import Event
from bisector.session.ports import Progress


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """A job ended; `events` are to be made durable in this order."""

    worker: str
    events: tuple[Event, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reported:
    """A job is on its way."""

    worker: str
    progress: Progress


class _DroppedError(Exception):
    """Ends a job that nobody waits for any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Broke:
    """A bug in us, or an error that no event stands for: the controller stops with it."""

    worker: str
    error: BaseException


Message = Done | Reported | Broke
Job = Callable[[Callable[[Progress], None]], tuple[Event, ...]]
"""What a worker does: told how to report progress, it returns the events that came of it."""


class Worker:
    """A named thread that does one job at a time. Ends with `stop`, or with the process."""

    def __init__(self, name: str, messages: "SimpleQueue[Message]") -> None:
        self.name = name
        self._messages = messages
        self._jobs: SimpleQueue[Job | None] = SimpleQueue()
        self._dropping = threading.Event()
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    def give(self, job: Job) -> None:
        """Hand over a job; exactly one `Done` or `Broke` will answer it."""
        self._dropping.clear()
        self._jobs.put(job)

    def drop(self) -> None:
        """Let the job in hand end where it reports progress next. What it answers means nothing then."""
        self._dropping.set()

    def stop(self, *, timeout_s: float) -> bool:
        """Let the thread end after its job; False if it did not within the time."""
        self._jobs.put(None)
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            try:
                events = job(self._report)
            except _DroppedError:
                self._messages.put(Done(worker=self.name, events=()))
            except BaseException as error:  # noqa: BLE001 - handed to the controller's thread, which raises it
                self._messages.put(Broke(worker=self.name, error=error))
            else:
                self._messages.put(Done(worker=self.name, events=events))

    def _report(self, progress: Progress) -> None:
        if self._dropping.is_set():
            raise _DroppedError
        self._messages.put(Reported(worker=self.name, progress=progress))


def in_one_line(error: BisectorError) -> str:
    """The error's brief, with the first line of its details where it has any."""
    first = error.details.strip().splitlines()[:1]
    return ": ".join([error.brief.rstrip("."), *first])

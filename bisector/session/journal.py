"""The journal of one session: an append-only SQLite table, made durable line by line.

One writer at a time (a lock on the session's folder), any number of readers. WAL with `synchronous=FULL`: an
acknowledged line survives `kill -9` and power loss.
"""

import fcntl
import json
import os
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, TypeAdapter, ValidationError

from bisector.model.errors import SessionError, SessionLockedError
from bisector.model.events import Event
from bisector.session.state import Entry

SCHEMA_VERSION = 1
JOURNAL_NAME = "journal.sqlite3"
LOCK_NAME = "lock"

_EVENTS: TypeAdapter[Event] = TypeAdapter(Annotated[Event, Field(discriminator="kind")])

_TABLES = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT;
CREATE TABLE entries (
    seq INTEGER PRIMARY KEY,
    at REAL NOT NULL,
    kind TEXT NOT NULL,
    body TEXT NOT NULL
) STRICT;
"""


class Journal:
    """A session's entries, in memory and on disk. Made by `create` or `open_journal`."""

    def __init__(self, connection: sqlite3.Connection, path: Path, clock: Callable[[], float]) -> None:
        self._connection = connection
        self._path = path
        self._clock = clock
        self.entries: list[Entry] = []

    def append(self, event: Event) -> Entry:
        """Make an event durable and return its entry. Raises SessionError if the disk does not take it."""
        entry = Entry(seq=len(self.entries) + 1, at=self._clock(), event=event)
        try:
            with self._connection:
                self._connection.execute(
                    "INSERT INTO entries (seq, at, kind, body) VALUES (?, ?, ?, ?)",
                    (entry.seq, entry.at, event.kind, encode(event)),
                )
        except sqlite3.Error as error:
            raise SessionError(
                f"The journal does not take event {entry.seq} ({event.kind}): {error}",
                details=f"in {self._path}; everything before it is safe",
                resolution="Free space or mend the disk, then: bisector resume",
            ) from error
        self.entries.append(entry)
        return entry

    def refresh(self) -> list[Entry]:
        """Read what was appended since, by whoever writes; return only the new entries."""
        rows = self._connection.execute(
            "SELECT seq, at, body FROM entries WHERE seq > ? ORDER BY seq", (len(self.entries),)
        )
        new = [Entry(seq=seq, at=at, event=_decode(body, seq, self._path)) for seq, at, body in rows]
        self.entries.extend(new)
        return new

    def close(self) -> None:
        """Let go of the file."""
        self._connection.close()


def encode(event: Event) -> str:
    """One event as JSON. Raises ValueError on a NaN or an infinity, which JSON cannot carry."""
    return json.dumps(_EVENTS.dump_python(event, mode="json"), allow_nan=False, ensure_ascii=False)


def _decode(body: str, seq: int, path: Path) -> Event:
    try:
        return _EVENTS.validate_json(body)
    except ValidationError as error:
        raise SessionError(
            f"Event {seq} of {path} cannot be read: {error.errors()[0]['msg']}",
            details=body[:200],
            resolution="The file was written by another program or damaged; restore it from a copy.",
        ) from error


def create_journal(folder: Path, *, clock: Callable[[], float] = time.time) -> Journal:
    """Make the journal of a new session in an existing folder and return it. The caller holds the folder's lock."""
    path = folder / JOURNAL_NAME
    connection = _connect(path, writer=True)
    with connection:
        connection.executescript(_TABLES)
        connection.execute("INSERT INTO meta VALUES ('schema', ?)", (str(SCHEMA_VERSION),))
    return Journal(connection, path, clock)


def open_journal(folder: Path, *, writer: bool = False, clock: Callable[[], float] = time.time) -> Journal:
    """Open a session's journal with all its entries read.

    Raises SessionError if it is missing, damaged, or written by a newer program.
    """
    path = folder / JOURNAL_NAME
    if not path.exists():
        raise SessionError(f"No journal in {folder}", resolution="See what there is: bisector list")
    connection = _connect(path, writer=writer)
    try:
        _check(connection, path)
        journal = Journal(connection, path, clock)
        journal.refresh()
    except BaseException:
        connection.close()
        raise
    return journal


def _connect(path: Path, *, writer: bool) -> sqlite3.Connection:
    # The controller's thread opens it and nobody else writes; the live view reads the state, not the file.
    connection = sqlite3.connect(path, timeout=10.0)
    if writer:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
    else:
        connection.execute("PRAGMA query_only = ON")
    return connection


def _check(connection: sqlite3.Connection, path: Path) -> None:
    try:
        verdict = connection.execute("PRAGMA quick_check").fetchone()[0]
        row = connection.execute("SELECT value FROM meta WHERE key = 'schema'").fetchone()
    except sqlite3.DatabaseError as error:
        raise _damaged(path, str(error)) from error
    if verdict != "ok" or row is None:
        raise _damaged(path, str(verdict))
    if int(row[0]) > SCHEMA_VERSION:
        raise SessionError(
            f"{path} has schema {row[0]}; this program reads up to {SCHEMA_VERSION}",
            resolution="It was written by a newer bisector: upgrade this one.",
        )


def _damaged(path: Path, what: str) -> SessionError:
    return SessionError(
        f"The journal {path} is damaged: {what}", resolution="Restore it from a copy, or start a new session."
    )


@contextmanager
def session_lock(folder: Path) -> Iterator[None]:
    """Hold a session for writing. Raises SessionLockedError, naming the holder, if another controller does.

    The kernel drops the lock with its holder, so neither `kill -9` nor a reused pid can leave it behind.
    """
    descriptor = os.open(folder / LOCK_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        if not _locked(descriptor):
            holder = os.read(descriptor, 64).decode(errors="replace").strip()
            raise SessionLockedError(
                f"Session {folder.name} is driven by another controller (pid {holder or 'unknown'})",
                resolution=f"Look on: bisector status {folder.name}",
            )
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        yield
    finally:
        os.close(descriptor)


def _locked(descriptor: int) -> bool:
    # Somebody who only asks `is_driven` holds the lock for a moment: try again before giving up.
    for _ in range(5):
        with suppress(BlockingIOError):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        time.sleep(0.05)
    return False


def is_driven(folder: Path) -> bool:
    """Does a controller hold this session now? Leaves no trace."""
    try:
        descriptor = os.open(folder / LOCK_NAME, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    else:
        return False
    finally:
        os.close(descriptor)


def as_json(entry: Entry) -> dict[str, Any]:
    """An entry for `bisector log --json`: seq, at, and the event's own keys."""
    body: dict[str, Any] = _EVENTS.dump_python(entry.event, mode="json")
    return {"seq": entry.seq, "at": entry.at, **body}

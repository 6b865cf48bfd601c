"""Where sessions live: `$BISECTOR_HOME` or the platform's state folder, one folder a session.

`sessions/NAME/{journal.sqlite3, artefacts/, logs/, lock}`; beside it `kernels/`, the image cache all sessions share,
and `suite/`, the compiled benchmark.
"""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bisector.model.errors import UsageError
from bisector.model.events import Event, SessionStarted
from bisector.session.journal import JOURNAL_NAME, Journal, create_journal, is_driven, open_journal, session_lock


class Home:
    """The folder that holds everything."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @classmethod
    def of_this_user(cls) -> "Home":
        """`$BISECTOR_HOME`, or the platform's state directory."""
        named = os.environ.get("BISECTOR_HOME")
        if named:
            return cls(Path(named).expanduser().absolute())
        import platformdirs

        return cls(platformdirs.user_state_path("bisector"))

    @property
    def kernels(self) -> Path:
        """The cache of built kernels."""
        return self.folder / "kernels"

    @property
    def suite(self) -> Path:
        """The compiled benchmark suite."""
        return self.folder / "suite"

    @property
    def _sessions(self) -> Path:
        return self.folder / "sessions"

    def session_folder(self, name: str) -> Path:
        """Where a session of this name is, or would be."""
        return self._sessions / name

    def names(self) -> list[str]:
        """Every session, the one last written to first."""
        if not self._sessions.is_dir():
            return []
        found = [
            path.parent for path in self._sessions.glob(f"*/{JOURNAL_NAME}") if not path.parent.name.startswith(".")
        ]
        return [folder.name for folder in sorted(found, key=_last_written, reverse=True)]

    def pick(self, name: str | None) -> str:
        """The session meant: the one named, or the one last written to. Raises UsageError if there is none."""
        names = self.names()
        if name is None:
            if not names:
                raise UsageError(f"There is no session in {self.folder}", resolution="Start one: bisector start RECIPE")
            return names[0]
        if name not in names:
            near = f"There are: {', '.join(names[:8])}" if names else "There is none yet."
            raise UsageError(f"No session is called {name!r}", details=near, resolution="See: bisector list")
        return name

    def free_name(self, name: str) -> None:
        """Raise UsageError if a session has this name already."""
        if self.session_folder(name).exists():
            raise UsageError(
                f"A session called {name!r} exists in {self._sessions}",
                resolution=f"Go on with it: bisector resume {name}    or choose: bisector start ... --name OTHER",
            )

    def create(self, started: SessionStarted, *more: Event) -> None:
        """Make a session's folder with its first events, whole or not at all. Raises UsageError for a taken name."""
        self.free_name(started.session)
        folder = self.session_folder(started.session)
        making = folder.with_name(f".{folder.name}.{os.getpid()}")
        making.mkdir(parents=True)
        try:
            journal = create_journal(making)
            for event in (started, *more):
                journal.append(event)
            journal.close()
            making.rename(folder)
        except BaseException:
            shutil.rmtree(making, ignore_errors=True)
            raise

    @contextmanager
    def drive(self, name: str) -> Iterator[Journal]:
        """Hold a session for writing. Raises SessionLockedError if another controller does."""
        folder = self.session_folder(name)
        with session_lock(folder):
            journal = open_journal(folder, writer=True)
            try:
                yield journal
            finally:
                journal.close()

    def read(self, name: str) -> Journal:
        """A session's journal for reading only."""
        return open_journal(self.session_folder(name))

    def is_driven(self, name: str) -> bool:
        """Does a controller drive this session now? Without it a session that says "running" was interrupted."""
        return is_driven(self.session_folder(name))


def _last_written(folder: Path) -> float:
    journal = folder / JOURNAL_NAME
    wal = folder / f"{JOURNAL_NAME}-wal"
    return max(path.stat().st_mtime for path in (journal, wal) if path.exists())

"""Files of a session: written under `logs/`, and renamed into `artefacts/` before the event that names them."""

import os
from pathlib import Path


class Artefacts:
    """The two folders of one session. Used from every worker's thread; no two workers use one name."""

    def __init__(self, folder: Path) -> None:
        self._logs = folder / "logs"
        self._kept = folder / "artefacts"
        for place in (self._logs, self._kept):
            place.mkdir(parents=True, exist_ok=True)

    def begin(self, name: str) -> Path:
        """A path to write to, empty: what a dead controller left there is dropped."""
        path = self._logs / name
        path.unlink(missing_ok=True)
        return path

    def keep(self, name: str) -> str:
        """Sync the file and move it where events may name it; return the name, "" if nothing was written."""
        path = self._logs / name
        if not path.exists():
            return ""
        with path.open("rb") as written:
            os.fsync(written.fileno())
        path.replace(self._kept / name)
        _sync_folder(self._kept)
        return name

    def path_of(self, name: str) -> Path:
        """Where a kept artefact is."""
        return self._kept / name


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

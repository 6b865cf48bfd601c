"""make's output folder, and how far its files may be trusted.

make believes times. That is right as long as every file in the folder is whole and none carries a time that is yet to
come; both are made sure of here before make is asked. The stamp beside the folder says what was built last, and
whether that came to an end.
"""

import json
import os
import shutil
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

# A killed compiler, linker or shell leaves its file as it wrote it last, moments before it died.
_TORN_WINDOW_NS = 10 * 10**9
# The clock of file times is coarser than that of time().
_CLOCK_GRAIN_NS = 10**9
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


@dataclass(frozen=True, slots=True, kw_only=True)
class Stamp:
    """What the folder holds. `whole` is False from the moment a build begins until it has been proven.

    `key` is that of the image in the cache. `lines_full` and `lines_step` are how many targets the last full and the
    last incremental build reported.
    """

    commit: str
    whole: bool
    started_ns: int
    boot_id: str
    key: str = ""
    build_id: str = ""
    lines_full: int = 0
    lines_step: int = 0


class Output:
    """The folder `out` below `folder`, and its stamp."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "out"
        self._stamp = folder / "out.json"

    def last(self) -> Stamp | None:
        """The stamp, None where there is none that can be read."""
        try:
            return Stamp(**json.loads(self._stamp.read_text()))
        except (OSError, ValueError, TypeError):
            return None

    def begin(self, commit: str) -> Stamp:
        """Make the folder trustworthy and write that a build begins. Returns the new stamp.

        Must be called before the sources are moved: every time that a file gets from here on is after `started_ns`.
        """
        last = self.last()
        if last is None or (not last.whole and last.boot_id != _boot_id()):
            # Unknown origin, or a power cut: files may be empty whatever their times say.
            self.wipe()
        elif not last.whole:
            self._remove_torn(last.started_ns)
        self.path.mkdir(parents=True, exist_ok=True)
        stamp = Stamp(
            commit=commit,
            whole=False,
            started_ns=_file_clock_ns(self._stamp.with_suffix(".now")),
            boot_id=_boot_id(),
            lines_full=last.lines_full if last else 0,
            lines_step=last.lines_step if last else 0,
        )
        self._write(stamp)
        return stamp

    def finish(self, stamp: Stamp) -> None:
        """Write that the build came to an end: its outputs are whole."""
        self._write(stamp)

    def wipe(self) -> None:
        """Begin from nothing."""
        shutil.rmtree(self.path, ignore_errors=True)
        if self.path.exists():
            shutil.rmtree(self.path)

    def is_empty(self) -> bool:
        """Has nothing been built here? Configuring alone leaves tools and folders, but no release."""
        return not (self.path / "include/config/kernel.release").exists()

    def distrust_future(self, source: Path) -> bool:
        """Undo what a clock that went back would do: make keeps an object that is newer than its changed source.

        With an output whose time is yet to come the whole folder goes; such sources are touched. True if there were.
        """
        now = _file_clock_ns(self._stamp.with_suffix(".now")) + _CLOCK_GRAIN_NS
        wiped = any(file.stat(follow_symlinks=False).st_mtime_ns > now for file in _files(self.path))
        if wiped:
            self.wipe()
            self.path.mkdir(parents=True)
        touched = [file for file in _files(source) if file.stat(follow_symlinks=False).st_mtime_ns > now]
        for file in touched:
            os.utime(file, follow_symlinks=False)
        return wiped or bool(touched)

    def _remove_torn(self, since_ns: int) -> None:
        """Remove what a build that was killed may have left half-written; what it finished stays.

        kbuild writes `.X.cmd` after X is whole, so an X without a newer one is suspect; so is everything written in
        the last moments. If the file is lost by which kconfig knows the former options, it could not tell which
        objects a switched-off option concerns: then nothing is kept.
        """
        written = [(Path(file), file.stat(follow_symlinks=False)) for file in _files(self.path)]
        written = [(path, stat) for path, stat in written if stat.st_ctime_ns >= since_ns - _CLOCK_GRAIN_NS]
        newest = max((stat.st_ctime_ns for _, stat in written), default=0)
        for path, stat in written:
            command = path.with_name(f".{path.name}.cmd")
            unfinished = command.exists() and command.stat().st_mtime_ns < stat.st_mtime_ns
            if not unfinished and stat.st_ctime_ns < newest - _TORN_WINDOW_NS:
                continue
            if path == self.path / "include/config/auto.conf":
                self.wipe()
                return
            path.unlink(missing_ok=True)

    def _write(self, stamp: Stamp) -> None:
        write_durably(self._stamp, json.dumps(asdict(stamp), indent=1).encode())


def write_durably(path: Path, content: bytes) -> None:
    """Replace a file so that after any crash the old or the new content is there, whole."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f"{path.name}.{os.getpid()}.new")
    with draft.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make the folder's entries durable."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _files(folder: Path) -> Iterator["os.DirEntry[str]"]:
    if not folder.exists():
        return
    with os.scandir(folder) as entries:
        for entry in list(entries):
            if entry.is_dir(follow_symlinks=False):
                yield from _files(Path(entry.path))
            elif entry.is_file(follow_symlinks=False) and entry.name != ".git":
                yield entry


def _file_clock_ns(probe: Path) -> int:
    """Now, by the clock that gives files their times (it is another one on a network disk)."""
    probe.parent.mkdir(parents=True, exist_ok=True)
    probe.write_bytes(b"")
    os.utime(probe)
    now = probe.stat().st_mtime_ns
    probe.unlink()
    return now


def _boot_id() -> str:
    return _BOOT_ID.read_text().strip() if _BOOT_ID.exists() else ""

#!/usr/bin/env python3
"""Make the demonstration history: a git repository of the distribution's kernel source with a planted slowdown.

Runs by itself (`python make_history.py DEST`) with the standard library and git; the changes stand in history.toml.
The same source package and the same script give the same commit ids on every machine.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime as dt
import fcntl
import hashlib
import json
import lzma
import os
import posixpath
import re
import shutil
import stat
import subprocess
import sys
import tarfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import IO, Any

from history_plan import PACKAGE, Change, HistoryError, load_changes, plan_history, positions_between

CHANGES_FILE = Path(__file__).with_name("history.toml")
SOURCE_DIR = Path("/usr/src")
RECORD = "bisector-demo.json"
CONFIG_KEY = "bisector.demo"
COMMITTER = "Astrid Holm <astrid.holm@example.org>"
FIRST_DAY = dt.datetime(2011, 1, 10, 8, 30, tzinfo=dt.UTC)

Say = Callable[[str], None]

# What is kept, by the longest folder that matches: "all" below it, "files" (only those directly in it), or
# "build" (Kconfig, Makefile and Kbuild files, which must stay wherever a kept one names them), "only" (as "files",
# and nothing below), or "none". A folder of "files" keeps the "build" files of the folders below it.
# Somewhat more than the demonstration needs: ext4, FAT, EFI and ACPI stay for labs that boot from a disk.
_FILES = "drivers/block drivers/char drivers/cpufreq drivers/firmware drivers/input drivers/net drivers/video fs net"
_ALL = """arch/x86 block certs crypto include init io_uring ipc kernel lib LICENSES mm scripts usr
    drivers/acpi drivers/base drivers/char/hw_random drivers/clocksource drivers/cpuidle drivers/firmware/efi
    drivers/input/keyboard drivers/input/serio drivers/pci drivers/pnp drivers/rtc drivers/thermal drivers/tty
    drivers/video/console drivers/virtio
    fs/autofs fs/crypto fs/debugfs fs/devpts fs/efivarfs fs/exportfs fs/ext4 fs/fat fs/iomap fs/jbd2 fs/kernfs fs/nls
    fs/notify fs/proc fs/quota fs/ramfs fs/sysfs fs/tracefs fs/unicode fs/verity
    net/bpf net/core net/ethernet net/ethtool net/ipv4 net/ipv6 net/netlink net/packet net/sched net/unix
    security/keys tools/arch/x86 tools/build tools/include tools/lib tools/objtool tools/scripts"""
KEPT = {"": "files", "arch": "only", "security": "files", "tools": "build", "debian": "none"}
KEPT |= dict.fromkeys(_FILES.split(), "files") | dict.fromkeys(_ALL.split(), "all")
KEPT |= {f"arch/{arch}/crypto": "build" for arch in ("arm", "arm64", "mips", "powerpc", "s390", "sparc")}
_NONE = "include/dt-bindings include/media include/rdma include/sound tools/bpf tools/perf tools/power tools/testing"
KEPT |= dict.fromkeys(_NONE.split(), "none") | {"include/dt-bindings/leds": "all"}
_BUILD_FILE = re.compile(r"(Kconfig|Makefile|Kbuild)([.\-_].*)?$")


def is_kept(path: str) -> bool:
    """Say whether a file of the source tree belongs into the repository. `path` is relative to the tree's top."""
    folder, name = posixpath.split(path)
    nearest = folder
    while nearest not in KEPT:
        nearest = posixpath.dirname(nearest)
    rule = KEPT[nearest]
    if rule == "all" or (rule in ("files", "only") and nearest == folder):
        return True
    return rule in ("files", "build") and _BUILD_FILE.match(name) is not None


def find_source(folder: Path = SOURCE_DIR) -> Path:
    """Return the distribution's kernel source archive, 6.1 if it is there. Raises HistoryError naming the package."""
    wanted = folder / f"{PACKAGE}.tar.xz"
    if wanted.is_file():
        return wanted
    others = sorted(folder.glob("linux-source-*.tar.xz"))
    if others:
        return others[-1]
    raise HistoryError(
        f"no kernel source: there is no {folder}/linux-source-*.tar.xz",
        resolution=f"Install the package {PACKAGE}: apt-get install {PACKAGE}",
    )


def source_files(source: Path) -> Iterator[tuple[str, str, bytes]]:
    """Yield (path, git mode, content) of the kept files of an archive or a folder."""
    if source.is_dir():
        yield from _folder_files(source)
        return
    # Not as a stream ("r|*"): that takes the end of a shortened file for the end of the archive.
    with tarfile.open(source, "r:*") as archive:
        for member in archive:
            path = member.name.removeprefix("./").partition("/")[2]
            if not path or member.isdir() or not is_kept(path):
                continue
            if member.issym():
                yield path, "120000", member.linkname.encode()
            elif (stream := archive.extractfile(member)) is not None:
                yield path, "100755" if member.mode & stat.S_IXUSR else "100644", stream.read()


def _folder_files(source: Path) -> Iterator[tuple[str, str, bytes]]:
    for folder, folders, names in os.walk(source):
        folders[:] = sorted(name for name in folders if name != ".git" and not Path(folder, name).is_symlink())
        for name in sorted(names):
            full = Path(folder, name)
            path = full.relative_to(source).as_posix()
            if not is_kept(path):
                continue
            if full.is_symlink():
                yield path, "120000", bytes(full.readlink())
            else:
                yield path, "100755" if full.stat().st_mode & stat.S_IXUSR else "100644", full.read_bytes()


def without_packaging_rule(gitignore: bytes) -> bytes:
    """Return the .gitignore without Debian's `/*`, which would hide the whole tree from git."""
    return b"".join(line for line in gitignore.splitlines(keepends=True) if line.strip() not in (b"/*", b"!/debian/"))


def kernel_version(makefile: bytes) -> str:
    """Return "6.1.192" from the top Makefile."""
    parts = [re.search(rb"^%s = *(\d+)" % key, makefile, re.M) for key in (b"VERSION", b"PATCHLEVEL", b"SUBLEVEL")]
    if None in parts:
        raise HistoryError("the top Makefile tells no kernel version", resolution="Give a kernel source with --source.")
    return ".".join(part[1].decode() for part in parts if part)


class _Importer:
    """Writes a `git fast-import` stream; marks are numbers given out in order."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream, self._mark = stream, 0

    def _data(self, content: bytes) -> None:
        self._stream.write(b"data %d\n%s\n" % (len(content), content))

    def blob(self, content: bytes) -> int:
        self._mark += 1
        self._stream.write(b"blob\nmark :%d\n" % self._mark)
        self._data(content)
        return self._mark

    def commit(self, *, author: str, day: int, message: str, parents: Iterable[int], files: Iterable[str]) -> int:
        """Write a commit whose `files` are lines "MODE :MARK PATH"; return its mark."""
        self._mark += 1
        # A day apart, at some minute of a working day.
        when = int((FIRST_DAY + dt.timedelta(days=day, minutes=day * 37 % 480)).timestamp())
        head = f"commit refs/heads/main\nmark :{self._mark}\nauthor {author} {when} +0000\n"
        self._stream.write(f"{head}committer {COMMITTER} {when} +0000\n".encode())
        self._data(message.encode())
        for word, parent in zip(("from", *["merge"] * 8), parents, strict=False):
            self._stream.write(b"%s :%d\n" % (word.encode(), parent))
        self._stream.writelines(f"M {line}\n".encode() for line in files)
        self._stream.write(b"\n")
        return self._mark

    def ref(self, name: str, mark: int) -> None:
        self._stream.write(f"reset {name}\nfrom :{mark}\n\n".encode())


def _git(folder: Path, *args: str) -> str:
    run = subprocess.run(("git", *args), cwd=folder, env=git_environment(), capture_output=True, text=True, check=False)
    if run.returncode != 0:
        raise HistoryError(f"git {args[0]} failed in {folder}: {run.stderr.strip()}")
    return run.stdout.strip()


def git_environment() -> dict[str, str]:
    """Return an environment in which no configuration, hook or template of the user reaches git."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    return kept | {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1", "LC_ALL": "C"}


def _import(repo: Path, source: Path, changes: tuple[Change, ...], say: Say) -> dict[str, Any]:
    """Fill an empty repository; return the record of what was planted, without the path."""
    marks_file = repo / ".git" / "demo-marks"
    command = ("git", "-c", "core.compression=1", "fast-import", "--quiet", f"--export-marks={marks_file}")
    process = subprocess.Popen(command, cwd=repo, env=git_environment(), stdin=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdin is not None
    assert process.stderr is not None
    try:
        importer = _Importer(process.stdin)
        record, commits = _write_all(importer, source, changes, say)
        process.stdin.close()
    except BrokenPipeError:
        raise HistoryError(f"git fast-import failed: {process.stderr.read().decode(errors='replace')}") from None
    finally:
        with contextlib.suppress(BrokenPipeError):
            process.stdin.close()
        complaint = process.stderr.read().decode(errors="replace")
        code = process.wait()
    if code != 0:
        raise HistoryError(f"git fast-import failed: {complaint}")
    ids = dict(line.split() for line in marks_file.read_text().splitlines())
    marks_file.unlink()
    named = {key: [ids[f":{commits[place]}"] for place in places] for key, places in record.pop("places").items()}
    return record | {
        "good": ids[f":{commits[-1]}"],
        "bad": ids[f":{commits[len(changes) - 1]}"],
        "first_bad": named.pop("slow")[0],
        **named,
        "commits": len(changes),
    }


def _write_all(
    importer: _Importer, source: Path, changes: tuple[Change, ...], say: Say
) -> tuple[dict[str, Any], dict[int, int]]:
    """Stream the source and the changes; return the record so far and the mark of each position in the plan."""
    wanted = {edit.file for change in changes for edit in change.edits} | {"Makefile"}
    texts: dict[str, bytes] = {}
    modes: dict[str, str] = {}
    base: list[str] = []
    for path, mode, content in source_files(source):
        if path == ".gitignore":
            content = without_packaging_rule(content)
        if path in wanted:
            texts[path] = content
        modes[path] = mode
        base.append(f"{mode} :{importer.blob(content)} {path}")
        if len(base) % 4000 == 0:
            say(f"{len(base)} files read")
    if "Makefile" not in texts:
        raise HistoryError(f"{source} holds no kernel source", resolution="Give a kernel source with --source.")
    version = kernel_version(texts["Makefile"])
    planned = plan_history(changes, texts)
    say(f"{len(base)} files of Linux {version} kept; {len(planned)} commits to write")
    message = f"Import Linux {version}, pruned for the demonstration\n\nFrom the distribution's source package.\n"
    commits = {-1: importer.commit(author=COMMITTER, day=-1, message=message, parents=(), files=sorted(base))}
    for place, commit in enumerate(planned):
        files = [f"{modes[path]} :{importer.blob(text)} {path}" for path, text in sorted(commit.files.items())]
        commits[place] = importer.commit(
            author=commit.change.author_address,
            day=place,
            message=commit.change.message,
            parents=[commits[parent] for parent in commit.parents],
            files=files,
        )
    importer.ref("refs/heads/main", commits[len(planned) - 1])
    importer.ref("refs/tags/demo-good", commits[-1])
    importer.ref("refs/tags/demo-bad", commits[len(planned) - 1])
    places = {
        "slow": [place for place, commit in enumerate(planned) if commit.change.role == "slow"],
        "unbuildable": positions_between(planned, cause="breaks-build", repair="repairs-build"),
        "panicking": positions_between(planned, cause="panics", repair="repairs-boot"),
    }
    return {"version": version, "places": places}, commits


def _key(source: Path, changes_file: Path) -> str:
    """Return what the history depends on.

    dpkg keeps the times of a package's files, so size and time tell its versions apart without reading 138 MB.
    """
    parts = (Path(__file__), Path(__file__).with_name("history_plan.py"))
    made_by = hashlib.sha256(b"".join(part.read_bytes() for part in (*parts, changes_file))).hexdigest()
    mark = (source / "Makefile" if source.is_dir() else source).stat()
    return f"{made_by[:16]} {source.name} {mark.st_size} {int(mark.st_mtime)}"


def _finished(dest: Path, key: str) -> dict[str, Any] | None:
    """Return the record of a complete history made from the same things, or None."""
    try:
        record: dict[str, Any] = json.loads((dest / ".git" / RECORD).read_text())
        if record["key"] != key:
            return None
        tags = _git(dest, "rev-parse", "--verify", "--end-of-options", "refs/tags/demo-good^{commit}")
        tags += " " + _git(dest, "rev-parse", "--verify", "--end-of-options", "refs/tags/demo-bad^{commit}")
        count = _git(dest, "rev-list", "--count", f"{record['good']}..{record['bad']}")
    except (OSError, ValueError, KeyError, TypeError, HistoryError):
        return None
    same = tags == f"{record['good']} {record['bad']}" and count == str(record["commits"])
    return record | {"repo": str(dest)} if same else None


def _refuse_a_stranger(dest: Path) -> None:
    if not dest.exists() or (dest.is_dir() and not any(dest.iterdir())):
        return
    # Read as a file: in a damaged repository of ours git would not look for its configuration.
    config = dest / ".git" / "config"
    if config.is_file() and CONFIG_KEY in _git(dest, "config", "--file", str(config), "--list", "--name-only").split():
        return
    raise HistoryError(f"{dest} is there and was not made by this script", resolution="Name a folder that is new.")


@contextlib.contextmanager
def _alone_in(folder: Path) -> Iterator[None]:
    """Keep a second run waiting: it finds the history made."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def make_history(
    dest: Path, *, source: Path | None = None, say: Say = lambda _: None, changes_file: Path = CHANGES_FILE
) -> dict[str, Any]:
    """Make the repository at `dest`, or find it made, and return its record.

    The record: repo, good, bad, first_bad (full ids), unbuildable and panicking (lists of ids), commits (in
    good..bad), version. Raises HistoryError when the source, git or a fitting `dest` is missing.
    """
    if shutil.which("git") is None:
        raise HistoryError("git is not here", resolution="Install the package git: apt-get install git")
    source = find_source() if source is None else source
    if not source.exists():
        raise HistoryError(f"no kernel source at {source}", resolution=f"Install the package {PACKAGE}.")
    dest = dest.absolute()
    key = _key(source, changes_file)
    dest.parent.mkdir(parents=True, exist_ok=True)
    with _alone_in(dest.parent):
        if (record := _finished(dest, key)) is not None:
            say(f"{dest} is made already")
            return record
        _refuse_a_stranger(dest)
        for leftover in dest.parent.glob(f".{dest.name}.making-*"):
            shutil.rmtree(leftover)
        making = dest.parent / f".{dest.name}.making-{os.getpid()}"
        try:
            making.mkdir()
            _git(making, "init", "-q", "--template=", "--object-format=sha1", "--initial-branch=main")
            _git(making, "config", CONFIG_KEY, "true")
            say(f"reading {source}")
            record = _import(making, source, load_changes(changes_file), say) | {"key": key}
            say("writing the work tree")
            _git(making, "-c", "core.autocrlf=false", "reset", "-q", "--hard")
            (making / ".git" / RECORD).write_text(json.dumps({"repo": str(dest)} | record, indent=2) + "\n")
            if dest.exists():
                dest.rename(dest.parent / f".{dest.name}.making-old")
            making.rename(dest)
        except (tarfile.TarError, lzma.LZMAError, EOFError, zlib.error) as error:
            raise HistoryError(f"{source} is not a readable archive: {error}") from error
        finally:
            for leftover in dest.parent.glob(f".{dest.name}.making-*"):
                shutil.rmtree(leftover, ignore_errors=True)
    return {"repo": str(dest)} | record


def main(argv: list[str] | None = None) -> int:
    """Run the command; return its exit status: 0, or 2 when something is missing."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dest", type=Path, metavar="DEST", help="folder of the repository to make")
    parser.add_argument("--source", type=Path, help=f"archive or folder of the kernel source (default: {PACKAGE})")
    parser.add_argument("--json", action="store_true", help="print what was planted, answer included")
    options = parser.parse_args(argv)
    try:
        record = make_history(options.dest, source=options.source, say=lambda line: print(line, file=sys.stderr))
    except HistoryError as error:
        print(f"make_history: {error.brief}", file=sys.stderr)
        if error.resolution:
            print(error.resolution, file=sys.stderr)
        return 2
    if options.json:
        print(json.dumps(record, indent=2))
    else:
        print(f"{record['repo']}: {record['commits']} commits of Linux {record['version']}, demo-good to demo-bad")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Built kernels, kept for all sessions: looked up by what they were made from, bounded by size, never torn."""

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from bisector.kernel.config import config_digest, parse_config
from bisector.kernel.modules import pack
from bisector.kernel.output import sync_folder, write_durably
from bisector.model.kernel import KernelImage, KernelModules

_IMAGE, _CONFIG, _FACTS, _MODULES = "bzImage", "config", "image.json", "modules.tar.gz"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredImage:
    """One entry: the image's path, the final configuration's text, the facts that were stored with it, its modules."""

    key: str
    image: Path
    config: str
    facts: Mapping[str, str]
    modules: KernelModules | None = None

    def as_image(self) -> KernelImage:
        """The image for whoever boots it without a builder: not compared with any good end's configuration."""
        config = parse_config(self.config)
        return KernelImage(
            commit=self.facts["commit"],
            key=self.key,
            release=self.facts["release"],
            build_id=self.facts["build_id"],
            signature=self.facts["signature"],
            path=str(self.image),
            compiler=config.get("CONFIG_CC_VERSION_TEXT", "unknown").strip('"'),
            config_digest=config_digest(config),
            config_changes=(),
            duration_s=0.0,
            from_cache=True,
            modules=self.modules,
        )


class ImageCache:
    """A folder of images, at most `max_bytes` of them; the least recently used go first.

    An entry is a folder named by its key, written elsewhere, synced, and renamed into place with its facts last; one
    that is not whole all the same (power cut, a person's hand) is removed when it is met. What an open ImageCache of
    any process has found or put is never removed until that is closed or its process ends.
    """

    def __init__(self, folder: Path, max_bytes: int) -> None:
        self._folder = folder.absolute()
        self._max_bytes = max_bytes
        self._lease: int | None = None
        self._lease_path: Path | None = None
        self._kept: set[str] = set()

    def find(self, key: str) -> StoredImage | None:
        """The entry of that key, whole and checked by its digest, or None."""
        with self._locked():
            found = self._read(key)
            if found is None:
                return None
            self._keep(key)
            os.utime(self._entry(key) / _FACTS)
            return found

    def entries(self) -> list[StoredImage]:
        """Every entry that is whole, the one last used first. Nothing of it is kept from being removed by others."""
        if not self._folder.is_dir():
            return []
        with self._locked():
            found = (self._folder / "images").glob(f"*/*/{_FACTS}")
            newest_first = sorted(found, key=lambda facts: facts.stat().st_mtime_ns, reverse=True)
            read = [self._read(facts.parent.name) for facts in newest_first]
        return [entry for entry in read if entry is not None]

    def put(
        self, key: str, *, image: Path, config: str, facts: Mapping[str, str], modules: Path | None = None
    ) -> StoredImage:
        """Store a copy and return its entry; if another session stored this key meanwhile, that one stays.

        `modules` is the folder that becomes /lib/modules/RELEASE. Raises OSError (disk full).
        """
        draft = self._folder / "drafts" / uuid.uuid4().hex
        draft.mkdir(parents=True)
        try:
            _copy_durably(image, draft / _IMAGE)
            write_durably(draft / _CONFIG, config.encode())
            known = {**facts, "sha256": _sha256(draft / _IMAGE)}
            if modules is not None:
                unpacked_bytes = pack(modules, draft / _MODULES)
                _sync(draft / _MODULES)
                known |= {"modules_bytes": str(unpacked_bytes), "modules_sha256": _sha256(draft / _MODULES)}
            write_durably(draft / _FACTS, json.dumps(known, indent=1, sort_keys=True).encode())
            with self._locked():
                entry = self._entry(key)
                if self._read(key) is None:
                    entry.parent.mkdir(parents=True, exist_ok=True)
                    draft.rename(entry)
                    sync_folder(entry.parent)
                self._keep(key)
                self._evict()
                stored = self._read(key)
        finally:
            shutil.rmtree(draft, ignore_errors=True)
        if stored is None:
            raise OSError(f"{entry} cannot be read back")
        return stored

    def close(self) -> None:
        """Others may remove what this one used."""
        if self._lease is not None and self._lease_path is not None:
            self._lease_path.unlink(missing_ok=True)
            os.close(self._lease)
            self._lease = None
        self._kept.clear()

    def _entry(self, key: str) -> Path:
        return self._folder / "images" / key[:2] / key

    def _read(self, key: str) -> StoredImage | None:
        entry = self._entry(key)
        try:
            facts = json.loads((entry / _FACTS).read_text())
            if facts["sha256"] != _sha256(entry / _IMAGE):
                raise ValueError("not the image that was stored")
            config = (entry / _CONFIG).read_text()
            modules = _read_modules(entry / _MODULES, facts)
        except FileNotFoundError:
            whole = False
        except (ValueError, KeyError, TypeError):
            whole = False
        else:
            whole = True
        if whole:
            return StoredImage(key=key, image=entry / _IMAGE, config=config, facts=facts, modules=modules)
        self._remove(entry)
        return None

    def _remove(self, entry: Path) -> None:
        if not entry.exists():
            return
        # Away from its name in one step, so that nobody meets half of it.
        grave = self._folder / "drafts" / uuid.uuid4().hex
        grave.parent.mkdir(parents=True, exist_ok=True)
        entry.rename(grave)
        shutil.rmtree(grave, ignore_errors=True)

    def _evict(self) -> None:
        kept = self._kept | self._kept_by_others()
        entries = []
        for facts in (self._folder / "images").glob(f"*/*/{_FACTS}"):
            size = sum(file.stat().st_size for file in facts.parent.iterdir())
            entries.append((facts.stat().st_mtime_ns, size, facts.parent))
        total = sum(size for _, size, _ in entries)
        for _, size, entry in sorted(entries):
            if total <= self._max_bytes:
                return
            if entry.name not in kept:
                self._remove(entry)
                total -= size

    def _keep(self, key: str) -> None:
        if self._lease is None:
            self._lease_path = self._folder / "live" / f"{os.getpid()}-{uuid.uuid4().hex}"
            self._lease_path.parent.mkdir(parents=True, exist_ok=True)
            self._lease = os.open(self._lease_path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
            fcntl.flock(self._lease, fcntl.LOCK_EX)
        if key not in self._kept:
            self._kept.add(key)
            os.write(self._lease, f"{key}\n".encode())

    def _kept_by_others(self) -> set[str]:
        """Keys of the leases that a living process holds locked; those of dead ones are removed."""
        keys: set[str] = set()
        for path in (self._folder / "live").glob("*"):
            if path == self._lease_path:
                continue
            with contextlib.suppress(FileNotFoundError), path.open("r+") as file:
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    keys.update(file.read().split())
                else:
                    path.unlink(missing_ok=True)
        return keys

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        self._folder.mkdir(parents=True, exist_ok=True)
        handle = os.open(self._folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield
        finally:
            os.close(handle)


def _read_modules(path: Path, facts: Mapping[str, str]) -> KernelModules | None:
    """What was packed with an image, if anything was. Raises ValueError or FileNotFoundError if it is not whole."""
    wanted = facts.get("modules_sha256")
    if wanted is None:
        return None
    if wanted != _sha256(path):
        raise ValueError("not the modules that were stored")
    return KernelModules(path=str(path), sha256=wanted, unpacked_bytes=int(facts["modules_bytes"]))


def _sync(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())


def _copy_durably(source: Path, target: Path) -> None:
    with source.open("rb") as old, target.open("wb") as new:
        shutil.copyfileobj(old, new)
        new.flush()
        os.fsync(new.fileno())


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()

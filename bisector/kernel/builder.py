"""The local builder: one work tree, one output folder, one compiler, one kernel at a time."""

import fcntl
import json
import os
import re
import threading
import time
from dataclasses import asdict, dataclass, replace
from io import FileIO
from pathlib import Path

from bisector.kernel import bzimage, elf, modules
from bisector.kernel.config import config_changes, config_digest, digest_of, parse_config
from bisector.kernel.diagnose import CLOCK_SKEW
from bisector.kernel.make import Counter, Make, OverTimeError
from bisector.kernel.output import Output, Stamp, write_durably
from bisector.kernel.process import CancelledError, end_left_overs
from bisector.kernel.settings import check, make_base, read_wishes, settle
from bisector.kernel.source import SourceTree
from bisector.kernel.store import ImageCache, StoredImage
from bisector.kernel.toolchain import Toolchain, find_toolchain
from bisector.model.errors import BisectorError, BuilderError, KernelError, UsageError
from bisector.model.kernel import KernelImage
from bisector.model.outcome import Outcome
from bisector.model.progress import OnProgress, Progress
from bisector.recipe.schema import KernelPart

# Raise it when the way of building changes what comes out: older cache entries are then not found.
_EDITION = "2"
_IMAGES = {"x86_64": ("bzImage", "arch/x86/boot/bzImage"), "i386": ("bzImage", "arch/x86/boot/bzImage")}
_TRIES = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class _Prepared:
    """What all builds of a session share: compiler, base configuration, the good end's final configuration."""

    toolchain: Toolchain
    base: str
    good: dict[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Order:
    """One call of `build`."""

    commit: str
    log: Path
    stream: FileIO
    on_progress: OnProgress
    started: float

    def say(self, text: str) -> None:
        self.on_progress(Progress(fraction=None, text=text))


class KernelBuilder:
    """Builds kernels in `folder` (`out/`, `config/`, stamps) from `source`; satisfies `session.ports.Builder`.

    `good` is the commit from whose tree the base configuration is made and against whose final configuration
    `KernelImage.config_changes` are told. The cache is asked by what is known before a build: tree, commit (its
    digits are in the release), base configuration, architecture, compiler. The final configuration follows from
    these; its digest stands in the image, and what the recipe requires is asserted on cached images as well.

    Raises RecipeError or UsageError at once if the recipe's configuration files cannot be used.
    """

    def __init__(
        self, part: KernelPart, recipe_folder: Path, *, source: SourceTree, good: str, folder: Path, cache: ImageCache
    ) -> None:
        if part.arch not in _IMAGES:
            raise UsageError(
                f"kernel.arch: {part.arch!r} cannot be built yet", resolution=f"Use one of: {', '.join(_IMAGES)}"
            )
        if re.search(r"[\s:]", str(folder.absolute())):
            raise UsageError(
                f"kernels cannot be built in {folder.absolute()}: make allows no blank and no colon in the path",
                resolution="Set BISECTOR_HOME to a folder without them",
            )
        self._part = part
        self._wishes = read_wishes(part, recipe_folder)
        self._source = source
        self._good = good
        self._folder = folder.absolute()
        self._cache = cache
        self._output = Output(self._folder)
        self._config_folder = self._folder / "config"
        self._modules = modules.Staging(self._folder / "modules")
        self._cancelled = threading.Event()
        self._busy = threading.Lock()
        self._held: int | None = None

    def build(self, commit: str, *, log: Path, on_progress: OnProgress) -> KernelImage:
        """The image of `commit`: from the cache, or built, proven and stored. `log` holds make's whole output.

        Raises KernelError (config_failed, build_failed) or BuilderError (this machine's trouble, or cancelled).
        """
        with self._busy:
            self._cancelled.clear()
            log.parent.mkdir(parents=True, exist_ok=True)
            try:
                self._hold()
                # Unbuffered: people follow it while it grows, and read it after a crash.
                with log.open("wb", buffering=0) as stream:
                    order = _Order(
                        commit=commit, log=log, stream=stream, on_progress=on_progress, started=time.monotonic()
                    )
                    return self._find_or_make(order)
            except CancelledError as error:
                raise BuilderError(
                    f"the build of {commit[:12]} was cancelled", resolution="It is taken up by: bisector resume"
                ) from error
            except OSError as error:
                raise BuilderError(
                    f"the builder failed at {commit[:12]}: {error.strerror or error}",
                    details=str(error),
                    resolution=f"Free space or mend {self._folder}, then resume the session",
                ) from error

    def find(self, commit: str) -> KernelImage | None:
        """The image of `commit` if the cache has it and it can be used; asked at once, also while a build runs.

        None too before the first build has made the configuration, and for trouble: `build` is there to tell it.
        """
        started = time.monotonic()
        try:
            toolchain = find_toolchain(self._part.compiler)
            if self._made_from(toolchain) != self._recorded():
                return None
            prepared = self._read_prepared(toolchain)
            stored = self._cache.find(self._key(prepared, commit))
            if stored is None:
                return None
            return self._image(prepared, stored, commit, from_cache=True, started=started)
        except (BisectorError, OSError, ValueError):
            return None

    def cancel(self) -> None:
        """End a build that runs on another thread, with all its processes; it raises BuilderError there."""
        self._cancelled.set()

    def close(self) -> None:
        """Let another process use the folder. Files stay for the next incremental build."""
        with self._busy:
            if self._held is not None:
                os.close(self._held)
                self._held = None

    def _find_or_make(self, order: _Order) -> KernelImage:
        prepared = self._prepare(order)
        key = self._key(prepared, order.commit)
        stored = self._cache.find(key)
        from_cache = stored is not None
        if stored is None:
            stored = self._make_kernel(order, prepared, key)
        else:
            order.stream.write(f"taken from the cache: {stored.image}\n".encode())
        return self._image(prepared, stored, order.commit, from_cache=from_cache, started=order.started)

    def _key(self, prepared: _Prepared, commit: str) -> str:
        return digest_of([
            _EDITION, self._part.arch, self._source.tree_id(commit), commit, prepared.base,
            prepared.toolchain.id, *(["modules"] if prepared.good.get("CONFIG_MODULES") == "y" else []),
        ])  # fmt: skip

    def _image(
        self, prepared: _Prepared, stored: StoredImage, commit: str, *, from_cache: bool, started: float
    ) -> KernelImage:
        check(self._wishes, stored.config, commit)
        config = parse_config(stored.config)
        return KernelImage(
            commit=commit,
            key=stored.key,
            release=stored.facts["release"],
            build_id=stored.facts["build_id"],
            signature=stored.facts["signature"],
            path=str(stored.image),
            compiler=prepared.toolchain.id,
            config_digest=config_digest(config),
            config_changes=config_changes(prepared.good, config),
            duration_s=time.monotonic() - started,
            from_cache=from_cache,
            modules=stored.modules,
            fixups=self._source.fixups(commit),
        )

    def _hold(self) -> None:
        """Take the folder for this process, and end what a killed one left running in it."""
        if self._held is not None:
            return
        self._config_folder.mkdir(parents=True, exist_ok=True)
        handle = os.open(self._folder / "builder.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            os.close(handle)
            raise BuilderError(
                f"another process builds in {self._folder}", resolution="Let it end, then resume the session"
            ) from error
        self._held = handle
        end_left_overs(self._folder)

    def _prepare(self, order: _Order) -> _Prepared:
        """Compiler checked, base and good end's configuration read, or made from the good end's tree."""
        toolchain = self._same_toolchain()
        record = self._config_folder / "made.json"
        base, good = self._config_folder / "base.config", self._config_folder / "good.config"
        made_from = self._made_from(toolchain)
        if self._recorded() != made_from:
            record.unlink(missing_ok=True)
            order.say(f"configuring {self._good[:12]}")
            last = self._output.last()
            stamp = self._output.begin(self._good)
            source = self._source.move_to(self._good)
            make = self._make(order, self._good, toolchain)

            base_text = make_base(self._wishes, self._config_folder, make.configuring(source))
            good_text = settle(base_text, self._config_folder, make.configuring(source))
            write_durably(base, base_text.encode())
            write_durably(good, good_text.encode())
            write_durably(record, json.dumps(made_from).encode())
            self._output.finish(last if last is not None and last.whole else replace(stamp, commit="", whole=True))
        return self._read_prepared(toolchain)

    def _made_from(self, toolchain: Toolchain) -> dict[str, str]:
        return {"wishes": self._wishes.digest, "good": self._good, "compiler": toolchain.id}

    def _recorded(self) -> object:
        """What the configuration that lies here was made from; None if there is none."""
        record = self._config_folder / "made.json"
        return json.loads(record.read_text()) if record.exists() else None

    def _read_prepared(self, toolchain: Toolchain) -> _Prepared:
        base, good = self._config_folder / "base.config", self._config_folder / "good.config"
        return _Prepared(toolchain=toolchain, base=base.read_text(), good=parse_config(good.read_text()))

    def _same_toolchain(self) -> Toolchain:
        """The compiler; raises BuilderError if it is not the one of this folder's first build."""
        record = self._config_folder / "compiler.json"
        toolchain = find_toolchain(self._part.compiler)
        if not record.exists():
            write_durably(record, json.dumps(asdict(toolchain)).encode())
            return toolchain
        before = Toolchain(**json.loads(record.read_text()))
        if before.id != toolchain.id:
            raise BuilderError(
                f"the compiler changed within the session: {toolchain.id}, was {before.id}",
                details="Kernels of two compilers must not be compared.",
                resolution="Put the former compiler back and resume, or start a new session",
            )
        return toolchain

    def _make(self, order: _Order, commit: str, toolchain: Toolchain) -> Make:
        return Make(
            commit=commit,
            arch=self._part.arch,
            cc=toolchain.cc,
            folder=self._folder,
            output=self._output.path,
            log=order.log,
            stream=order.stream,
            deadline=order.started + self._part.timeout_s,
            cancelled=self._cancelled,
        )

    def _make_kernel(self, order: _Order, prepared: _Prepared, key: str) -> StoredImage:
        make = self._make(order, order.commit, prepared.toolchain)
        last = self._output.last()
        image = self._output.path / _IMAGES[self._part.arch][1]
        has_modules = prepared.good.get("CONFIG_MODULES") == "y"
        if last is not None and last.whole and last.key == key and image.exists() and not has_modules:
            # Only the cache has forgotten it: even a make with nothing to do takes seconds.
            return self._store(make, key, image)
        doubt = ""
        for _ in range(_TRIES):
            if doubt:
                order.stream.write(f"not believed, built again from nothing: {doubt}\n".encode())
                self._output.wipe()
            stamp = self._output.begin(order.commit)
            try:
                stamp, text = self._compile(order, prepared, make, stamp)
            except KernelError as error:
                # A make that ends by itself removes what it has not finished; one that was ended may not.
                if not isinstance(error, OverTimeError):
                    self._output.finish(replace(stamp, commit="", whole=True))
                raise
            doubt = self._doubt(text, make, image, stamp, last)
            if not doubt:
                stored = self._store(make, key, image)
                self._output.finish(replace(stamp, whole=True, key=key, build_id=stored.facts["build_id"]))
                return stored
        raise BuilderError(
            f"the image of {order.commit[:12]} is not believed: {doubt}",
            resolution=f"Set the clock right, clear the compiler's cache (ccache -C), remove {self._output.path}, "
            "then resume the session",
        )

    def _compile(self, order: _Order, prepared: _Prepared, make: Make, stamp: Stamp) -> tuple[Stamp, str]:
        """Configure and make; the stamp with its counts, and make's output."""
        order.say(f"checking out {order.commit[:12]}")
        source = self._source.move_to(order.commit)
        self._output.distrust_future(source)
        full = self._output.is_empty()
        order.say(f"configuring {order.commit[:12]}")
        config = settle(prepared.base, self._config_folder, make.configuring(source))
        check(self._wishes, config, order.commit)
        target = self._output.path / ".config"
        # Written only if it says something else: make looks at its time.
        if not target.exists() or target.read_text() != config:
            write_durably(target, config.encode())
        counter = Counter(on_progress=order.on_progress, expected=stamp.lines_full if full else stamp.lines_step)
        jobs = self._part.jobs or len(os.sched_getaffinity(0))
        has_modules = modules.are_on(config)
        words = [f"-j{jobs}", _IMAGES[self._part.arch][0], *(["modules"] if has_modules else [])]
        text = make.run(source, words, outcome=Outcome.BUILD_FAILED, on_line=counter)
        self._modules.clear()
        if has_modules:
            order.say(f"installing the modules of {order.commit[:12]}")
            self._modules.install(make, source, jobs)
        self._source.verify(order.commit)
        if full:
            return replace(stamp, lines_full=counter.lines), text
        return replace(stamp, lines_step=counter.lines), text

    def _doubt(self, text: str, make: Make, image: Path, stamp: Stamp, last: Stamp | None) -> str:
        """Why this image might not be the commit's, or "". Raises KernelError if it cannot be told from others."""
        release = self._release(make)
        vmlinux = self._output.path / "vmlinux"
        if found := CLOCK_SKEW.search(text):
            return f"make says {found[0]!r}"
        again = last is not None and last.commit == make.commit
        if image.stat().st_mtime_ns < stamp.started_ns and not again:
            return "make did not write it anew"
        if not elf.holds(vmlinux, release):
            return f"vmlinux does not hold {release}"
        stated = bzimage.stated_release(image)
        if stated != release and (stated is not None or not elf.holds(image, release)):
            return f"the image says {stated}, not {release}"
        build_id = self._build_id(vmlinux)
        if last is not None and not again and build_id == last.build_id:
            return f"its build id is that of {last.commit[:12]}"
        if bzimage.carries(image, build_id) is False:
            return f"the kernel packed in the image is not the vmlinux that was linked, {build_id}"
        return self._modules.doubt(release)

    def _release(self, make: Make) -> str:
        release = (self._output.path / "include/config/kernel.release").read_text().strip()
        if not release.endswith(make.local_version):
            raise KernelError(
                f"the kernel's release is {release!r} and does not end with {make.local_version}",
                outcome=Outcome.CONFIG_FAILED,
                resolution="CONFIG_LOCALVERSION_AUTO=n and no localversion files are needed",
            )
        return release

    def _build_id(self, vmlinux: Path) -> str:
        try:
            return elf.build_id(vmlinux)
        except ValueError as error:
            raise KernelError(
                f"{error}, so it could not be proven which kernel runs", outcome=Outcome.BUILD_FAILED
            ) from error

    def _store(self, make: Make, key: str, image: Path) -> StoredImage:
        vmlinux, blank = self._output.path / "vmlinux", make.commit[:12]
        release, signature = self._release(make), elf.signature(vmlinux, blank=blank)
        tree = self._modules.tree(release)
        if tree is not None:
            signature = digest_of([signature, modules.signature(tree, self._output.path, blank=blank)])
        facts = {
            "commit": make.commit,
            "release": release,
            "build_id": self._build_id(vmlinux),
            "signature": signature,
        }
        config = (self._output.path / ".config").read_text()
        return self._cache.put(key, image=image, config=config, facts=facts, modules=tree)

"""The one place where the rooms are put together: a recipe and a session become a builder and machines."""

import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from bisector.bench.command import CommandRunner
from bisector.bench.compile import build_suite
from bisector.bench.profiler import Profiler, profile_run
from bisector.bench.runner import SuiteRunner
from bisector.cli.pinning import cpu_for
from bisector.history.fixups import FixedTree, keep_fixups
from bisector.history.repository import Repository
from bisector.history.worktree import WorkTree
from bisector.kernel.builder import KernelBuilder
from bisector.kernel.store import ImageCache
from bisector.kernel.toolchain import check_host
from bisector.lab.physical import PhysicalMachine
from bisector.lab.qemu import EmbeddedMachine, check_programs
from bisector.lab.target import target_of
from bisector.model.cpus import PINNED, Role
from bisector.model.errors import UsageError
from bisector.model.kernel import KernelImage
from bisector.model.machine import BootRecord, MachineFacts, NotGivenBack
from bisector.model.sample import RunRecord
from bisector.recipe.machines import EmbeddedMachine as EmbeddedPart
from bisector.recipe.machines import SshMachine as SshPart
from bisector.recipe.schema import Recipe
from bisector.session.home import Home
from bisector.session.ports import OnProgress
from bisector.session.state import SessionState

CACHE_BYTES = 8 * 2**30
"""Built kernels kept over all sessions; a demonstration kernel is 3 MB, a distribution's 100 MB."""

BATCHES = tuple[tuple[str, int], ...]

Runner = SuiteRunner | CommandRunner
"""What measures: the suite, or a recipe's own command."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rig:
    """What drives a session's outside. `dispose` drops what only an unfinished session needs."""

    builder: KernelBuilder
    machines: "dict[str, MeasuringMachine]"
    higher_is_better: bool
    work_tree: WorkTree
    folder: Path

    def dispose(self) -> None:
        """Remove the builder's work tree and objects: a finished session needs only its images and journal."""
        self.builder.close()
        self.work_tree.remove()
        shutil.rmtree(self.folder, ignore_errors=True)


class MeasuringMachine:
    """A lab machine with the benchmark on it: the port `session.ports.Machine`, put together from lab and bench."""

    def __init__(self, machine: EmbeddedMachine | PhysicalMachine, suite: Runner, *, cpu: int | Role | None) -> None:
        self._machine = machine
        self._suite = suite
        self._cpu = cpu

    @property
    def name(self) -> str:
        """The name people gave it."""
        return self._machine.name

    def recover(self) -> None:
        """End what a dead controller left."""
        self._machine.recover()

    def boot(self, image: KernelImage, *, console: Path, on_progress: OnProgress) -> BootRecord:
        """Boot, prove, and put the suite in place; which CPU it will stay on becomes one of the machine's facts."""
        record = self._machine.boot(image, console=console, on_progress=on_progress)
        pinned = cpu_for(self.name, self._cpu, dict(record.facts.pairs))
        self._suite = self._suite.pinned(pinned.number)
        self._suite.install(self._machine)
        facts = MachineFacts(pairs=tuple(sorted((*record.facts.pairs, (PINNED, str(pinned))))))
        return replace(record, facts=facts)

    def calibrate(self, *, log: Path) -> BATCHES:
        """Operations per sample of each test."""
        return self._suite.calibrate(self._machine, log)

    def run(self, batches: BATCHES, *, log: Path, on_progress: OnProgress) -> RunRecord:
        """Every test once."""
        return self._suite.run(self._machine, batches, log, on_progress=on_progress)

    def profile(
        self, batches: BATCHES, *, profiler: Profiler, log: Path, profile: Path, on_progress: OnProgress
    ) -> None:
        """One more run, profiled; what the profiler says goes to `profile`. Its figures are no measurement."""
        profile_run(self._suite, self._machine, batches, log, profile, profiler=profiler, on_progress=on_progress)

    def rest(self) -> None:
        """End the guest of an embedded machine: an idle one costs this host a core that builds want."""
        if isinstance(self._machine, EmbeddedMachine):
            self._machine.release()

    def release(self) -> NotGivenBack | None:
        """Shut it down, or return it to its default kernel; what was left undone, None if nothing."""
        return self._machine.release()


def check_tests(home: Home, recipe: Recipe) -> None:
    """Raise UsageError if the recipe names a test that the suite does not have, or a parser that there is not."""
    if recipe.benchmark.command is not None:
        CommandRunner(recipe.benchmark)
    else:
        SuiteRunner(recipe.benchmark, build_suite(home.suite))


def check_lab(recipe: Recipe) -> None:
    """Raise MissingPackageError if this host lacks what the recipe's machines or builds need.

    Raises MachineError if a known_hosts file pins no key for a machine. No machine is asked.
    """
    if any(isinstance(machine, EmbeddedPart) for machine in recipe.machines):
        check_programs()
    for machine in recipe.machines:
        if isinstance(machine, SshPart):
            target_of(machine)
    check_host(recipe.kernel.compiler)


def wire(home: Home, state: SessionState, recipe: Recipe) -> Rig:
    """The real builder and machines of a session. Raises UsageError or BuilderError if they cannot be had."""
    folder = home.session_folder(state.name)
    builder, tree = kernel_builder(home, folder / "build", state.repo, recipe, good=state.range.good.id)
    suite = _runner(home, recipe, folder)
    return Rig(
        builder=builder,
        machines=_all_measuring(recipe, folder, session=state.name, suite=suite),
        higher_is_better=suite.higher_is_better,
        work_tree=tree,
        folder=folder / "build",
    )


def measuring_machines(home: Home, state: SessionState, recipe: Recipe) -> dict[str, MeasuringMachine]:
    """The machines of a session alone, for one that needs no builder any more. Raises as `wire`."""
    folder = home.session_folder(state.name)
    return _all_measuring(recipe, folder, session=state.name, suite=_runner(home, recipe, folder))


def _all_measuring(recipe: Recipe, folder: Path, *, session: str, suite: Runner) -> dict[str, MeasuringMachine]:
    return {part.name: _measuring(part, recipe, folder, session=session, suite=suite) for part in recipe.machines}


def kernel_builder(home: Home, folder: Path, repo: str, recipe: Recipe, *, good: str) -> tuple[KernelBuilder, WorkTree]:
    """A builder that works in `folder`, and its tree. Raises UsageError if the repository cannot be used."""
    repository = Repository.open(Path(repo))
    tree = WorkTree(repository, folder / "tree")
    builder = KernelBuilder(
        recipe.kernel,
        Path("/"),  # a session's recipe names its files by absolute paths
        source=FixedTree(repository, tree, keep_fixups(repository, recipe.kernel.fixups, folder / "fixups")),
        good=good,
        folder=folder,
        cache=image_cache(home),
    )
    return builder, tree


def image_cache(home: Home) -> ImageCache:
    """The built kernels of all sessions."""
    return ImageCache(home.kernels, CACHE_BYTES)


def measuring_machine(home: Home, part: EmbeddedPart | SshPart, recipe: Recipe, folder: Path) -> MeasuringMachine:
    """One machine with the benchmark of a session's folder on it. Raises UsageError for a test that there is not."""
    suite = _runner(home, recipe, folder)
    return _measuring(part, recipe, folder, session=folder.name, suite=suite)


def _measuring(
    part: EmbeddedPart | SshPart, recipe: Recipe, folder: Path, *, session: str, suite: Runner
) -> MeasuringMachine:
    cpu = recipe.cpu_on(part)
    if isinstance(part, SshPart):
        part = part.model_copy(update={"prepare": part.prepare.over(recipe.prepare)})
    return MeasuringMachine(lab_machine(part, folder / "machines" / part.name, session), suite, cpu=cpu)


def lab_machine(part: EmbeddedPart | SshPart, folder: Path, session: str) -> EmbeddedMachine | PhysicalMachine:
    """The machine of a recipe's entry; `folder` is the session's own. Raises MachineError without a pinned host key."""
    if isinstance(part, SshPart):
        return PhysicalMachine(part, folder, session=session)
    return EmbeddedMachine(part, folder)


def _runner(home: Home, recipe: Recipe, folder: Path) -> Runner:
    if recipe.benchmark.command is None:
        return SuiteRunner(recipe.benchmark, _pinned_suite(home, folder / "suite"))
    return CommandRunner(recipe.benchmark, _pinned_files(recipe.benchmark.command.files, folder / "command"))


def _pinned_files(files: Sequence[str], folder: Path) -> list[Path]:
    """Copies of the files that this session began with: edited in mid-hunt, they would measure something else."""
    folder.mkdir(parents=True, exist_ok=True)
    kept = [folder / Path(file).name for file in files]
    for file, copy in zip(files, kept, strict=True):
        if not copy.exists():
            unfinished = copy.with_name(f".{copy.name}.unfinished")
            try:
                shutil.copy2(file, unfinished)
            except OSError as error:
                raise UsageError(
                    f"benchmark: {file} cannot be read: {error.strerror}", resolution="Put it back, then resume."
                ) from error
            unfinished.rename(copy)
    return kept


def _pinned_suite(home: Home, folder: Path) -> Path:
    """The suite that this session began with: a program upgraded in mid-hunt must not change what is measured."""
    kept = sorted(folder.glob("bisector-suite-*"))
    if kept:
        return kept[0]
    made = build_suite(home.suite)
    folder.mkdir(parents=True, exist_ok=True)
    copy = folder / f".{made.name}"
    shutil.copy2(made, copy)
    return copy.rename(folder / made.name)

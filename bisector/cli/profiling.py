"""Profiles at the end of a hunt: one more boot of the accused commit and of its parent, each profiled.

They explain, they are no evidence: made after the answer is in the journal, beside it. Whatever goes wrong here is told
and changes nothing; `bisector resume` of the finished session tries again for as long as they are not there.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol

from bisector.bench.formats.profiles import PROFILES
from bisector.bench.formats.reading import FormatError
from bisector.bench.profile import movers
from bisector.bench.profiler import FORMAT_OF, Profiler
from bisector.model.errors import BisectorError, MachineError
from bisector.model.events import Event, MachineLeft
from bisector.model.kernel import KernelImage
from bisector.model.machine import BootRecord, NotGivenBack
from bisector.model.outcome import AnswerKind
from bisector.recipe.load import parse_recipe
from bisector.recipe.schema import Recipe
from bisector.report.profiles import movers_text
from bisector.session.artefacts import Artefacts
from bisector.session.controller import StopRequest
from bisector.session.journal import Journal
from bisector.session.ports import OnProgress, Progress
from bisector.session.state import SessionState, Status, fold

PARENT, ACCUSED = "profile-parent.txt", "profile-accused.txt"


class ProfilingMachine(Protocol):
    """What is needed of a machine. `wiring.MeasuringMachine` is one."""

    def recover(self) -> None:
        """As `session.ports.Machine`."""
        ...

    def boot(self, image: KernelImage, *, console: Path, on_progress: OnProgress) -> BootRecord:
        """As `session.ports.Machine`."""
        ...

    def profile(
        self,
        batches: tuple[tuple[str, int], ...],
        *,
        profiler: Profiler,
        log: Path,
        profile: Path,
        on_progress: OnProgress,
    ) -> None:
        """One run under the profiler."""
        ...

    def release(self) -> NotGivenBack | None:
        """As `session.ports.Machine`."""
        ...


class Watching(Protocol):
    """Who is told meanwhile. `display.Display` is one."""

    def happened(self, seq: int, at: float, event: Event) -> None:
        """As `session.ports.Observer`."""
        ...

    def progressed(self, worker: str, progress: Progress) -> None:
        """As `session.ports.Observer`."""
        ...


def wanted(state: SessionState, recipe: Recipe) -> bool:
    """Does the recipe ask for profiles, and is there one commit to compare with its parent?"""
    answer = state.answer
    return recipe.benchmark.profile is not None and answer is not None and answer.kind is AnswerKind.COMMIT


def missing(state: SessionState, recipe: Recipe, folder: Path) -> bool:
    """Are profiles wanted that the session's folder does not hold?"""
    return wanted(state, recipe) and not all(path.exists() for path in _paths(folder))


def collect(
    state: SessionState,
    machines: Mapping[str, ProfilingMachine],
    folder: Path,
    *,
    profiler: Profiler,
    on_progress: OnProgress,
    on_left: Callable[[MachineLeft], None],
) -> None:
    """Boot parent and accused on one machine and profile each; both profiles become artefacts, or neither.

    Raises KernelError or MachineError. The machine has been given back then too; if it could not be, `on_left` is told.
    """
    parent, accused = _pair(state)
    name = next((name for name in state.machines if name in state.batches and name in machines), None)
    if name is None:
        raise MachineError("no machine of the session has measured anything")
    machine, artefacts = machines[name], Artefacts(folder)
    gone = [image.commit[:12] for image in (parent, accused) if not Path(image.path).exists()]
    if gone:
        raise MachineError(f"the kernel of {gone[0]} is not in the cache any more")
    try:
        # A controller that was killed while it profiled left its guest or its job there.
        machine.recover()
        for image, kept in ((parent, PARENT), (accused, ACCUSED)):
            stem = kept.removesuffix(".txt")
            machine.boot(image, console=artefacts.begin(f"{stem}-console.log"), on_progress=on_progress)
            artefacts.keep(f"{stem}-console.log")
            log, profile = artefacts.begin(f"{stem}.log"), artefacts.begin(kept)
            batches = state.batches[name]
            machine.profile(batches, profiler=profiler, log=log, profile=profile, on_progress=on_progress)
            artefacts.keep(f"{stem}.log")
            if profiler == "readprofile":
                _note_hz(profile, image)
    finally:
        left = machine.release()
        if left is not None:
            on_left(MachineLeft(machine=name, reason=left.reason, resolution=left.resolution))
    for kept in (PARENT, ACCUSED):
        artefacts.keep(kept)


def complete(
    journal: Journal,
    recipe: Recipe,
    machines: Mapping[str, ProfilingMachine],
    folder: Path,
    *,
    watching: Watching,
    stop: StopRequest,
) -> str:
    """Collect the profiles that a finished hunt's recipe asks for; what prevented them, "" if nothing did.

    A machine that could not be given back becomes an event, as at the end of a hunt.
    """
    state, profiler = fold(journal.entries), recipe.benchmark.profile
    if state.status is not Status.FINISHED or profiler is None or not missing(state, recipe, folder):
        return ""

    def on_progress(progress: Progress) -> None:
        if stop.reason:
            raise MachineError(stop.reason)
        watching.progressed(state.machines[0], Progress(fraction=None, text=f"for a profile: {progress.text}"))

    def on_left(left: MachineLeft) -> None:
        entry = journal.append(left)
        watching.happened(entry.seq, entry.at, left)

    try:
        collect(state, machines, folder, profiler=profiler, on_progress=on_progress, on_left=on_left)
    except BisectorError as error:
        return f"No profiles: {error}\nTry again: bisector resume {state.name}"
    return ""


def section(state: SessionState, folder: Path) -> str:
    """What the report says of the profiles; "" if there are none."""
    paths, recipe = _paths(folder), parse_recipe(state.recipe_text)
    if missing(state, recipe, folder):
        return f"The profiles that the recipe asks for were not collected. Try again: bisector resume {state.name}"
    if not all(path.exists() for path in paths):
        return ""
    parent, accused = _pair(state)
    profiler = recipe.benchmark.profile or "perf"
    try:
        found = movers(*(PROFILES[FORMAT_OF[profiler]](path.read_bytes()).without_idle() for path in paths))
    except (FormatError, OSError) as error:
        return f"The profiles cannot be read: {error}"
    return f"What moved between its parent and the accused, by {profiler}:\n\n" + movers_text(
        found, (parent.commit[:12], accused.commit[:12])
    )


def _paths(folder: Path) -> list[Path]:
    return [folder / "artefacts" / kept for kept in (PARENT, ACCUSED)]


def _note_hz(profile: Path, image: KernelImage) -> None:
    """Put the line that says how many ticks make a second before a profile, if the kernel's configuration is kept."""
    try:
        config = Path(image.path).with_name("config").read_text().splitlines()
    except OSError:
        return
    told = "".join(f"# {line}\n" for line in config if line.startswith("CONFIG_HZ="))
    profile.write_bytes(told.encode() + profile.read_bytes())


def _pair(state: SessionState) -> tuple[KernelImage, KernelImage]:
    """The kernels of the accused's parent and of the accused. Raises MachineError if one of them was never built."""
    ids = [commit.id for commit in state.range.commits]
    accused = ids.index(state.answer.commits[0]) if state.answer is not None else 0
    parents = [state.builds[index].image for index in state.range.parents[accused] if index in state.builds]
    parent = next((image for image in parents if image is not None), None)
    build = state.builds.get(accused)
    if parent is None or build is None or build.image is None:
        raise MachineError("the accused commit or its parent was never built")
    return parent, build.image

"""`bisector lab qualify`: which machine, which kernel, and the loop that boots it again and again."""

import hashlib
import json
import re
import shlex
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from bisector import __version__
from bisector.cli.hunt import EXIT_INTERRUPTED, EXIT_PAUSED, INTERRUPTED, signals_stop
from bisector.cli.overwritten import Line
from bisector.model.commit import Commit, CommitRange
from bisector.model.errors import UsageError
from bisector.model.events import Event, RunStarted, SessionStarted
from bisector.model.kernel import KernelImage
from bisector.model.progress import Progress
from bisector.recipe.lab import lab_path, load_lab
from bisector.recipe.load import canonical_text, load_recipe
from bisector.recipe.schema import EmbeddedMachine, Recipe, SshMachine
from bisector.report.as_json import to_json
from bisector.report.events import EventLines
from bisector.report.qualified import Report, qualification_report, qualified_document, qualified_text
from bisector.report.words import count, duration
from bisector.session.artefacts import Artefacts
from bisector.session.controller import StopRequest
from bisector.session.evidence import costs_of
from bisector.session.execution import build_job
from bisector.session.home import Home
from bisector.session.qualification import Qualification, goes_on, whole_looks
from bisector.session.state import BUILDER, SessionState, Status, fold

_COMMIT = re.compile(r"[0-9a-f]{7,40}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What was typed. `target` is a recipe's file, or the name of a machine; `kernel` a commit or a release."""

    target: str
    file: Path | None = None
    machine: str | None = None
    kernel: str | None = None
    clock: str | None = None
    overrides: tuple[str, ...] = ()
    boots: int = 8
    runs: int = 4
    anew: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A test that can start: everything was checked, nothing was written. Without an image the kernel is built."""

    recipe: Recipe
    commit: Commit
    image: KernelImage | None


def qualifications(home: Home) -> Home:
    """Where A/A tests live, apart from hunts."""
    return Home(home.folder / "qualifications")


def latest(home: Home, machine: str) -> SessionState | None:
    """The last test of a machine that has boots, None if there is none."""
    kept = qualifications(home)
    for name in kept.names():
        state = fold(kept.read(name).entries)
        if state.machines == (machine,) and whole_looks(state):
            return state
    return None


def prepare(home: Home, asked: Asked) -> Prepared:
    """Check everything that can be checked. Raises RecipeError, RevisionError, MissingPackageError or UsageError."""
    from bisector.cli.wiring import check_lab, check_tests

    is_recipe = Path(asked.target).suffix in (".yaml", ".yml") or "/" in asked.target
    recipe = _of_recipe(asked) if is_recipe else _of_machine(home, asked)
    image = cached_kernel(home, asked.kernel) if asked.kernel or not is_recipe else None
    commit, date = "", ""
    if image is not None:
        commit, subject = image.commit, image.release
    elif is_recipe:
        from bisector.history.fixups import resolve_fixups
        from bisector.history.repository import Repository

        repository = Repository.open(Path(recipe.repo))
        commit = repository.resolve(asked.kernel or recipe.good)
        recipe = recipe.with_fixups(resolve_fixups(repository, recipe.kernel.fixups))
        subject, date = repository.describe(commit)[14:-1], repository.author_date(commit)
    else:
        raise no_kernel(home, asked)
    # One commit is both ends of this session's range.
    recipe = recipe.model_copy(update={"good": commit, "bad": commit})
    check_lab(recipe)
    check_tests(home, recipe)
    return Prepared(
        recipe=recipe,
        commit=Commit(id=commit, parents=(), subject=subject, author_date=date),
        image=image,
    )


def _of_recipe(asked: Asked) -> Recipe:
    path = Path(asked.target)
    recipe = load_recipe(path, overrides=asked.overrides).recipe
    names = [machine.name for machine in recipe.machines]
    if asked.machine is None and len(names) > 1:
        raise UsageError(
            f"{path} has {len(names)} machines: {', '.join(names)}", resolution=f"Name one: --machine {names[0]}"
        )
    wanted = asked.machine or names[0]
    if wanted not in names:
        raise UsageError(
            f"--machine {wanted}: the recipe has no machine of that name", details=f"It has: {', '.join(names)}."
        )
    machine = recipe.machines[names.index(wanted)]
    return recipe.model_copy(update={"machines": (_with_clock(machine, asked.clock),)})


def machine_of(asked: Asked) -> EmbeddedMachine | SshMachine:
    """The machine that is the target, as its entry says; `embedded` needs none. Raises UsageError or RecipeError."""
    path = asked.file or lab_path()
    machines = load_lab(path).machines if path.exists() or asked.file is not None else ()
    found = [machine for machine in machines if machine.name == asked.target]
    if not found and asked.target == "embedded":
        # It needs no entry: everything about it has a default.
        found = [EmbeddedMachine(kind="embedded")]
    if not found:
        raise UsageError(
            f"No machine is called {asked.target!r} in {path}",
            details=f"There are: {', '.join(machine.name for machine in machines)}." if machines else "",
            resolution="See: bisector lab list; or name a recipe's file, or the machine `embedded`",
        )
    return _with_clock(found[0], asked.clock)


def _of_machine(home: Home, asked: Asked) -> Recipe:
    machine = machine_of(asked)
    written = {
        "name": machine.name,
        "repo": str(home.kernels),
        "good": "-",
        "bad": "-",
        "machines": [machine.model_dump(mode="json")],
    }
    # By way of its text, so that --set and its errors are those of any recipe.
    return load_recipe(json.dumps(written) + "\n", overrides=asked.overrides).recipe


def _with_clock(machine: EmbeddedMachine | SshMachine, clock: str | None) -> EmbeddedMachine | SshMachine:
    if clock is None:
        return machine
    if not isinstance(machine, EmbeddedMachine):
        raise UsageError(f"--clock {clock}: only an embedded machine has a choice of clocks")
    return machine.model_copy(update={"clock": clock})


def cached_kernel(home: Home, wanted: str | None) -> KernelImage | None:
    """The built kernel of that commit or release; without a wish the one last used."""
    from bisector.cli.wiring import image_cache

    for entry in image_cache(home).entries():
        commit, release = entry.facts["commit"], entry.facts["release"]
        if wanted is None or release == wanted or (_COMMIT.fullmatch(wanted) and commit.startswith(wanted)):
            return entry.as_image()
    return None


def no_kernel(home: Home, asked: Asked) -> UsageError:
    """What to say when `cached_kernel` finds none."""
    from bisector.cli.wiring import image_cache

    built = [entry.facts["release"] for entry in image_cache(home).entries()]
    what = "no kernel has been built yet" if asked.kernel is None else f"--kernel {asked.kernel} was not built here"
    return UsageError(
        f"{asked.target}: {what}",
        details=f"Built kernels in {home.kernels}: {', '.join(built[:8])}" if built else f"{home.kernels} is empty",
        resolution="Name a recipe instead, and its good end is built: bisector lab qualify RECIPE.yaml",
    )


def dry_run(home: Home, prepared: Prepared, asked: Asked) -> str:
    """What would be done, and about how long it would take."""
    machine = prepared.recipe.machines[0]
    before = latest(home, machine.name)
    if before is None:
        told = "How long a boot takes here is not known yet."
    else:
        costs = costs_of(before)
        takes = duration(asked.boots * (costs.boot_s + asked.runs * costs.run_s))
        told = f"About {takes}, by the last test ({duration(costs.boot_s)} a boot, {duration(costs.run_s)} a run)."
    state = None if asked.anew else _unfinished(home, prepared, asked)
    done = "" if state is None else f"{count(len(whole_looks(state)), 'boot')} of it {_are(state)} there already. "
    kernel = prepared.commit.short if prepared.image is None else f"{prepared.commit.short}, {prepared.image.release}"
    how = "taken from the cache, or built" if prepared.image is None else "built already"
    return "\n".join(
        [
            f"{machine.name} ({machine.kind}, clock: {machine.clock}) would boot one kernel {asked.boots} times "
            f"for {count(asked.runs, 'run')} each, measuring {prepared.recipe.benchmark.test}.",
            f"  kernel  {kernel} ({how})",
            f"{done}{told}",
            "Nothing was written.",
        ]
    )


def _are(state: SessionState) -> str:
    return "is" if len(whole_looks(state)) == 1 else "are"


def _unfinished(home: Home, prepared: Prepared, asked: Asked) -> SessionState | None:
    kept, text = qualifications(home), canonical_text(prepared.recipe)
    for name in kept.names():
        if kept.is_driven(name):
            continue
        state = fold(kept.read(name).entries)
        if goes_on(state, recipe_text=text, image=prepared.image, runs=asked.runs, boots=asked.boots):
            return state
    return None


def qualify(home: Home, asked: Asked, prepared: Prepared, *, quiet: bool) -> tuple[Report, int]:
    """Run the test, or go on with an unfinished one; the report and the exit code.

    Raises SessionLockedError, or what building the kernel raises.
    """
    from bisector.cli.wiring import measuring_machine

    kept = qualifications(home)
    begun = None if asked.anew else _unfinished(home, prepared, asked)
    name = begun.name if begun is not None else _begin(kept, prepared)
    stop, command = StopRequest(), _command(asked)
    with kept.drive(name) as journal:
        lines = Lines(quiet=quiet, boots=asked.boots)
        lines.know(fold(journal.entries))
        folder = kept.session_folder(name)
        with signals_stop(stop, command), lines:
            machine = measuring_machine(home, prepared.recipe.machines[0], prepared.recipe, folder)
            image = prepared.image or _build(home, folder, prepared, lines)
            test = Qualification(journal, folder, machine=machine, observer=lines, stop=stop)
            lines.current = lambda: test.state
            state = test.run(image, boots=asked.boots, runs=asked.runs)
    code = 0
    if state.status is not Status.RUNNING:
        code = EXIT_INTERRUPTED if state.pause_reason.startswith(INTERRUPTED) else EXIT_PAUSED
        state.pause_resolution = "; ".join(part for part in (state.pause_resolution, f"go on: {command}") if part)
    return qualification_report(state), code


def told(report: Report, *, as_json: bool) -> str:
    """What is printed at the end."""
    if as_json:
        return to_json(qualified_document(report))
    text = qualified_text(report)
    if report.state.pause_reason:
        text += f"\n\nPaused: {report.state.pause_reason}\n{report.state.pause_resolution}"
    elif report.qualified is not None:
        text += f"\n\nNext:  bisector simulate --from-qualify {report.state.machines[0]} --commits 1000 --effect 5"
    return text


def _begin(kept: Home, prepared: Prepared) -> str:
    recipe = prepared.recipe
    machine = recipe.machines[0]
    stem = f"{machine.name[:40]}-{time.strftime('%Y%m%d-%H%M%S')}"
    name, number = stem, 1
    while kept.session_folder(name).exists():
        number += 1
        name = f"{stem}-{number}"
    text = canonical_text(recipe)
    kept.create(
        SessionStarted(
            session=name,
            recipe=text,
            recipe_digest=hashlib.sha256(text.encode()).hexdigest(),
            repo=recipe.repo,
            range=CommitRange(commits=(prepared.commit,)),
            machines=(machine.name,),
            seed=recipe.search.seed,
            program=f"bisector {__version__}",
        )
    )
    return name


def _build(home: Home, folder: Path, prepared: Prepared, lines: "Lines") -> KernelImage:
    """The kernel from the cache, or built. A kernel that does not build is an error here: there is no other."""
    from bisector.cli.wiring import kernel_builder
    from bisector.model.errors import BuilderError, KernelError
    from bisector.model.events import BuilderTrouble, BuildFailed, BuildStarted, KernelBuilt

    commit = prepared.commit.id
    builder, tree = kernel_builder(home, folder / "build", prepared.recipe.repo, prepared.recipe, good=commit)
    lines.happened(0, time.time(), BuildStarted(commit=commit, ahead=False, reason="the kernel of the A/A test"))
    try:
        job = build_job(builder, commit, 1, Artefacts(folder))
        [event] = job(lambda progress: lines.progressed(BUILDER, progress))
    finally:
        builder.close()
        tree.remove()
    match event:
        case KernelBuilt(image=image):
            lines.happened(0, time.time(), event)
            return image
        case BuildFailed(reason=reason, outcome=outcome, artefact=artefact):
            raise KernelError(reason, outcome=outcome, details=f"log: {Artefacts(folder).path_of(artefact)}")
        case BuilderTrouble(reason=reason, resolution=resolution):
            raise BuilderError(reason, resolution=resolution)
        case _:
            raise AssertionError(f"a build ends with {event.kind}")


def _command(asked: Asked) -> str:
    options: list[str] = []
    for option, value in (
        ("--file", asked.file), ("--machine", asked.machine), ("--kernel", asked.kernel), ("--clock", asked.clock),
    ):  # fmt: skip
        options += [option, str(value)] if value is not None else []
    for override in asked.overrides:
        options += ["--set", override]
    return shlex.join(
        ["bisector", "lab", "qualify", asked.target, *options, "--boots", str(asked.boots), "--runs", str(asked.runs)]
    )


class Lines:
    """Watches a test: a line an event, and on a terminal one more that is written over. On the standard error."""

    def __init__(self, *, quiet: bool, boots: int) -> None:
        self._quiet = quiet
        self._boots = boots
        self._lines = EventLines()
        self._line = Line(quiet=quiet)
        self.current: Callable[[], SessionState] | None = None

    def know(self, state: SessionState) -> None:
        """What the test is about."""
        self._lines.know(state)

    def __enter__(self) -> "Lines":
        return self

    def __exit__(self, *_: object) -> None:
        self._line.clear()

    def happened(self, seq: int, at: float, event: Event) -> None:
        """Print the event's line."""
        del seq
        line = self._lines.line(at, event)
        if not self._quiet and not isinstance(event, RunStarted):
            self._line.clear()
            sys.stderr.write(f"{line}\n")
            sys.stderr.flush()

    def progressed(self, worker: str, progress: Progress) -> None:
        """Show how far it is, and about how long it goes on."""
        self._line.show(" ".join(part for part in (worker, progress.text, self._left()) if part))

    def _left(self) -> str:
        state = self.current() if self.current is not None else None
        looks = whole_looks(state) if state is not None else []
        if state is None or not looks:
            return ""
        ended = [look for look in looks if look.ended_at is not None]
        each_s = sum(look.machine_s for look in ended) / max(1, len(ended))
        left_s = max(0.0, (self._boots - len(ended)) * each_s - (time.time() - state.looks[-1].started_at))
        return f"- boot {len(looks) + 1} of {self._boots}, about {duration(left_s)} to go"

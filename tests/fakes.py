"""Ports in memory: a lab whose kernels have levels, and which can fail in every way the real one can."""

import hashlib
import random
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from bisector.model.commit import Commit, CommitRange
from bisector.model.errors import BuilderError, KernelError, MachineError
from bisector.model.events import Event, SessionStarted
from bisector.model.kernel import KernelImage
from bisector.model.machine import BootRecord, MachineFacts, NotGivenBack
from bisector.model.outcome import Outcome
from bisector.model.sample import RunRecord, Sample
from bisector.recipe.load import canonical_text
from bisector.recipe.schema import LimitsPart, Recipe
from bisector.session.ports import OnProgress, Progress

FACTS = MachineFacts(pairs=(("cpu", "fake"), ("clocksource", "tsc")))


def commit_id(index: int) -> str:
    return hashlib.sha1(str(index).encode()).hexdigest()


def linear_range(count: int) -> CommitRange:
    """`count` commits in a row, the first good, the last bad."""
    return graph_range([()] + [(index,) for index in range(count - 1)])


def graph_range(parents: Iterable[tuple[int, ...]]) -> CommitRange:
    return CommitRange(
        commits=tuple(
            Commit(
                id=commit_id(index), parents=ups, subject=f"mm: change {index}", author_date="2011-01-01T00:00:00+00:00"
            )
            for index, ups in enumerate(parents)
        )
    )


RECIPE = Recipe.model_validate(
    {
        "name": "fake-hunt",
        "repo": "/nowhere",
        "good": "good",
        "bad": "bad",
        "benchmark": {"test": "page_test", "also": ("brk_test",)},
        "machines": ({"kind": "embedded", "name": "lab-01", "clock": "instructions"},),
    }
)


def recipe_for(*machines: str) -> Recipe:
    """The recipe with these machines."""
    parts = tuple(RECIPE.machines[0].model_copy(update={"name": name}) for name in machines)
    return RECIPE.model_copy(update={"machines": parts})


def session_started(
    commits: CommitRange,
    name: str = "fake-hunt",
    machines: tuple[str, ...] = ("lab-01",),
    *,
    limits: LimitsPart = RECIPE.limits,
) -> SessionStarted:
    return SessionStarted(
        session=name,
        recipe=canonical_text(RECIPE.model_copy(update={"limits": limits})),
        recipe_digest="d",
        repo="/nowhere",
        range=commits,
        machines=machines,
        seed=1,
        program="test",
    )


def kernel_image(commit: str, **other: Any) -> KernelImage:
    """The image of a commit that nobody built; `other` fields as wanted."""
    image = KernelImage(
        commit=commit,
        key=commit,
        release=f"6.1.0-bisector-{commit[:12]}",
        build_id=commit,
        signature=commit,
        path="/nowhere/bzImage",
        compiler="gcc 12",
        config_digest="c",
        config_changes=(),
        duration_s=20.0,
        from_cache=False,
    )
    return replace(image, **other)


@dataclass
class FakeLab:
    """What is true of the commits, and a count of everything that was really done."""

    commits: CommitRange
    first_bad: int | None
    effect: float = 0.3
    boot_sd: float = 0.002
    run_sd: float = 0.002
    unbuildable: frozenset[int] = frozenset()
    crashing: frozenset[int] = frozenset()
    seed: int = 1
    before: Callable[[str], None] = lambda what: None
    built: list[int] = field(default_factory=list)
    booted: list[int] = field(default_factory=list)
    runs: list[int] = field(default_factory=list)

    def bad(self, index: int) -> bool:
        if self.first_bad is None:
            return False
        reached, stack = set(), [index]
        while stack:
            at = stack.pop()
            if at not in reached:
                reached.add(at)
                stack.extend(self.commits.commits[at].parents)
        return self.first_bad in reached

    def level(self, index: int) -> float:
        return 40.0 * ((1 - self.effect) if self.bad(index) else 1.0)


class FakeBuilder:
    """Builds at once; remembers images like the real cache does, across builders that share the lab."""

    def __init__(self, lab: FakeLab, cache: dict[str, KernelImage] | None = None) -> None:
        self.lab = lab
        self.cache = {} if cache is None else cache
        self.trouble: list[BuilderError] = []
        self.cancelled = 0

    def build(self, commit: str, *, log: Path, on_progress: OnProgress) -> KernelImage:
        self.lab.before("build")
        log.write_text(f"building {commit}\n")
        on_progress(Progress(fraction=0.5, text="half"))
        if self.trouble:
            raise self.trouble.pop()
        if commit in self.cache:
            return self.cache[commit]
        index = self.lab.commits.index_of(commit)
        if index in self.lab.unbuildable:
            raise KernelError("mm/memory.c:1:1: error: expected ';'", outcome=Outcome.BUILD_FAILED)
        self.lab.built.append(index)
        self.cache[commit] = kernel_image(commit)
        return self.cache[commit]

    def find(self, commit: str) -> KernelImage | None:
        return self.cache.get(commit)

    def cancel(self) -> None:
        self.cancelled += 1


class FakeMachine:
    """Boots at once and measures the lab's levels with two layers of noise, `speed` times as fast as the lab's."""

    def __init__(self, lab: FakeLab, name: str = "lab-01", facts: MachineFacts = FACTS, *, speed: float = 1.0) -> None:
        self.lab = lab
        self.speed = speed
        self._name = name
        self.facts = facts
        self.trouble: list[MachineError] = []
        self.left: NotGivenBack | None = None
        self.running: int | None = None
        self.recovered = self.released = 0
        self._factor = 1.0

    @property
    def name(self) -> str:
        return self._name

    def recover(self) -> None:
        self.recovered += 1

    def rest(self) -> None:
        self.running = None

    def boot(self, image: KernelImage, *, console: Path, on_progress: OnProgress) -> BootRecord:
        self.lab.before("boot")
        console.write_text("Linux version\n")
        if self.trouble:
            raise self.trouble.pop()
        index = self.lab.commits.index_of(image.commit)
        if index in self.lab.crashing:
            raise KernelError("Kernel panic - not syncing: BUG", outcome=Outcome.CRASHED)
        self.lab.booted.append(index)
        self.running = index
        noise = random.Random(f"{self.lab.seed}-{len(self.lab.booted)}")
        self._factor = 1 + noise.gauss(0, self.lab.boot_sd)
        return BootRecord(
            boot_id=f"boot-{len(self.lab.booted)}",
            release=image.release,
            build_id=image.build_id,
            facts=self.facts,
            duration_s=5.0,
            artefact="",
        )

    def calibrate(self, *, log: Path) -> tuple[tuple[str, int], ...]:
        log.write_text("{}\n")
        return (("page_test", 1700), ("brk_test", 1700))

    def run(self, batches: tuple[tuple[str, int], ...], *, log: Path, on_progress: OnProgress) -> RunRecord:
        self.lab.before("run")
        log.write_text("{}\n")
        if self.trouble:
            raise self.trouble.pop()
        assert self.running is not None
        self.lab.runs.append(self.running)
        noise = random.Random(f"{self.lab.seed}-{len(self.lab.runs)}-run")
        value = self.speed * self.lab.level(self.running) * self._factor * (1 + noise.gauss(0, self.lab.run_sd))
        return RunRecord(samples=(sample("page_test", value), sample("brk_test", 50.0)), artefact="", duration_s=2.0)

    def release(self) -> NotGivenBack | None:
        self.released += 1
        return self.left


def sample(test: str, value: float) -> Sample:
    return Sample(
        test=test,
        value=value,
        unit="ops/s",
        higher_is_better=True,
        ops=1700,
        wall_ns=10**9,
        user_ns=10**8,
        sys_ns=9 * 10**8,
        minor_faults=1600,
        cpu=0,
    )


class Watcher:
    """An observer that remembers."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def happened(self, seq: int, at: float, event: Event) -> None:
        self.events.append(event)

    def progressed(self, worker: str, progress: Progress) -> None:
        pass


def truth(lab: FakeLab) -> Mapping[str, str]:
    """The id that an honest hunt must name."""
    assert lab.first_bad is not None
    return {"first_bad": commit_id(lab.first_bad)}


class Killed(BaseException):
    """Stands for `kill -9` at this point."""


def crash_before(step: int) -> Callable[[str], None]:
    """`kill -9` in place of the n-th thing the outside is asked to do."""
    asked = 0

    def before(what: str) -> None:
        nonlocal asked
        asked += 1
        if asked == step:
            raise Killed(what)

    return before

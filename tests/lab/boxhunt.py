"""Whole hunts on fake boxes: the real controller, journal, search, lab and runner; only kernels and figures are told.

The kernels are made at once, so a hunt is boots and runs over SSH and nothing else.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path

from lab.controllers import proven_in
from lab.fakebox import FakeBox, fake_kernel
from lab.machines import QUICK
from lab.toldsuite import told_suite

from bisector.bench.command import CommandRunner
from bisector.bench.runner import SuiteRunner
from bisector.cli.wiring import MeasuringMachine
from bisector.lab.physical import PhysicalMachine
from bisector.lab.ssh import Limits
from bisector.model.commit import Commit, CommitRange
from bisector.model.errors import KernelError
from bisector.model.events import Event, SessionStarted
from bisector.model.kernel import KernelImage
from bisector.model.outcome import Outcome
from bisector.recipe.load import canonical_text
from bisector.recipe.machines import SshMachine
from bisector.recipe.schema import Recipe
from bisector.session.controller import Controller, StopRequest
from bisector.session.journal import create_journal, open_journal
from bisector.session.ports import OnProgress, Progress
from bisector.session.state import SessionState


def box_range(count: int) -> CommitRange:
    """`count` commits in a row, whose kernels `fake_kernel` makes."""
    return CommitRange(
        commits=tuple(
            Commit(
                id=f"{index:02x}" * 20,
                parents=(index - 1,) if index else (),
                subject=f"mm: change {index}",
                author_date="2011-01-01T00:00:00+00:00",
            )
            for index in range(count)
        )
    )


class BoxBuilder:
    """Makes the kernels that the firmware of a box understands."""

    def __init__(self, folder: Path, commits: CommitRange, dead: Mapping[int, str]) -> None:
        self.folder = folder
        self.commits = commits
        self.dead = dead
        folder.mkdir(exist_ok=True)

    def build(self, commit: str, *, log: Path, on_progress: OnProgress) -> KernelImage:
        """`dead` says what becomes of a commit's kernel: panic, hang, or "unbuildable"."""
        index = self.commits.index_of(commit)
        log.write_text(f"building {commit}\n")
        then = self.dead.get(index, "run")
        if then == "unbuildable":
            raise KernelError("mm/memory.c:1:1: error: expected ';'", outcome=Outcome.BUILD_FAILED)
        image = fake_kernel(self.folder, index, then=then)
        return replace(image, key=image.release, signature=image.build_id)

    def find(self, commit: str) -> KernelImage | None:
        """Nothing is kept."""
        del commit

    def cancel(self) -> None:
        """Nothing is ever under way."""


class Onlooker:
    """An observer that tells each event to those who want to meddle."""

    def __init__(self, on_event: Callable[[Event], None], on_progress: Callable[[str], None]) -> None:
        self._on_event = on_event
        self._on_progress = on_progress

    def happened(self, seq: int, at: float, event: Event) -> None:
        self._on_event(event)

    def progressed(self, worker: str, progress: Progress) -> None:
        self._on_progress(progress.text)


@dataclass
class BoxHunt:
    """One session on some boxes. `go` starts it, or goes on with it; each call is a controller's life."""

    folder: Path
    boxes: Sequence[FakeBox]
    count: int = 12
    first_bad: int = 7
    dead: Mapping[int, str] = field(default_factory=dict)
    takes_s: float = 0.0
    audit: bool = False
    one_shot_proven: bool = True
    retry_pause_s: float = 0.0
    limits: Limits = QUICK
    changes: Mapping[str, object] = field(default_factory=dict)
    on_event: Callable[[Event], None] = lambda event: None
    on_progress: Callable[[str], None] = lambda text: None
    benchmark: Mapping[str, object] = field(default_factory=lambda: {"test": "page_test", "timeout_s": 30})
    """The recipe's; with a command of its own, that is run instead of the suite that only tells figures."""
    reached: Mapping[str, SshMachine] = field(default_factory=dict)
    """Entries to use in place of the boxes' own."""

    def __post_init__(self) -> None:
        self.commits = box_range(self.count)
        self.folder.mkdir(parents=True, exist_ok=True)
        slow = [commit.id[:12] for commit in self.commits.commits[self.first_bad :]]
        self.suite = told_suite(self.folder / "suite", slow, takes_s=self.takes_s)
        self.stop = StopRequest()

    def recipe(self) -> Recipe:
        entries = [self.reached.get(box.name) or box.config(**self.changes) for box in self.boxes]
        return Recipe.model_validate(
            {
                "name": "hunt",
                "repo": "/nowhere",
                "good": "good",
                "bad": "bad",
                "benchmark": dict(self.benchmark),
                "machines": tuple(entry.model_dump() for entry in entries),
                "search": {"audit": self.audit},
            }
        )

    def go(self) -> SessionState:
        recipe = self.recipe()
        self.stop = StopRequest()
        names = tuple(box.name for box in self.boxes)
        if (self.folder / "journal.sqlite3").exists():
            journal = open_journal(self.folder, writer=True)
        else:
            journal = create_journal(self.folder)
            journal.append(
                SessionStarted(
                    session="hunt",
                    recipe=canonical_text(recipe),
                    recipe_digest="d",
                    repo="/nowhere",
                    range=self.commits,
                    machines=names,
                    seed=1,
                    program="test",
                )
            )
        own = recipe.benchmark.command is not None
        runner = CommandRunner(recipe.benchmark) if own else SuiteRunner(recipe.benchmark, self.suite)
        with closing(journal):
            return Controller(
                journal,
                self.folder,
                recipe,
                builder=BoxBuilder(self.folder / "kernels", self.commits, self.dead),
                machines={
                    part.name: MeasuringMachine(self.machine(part), runner, cpu=recipe.cpu_on(part))
                    for part in recipe.machines
                },
                higher_is_better=runner.higher_is_better,
                observer=Onlooker(self.on_event, self.on_progress),
                stop=self.stop,
                retry_pause_s=self.retry_pause_s,
            ).run()

    def machine(self, part: object) -> PhysicalMachine:
        assert isinstance(part, SshMachine)
        folder = self.folder / "machines" / part.name
        if self.one_shot_proven:
            proven_in(folder)
        return PhysicalMachine(part, folder, session="hunt", limits=self.limits)

    def events(self) -> list[Event]:
        return [entry.event for entry in open_journal(self.folder).entries]

    def names_the_first_bad(self, state: SessionState) -> bool:
        return state.answer is not None and state.answer.commits == (self.commits.commits[self.first_bad].id,)

    def holds_the_first_bad(self, state: SessionState) -> bool:
        return state.answer is not None and self.commits.commits[self.first_bad].id in state.answer.commits

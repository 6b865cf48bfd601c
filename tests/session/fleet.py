"""Several machines in one session: a fleet of fakes, and a session told event by event."""

from collections.abc import Sequence

from fakes import (
    FACTS,
    FakeLab,
    FakeMachine,
    commit_id,
    kernel_image,
    linear_range,
    recipe_for,
    sample,
    session_started,
)

from bisector.model.events import (
    BatchesCalibrated,
    Booted,
    BootEnded,
    BootStarted,
    BuildStarted,
    Event,
    KernelBuilt,
    MachineTrouble,
    RunFinished,
    RunStarted,
)
from bisector.model.machine import BootRecord
from bisector.model.outcome import Purpose
from bisector.model.sample import RunRecord
from bisector.session.decide import (
    BootOrder,
    Order,
    Plan,
    decide,
    plan_of,
)
from bisector.session.evidence import options_of
from bisector.session.state import Entry, SessionState, fold

TWO, THREE = ("lab-01", "lab-02"), ("lab-01", "lab-02", "lab-03")
BATCHES = (("page_test", 1700), ("brk_test", 1700))


def fleet(lab: FakeLab, names: Sequence[str]) -> list[FakeMachine]:
    """Machines that are a third apart: nobody may compare the values of two."""
    return [FakeMachine(lab, name, speed=1.0 + 0.3 * number) for number, name in enumerate(names)]


class Told:
    """A session of several machines, told event by event; 40 commits, the 28th is bad."""

    def __init__(self, *machines: str) -> None:
        self.lab = FakeLab(linear_range(40), first_bad=27)
        self.entries: list[Entry] = []
        self.boots = 0
        self.at = 0.0
        self.recipe = recipe_for(*machines)
        self.tell(session_started(self.lab.commits, machines=machines))

    def tell(self, event: Event, after_s: float = 0.0) -> None:
        self.at += after_s
        self.entries.append(Entry(seq=len(self.entries) + 1, at=self.at, event=event))

    @property
    def state(self) -> SessionState:
        return fold(self.entries)

    @property
    def plan(self) -> Plan:
        return plan_of(self.state, self.recipe, options_of(self.recipe, higher_is_better=True))

    def orders(self, *idle: str) -> list[Order]:
        return decide(self.state, self.plan, frozenset(idle))

    def boot_orders(self, *idle: str) -> dict[str, BootOrder]:
        return {order.machine: order for order in self.orders(*idle) if isinstance(order, BootOrder)}

    def build(self, *commits: int) -> None:
        for commit in commits:
            image = kernel_image(commit_id(commit))
            self.tell(BuildStarted(commit=commit_id(commit), ahead=True, reason="needed next"))
            self.tell(KernelBuilt(commit=commit_id(commit), image=image), 20.0)

    def start(self, machine: str, commit: int, *, runs: int = 3, purpose: Purpose = Purpose.GATE) -> int:
        self.boots += 1
        self.tell(
            BootStarted(
                boot=self.boots, machine=machine, commit=commit_id(commit), runs=runs, purpose=purpose, reason="why"
            )
        )
        return self.boots

    def booted(self, boot: int, machine: str, commit: int) -> None:
        record = BootRecord(boot_id=f"b{boot}", release="r", build_id="b", facts=FACTS, duration_s=5.0, artefact="")
        self.tell(Booted(boot=boot, machine=machine, commit=commit_id(commit), record=record), 5.0)
        self.tell(BatchesCalibrated(machine=machine, batches=BATCHES))

    def run(self, boot: int, number: int, machine: str, commit: int, shift: float = 0.0) -> None:
        speed = 1.0 + 0.3 * self.state.machines.index(machine)
        value = speed * self.lab.level(commit) * (1 + shift / 100 + 0.001 * number)
        record = RunRecord(samples=(sample("page_test", value), sample("brk_test", 50.0)), artefact="", duration_s=2.0)
        self.tell(RunStarted(boot=boot, run=number, machine=machine, commit=commit_id(commit)))
        self.tell(RunFinished(boot=boot, run=number, machine=machine, commit=commit_id(commit), record=record), 2.0)

    def look(self, machine: str, commit: int, *, purpose: Purpose = Purpose.GATE, shift: float = 0.0) -> None:
        boot = self.start(machine, commit, purpose=purpose)
        self.booted(boot, machine, commit)
        for number in (1, 2, 3):
            self.run(boot, number, machine, commit, shift)
        self.tell(BootEnded(boot=boot, machine=machine, commit=commit_id(commit), reason="all runs are in"))

    def trouble(self, machine: str, boot: int = 0) -> None:
        self.tell(MachineTrouble(machine=machine, commit="", boot=boot, reason="no answer", resolution=""))

    def gate(self, *machines: str) -> None:
        """Both ends built and booted on each machine."""
        self.build(0, 39)
        for number, machine in enumerate(machines):
            for shift, commit in ((0.0, 0), (0.1, 39), (0.2, 39), (0.3, 0)):
                self.look(machine, commit, shift=shift + 0.05 * number)


def nearly_found() -> Told:
    """All but the last boot of the audit: the next pair confirms commit 27."""
    told = Told(*TWO)
    told.gate(*TWO)
    told.build(19, 26, 27, 29)
    for machine in TWO:
        told.look(machine, 26, purpose=Purpose.SEARCH)
        told.look(machine, 27, purpose=Purpose.SEARCH, shift=0.1)
    for commit in (26, 27, 27, 26):
        told.look("lab-01", commit, purpose=Purpose.AUDIT)
    return told

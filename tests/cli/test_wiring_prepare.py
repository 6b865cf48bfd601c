"""Where a machine's preparation meets its benchmark: the CPU that it is pinned to, and what a report says of that."""

from pathlib import Path
from typing import Any

import pytest
from fakes import RECIPE
from story import Story, image

from bisector.bench.compile import build_suite
from bisector.bench.runner import SuiteRunner
from bisector.cli.wiring import MeasuringMachine
from bisector.lab.jobs import JobResult
from bisector.model.errors import MachineError
from bisector.model.events import MachineTrouble
from bisector.model.kernel import KernelImage
from bisector.model.machine import BootRecord, MachineFacts
from bisector.recipe.machines import Prepare
from bisector.recipe.schema import BenchmarkPart, SshMachine
from bisector.report.counts import pinning
from bisector.session.artefacts import Artefacts
from bisector.session.execution import boot_job
from bisector.session.home import Home

IMAGE = image(0)


class Told:
    """A lab machine with eight CPUs whose kernel keeps these apart; it remembers what it was asked to run."""

    name = "box1"

    def __init__(self, isolated: str = "", nohz_full: str = "", online: str = "0-7") -> None:
        self.facts = {"cpus": online, "isolated": isolated, "nohz_full": nohz_full}
        self.asked: list[list[str]] = []
        self.released = 0

    @property
    def jobs(self) -> "Told":
        return self

    def run(self, argv: list[str], **_: Any) -> JobResult:
        self.asked.append(argv)
        return JobResult(exit_code=4, stdout=b"", stderr=b"", duration_s=0.0)

    def put(self, local: Path, remote: str, *, mode: int) -> None:
        pass

    def boot(self, image: KernelImage, **_: Any) -> BootRecord:
        facts = MachineFacts(pairs=tuple((name, value) for name, value in self.facts.items() if value))
        return BootRecord(boot_id="b", release="r", build_id="d", facts=facts, duration_s=1.0, artefact="")

    def release(self) -> None:
        self.released += 1


def machine_on(told: Told, cpu: Any) -> MeasuringMachine:
    suite = SuiteRunner(BenchmarkPart(cpu=cpu), build_suite(Home.of_this_user().suite))
    return MeasuringMachine(told, suite, cpu=cpu)  # type: ignore[arg-type]


def pinned_on(told: Told, cpu: Any, folder: Path) -> tuple[str, str]:
    """The CPU that a run was pinned to after a boot, and the fact that says so."""
    machine = machine_on(told, cpu)
    record = machine.boot(IMAGE, console=folder / "console", on_progress=lambda _: None)
    with pytest.raises(MachineError, match="refused this environment"):
        machine.calibrate(log=folder / "log")
    [argv] = told.asked
    return argv[argv.index("--cpu") + 1] if "--cpu" in argv else "", dict(record.facts.pairs)["pinned"]


@pytest.mark.parametrize(
    ("told", "cpu", "pinned"),
    [
        (Told(), None, ("", "not pinned")),
        (Told(), 7, ("7", "CPU 7")),
        (Told("3-5,8"), "isolated", ("3", "CPU 3 (isolated)")),
        (Told("0,6"), "isolated", ("6", "CPU 6 (isolated)")),
        (Told("0"), "isolated", ("0", "CPU 0 (isolated)")),
        (Told("1-4", "2,3"), "nohz_full", ("2", "CPU 2 (nohz_full)")),
        (Told("1-4", "2,5"), "housekeeping", ("6", "CPU 6 (housekeeping)")),
        (Told("1-7"), "housekeeping", ("0", "CPU 0 (housekeeping)")),
        (Told("1-3", online="0,2-7"), "isolated", ("2", "CPU 2 (isolated)")),
    ],
)
def test_a_benchmark_runs_on_a_cpu_that_the_booted_kernel_has_in_that_role(
    tmp_path: Path, told: Told, cpu: Any, pinned: tuple[str, str]
) -> None:
    assert pinned_on(told, cpu, tmp_path) == pinned


@pytest.mark.parametrize(
    ("told", "cpu", "mend"),
    [
        (Told(), "isolated", "isolcpus=1"),
        (Told("1"), "nohz_full", "nohz_full=1"),
        (Told("0-7"), "housekeeping", "Leave a CPU out"),
    ],
)
def test_a_role_that_the_booted_kernel_does_not_offer_is_the_labs_trouble_and_no_verdict(
    tmp_path: Path, told: Told, cpu: Any, mend: str
) -> None:
    job = boot_job(machine_on(told, cpu), 1, IMAGE, None, Artefacts(tmp_path))
    [event] = job(lambda _: None)
    assert isinstance(event, MachineTrouble)
    says = f"box1: the benchmark's cpu is {cpu}, but no CPU of the running kernel is: cpus: 0-7;"
    assert event.reason.startswith(says)
    assert mend in event.resolution


def test_a_boot_that_offers_another_cpu_than_the_first_one_is_the_labs_trouble(tmp_path: Path) -> None:
    told = Told()
    machine = machine_on(told, "housekeeping")
    first = machine.boot(IMAGE, console=tmp_path / "console", on_progress=lambda _: None)
    # The first kernel told of no isolated CPU, so that one is told of now is nothing that had another value.
    told.facts["isolated"] = "1-2"
    [event] = boot_job(machine, 2, IMAGE, first.facts, Artefacts(tmp_path))(lambda _: None)
    assert isinstance(event, MachineTrouble)
    assert event.reason.endswith("first boot: pinned: CPU 3 (housekeeping), was CPU 1 (housekeeping)")
    assert told.released == 1


def box(name: str, **prepare: Any) -> SshMachine:
    return SshMachine.model_validate(
        {
            "kind": "ssh", "name": name, "host": "h", "key": "k", "host_key": ("ssh-ed25519 A",),
            "boot": {"method": "grub"}, "prepare": prepare,
        }
    )  # fmt: skip


def test_before_the_first_boot_a_report_says_which_cpu_was_asked_for() -> None:
    def words(*machines: SshMachine, prepare: Prepare | None = None, cpu: Any = 0) -> str:
        benchmark = RECIPE.benchmark.model_copy(update={"cpu": cpu})
        changes = {"benchmark": benchmark, "prepare": prepare or Prepare(), "machines": machines or RECIPE.machines}
        return pinning(Story().state, RECIPE.model_copy(update=changes))

    assert words() == "pinned to CPU 0"
    assert words(cpu=None) == "not pinned to a CPU"
    assert words(box("a"), box("b"), prepare=Prepare(cpu="isolated")) == "pinned to a CPU that is isolated"
    assert words(box("a", cpu=3), box("b")) == "pinned to CPU 3 on a, pinned to CPU 0 on b"
    assert words(box("a", cpu=3), box("b"), cpu=None) == "pinned to CPU 3 on a, not pinned on b"

"""Where a machine's preparation meets its benchmark: the CPU that it is pinned to, and what a report says of that."""

from pathlib import Path
from typing import Any

import pytest
from fakes import RECIPE

from bisector.bench.compile import build_suite
from bisector.bench.runner import SuiteRunner
from bisector.cli.wiring import MeasuringMachine
from bisector.lab.jobs import JobResult
from bisector.model.errors import MachineError
from bisector.model.kernel import KernelImage
from bisector.model.machine import BootRecord, MachineFacts
from bisector.recipe.machines import Prepare
from bisector.recipe.schema import BenchmarkPart, SshMachine
from bisector.report.counts import pinning
from bisector.session.home import Home


class Told:
    """A lab machine whose kernel isolates these CPUs; it remembers what it was asked to run."""

    name = "box1"

    def __init__(self, isolated: str) -> None:
        self.isolated = isolated
        self.asked: list[list[str]] = []

    @property
    def jobs(self) -> "Told":
        return self

    def run(self, argv: list[str], **_: Any) -> JobResult:
        self.asked.append(argv)
        return JobResult(exit_code=4, stdout=b"", stderr=b"", duration_s=0.0)

    def put(self, local: Path, remote: str, *, mode: int) -> None:
        pass

    def boot(self, image: KernelImage, **_: Any) -> BootRecord:
        facts = MachineFacts(pairs=(("isolated", self.isolated),))
        return BootRecord(boot_id="b", release="r", build_id="d", facts=facts, duration_s=1.0, artefact="")


def cpu_of(told: Told, cpu: int | str | None, folder: Path) -> str:
    """The CPU that a run was pinned to, after a boot."""
    suite = SuiteRunner(BenchmarkPart(cpu=7), build_suite(Home.of_this_user().suite))
    machine = MeasuringMachine(told, suite, cpu=cpu)  # type: ignore[arg-type]
    machine.boot(None, console=folder / "console", on_progress=lambda _: None)  # type: ignore[arg-type]
    with pytest.raises(MachineError, match="refused this environment"):
        machine.calibrate(log=folder / "log")
    [argv] = told.asked
    return argv[argv.index("--cpu") + 1]


@pytest.mark.parametrize(
    ("isolated", "cpu", "pinned"), [("", None, "7"), ("", 2, "2"), ("3-5,8", "isolated", "3"), ("11", "isolated", "11")]
)
def test_a_benchmark_is_pinned_to_the_cpu_that_the_machine_names(
    tmp_path: Path, isolated: str, cpu: int | str | None, pinned: str
) -> None:
    assert cpu_of(Told(isolated), cpu, tmp_path) == pinned


def test_a_machine_that_isolates_no_cpu_is_the_labs_trouble(tmp_path: Path) -> None:
    with pytest.raises(MachineError, match="no CPU of the running kernel is") as raised:
        cpu_of(Told(""), "isolated", tmp_path)
    assert "isolcpus" in raised.value.resolution


def box(name: str, **prepare: Any) -> SshMachine:
    return SshMachine.model_validate(
        {
            "kind": "ssh", "name": name, "host": "h", "key": "k", "host_key": ("ssh-ed25519 A",),
            "boot": {"method": "grub"}, "prepare": prepare,
        }
    )  # fmt: skip


def test_a_report_says_which_cpu_it_was() -> None:
    def words(*machines: SshMachine, prepare: Prepare | None = None, cpu: int | None = 0) -> str:
        benchmark = RECIPE.benchmark.model_copy(update={"cpu": cpu})
        changes = {"benchmark": benchmark, "prepare": prepare or Prepare(), "machines": machines or RECIPE.machines}
        return pinning(RECIPE.model_copy(update=changes))

    assert words() == "pinned to CPU 0"
    assert words(cpu=None) == "not pinned to a CPU"
    assert words(box("a"), box("b"), prepare=Prepare(cpu="isolated")) == "pinned to the first isolated CPU"
    assert words(box("a", cpu=3), box("b")) == "pinned to CPU 3 (a), CPU 0 (b)"

"""Every test of the suite under a real kernel in the embedded machine, each once: it counts, or says what is missing.

The demonstration's kernel is made as small as it goes, so a few tests must find that it lacks what they need.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest
from lab.machines import real_kernel

from bisector.bench.compile import build_suite
from bisector.bench.runner import SuiteRunner
from bisector.bench.tests import Test, known_tests
from bisector.lab.programs import missing_programs
from bisector.lab.qemu import EmbeddedMachine
from bisector.model.errors import MachineError
from bisector.model.sample import COUNTERS
from bisector.recipe.schema import BenchmarkPart
from bisector.recipe.schema import EmbeddedMachine as Config

pytestmark = [
    pytest.mark.kernel,
    pytest.mark.skipif(bool(missing_programs()), reason=f"needs {', '.join(p.package for p in missing_programs())}"),
]

NOT_IN_THIS_KERNEL = {"shared_memory"}  # CONFIG_SYSVIPC is off


@pytest.fixture
def guest(tmp_path: Path) -> Iterator[EmbeddedMachine]:
    config = Config.model_validate({"kind": "embedded", "accelerator": "tcg", "clock": "instructions"})
    machine = EmbeddedMachine(config, tmp_path / "machine")
    machine.boot(real_kernel(), console=tmp_path / "console.log", on_progress=lambda _: None)
    yield machine
    machine.release()


def test_every_test_counts_under_a_small_kernel_or_says_what_it_lacks(guest: EmbeddedMachine, tmp_path: Path) -> None:
    program = build_suite(tmp_path)
    tests = known_tests(program)
    lacking = {test.name: words for test in tests if (words := _lacks(guest, program, test, tmp_path))}
    assert set(lacking) == NOT_IN_THIS_KERNEL, lacking
    for name, words in lacking.items():
        assert "needs something that this machine does not have" in words
        assert name in words
    _counts_what_it_can(guest, program, tmp_path)


def _counts_what_it_can(guest: EmbeddedMachine, program: Path, folder: Path) -> None:
    part = BenchmarkPart(test="page_test", also=("fault_cow",), cpu=0, timeout_s=120, counters=COUNTERS)
    runner = SuiteRunner(part, program)
    runner.install(guest)
    record = runner.run(guest, (("page_test", 17000), ("fault_cow", 2048)), folder / "counters.log")
    for sample in record.samples:
        counted = {counter.name: counter.value for counter in sample.counters}
        missing = {counter.name: counter.reason for counter in sample.missing_counters}
        print(sample.test, counted, missing)
        assert counted.keys() | missing.keys() == set(COUNTERS)
        assert counted["page-faults"] == pytest.approx(sample.minor_faults, abs=4)
        assert counted["cpu-migrations"] == 0  # there is one CPU
        # QEMU has no processor's counters without KVM: missing, and not a zero.
        assert set(missing) == {name for name in COUNTERS if name.startswith(("instructions", "cycles"))}


def _lacks(guest: EmbeddedMachine, program: Path, test: Test, folder: Path) -> str:
    """What the machine's trouble with a test was; "" if its sample counts."""
    runner = SuiteRunner(BenchmarkPart(test=test.name, sample_ms=20, cpu=0, timeout_s=120), program)
    log = folder / f"{test.name}.log"
    runner.install(guest)
    try:
        # One grain: the same work everywhere, and a sample counts whatever its length.
        record = runner.run(guest, ((test.name, test.grain),), log)
    except MachineError as error:
        return error.brief
    sample = record.samples[0]
    print(f"{test.name:<20} {sample.value:>14.1f} {sample.unit}  {sample.minor_faults} faults")
    assert (sample.test, sample.ops) == (test.name, test.grain)
    assert sample.value > 0
    return ""

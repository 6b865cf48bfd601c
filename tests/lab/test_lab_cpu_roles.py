"""Roles of CPUs in the real embedded guest: which CPU the booted kernel names, and that the suite ran on no other."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import real
from lab.machines import real_kernel

from bisector.bench.compile import build_suite
from bisector.bench.runner import SuiteRunner
from bisector.cli.wiring import MeasuringMachine
from bisector.history.repository import Repository
from bisector.history.worktree import WorkTree
from bisector.kernel.builder import KernelBuilder
from bisector.kernel.store import ImageCache
from bisector.lab.qemu import EmbeddedMachine
from bisector.model.events import MachineTrouble
from bisector.model.kernel import KernelImage
from bisector.recipe.load import load_recipe
from bisector.recipe.schema import BenchmarkPart
from bisector.recipe.schema import EmbeddedMachine as Config
from bisector.session.artefacts import Artefacts
from bisector.session.execution import boot_job
from bisector.session.home import Home

DEMO = Path(__file__).parents[2] / "recipes" / "demo" / "demo.yaml"
KEEPS_CPUS_APART = "CONFIG_SMP=y\nCONFIG_CPU_ISOLATION=y\nCONFIG_NO_HZ_FULL=y\n"

pytestmark = [pytest.mark.kernel, pytest.mark.timeout(1800)]


@contextmanager
def machine_on(folder: Path, cpu: Any, **config: Any) -> Iterator[MeasuringMachine]:
    part = BenchmarkPart(test="page_test", cpu=cpu, sample_ms=50)
    guest = EmbeddedMachine(Config.model_validate({"kind": "embedded", **config}), folder / "guest")
    try:
        yield MeasuringMachine(guest, SuiteRunner(part, build_suite(Home.of_this_user().suite)), cpu=cpu)
    finally:
        guest.release()


def test_a_kernel_for_one_cpu_offers_it_for_housekeeping_and_isolates_none(tmp_path: Path) -> None:
    image = real_kernel()
    with machine_on(tmp_path, "housekeeping") as machine:
        record = machine.boot(image, console=tmp_path / "console", on_progress=lambda _: None)
        assert dict(record.facts.pairs)["pinned"] == "CPU 0 (housekeeping)"
        [sample] = machine.run((("page_test", 1700),), log=tmp_path / "log", on_progress=lambda _: None).samples
        assert sample.cpu == 0
    with machine_on(tmp_path, "isolated", cmdline="isolcpus=0") as machine:
        [event] = boot_job(machine, 1, image, None, Artefacts(tmp_path / "session"))(lambda _: None)
    assert isinstance(event, MachineTrouble)
    assert "but no CPU of the running kernel is: cpus: 0; isolated: none;" in event.reason
    assert "CONFIG_CPU_ISOLATION" in event.resolution


@pytest.fixture(scope="module")
def smp_kernel() -> KernelImage:
    """The good end's kernel with all that keeps CPUs apart, which the demonstration's configuration leaves out.

    In a cache of its own: by its commit alone it would be taken for the demonstration's.
    """
    folder = real.demo_home() / "smp"
    if not folder.exists() and os.environ.get("BISECTOR_TEST_SMP") != "1":
        pytest.skip("no kernel that keeps CPUs apart was built; BISECTOR_TEST_SMP=1 builds it once, in four minutes")
    folder.mkdir(exist_ok=True)
    fragment = folder / "smp.config"
    fragment.write_text(KEEPS_CPUS_APART)
    part = load_recipe(DEMO).recipe.kernel
    part = part.model_copy(update={"fragments": (*part.fragments, str(fragment)), "required": ()})
    good = real.planted()["good"]
    cache = ImageCache(folder / "kernels", 1 << 30)
    with WorkTree(Repository.open(real.demo_history()), folder / "tree") as source:
        builder = KernelBuilder(part, DEMO.parent, source=source, good=good, folder=folder, cache=cache)
        try:
            return builder.build(good, log=folder / "log", on_progress=lambda _: None)
        finally:
            builder.close()
            cache.close()


@pytest.mark.parametrize(
    ("role", "cpus", "cmdline", "told", "cpu"),
    [
        ("isolated", 2, "isolcpus=1", "CPU 1 (isolated)", 1),
        ("nohz_full", 2, "nohz_full=1", "CPU 1 (nohz_full)", 1),
        ("housekeeping", 3, "isolcpus=1 nohz_full=1", "CPU 2 (housekeeping)", 2),
    ],
)
def test_the_suite_runs_on_the_cpu_that_the_kernel_has_in_that_role_in_every_boot(
    smp_kernel: KernelImage, tmp_path: Path, role: str, cpus: int, cmdline: str, told: str, cpu: int
) -> None:
    with machine_on(tmp_path, role, cmdline=cmdline, cpus=cpus, clock="wall") as machine:
        for _ in range(2 if role == "isolated" else 1):
            record = machine.boot(smp_kernel, console=tmp_path / "console", on_progress=lambda _: None)
            facts = dict(record.facts.pairs)
            assert (facts["pinned"], facts["cpus"]) == (told, f"0-{cpus - 1}")
            assert cmdline in facts["cmdline"]
            log = tmp_path / "log"
            batches = machine.calibrate(log=log)
            [sample] = machine.run(batches, log=log, on_progress=lambda _: None).samples
            assert sample.cpu == cpu

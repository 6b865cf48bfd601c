"""Knobs that are set before measuring and set back: on a box with files of its own in the place of sysfs."""

import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from lab.fakebox import DEFAULT_RELEASE, FakeBox, fake_kernel
from lab.machines import QUICK

from bisector.lab.physical import PhysicalMachine
from bisector.lab.prepare import Preparation
from bisector.lab.root import Root
from bisector.lab.ssh import Shell
from bisector.model.errors import MachineError
from bisector.model.machine import BootRecord
from bisector.recipe.machines import Prepare

CPU, THP = "sys/devices/system/cpu", "sys/kernel/mm/transparent_hugepage/enabled"
ASLR, IRQ = "proc/sys/kernel/randomize_va_space", "proc/irq"
DEFAULTS = {
    f"{CPU}/cpu0/cpufreq/scaling_governor": "powersave",
    f"{CPU}/cpu1/cpufreq/scaling_governor": "powersave",
    f"{CPU}/intel_pstate/no_turbo": "0",
    f"{CPU}/cpu0/thermal_throttle/core_throttle_count": "3",
    f"{CPU}/cpu1/thermal_throttle/core_throttle_count": "0",
    f"{CPU}/isolated": "1",
    THP: "always [madvise] never",
    ASLR: "2",
    f"{IRQ}/1/smp_affinity_list": "0-1",
    f"{IRQ}/2/smp_affinity_list": "0",
}
WANTED = {"governor": "performance", "boost": False, "thp": "never", "aslr": False, "irq_cpus": "0"}


@pytest.fixture
def box(box: FakeBox) -> FakeBox:
    """At each boot the files are as a kernel makes them, under the real paths."""
    for name, content in DEFAULTS.items():
        path = box.root / "defaults" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content + "\n")
    (box.root / "mounts").write_text(
        "rm -rf /mnt/knobs; cp -a /mnt/defaults /mnt/knobs\n"
        + "".join(f"mount --bind /mnt/knobs/{name} /{name}\n" for name in (CPU, Path(THP).parent, IRQ, ASLR))
    )
    box.restart_sshd_without_reboot()
    return box


def knobs(box: FakeBox) -> dict[str, str]:
    return {name: (box.root / "knobs" / name).read_text().strip() for name in DEFAULTS}


@pytest.fixture
def root(box: FakeBox) -> Iterator[Root]:
    machine = PhysicalMachine(box.config(), box.root / "c0", session="s", limits=QUICK)
    shell: Shell = machine.shell
    try:
        yield Root(shell, sudo=False)
    finally:
        shell.close()


def preparation(root: Root, **wanted: Any) -> Preparation:
    return Preparation(root, Prepare.model_validate(wanted), state_folder="/var/lib/bisector")


def test_every_knob_is_set_told_and_set_back_as_it_was(box: FakeBox, root: Root) -> None:
    ours = preparation(root, **WANTED)
    told = ours.apply()
    assert told == "boost: 0; governor: performance; thp: never; aslr: 0; irq_cpus: 0"
    now = knobs(box)
    assert {now[name] for name in DEFAULTS if name.endswith("scaling_governor")} == {"performance"}
    assert (now[f"{CPU}/intel_pstate/no_turbo"], now[THP], now[ASLR]) == ("1", "never", "0")
    # Twice is once: what they were is not forgotten.
    assert ours.apply() == told
    assert ours.restore() == []
    assert knobs(box) == {**DEFAULTS, THP: "madvise"}
    assert not (box.root / "var/bisector/knobs").exists()


def test_a_controller_that_died_is_cleaned_up_after_by_the_next_one(box: FakeBox, root: Root) -> None:
    preparation(root, governor="performance").apply()
    preparation(root).restore()
    assert knobs(box) == DEFAULTS


def test_what_was_before_a_reboot_is_not_set_back_after_it(box: FakeBox, root: Root) -> None:
    preparation(root, thp="never").apply()
    boots = len(box.boots)
    box.crash()
    while len(box.boots) == boots or not box.answers():
        pass
    (box.root / "knobs" / THP).write_text("always\n")
    root.shell.close()
    preparation(root).restore()
    assert knobs(box)[THP] == "always"


def test_a_knob_that_is_not_there_or_refuses_is_passed_over_unless_it_is_required(box: FakeBox, root: Root) -> None:
    # Files that can be read and not written, whoever tries.
    with (box.root / "mounts").open("a") as file:
        for name in (THP, f"{CPU}/cpu1/cpufreq/scaling_governor"):
            file.write(f"mount --bind /proc/sys/kernel/osrelease /{name}\n")
    box.restart_sshd_without_reboot()
    root.shell.close()
    told = preparation(root, governor="performance", thp="never").apply()
    assert told == "governor: performance on 1 of 2; thp: refused"
    for name in ("governor", "thp"):
        with pytest.raises(MachineError, match=f"as required: {name}: "):
            preparation(root, governor="performance", thp="never", required=(name,)).apply()
    wanted = {"smt": "off", "boost": True, "irq_cpus": "1,0,3"}
    assert preparation(root, **wanted).apply() == "smt: not there; boost: 1; irq_cpus: 0-1,3"
    with pytest.raises(MachineError, match="box1 cannot be prepared as required: smt: not there"):
        preparation(root, **wanted, required=("boost", "smt")).apply()
    with pytest.raises(MachineError, match="governor: not asked for"):
        preparation(root, required=("governor",)).apply()
    assert preparation(root).apply() == ""


def boot(machine: PhysicalMachine, box: FakeBox) -> BootRecord:
    return machine.boot(fake_kernel(box.root, 1), console=box.root / "console", on_progress=lambda _: None)


def test_a_proven_kernel_is_prepared_its_facts_tell_and_the_machine_is_given_back_as_it_was(box: FakeBox) -> None:
    config = box.config(prepare=Prepare.model_validate(WANTED), facts={"governor": "performance", "boost": "0"})
    machine = PhysicalMachine(config, box.root / "c1", session="s", limits=QUICK)
    facts = dict(boot(machine, box).facts.pairs)
    assert facts["prepared"].startswith("boost: 0; governor: performance")
    told = [facts[name] for name in ("governor", "boost", "aslr", "isolated")]
    assert told == ["performance", "0", "0", "1"]
    seen: list[dict[str, str]] = []
    box.on_order = lambda word: seen.append(knobs(box))
    machine.release()
    # On the same kernel, before the reboot that leaves it.
    assert seen[0] == {**DEFAULTS, THP: "madvise"}
    assert (box.release, box.leased) == (DEFAULT_RELEASE, False)


def test_a_machine_that_cannot_be_prepared_as_required_is_the_labs_trouble(box: FakeBox) -> None:
    config = box.config(prepare=Prepare(smt="off", required=("smt",)))
    machine = PhysicalMachine(config, box.root / "c2", session="s", limits=QUICK)
    try:
        with pytest.raises(MachineError, match="cannot be prepared as required: smt: not there"):
            boot(machine, box)
    finally:
        machine.release()
    assert box.release == DEFAULT_RELEASE


def test_a_run_during_which_the_processor_was_throttled_does_not_count(box: FakeBox) -> None:
    machine = PhysicalMachine(box.config(), box.root / "c3", session="s", limits=QUICK)
    try:
        boot(machine, box)
        assert machine.jobs.run(["true"], timeout_s=20).exit_code == 0
        count = "/" + CPU + "/cpu1/thermal_throttle/core_throttle_count"
        hot = ["sh", "-c", f"echo 2 >{shlex.quote(count)}"]
        with pytest.raises(MachineError, match="throttled during the run") as raised:
            machine.jobs.run(hot, timeout_s=20)
        assert "counted 2 throttlings" in raised.value.details
        # What was before does not spoil what comes after.
        assert machine.jobs.run(["true"], timeout_s=20).exit_code == 0
    finally:
        machine.release()

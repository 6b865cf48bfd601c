import os
import platform
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from bisector.lab import accelerator
from bisector.lab.accelerator import choose_accelerator, try_accelerator
from bisector.lab.counter import counter_khz
from bisector.lab.programs import QEMU, Program, missing_programs
from bisector.model.errors import MachineError, UsageError


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    try_accelerator.cache_clear()
    yield
    try_accelerator.cache_clear()


def pretend_qemu(monkeypatch: pytest.MonkeyPatch, folder: Path, script: str) -> None:
    (folder / "qemu").write_text(f"#!/bin/sh\n{script}\n")
    (folder / "qemu").chmod(0o755)
    stand_in = Program(name="qemu", package="qemu-system-x86", places=(str(folder / "qemu"),))
    monkeypatch.setattr(accelerator, "QEMU", stand_in)


@pytest.mark.skipif(bool(missing_programs((QEMU,))), reason="needs qemu-system-x86")
def test_the_trial_recognises_an_accelerator_that_works() -> None:
    assert try_accelerator("tcg").works


@pytest.mark.skipif(bool(missing_programs((QEMU,))), reason="needs qemu-system-x86")
@pytest.mark.skipif(os.access("/dev/kvm", os.R_OK | os.W_OK), reason="this computer has a /dev/kvm we may open")
def test_without_a_device_the_trial_fails_and_tells_why() -> None:
    trial = try_accelerator("kvm")
    assert not trial.works
    assert "kvm" in trial.said.lower()


@pytest.mark.skipif(bool(missing_programs((QEMU,))), reason="needs qemu-system-x86")
def test_the_choice_agrees_with_what_a_guest_really_did() -> None:
    assert choose_accelerator("try", "wall") == ("kvm" if try_accelerator("kvm").works else "tcg")


ASSERTION = "echo 'kvm_buf_set_msrs: Assertion failed.' >&2; kill -ABRT $$"


def test_a_device_that_fails_only_when_a_guest_starts_means_emulation(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    pretend_qemu(monkeypatch, tmp_path, ASSERTION)
    assert choose_accelerator("try", "wall") == "tcg"


def test_demanding_what_does_not_work_is_the_machines_trouble_with_qemus_words(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    pretend_qemu(monkeypatch, tmp_path, ASSERTION)
    with pytest.raises(MachineError) as caught:
        choose_accelerator("kvm", "wall")
    assert "kvm_buf_set_msrs" in caught.value.details


def test_a_guest_that_runs_nothing_is_given_up(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pretend_qemu(monkeypatch, tmp_path, "exec sleep 60")
    started = time.monotonic()
    assert not try_accelerator("kvm", limit_s=0.5).works
    assert time.monotonic() - started < 10


def test_the_trial_is_made_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pretend_qemu(monkeypatch, tmp_path, f"echo run >>{tmp_path}/runs; exit 33")
    assert [choose_accelerator("try", "wall"), choose_accelerator("kvm", "wall")] == ["kvm", "kvm"]
    assert (tmp_path / "runs").read_text() == "run\n"


def test_only_emulation_counts_instructions(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pretend_qemu(monkeypatch, tmp_path, f"touch {tmp_path}/asked; exit 33")
    assert choose_accelerator("try", "instructions") == "tcg"
    assert not (tmp_path / "asked").exists()
    with pytest.raises(UsageError, match="accelerator: kvm contradicts clock: instructions"):
        choose_accelerator("kvm", "instructions")


@pytest.mark.skipif(platform.machine() != "x86_64", reason="only x86 has this counter")
def test_the_hosts_counter_is_measured_to_parts_in_ten_thousand() -> None:
    first, second = counter_khz(), counter_khz()
    assert first is not None
    assert second is not None
    assert 500_000 < first < 8_000_000
    assert abs(first - second) / first < 1e-4


def test_a_host_without_the_counter_tells_no_frequency(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    assert counter_khz() is None

"""Boots by kexec, on a box whose running kernel can start another one (see fakeloaders.py)."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from lab.controllers import Make, boot, booting_by, controllers
from lab.fakebox import DEFAULT_RELEASE, USABLE, WHY_NOT, FakeBox, fake_kernel, running_box
from lab.fakeloaders import FakeKexec
from lab.machines import QUICK

from bisector.lab.boot.method import OneShotError
from bisector.lab.survey import Grade, Survey
from bisector.model.errors import KernelError
from bisector.model.outcome import Outcome

pytestmark = pytest.mark.skipif(not USABLE, reason=WHY_NOT)


@pytest.fixture
def loader() -> FakeKexec:
    return FakeKexec()


@pytest.fixture
def box(tmp_path: Path, loader: FakeKexec) -> Iterator[FakeBox]:
    with running_box(tmp_path / "box", loader=loader) as box:
        yield box


@pytest.fixture
def make(box: FakeBox, tmp_path: Path) -> Iterator[Make]:
    with controllers(box, tmp_path) as make:
        yield booting_by("kexec", make)


def test_every_kernel_is_started_from_the_default_one_and_kexec_is_one_of_the_facts(
    box: FakeBox, loader: FakeKexec, make: Make, tmp_path: Path
) -> None:
    machine = make(proven=False)
    first, second = (fake_kernel(tmp_path, index) for index in (1, 2))
    records = [boot(machine, image, tmp_path) for image in (first, second)]
    assert [record.build_id for record in records] == [first.build_id, second.build_id]
    assert {dict(record.facts.pairs)["boot method"] for record in records} == {"kexec, from the default kernel"}
    assert "panic=10" in (box.root / "proc/cmdline").read_text()
    machine.release()
    assert box.boots == [
        f"on: {DEFAULT_RELEASE}",
        f"kexec: {DEFAULT_RELEASE}",  # the proof that kexec works here, with the default kernel
        f"reboot: {DEFAULT_RELEASE}",
        f"kexec: {first.release}",
        f"reboot: {DEFAULT_RELEASE}",
        f"kexec: {second.release}",
        f"reboot: {DEFAULT_RELEASE}",
    ]
    assert not loader.loaded


def test_chained_kernels_save_the_boots_between_and_say_so_in_the_facts(
    box: FakeBox, make: Make, tmp_path: Path
) -> None:
    machine = make(chained=True)
    records = [boot(machine, fake_kernel(tmp_path, index), tmp_path) for index in (1, 2)]
    assert [line.split(":")[0] for line in box.boots] == ["on", "kexec", "kexec"]
    assert dict(records[1].facts.pairs)["boot method"] == "kexec, from the kernel before"


def test_a_kernel_that_panics_after_kexec_falls_back_to_the_default(box: FakeBox, make: Make, tmp_path: Path) -> None:
    image = fake_kernel(tmp_path, 2, then="panic")
    with pytest.raises(KernelError, match="did not come up") as caught:
        boot(make(), image, tmp_path)
    assert caught.value.outcome is Outcome.BOOT_FAILED
    assert box.boots[1:] == [f"kexec: {image.release} panic", f"panic: {DEFAULT_RELEASE}"]


def test_a_kexec_that_ends_in_a_cold_boot_is_found_out_before_the_first_test_kernel(
    box: FakeBox, make: Make, tmp_path: Path
) -> None:
    kexec = box.root / "bin/kexec"
    kexec.write_text(kexec.read_text().replace("echo kexec >", "echo reboot >"))
    with pytest.raises(OneShotError, match="booted its default entry instead"):
        boot(make(proven=False), fake_kernel(tmp_path, 1), tmp_path)
    assert box.boots[1:] == [f"reboot: {DEFAULT_RELEASE}"]


def test_what_somebody_else_has_loaded_stays_loaded(
    box: FakeBox, loader: FakeKexec, make: Make, tmp_path: Path
) -> None:
    (box.root / "kernel/kexec_loaded").write_text("1\n")
    machine = make()
    with pytest.raises(OneShotError, match="somebody has loaded a kernel already"):
        boot(machine, fake_kernel(tmp_path, 1), tmp_path)
    machine.release()
    assert loader.loaded
    assert box.asked == []


def test_a_boot_that_was_interrupted_leaves_nothing_loaded(
    box: FakeBox, loader: FakeKexec, make: Make, tmp_path: Path
) -> None:
    (box.root / "bin/kexec").write_text((box.root / "bin/kexec").read_text().replace("-e)", "-e) exit 1;;\nx)"))

    def interrupt(progress: object) -> None:
        if "waiting" in str(progress):
            raise KeyboardInterrupt

    machine = make()
    with pytest.raises(KeyboardInterrupt):
        machine.boot(fake_kernel(tmp_path, 1), console=tmp_path / "console.log", on_progress=interrupt)
    assert loader.loaded
    make().recover()
    assert not loader.loaded


@pytest.mark.parametrize(
    ("file", "content", "reason"),
    [
        ("kernel/kexec_loaded", None, "the default kernel has no kexec"),
        ("kernel/security/lockdown", "none [integrity] confidentiality\n", "the kernel is locked down"),
    ],
)
def test_a_machine_that_cannot_kexec_is_refused_with_the_reason(
    box: FakeBox, make: Make, tmp_path: Path, file: str, content: str | None, reason: str
) -> None:
    path = box.root / file
    path.parent.mkdir(exist_ok=True)
    if content is None:
        path.unlink()
    else:
        path.write_text(content)
    with pytest.raises(OneShotError, match=reason):
        boot(make(), fake_kernel(tmp_path, 1), tmp_path)
    assert box.asked == []


def test_the_check_says_that_kexec_is_a_condition_of_its_own(box: FakeBox) -> None:
    survey = Survey(box.config(), limits=QUICK)
    try:
        [found] = [one for one in survey.findings() if one.requirement == "one-shot boot"]
    finally:
        survey.close()
    assert (found.grade, found.seen[:30]) == (Grade.NOTE, "kexec, from the default kernel")
    assert "not with those after a cold boot" in found.mend

"""One-shot boots by systemd-boot, on a box whose firmware keeps EFI variables (see fakeloaders.py)."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from lab.controllers import Make, boot, booting_by, controllers
from lab.fakebox import DEFAULT_RELEASE, USABLE, WHY_NOT, FakeBox, fake_kernel, running_box
from lab.fakeloaders import DEFAULT_ENTRY, FakeSystemdBoot
from lab.machines import QUICK

from bisector.lab.boot.method import OneShotError
from bisector.lab.boot.systemd_boot import SystemdBootMethod
from bisector.lab.root import Root
from bisector.lab.ssh import Shell
from bisector.lab.survey import Grade, Survey
from bisector.lab.target import target_of
from bisector.model.errors import KernelError, MachineError
from bisector.model.outcome import Outcome
from bisector.recipe.machines import SystemdBoot

pytestmark = pytest.mark.skipif(not USABLE, reason=WHY_NOT)


@pytest.fixture
def loader() -> FakeSystemdBoot:
    return FakeSystemdBoot()


@pytest.fixture
def box(tmp_path: Path, loader: FakeSystemdBoot) -> Iterator[FakeBox]:
    with running_box(tmp_path / "box", loader=loader) as box:
        yield box


@pytest.fixture
def make(box: FakeBox, tmp_path: Path) -> Iterator[Make]:
    with controllers(box, tmp_path) as make:
        yield booting_by("systemd-boot", make)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_kernel_is_booted_once_by_systemd_boot_and_the_machine_is_left_as_it_was(
    box: FakeBox, loader: FakeSystemdBoot, make: Make, tmp_path: Path
) -> None:
    image = fake_kernel(tmp_path, 1)
    machine = make(proven=False, initrd="/boot/initrd.img-6.1.0-37-amd64")
    record = boot(machine, image, tmp_path)
    assert (record.release, record.build_id) == (image.release, image.build_id)
    assert dict(record.facts.pairs)["boot method"] == "systemd-boot"
    assert box.boots == [f"on: {DEFAULT_RELEASE}", f"reboot: {DEFAULT_RELEASE}", f"reboot: {image.release}"]
    assert loader.get("LoaderEntrySelected") == f"bisector-{image.release}.conf"
    assert (loader.entries / f"bisector-{image.release}.conf").read_text() == (
        f"title bisector {image.release}\n"
        f"linux /bisector/vmlinuz-{image.release}\n"
        "initrd /initrd.img-6.1.0-37-amd64\n"
        "options root=UUID=0a1b ro quiet panic=10 oops=panic softlockup_panic=1 hung_task_panic=1 "
        f"bisector.boot={image.release}\n"
    )
    machine.release()
    assert box.release == DEFAULT_RELEASE
    assert (loader.get("LoaderEntryOneShot"), loader.get("LoaderEntryDefault")) == (None, None)
    assert (loader.entries / "debian.conf").read_text() == DEFAULT_ENTRY
    assert not box.leased


def test_the_entry_comes_after_its_kernel_so_that_none_points_to_nothing(
    box: FakeBox, loader: FakeSystemdBoot, make: Make, tmp_path: Path
) -> None:
    image = fake_kernel(tmp_path, 1)
    # A folder where the kernel belongs: it cannot be put there.
    (box.root / "boot/bisector" / f"vmlinuz-{image.release}" / "x").mkdir(parents=True)
    with pytest.raises(MachineError):
        boot(make(), image, tmp_path)
    assert names(loader.entries) == ["debian.conf"]
    assert loader.get("LoaderEntryOneShot") is None
    assert box.asked == []


def test_only_our_own_kernels_and_entries_are_pruned_and_never_the_running_one(
    box: FakeBox, loader: FakeSystemdBoot, make: Make, tmp_path: Path
) -> None:
    machine = make(keep=1)
    (loader.entries / "bisector-probe.conf").write_text(DEFAULT_ENTRY)
    first, second, third = (fake_kernel(tmp_path, index) for index in (1, 2, 3))
    boot(machine, first, tmp_path)
    boot(machine, second, tmp_path)
    # The first one ran while the second was put there.
    both = [f"vmlinuz-{image.release}" for image in (first, second)]
    assert names(box.root / "boot/bisector") == both
    boot(machine, third, tmp_path)
    assert names(box.root / "boot/bisector") == [both[1], f"vmlinuz-{third.release}"]
    ours = [f"bisector-{image.release}.conf" for image in (second, third)]
    assert names(loader.entries) == [*ours, "debian.conf"]
    assert "vmlinuz-6.1.0-37-amd64" in names(box.root / "boot")


def test_a_kernel_that_panics_falls_back_to_the_default(
    box: FakeBox, loader: FakeSystemdBoot, make: Make, tmp_path: Path
) -> None:
    image = fake_kernel(tmp_path, 2, then="panic")
    with pytest.raises(KernelError, match="did not come up") as caught:
        boot(make(), image, tmp_path)
    assert caught.value.outcome is Outcome.BOOT_FAILED
    assert box.boots[1:] == [f"reboot: {image.release} panic", f"panic: {DEFAULT_RELEASE}"]
    assert loader.get("LoaderEntrySelected") == "debian.conf"


def test_a_loader_that_keeps_the_one_shot_entry_is_found_out_before_the_first_test_kernel(
    box: FakeBox, loader: FakeSystemdBoot, make: Make, tmp_path: Path
) -> None:
    loader.sticky = True
    with pytest.raises(OneShotError, match=r"does not clear itself: bisector-probe\.conf was still set"):
        boot(make(proven=False), fake_kernel(tmp_path, 1), tmp_path)
    assert box.boots == [f"on: {DEFAULT_RELEASE}", f"reboot: {DEFAULT_RELEASE}"]
    assert loader.get("LoaderEntryOneShot") is None


def test_a_loader_that_boots_its_default_all_the_same_is_refused(
    box: FakeBox, loader: FakeSystemdBoot, make: Make, tmp_path: Path
) -> None:
    loader.ignores_entry = True
    with pytest.raises(OneShotError, match="booted its default entry instead"):
        boot(make(proven=False), fake_kernel(tmp_path, 1), tmp_path)


def test_a_default_that_somebody_changes_during_the_session_stops_it(
    box: FakeBox, loader: FakeSystemdBoot, make: Make, tmp_path: Path
) -> None:
    machine = make()
    boot(machine, fake_kernel(tmp_path, 1), tmp_path)
    loader.set("LoaderEntryDefault", "windows.conf")
    with pytest.raises(OneShotError, match="the default entry was changed") as caught:
        boot(machine, fake_kernel(tmp_path, 2), tmp_path)
    assert "LoaderEntryDefault is windows.conf, was not set" in caught.value.details
    assert caught.value.resolution == 'Set it back: bootctl set-default ""'


def test_a_bootctl_that_says_it_has_set_the_next_boot_is_not_believed(box: FakeBox, make: Make, tmp_path: Path) -> None:
    bootctl = box.root / "bin/bootctl"
    bootctl.write_text(bootctl.read_text().replace("set-oneshot)", "set-oneshot) exit 0"))
    with pytest.raises(OneShotError, match="bootctl says it has set the next boot, but it has not"):
        boot(make(), fake_kernel(tmp_path, 1), tmp_path)
    assert box.asked == []


class Wrong:
    """One thing that speaks against one-shot boots, and what is said of it."""

    def __init__(self, box: FakeBox, loader: FakeSystemdBoot) -> None:
        self.box, self.loader = box, loader

    def no_uefi(self) -> str:
        (self.loader.variables.parent).rename(self.box.root / "firmware/hidden")
        return "it was not booted by UEFI"

    def no_variables(self) -> str:
        for path in self.loader.variables.iterdir():
            path.unlink()
        return "no systemd-boot, or no efivarfs"

    def no_one_shot(self) -> str:
        [features] = self.loader.variables.glob("LoaderFeatures-*")
        features.write_bytes(b"\6\0\0\0\x37\1\0\0\0\0\0\0")
        return "systemd-boot 252.39 does not say that it boots an entry once"

    def secure_boot(self) -> str:
        [secure] = self.loader.variables.glob("SecureBoot-*")
        secure.write_bytes(b"\6\0\0\0\1")
        return "Secure Boot is on"

    def no_partition(self) -> str:
        (self.box.root / "bin/bootctl").write_text("#!/bin/sh\necho 'Could not find ESP' >&2; exit 1\n")
        return "bootctl finds no partition for entries"

    def unmounted(self) -> str:
        (self.loader.entries / "debian.conf").rename(self.loader.entries / "fedora.conf")
        return r"the running entry debian\.conf has no file below /boot"

    def any_default(self) -> str:
        self.loader.set("LoaderEntryDefault", "*")
        return r"the default '\*' could mean an entry of ours"

    def no_default(self) -> str:
        (self.loader.entries / "debian.conf").write_text(DEFAULT_ENTRY.replace("sort-key debian\n", ""))
        return "no default is set, and the entries' order could mean an entry of ours"

    def an_old_order(self) -> str:
        [features] = self.loader.variables.glob("LoaderFeatures-*")
        features.write_bytes(b"\6\0\0\0\x3f\0\0\0\0\0\0\0")
        return "no default is set, and the entries' order could mean an entry of ours"

    def our_default(self) -> str:
        self.loader.set("LoaderEntryDefault", "bisector-6.1.conf")
        return "one of our own entries"

    def armed(self) -> str:
        self.loader.set("LoaderEntryOneShot", "windows.conf")
        return r"somebody has set the next boot to 'windows\.conf' already"


@pytest.fixture(scope="module")
def steady(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[FakeBox, FakeSystemdBoot]]:
    """A box that nothing reboots, for looks at it."""
    loader = FakeSystemdBoot()
    with running_box(tmp_path_factory.mktemp("steady") / "box", loader=loader) as box:
        yield box, loader


@pytest.fixture
def looked_at(steady: tuple[FakeBox, FakeSystemdBoot]) -> Iterator[tuple[FakeBox, FakeSystemdBoot]]:
    """The same, as it was before after each test."""
    box, loader = steady
    kept = {path: path.read_bytes() for folder in ("firmware", "boot/loader", "bin") for path in files(box, folder)}
    yield box, loader
    hidden = box.root / "firmware/hidden"
    if hidden.exists():
        hidden.rename(box.root / "firmware/efi")
    for folder in ("firmware", "boot/loader"):
        for path in files(box, folder):
            if path not in kept:
                path.unlink()
    for path, content in kept.items():
        path.write_bytes(content)


def files(box: FakeBox, folder: str) -> list[Path]:
    return [path for path in (box.root / folder).rglob("*") if path.is_file()]


@pytest.mark.parametrize("wrong", [name for name in vars(Wrong) if not name.startswith("_")])
def test_whatever_speaks_against_one_shot_boots_is_told_before_anything_is_changed(
    looked_at: tuple[FakeBox, FakeSystemdBoot], wrong: str
) -> None:
    box, loader = looked_at
    survey = Survey(box.config(), limits=QUICK)
    try:
        reason = getattr(Wrong(box, loader), wrong)()
        before = {path: path.read_bytes() for path in files(box, ".") if "proc" not in path.parts}
        root = survey.root
        with pytest.raises(OneShotError, match=f"cannot be trusted here: .*{reason}") as caught:
            SystemdBootMethod(SystemdBoot(method="systemd-boot"), box.config(), root).inspect()
        assert caught.value.resolution
        assert (wrong == "no_partition") == ("Could not find ESP" in caught.value.details)
        logs = {box.root / "sshd.log"}
        assert all(path.read_bytes() == content for path, content in before.items() if path not in logs)
    finally:
        survey.close()


def test_the_check_of_a_machine_tells_of_systemd_boot(looked_at: tuple[FakeBox, FakeSystemdBoot]) -> None:
    box, loader = looked_at
    survey = Survey(box.config(), limits=QUICK)
    try:
        [found] = [one for one in survey.findings() if one.requirement == "one-shot boot"]
        assert (found.grade, found.seen[:13]) == (Grade.PASS, "systemd-boot:")
        Wrong(box, loader).secure_boot()
        [found] = [one for one in survey.findings() if one.requirement == "one-shot boot"]
        assert (found.grade, found.mend) == (Grade.FAIL, "Turn Secure Boot off in its firmware.")
    finally:
        survey.close()


def test_a_kernel_that_shows_no_variables_is_asked_nothing_and_changes_nothing(
    looked_at: tuple[FakeBox, FakeSystemdBoot],
) -> None:
    box, loader = looked_at
    shell = Shell(target_of(box.config()), limits=QUICK)
    try:
        method = SystemdBootMethod(SystemdBoot(method="systemd-boot"), box.config(), Root(shell, sudo=False))
        method.preflight()
        assert method.armed() == ""
        Wrong(box, loader).no_variables()
        assert method.armed() is None
        method.disarm()
        method.require_default()
    finally:
        shell.close()


def test_an_initramfs_that_the_loader_cannot_reach_is_refused(looked_at: tuple[FakeBox, FakeSystemdBoot]) -> None:
    box, _ = looked_at
    shell = Shell(target_of(box.config()), limits=QUICK)
    part = SystemdBoot(method="systemd-boot", initrd="/srv/initrd.img")
    try:
        with pytest.raises(OneShotError, match=r"boot\.initrd /srv/initrd\.img does not lie on /boot"):
            SystemdBootMethod(part, box.config(), Root(shell, sudo=False)).inspect()
    finally:
        shell.close()

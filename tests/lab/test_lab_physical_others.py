"""A physical machine that others use, hold or have changed: told apart from a kernel's fault, and left alone."""

from pathlib import Path

import pytest
from lab.controllers import Make, boot
from lab.fakebox import DEFAULT_RELEASE, FakeBox, fake_kernel
from lab.machines import make_key

from bisector.lab.lease import LeaseError
from bisector.lab.reboot import UnreachableError
from bisector.lab.ssh import ConnectError
from bisector.model.errors import MachineError
from bisector.model.kernel import KernelImage


def test_spare_another_user_who_logs_in_spoils_the_sample_and_not_the_commit(
    box: FakeBox, make: Make, image: KernelImage, tmp_path: Path
) -> None:
    machine = make(ignore_logins=("root",))
    (box.root / "who").write_text("root     tty1         2026-11-30 09:00\n")
    boot(machine, image, tmp_path)
    script = "echo 'alice    pts/0        2026-11-30 10:00 (192.0.2.1)' >>/mnt/who; echo 1234"
    with pytest.raises(MachineError, match="alice is logged in"):
        machine.jobs.run(("sh", "-c", script), timeout_s=20)
    boots = len(box.boots)
    with pytest.raises(MachineError, match="alice is logged in"):
        boot(machine, image, tmp_path)
    assert len(box.boots) == boots


def test_spare_a_machine_that_another_session_holds_is_not_touched(
    box: FakeBox, make: Make, image: KernelImage, tmp_path: Path
) -> None:
    boot(make("first"), image, tmp_path)
    asked = list(box.asked)
    second = make("second")
    for attempt in (second.recover, lambda: boot(second, image, tmp_path)):
        with pytest.raises(LeaseError, match=r"held by .*, session first"):
            attempt()
    second.release()
    assert box.asked == asked


def test_a_session_whose_lease_was_broken_stops_touching_the_machine(
    box: FakeBox, make: Make, image: KernelImage, tmp_path: Path
) -> None:
    first = make("first")
    boot(first, image, tmp_path)
    [record] = (box.root / "var/bisector/lease").glob("lease.*")
    record.unlink()
    make("second").recover()
    asked = list(box.asked)
    with pytest.raises(LeaseError, match=r"was lost: it is held by .*, session second"):
        first.jobs.run(("true",), timeout_s=20)
    first.release()
    assert box.asked == asked


def test_an_unknown_machine_that_does_not_answer_keeps_its_power(box: FakeBox, make: Make, tmp_path: Path) -> None:
    box.halt()
    with pytest.raises(UnreachableError, match="its power was not touched"):
        boot(make(), fake_kernel(tmp_path, 1), tmp_path)
    assert box.asked == []


def test_a_machine_of_ours_that_does_not_answer_is_power_cycled(
    box: FakeBox, make: Make, image: KernelImage, tmp_path: Path
) -> None:
    machine = make()
    boot(machine, image, tmp_path)
    box.halt()
    assert boot(machine, image, tmp_path).release == image.release
    assert box.boots[2:] == [f"cut: {DEFAULT_RELEASE}", f"reboot: {image.release}"]


def test_spare_a_host_key_that_changed_is_refused_at_once_with_both_fingerprints(
    box: FakeBox, make: Make, image: KernelImage, tmp_path: Path
) -> None:
    machine = make()
    (box.root / "host_key").unlink()
    make_key(box.root / "host_key")
    box.restart_sshd_without_reboot()
    with pytest.raises(ConnectError, match="another host key than the pinned one") as caught:
        boot(machine, image, tmp_path)
    assert caught.value.details.count("SHA256:") == 2


def test_spare_sudo_that_wants_a_password_says_what_to_do(
    box: FakeBox, make: Make, image: KernelImage, tmp_path: Path
) -> None:
    sudo = box.root / "bin/sudo"
    sudo.write_text('#!/bin/sh\n[ "$1 $2" = "-n --" ] || exit 9\nshift 2\nexec "$@"\n')
    sudo.chmod(0o755)
    machine = make(sudo=True)
    assert boot(machine, image, tmp_path).release == image.release
    sudo.write_text("#!/bin/sh\necho 'sudo: a password is required' >&2; exit 1\n")
    with pytest.raises(MachineError, match="sudo does not let root act as root without a password") as caught:
        machine.jobs.run(("true",), timeout_s=20)
    assert "NOPASSWD" in caught.value.resolution


def test_facts_that_the_entry_expects_and_the_machine_does_not_have_stop_it(
    box: FakeBox, make: Make, image: KernelImage, tmp_path: Path
) -> None:
    with pytest.raises(MachineError, match=r"not as its entry says: microcode: .*, expected 0x7"):
        boot(make(facts={"microcode": "0x7"}), image, tmp_path)


def test_two_boots_of_two_kernels_have_the_same_facts(box: FakeBox, make: Make, tmp_path: Path) -> None:
    machine = make()
    facts = [boot(machine, fake_kernel(tmp_path, index), tmp_path).facts for index in (1, 2)]
    assert facts[0] == facts[1]
    assert "panic=10" in dict(facts[0].pairs)["cmdline"]

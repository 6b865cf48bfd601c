import threading
from pathlib import Path

import pytest
from lab.machines import QUICK, Sshd

from bisector.lab.lease import Lease, LeaseError, force_release, look, new_token
from bisector.lab.root import Root
from bisector.lab.ssh import Shell
from bisector.model.errors import MachineError


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "state" / "lease"


def lease(shell: Shell, folder: Path, session: str, *, length_s: float = 600, token: str = "") -> Lease:
    root = Root(shell, sudo=False)
    holder = f"{session}er@controller"
    return Lease(root, str(folder), token=token or new_token(), holder=holder, session=session, length_s=length_s)


def set_until(folder: Path, until: int) -> None:
    [record] = folder.glob("lease.*")
    token, _, rest = record.read_text().partition(" ")
    record.write_text(f"{token} {until}\n" + rest.partition("\n")[2])


def test_two_sessions_never_hold_one_machine_and_the_second_is_told_whose_it_is(any_shell: Shell, folder: Path) -> None:
    first, second = lease(any_shell, folder, "first"), lease(any_shell, folder, "second")
    assert first.take() is None
    with pytest.raises(LeaseError, match="held by firster@controller, session first, for 10 more minutes") as caught:
        second.take()
    assert "bisector lab release lab-1 --force" in caught.value.resolution
    first.renew()
    second.drop()
    assert look(Root(any_shell, sudo=False), str(folder)).holder == "firster@controller"
    first.drop()
    second.take()


def test_a_restarted_controller_finds_its_own_lease_again(shell: Shell, folder: Path) -> None:
    lease(shell, folder, "first", token="same").take()
    assert lease(shell, folder, "first", token="same").take() is None


def test_a_dead_sessions_lease_expires_and_the_next_one_learns_whose_it_was(shell: Shell, folder: Path) -> None:
    dead, heir = lease(shell, folder, "dead"), lease(shell, folder, "heir")
    dead.take()
    set_until(folder, 1000)
    assert look(Root(shell, sudo=False), str(folder)).state == "expired"
    was = heir.take()
    assert was is not None
    assert (was.holder, was.session) == ("deader@controller", "dead")
    with pytest.raises(LeaseError, match="was lost: it is held by heirer@controller"):
        dead.renew()
    dead.drop()
    heir.renew()


def test_a_forced_release_says_whose_it_was_and_the_holder_notices(shell: Shell, folder: Path) -> None:
    holder = lease(shell, folder, "first")
    holder.take()
    was = force_release(Root(shell, sudo=False), str(folder))
    assert (was.state, was.session) == ("held", "first")
    assert str(look(Root(shell, sudo=False), str(folder))) == "free"
    with pytest.raises(LeaseError, match="released by force"):
        holder.renew()


def test_of_two_that_ask_in_the_same_moment_one_gets_it(sshd: Sshd, folder: Path) -> None:
    for _ in range(4):
        shells = [Shell(sshd.target, limits=QUICK) for _ in range(3)]
        got: list[str] = []
        start = threading.Barrier(3)

        def ask(shell: Shell, name: str, start: threading.Barrier = start, got: list[str] = got) -> None:
            shell.connect()
            start.wait()
            try:
                lease(shell, folder, name).take()
            except LeaseError:
                return
            got.append(name)

        threads = [threading.Thread(target=ask, args=(shell, f"s{n}")) for n, shell in enumerate(shells)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(got) == 1
        assert look(Root(shells[0], sudo=False), str(folder)).session == got[0]
        force_release(Root(shells[0], sudo=False), str(folder))
        for shell in shells:
            shell.close()


def test_a_holder_that_renews_while_its_dead_lease_is_taken_over_does_not_share_the_machine(
    shell: Shell, folder: Path
) -> None:
    holder, heir = lease(shell, folder, "old"), lease(shell, folder, "new")
    holder.take()
    set_until(folder, 1000)
    heir.take()
    # As if its renewal had begun a moment before: the record of the old generation is back, and valid.
    [record] = folder.glob("lease.*")
    number = int(record.suffix[1:])
    (folder / f"lease.{number - 1}").write_text(f"{holder._token} 99999999999\nolder@controller\nold\n")
    with pytest.raises(LeaseError, match="was lost"):
        holder.renew()
    heir.renew()


def test_a_record_cut_short_by_a_crash_is_no_lease_and_one_half_written_is_not_seen(shell: Shell, folder: Path) -> None:
    folder.mkdir(parents=True)
    (folder / "part.abc.1").write_text("abc 99999999999\n")
    (folder / "lease.7").write_text("")
    lease(shell, folder, "first").take()
    assert look(Root(shell, sudo=False), str(folder)).session == "first"


def test_a_folder_that_cannot_be_made_is_the_machines_own_word(shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(MachineError, match=r"File exists|Not a directory|cannot create directory"):
        lease(shell, tmp_path / "file" / "lease", "first").take()

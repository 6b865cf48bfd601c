"""`bisector lab attach`, as a person types it, to boxes with a real sshd: one behind another, and one that is wrong."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from lab.fakebox import DEFAULT_RELEASE, USABLE, WHY_NOT, FakeBox, running_box
from lab.machines import Sshd

from bisector.cli.attach import Asking, Attach, Wanted
from bisector.lab.hostkey import offered_key
from bisector.lab.survey import Grade
from bisector.recipe.lab import load_lab
from bisector.recipe.machines import SshMachine

pytestmark = pytest.mark.skipif(not USABLE, reason=WHY_NOT)


@pytest.fixture(scope="module")
def box(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FakeBox]:
    with running_box(tmp_path_factory.mktemp("lab") / "box") as box:
        yield box


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "lab.yaml"


def typed(box: FakeBox, file: Path, *more: str) -> tuple[str, ...]:
    where = ("--address", "127.0.0.1", "--port", str(box.port), "--key", str(box.root / "user_key"))
    return ("lab", "attach", "box1", *where, "--file", str(file), *more)


def fingerprint(box: FakeBox) -> str:
    return offered_key("127.0.0.1", box.port).fingerprint


def test_a_new_machine_is_looked_at_proven_and_its_entry_written(run: Callable, box: FakeBox, file: Path) -> None:
    file.write_text("# the lab\nmachines:\n  - {kind: embedded, name: guest}   # ours\n")
    boots = len(box.boots)
    said = run(
        *typed(box, file, "--fingerprint", fingerprint(box), "--tag", "fast", "--power-cycle", box.power_command),
        *("--prove", "--prove-power", "--yes"),
    )
    assert said.code == 0, said.out + said.err
    assert file.read_text().startswith(
        "# the lab\nmachines:\n  - {kind: embedded, name: guest}   # ours\n  - kind: ssh\n"
    )
    guest, machine = load_lab(file).machines
    assert guest.name == "guest"
    assert isinstance(machine, SshMachine)
    assert (machine.boot.method, machine.tags, machine.user, machine.sudo) == ("grub", ("fast",), "root", False)
    assert machine.host_key == (box.host_public,)
    assert list(machine.facts) == ["cpu"]
    lines = [line for line in said.out.splitlines() if line.startswith(("pass", "note", "fail"))]
    assert [line[6:20].strip() for line in lines] == [
        *("host key", "login", "root", "boot method", "programs", "uploads", "lease", "alone", "space"),
        *("initramfs", "quiet"),
        *(
            "default kernel",
            "one-shot boot",
            "proof",
            "governor",
            "power",
            "watchdog",
            "console",
            "facts",
            "one-shot boot",
            "power",
        ),
    ]
    assert "proven: set, booted, cleared" in said.out
    assert "proven: cut, and booted anew" in said.out
    # Its own entry of the default kernel, then the power cut; the machine is left on its default, free.
    assert [line.split(":")[0] for line in box.boots[boots:]] == ["reboot", "cut"]
    assert (box.release, box.leased, box.environment.get("next_entry", "")) == (DEFAULT_RELEASE, False, "")
    assert run("lab", "check", "box1", "--file", str(file)).code == 0


def test_a_machine_that_could_not_be_given_back_after_the_proof_is_told_with_what_to_type(
    run: Callable, box: FakeBox, file: Path
) -> None:
    # While its power is cut, somebody takes its lease by force.
    taken = f"find {box.root} -name 'lease.*' -exec sed -i '1s/^[^ ]*/theirs/' {{}} +"
    said = run(
        *typed(box, file, "--fingerprint", fingerprint(box), "--power-cycle", f"{box.power_command} && {taken}"),
        *("--prove-power", "--yes"),
    )
    assert said.code == 0, said.out + said.err
    told = said.out[said.out.index("note  given back") :]
    assert " ".join(told.split()).startswith("note given back box1 was not given back: ")
    assert "Agree with whoever took the machine" in told[: told.index("box1 is attached")]
    assert box.leased
    assert run("lab", "release", "box1", "--file", str(file), "--force").code == 0
    assert not box.leased


def test_a_dry_run_prints_the_entry_and_changes_nothing(run: Callable, box: FakeBox, file: Path) -> None:
    boots, before = len(box.boots), box.editenv("list")
    said = run(*typed(box, file, "--yes", "--prove", "--dry-run"))
    assert said.code == 0, said.out + said.err
    assert "believed at first sight (--yes)" in said.out
    assert "Nothing was written. The entry would be:" in said.out
    assert "    - kind: ssh\n      name: box1\n" in said.out
    assert not file.exists()
    assert (len(box.boots), box.editenv("list"), box.leased) == (boots, before, False)


def failed(said: str) -> list[str]:
    return [line for line in said.splitlines() if line.startswith("fail")]


@pytest.mark.parametrize(
    ("options", "requirement", "words"),
    [
        (("--fingerprint", "SHA256:AAAA"), "host key", "not SHA256:AAAA as expected"),
        ((), "host key", "which nobody vouches for"),
        (("--yes", "--user", "nobody"), "root", "id -u ended with 1"),
        (("--yes", "--user", "no-such-user"), "login", "refuses no-such-user"),
        (("--yes", "--boot", "kexec"), "boot method", "kexec"),
        (("--yes", "--boot", "systemd-boot"), "boot method", "systemd-boot cannot be trusted here"),
    ],
)
def test_what_fails_is_told_with_its_mend_and_nothing_is_written(
    run: Callable, box: FakeBox, file: Path, options: tuple[str, ...], requirement: str, words: str
) -> None:
    said = run(*typed(box, file, *options))
    assert said.code == 3
    [line] = failed(said.out)
    assert line[6:20].strip() == requirement
    assert words in line
    assert said.out.splitlines()[-2].startswith(" " * 22), "there is no mend"
    assert "box1 was not attached, nothing was written" in said.out
    assert not file.exists()


def test_a_machine_that_does_not_answer_and_one_whose_boot_cannot_be_trusted_are_refused(
    run: Callable, box: FakeBox, file: Path
) -> None:
    said = run("lab", "attach", "box1", "--address", "127.0.0.1", "--port", "1", "--key", str(box.root / "user_key"))
    assert said.code == 3
    assert "127.0.0.1:1 does not answer by SSH" in said.out
    (box.root / "probe/fs").write_text("btrfs\n")
    try:
        said = run(*typed(box, file, "--yes", "--json"))
    finally:
        (box.root / "probe/fs").write_text("ext2\n")
    assert said.code == 3
    told = json.loads(said.out)
    assert (told["entry"], told["written"]) == (None, None)
    last = told["findings"][-1]
    assert (last["requirement"], last["grade"]) == ("boot method", "fail")
    assert "GRUB cannot write its environment on btrfs" in last["seen"]
    assert "systemd-boot" in last["seen"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--power-off", "x"), "power"),
        (("--jump", "@gate"), "--jump @gate: must be USER@HOST"),
        (("--key", "/nowhere/id"), "there is no such file"),
    ],
)
def test_what_is_typed_wrong_is_refused_before_anything_is_contacted(
    run: Callable, box: FakeBox, file: Path, options: tuple[str, ...], words: str
) -> None:
    said = run(*typed(box, file), "--port", "1", *options)
    assert said.code == 2
    assert words in said.err
    assert said.out == ""


def test_a_name_that_is_taken_is_refused_with_its_place(run: Callable, box: FakeBox, file: Path) -> None:
    file.write_text("machines:\n  - {kind: embedded, name: box1}\n")
    said = run(*typed(box, file, "--yes"))
    assert said.code == 2
    assert f"{file}:2:5: there is a machine called box1 already" in said.err


def test_a_machine_behind_another_is_attached_through_it(
    run: Callable, box: FakeBox, file: Path, tmp_path: Path
) -> None:
    gate = Sshd(tmp_path / "gate")
    gate.start()
    try:
        seen = offered_key("127.0.0.1", gate.port).fingerprint
        jump = ("--jump", f"root@127.0.0.1:{gate.port}", "--jump-key", str(tmp_path / "gate/user_key"))
        said = run(*typed(box, file, *jump, "--jump-fingerprint", seen, "--yes"))
    finally:
        gate.stop()
    assert said.code == 0, said.out + said.err
    assert said.out.startswith(f"pass  jump host key   ed25519 {seen}, as expected\npass  host key ")
    [machine] = load_lab(file).machines
    assert isinstance(machine, SshMachine)
    assert machine.jump is not None
    assert (machine.jump.port, machine.jump.host_key) == (gate.port, (gate.host_public,))


class Sitting(Asking):
    """Somebody who answers as told."""

    def __init__(self, confirms: list[bool], line: str = "") -> None:
        super().__init__(interactive=True)
        self.confirms, self.line, self.asked = confirms, line, []

    def confirm(self, question: str) -> bool:
        self.asked.append(question)
        return self.confirms.pop(0)

    def text(self, question: str) -> str:
        self.asked.append(question)
        return self.line


def test_whoever_sits_there_is_asked_for_the_key_the_power_and_the_proofs(box: FakeBox, file: Path) -> None:
    wanted = Wanted(name="box1", address="127.0.0.1", port=box.port, key=box.root / "user_key", file=file)
    sitting = Sitting([True, False, False], box.power_command)
    done = Attach(wanted, lambda _: None, sitting).run()
    assert done.written == file
    assert done.entry is not None
    assert done.entry["power"] == {"cycle": box.power_command}
    asked = [question.split()[0] for question in sitting.asked]
    assert asked == [f"127.0.0.1:{box.port}", "A", "Reboot", "Cut"]
    assert fingerprint(box) in sitting.asked[0]
    file.unlink()
    done = Attach(wanted, lambda _: None, Sitting([False])).run()
    assert (done.entry, done.findings[-1].grade) == (None, Grade.FAIL)


def test_a_key_in_known_hosts_needs_no_vouching_and_another_one_is_refused(
    run: Callable, box: FakeBox, file: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    home = tmp_path / "home"
    (home / ".ssh").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(home))
    known = home / ".ssh/known_hosts"
    known.write_text(f"[127.0.0.1]:{box.port} {box.host_public}\n")
    said = run(*typed(box, file))
    assert said.code == 0, said.out
    assert "as in ~/.ssh/known_hosts" in said.out
    file.unlink()
    known.write_text(
        f"[127.0.0.1]:{box.port} ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBB\n"
    )
    said = run(*typed(box, file, "--yes"))
    assert said.code == 3
    assert "but ~/.ssh/known_hosts has another one" in said.out
    assert not file.exists()

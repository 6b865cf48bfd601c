import subprocess
from pathlib import Path

import pytest
from lab.machines import QUICK, Sshd, make_key

from bisector.lab.known_hosts import pinned_keys
from bisector.lab.ssh import ConnectError, Shell
from bisector.lab.target import target_of
from bisector.model.errors import MachineError
from bisector.recipe.machines import SshMachine

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIA"
OTHER = "ssh-rsa AAAAB3NzaC1yc2E"


def keys_of(tmp_path: Path, text: str, host: str = "lab", port: int = 22) -> tuple[str, ...]:
    (tmp_path / "known_hosts").write_text(text)
    return pinned_keys(tmp_path / "known_hosts", host, port)


@pytest.mark.parametrize(
    ("line", "host", "port"),
    [
        (f"lab {KEY}", "lab", 22),
        (f"LAB,192.0.2.1 {KEY} a comment", "lab", 22),
        (f"[lab]:2222 {KEY}", "lab", 2222),
        (f"*.example.org,!bad.example.org {KEY}", "good.example.org", 22),
        (f"[*.example.org]:2222 {KEY}", "a.example.org", 2222),
        (f"# {OTHER}\n\nother {OTHER}\nlab {KEY}", "lab", 22),
    ],
)
def test_a_line_that_names_the_host_pins_its_key(tmp_path: Path, line: str, host: str, port: int) -> None:
    assert keys_of(tmp_path, line + "\n", host, port) == (KEY,)


@pytest.mark.parametrize(
    ("line", "host", "port"),
    [
        (f"lab {KEY}", "lab", 2222),
        (f"[lab]:2222 {KEY}", "lab", 22),
        (f"*.example.org,!bad.example.org {KEY}", "bad.example.org", 22),
        (f"lab2 {KEY}", "lab", 22),
        ("lab ssh-ed25519", "lab", 22),
        (f"|1|notbase64|x {KEY}", "lab", 22),
    ],
)
def test_a_line_for_somebody_else_pins_nothing(tmp_path: Path, line: str, host: str, port: int) -> None:
    with pytest.raises(MachineError, match="pins no host key for") as caught:
        keys_of(tmp_path, line + "\n", host, port)
    assert f"ssh-keyscan -p {port} {host}" in caught.value.resolution


@pytest.mark.parametrize("name", ["lab", "[lab]:2222"])
def test_a_name_hashed_by_openssh_is_recognised(tmp_path: Path, name: str) -> None:
    public = make_key(tmp_path / "key")
    (tmp_path / "known_hosts").write_text(f"{name} {public}\n")
    subprocess.run(["ssh-keygen", "-q", "-H", "-f", str(tmp_path / "known_hosts")], check=True, capture_output=True)
    text = (tmp_path / "known_hosts").read_text()
    assert text.startswith("|1|")
    port = 22 if name == "lab" else 2222
    assert pinned_keys(tmp_path / "known_hosts", "lab", port) == (public,)
    with pytest.raises(MachineError):
        pinned_keys(tmp_path / "known_hosts", "lab", 2223)


def test_a_revoked_key_is_not_pinned_and_a_certificate_authority_is_said_to_be_unsupported(tmp_path: Path) -> None:
    assert keys_of(tmp_path, f"lab {KEY}\nlab {OTHER}\n@revoked * {OTHER}\n") == (KEY,)
    with pytest.raises(MachineError) as caught:
        keys_of(tmp_path, f"@cert-authority * {OTHER}\nlab {KEY}\n@revoked lab {KEY}\n")
    assert caught.value.details == "1 key(s) of it are revoked; 1 line(s) are @cert-authority, which is not supported"


def entry(server: Sshd, **changes: object) -> SshMachine:
    target = server.target
    known = {"host": target.host, "port": target.port, "user": target.user, "key": str(target.key)}
    whole = {"kind": "ssh", "name": "box", **known, "boot": {"method": "grub"}, **changes}
    return SshMachine.model_validate(whole)


def test_a_machine_behind_a_jump_host_is_reached_through_it(sshd: Sshd, tmp_path: Path) -> None:
    behind = Sshd(tmp_path / "behind")
    behind.start()
    try:
        hop = {"host": "127.0.0.1", "port": sshd.port, "user": sshd.target.user, "key": str(sshd.target.key)}
        config = entry(behind, host_key=(behind.host_public,), jump={**hop, "host_key": (sshd.host_public,)})
        shell = Shell(target_of(config), limits=QUICK)
        said = shell.check(("sh", "-c", "echo $SSH_CONNECTION"), timeout_s=20)
        assert said.split()[3] == str(behind.port)
        assert len(sshd.sessions()) > 0
        sshd.stop()
        with pytest.raises(MachineError, match="lost"):
            shell.check(("true",), timeout_s=5)
        with pytest.raises(ConnectError, match=r"box's jump host .* does not answer"):
            shell.connect()
    finally:
        behind.stop()


def test_a_jump_host_with_a_foreign_key_is_refused_by_its_own_name(sshd: Sshd, tmp_path: Path) -> None:
    foreign = make_key(tmp_path / "foreign")
    hop = {"host": "127.0.0.1", "port": sshd.port, "user": sshd.target.user, "key": str(sshd.target.key)}
    config = entry(sshd, host_key=(sshd.host_public,), jump={**hop, "host_key": (foreign,)})
    with pytest.raises(ConnectError, match=r"box's jump host \(127.0.0.1:\d+\) answers with another host key"):
        Shell(target_of(config), limits=QUICK).connect()

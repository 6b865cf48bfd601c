import hashlib
import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import paramiko
import pytest
from lab.machines import QUICK, Sshd, make_key, running, some_seconds, wait_until

from bisector.lab.ssh import CommandResult, ConnectError, Shell
from bisector.model.errors import KernelError, MachineError
from bisector.model.outcome import Outcome


def fingerprint(public: str) -> str:
    kind, blob = public.split()[:2]
    return str(paramiko.hostkeys.HostKeyEntry.from_line(f"x {kind} {blob}").key.fingerprint)


def test_a_failing_command_is_an_answer_with_its_code_and_both_streams(any_shell: Shell) -> None:
    result = any_shell.run(("sh", "-c", "echo out; echo err >&2; exit 7"), timeout_s=20)
    assert result == CommandResult(exit_code=7, stdout="out\n", stderr="err\n")


def test_arguments_arrive_exactly_as_given(any_shell: Shell) -> None:
    awkward = ["", " ", "a b", "'", '"', "$HOME", "`id`", "*", "\\", "a\nb", "-n", "--", "ö€", "!x", "~", ";true", "&"]
    script = 'for a in "$@"; do printf "%s\\0" "$a"; done'
    said = any_shell.check(("sh", "-c", script, "args", *awkward), timeout_s=20)
    assert said.split("\0")[:-1] == awkward


def test_bytes_that_are_not_utf8_are_replaced_and_not_fatal(shell: Shell) -> None:
    result = shell.run(("sh", "-c", r"printf 'caf\351'; printf '\377' >&2"), timeout_s=20)
    assert (result.stdout, result.stderr) == ("caf�", "�")


def test_megabytes_on_both_streams_do_not_block_each_other(shell: Shell) -> None:
    script = "head -c 3000000 /dev/zero | tr '\\0' e >&2; head -c 3000000 /dev/zero | tr '\\0' o"
    result = shell.run(("sh", "-c", script), timeout_s=60)
    assert (result.stdout, result.stderr) == ("o" * 3_000_000, "e" * 3_000_000)


def test_fifty_commands_fit_through_one_connection(sshd: Sshd, shell: Shell) -> None:
    for number in range(50):
        assert shell.check(("echo", str(number)), timeout_s=20) == f"{number}\n"
    assert (sshd.folder / "log").read_text().count("Accepted publickey") == 1


def test_another_host_key_is_refused_and_both_fingerprints_are_named(sshd: Sshd, tmp_path: Path) -> None:
    pinned = make_key(tmp_path / "other")
    with pytest.raises(ConnectError) as caught:
        Shell(replace(sshd.target, host_keys=(pinned,)), limits=QUICK).run(("true",), timeout_s=5)
    assert caught.value.stage == "host_key"
    assert fingerprint(pinned) in caught.value.details
    assert fingerprint(sshd.host_public) in caught.value.details
    assert "Accepted" not in (sshd.folder / "log").read_text()


def test_a_host_key_that_changes_between_two_connections_is_refused(sshd: Sshd, shell: Shell) -> None:
    shell.connect()
    sshd.stop()
    (sshd.folder / "host_key").unlink()
    make_key(sshd.folder / "host_key")
    sshd.start()
    with pytest.raises(ConnectError) as caught:
        shell.connect()
    assert caught.value.stage == "host_key"


def test_a_machine_without_a_pinned_key_is_never_trusted(sshd: Sshd) -> None:
    with pytest.raises(ConnectError) as caught:
        Shell(replace(sshd.target, host_keys=()), limits=QUICK).connect()
    assert caught.value.stage == "host_key"


def test_a_refused_login_is_told_apart_from_a_silent_machine(sshd: Sshd, tmp_path: Path) -> None:
    make_key(tmp_path / "stranger")
    with pytest.raises(ConnectError) as caught:
        Shell(replace(sshd.target, key=tmp_path / "stranger"), limits=QUICK).connect()
    assert caught.value.stage == "login"
    sshd.stop()
    with pytest.raises(ConnectError) as caught:
        Shell(sshd.target, limits=QUICK).connect()
    assert caught.value.stage == "reach"


def test_a_port_that_accepts_and_says_nothing_is_given_up_in_time(sshd: Sshd) -> None:
    with socket.create_server(("127.0.0.1", 0)) as mute:
        target = replace(sshd.target, port=mute.getsockname()[1])
        started = time.monotonic()
        with pytest.raises(ConnectError) as caught:
            Shell(target, limits=replace(QUICK, banner_s=1)).connect()
    assert caught.value.stage == "reach"
    assert time.monotonic() - started < 5


def test_the_users_ssh_settings_decide_nothing(sshd: Sshd, shell: Shell) -> None:
    folder = Path(os.environ["HOME"]) / ".ssh"
    folder.mkdir()
    (folder / "config").write_text("Host *\n  HostName 203.0.113.1\n  Port 1\n  User nobody\n  ProxyCommand false\n")
    assert shell.check(("echo", "here"), timeout_s=20) == "here\n"


def test_nothing_is_read_from_our_standard_input(sshd: Sshd) -> None:
    target = sshd.target
    program = (
        "import sys\nfrom pathlib import Path\nfrom bisector.lab.ssh import Shell, Target\n"
        f"target = Target(name='m', host='127.0.0.1', port={target.port}, user={target.user!r},"
        f" key=Path({str(target.key)!r}), host_keys=({target.host_keys[0]!r},))\n"
        "Shell(target).run(('sleep', '0.3'), timeout_s=10)\nprint(sys.stdin.read(), end='')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], input="a\nb\nc\n", capture_output=True, text=True, timeout=60
    )
    assert done.stdout == "a\nb\nc\n", done.stderr


def test_a_timed_out_command_leaves_nothing_running(any_shell: Shell) -> None:
    span = some_seconds()
    started = time.monotonic()
    with pytest.raises(MachineError, match="did not end within 1 s"):
        any_shell.run(("sleep", span), timeout_s=1)
    assert time.monotonic() - started < 8
    wait_until(lambda: not running(f"\0{span}\0"), limit_s=5)


def test_a_connection_killed_in_mid_command_is_an_error_and_not_an_exit_code(sshd: Sshd, shell: Shell) -> None:
    shell.connect()
    killer = threading.Timer(0.5, sshd.signal_sessions, (signal.SIGKILL,))
    killer.start()
    started = time.monotonic()
    with pytest.raises(MachineError, match="was lost"):
        shell.run(("sleep", "30"), timeout_s=40)
    assert time.monotonic() - started < 10
    assert shell.check(("echo", "back"), timeout_s=20) == "back\n"


def test_whoever_can_explain_a_loss_is_asked_first(sshd: Sshd) -> None:
    def explain() -> None:
        raise KernelError("panic", outcome=Outcome.CRASHED)

    shell = Shell(sshd.target, limits=QUICK, explain_loss=explain)
    shell.connect()
    threading.Timer(0.3, sshd.signal_sessions, (signal.SIGKILL,)).start()
    with pytest.raises(KernelError, match="panic"):
        shell.run(("sleep", "30"), timeout_s=40)


def test_a_frozen_machine_ends_a_command_at_its_deadline(sshd: Sshd, shell: Shell) -> None:
    steps: tuple[Callable[[], object], ...] = (
        lambda: shell.run(("true",), timeout_s=1),
        lambda: shell.follow(("true",), timeout_s=1, tick=lambda: None, tick_s=0.1),
        lambda: shell.read_text("/etc/passwd"),
    )
    shell.limits = replace(QUICK, channel_s=1, transfer_s=1)
    for step in steps:
        shell.connect()
        sshd.signal_sessions(signal.SIGSTOP)
        started = time.monotonic()
        try:
            with pytest.raises(MachineError, match="was lost"):
                step()
        finally:
            sshd.signal_sessions(signal.SIGCONT)
        assert time.monotonic() - started < 8


def test_a_command_that_kills_itself_is_told_from_a_lost_machine(any_shell: Shell) -> None:
    assert any_shell.run(("sh", "-c", "kill -9 $$"), timeout_s=20).exit_code == 137


def test_an_upload_arrives_whole_with_its_mode_and_leaves_no_parts(any_shell: Shell, tmp_path: Path) -> None:
    local, there = tmp_path / "suite", tmp_path / "there"
    there.mkdir()
    local.write_bytes(os.urandom(300_000))
    (there / "suite").write_text("old")
    any_shell.put(local, str(there / "suite"), 0o755)
    assert hashlib.sha256((there / "suite").read_bytes()).digest() == hashlib.sha256(local.read_bytes()).digest()
    assert (there / "suite").stat().st_mode & 0o777 == 0o755
    assert [path.name for path in there.iterdir()] == ["suite"]


def test_an_upload_that_arrives_damaged_leaves_the_old_file(sshd: Sshd, tmp_path: Path) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "sha256sum").write_text('#!/bin/sh\necho "0000  $1"\n')
    (tools / "sha256sum").chmod(0o755)
    sshd.stop()
    sshd.path = f"{tools}:{sshd.path}"
    sshd.start()
    target = tmp_path / "there" / "suite"
    target.parent.mkdir()
    target.write_text("old")
    (tmp_path / "new").write_text("new")
    with pytest.raises(MachineError, match="arrived damaged"):
        Shell(sshd.target, limits=QUICK).put(tmp_path / "new", str(target))
    assert target.read_text() == "old"
    assert [path.name for path in target.parent.iterdir()] == ["suite"]


@pytest.mark.skipif(os.getuid() != 0 or not shutil.which("mount"), reason="mounting a small disk needs root")
def test_a_full_disk_is_the_machines_trouble_and_its_free_space_is_shown(shell: Shell, tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(disk)], check=False).returncode:
        pytest.skip("may not mount here")
    try:
        (tmp_path / "big").write_bytes(b"x" * 400_000)
        with pytest.raises(MachineError) as caught:
            shell.put(tmp_path / "big", str(disk / "big"))
        assert list(disk.iterdir()) == []
    finally:
        subprocess.run(["umount", str(disk)], check=True)
    assert "Available" in caught.value.details


def test_files_whose_size_lies_are_read_to_their_end(shell: Shell) -> None:
    assert shell.read_text("/proc/sys/kernel/ostype") == "Linux\n"
    with pytest.raises(MachineError, match="no such file"):
        shell.read_text("/nowhere")
    with pytest.raises(MachineError, match="larger than 10 bytes"):
        shell.read_bytes("/etc/passwd", limit_bytes=10)


def test_a_download_is_whole_or_not_there(shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "remote").write_bytes(b"\xff\x00log")
    shell.get(str(tmp_path / "remote"), tmp_path / "local")
    assert (tmp_path / "local").read_bytes() == b"\xff\x00log"
    with pytest.raises(MachineError):
        shell.get(str(tmp_path / "missing"), tmp_path / "other")
    assert not (tmp_path / "other").exists()


def test_following_a_silent_command_ticks_and_ends_with_it(shell: Shell) -> None:
    ticks: list[float] = []
    argv = shlex.split("sleep 0.5")
    assert shell.follow(argv, timeout_s=20, tick=lambda: ticks.append(0), tick_s=0.1)
    assert 2 <= len(ticks) <= 20
    assert not shell.follow(("sleep", "5"), timeout_s=0.3, tick=lambda: None, tick_s=0.1)

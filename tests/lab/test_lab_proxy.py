"""What the lab makes of a network that freezes, resets and swallows, each within a stated time."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from lab.controllers import proven_in
from lab.fakebox import DEFAULT_RELEASE, FakeBox, fake_kernel
from lab.machines import QUICK, Sshd, some_seconds
from lab.proxy import Proxy, proxy_to

from bisector.lab.jobs import Jobs
from bisector.lab.physical import PhysicalMachine
from bisector.lab.ssh import ConnectError, Limits, Shell
from bisector.model.errors import MachineError

# The answer has half as long: a busy computer may need seconds for it.
PULSE = replace(QUICK, pulse_s=4.0)


@pytest.fixture
def proxy(sshd: Sshd) -> Iterator[Proxy]:
    with proxy_to(sshd.port) as proxy:
        yield proxy


def shell_through(proxy: Proxy, sshd: Sshd, limits: Limits = PULSE) -> Shell:
    return Shell(replace(sshd.target, port=proxy.listens_at), limits=limits)


@contextmanager
def within(limit_s: float) -> Iterator[None]:
    started = time.monotonic()
    yield
    assert time.monotonic() - started < limit_s


def test_a_frozen_connection_is_noticed_long_before_the_command_would_end(sshd: Sshd, proxy: Proxy) -> None:
    shell = shell_through(proxy, sshd)
    shell.connect()
    threading.Timer(0.3, proxy.freeze).start()
    with within(25), pytest.raises(MachineError, match="was lost"):
        shell.run(("sleep", "500"), timeout_s=600)
    proxy.thaw()
    assert shell.check(("echo", "back"), timeout_s=20) == "back\n"
    shell.close()


def test_a_frozen_connection_is_noticed_while_a_job_is_awaited(sshd: Sshd, proxy: Proxy) -> None:
    shell = shell_through(proxy, sshd)
    shell.connect()
    threading.Timer(0.3, proxy.freeze).start()
    with within(25), pytest.raises(MachineError, match="was lost"):
        shell.follow(("sleep", some_seconds()), timeout_s=600, tick=lambda: None, tick_s=0.1)
    proxy.thaw()


def test_the_limits_notice_a_dead_machine_within_a_minute() -> None:
    limits = Limits()
    assert limits.pulse_s is not None
    assert limits.pulse_s * 1.5 < 60
    assert limits.silence_s < 60


def test_a_living_machine_that_is_silent_for_long_is_left_alone(sshd: Sshd, proxy: Proxy) -> None:
    shell = shell_through(proxy, sshd, replace(QUICK, pulse_s=2.0))
    assert shell.check(("sh", "-c", "sleep 5; echo done"), timeout_s=20) == "done\n"
    assert proxy.accepted == 1
    shell.close()


def test_a_server_that_accepts_and_says_nothing_ends_in_time_and_is_out_of_reach(sshd: Sshd, proxy: Proxy) -> None:
    proxy.swallow()
    shell = shell_through(proxy, sshd, replace(QUICK, banner_s=1))
    with within(25), pytest.raises(ConnectError) as caught:
        shell.connect()
    assert caught.value.stage == "reach"


def test_a_slow_network_is_no_lost_machine(sshd: Sshd, proxy: Proxy) -> None:
    proxy.delay_s = 0.1
    shell = shell_through(proxy, sshd)
    assert shell.check(("echo", "slow"), timeout_s=20) == "slow\n"
    shell.close()


@pytest.mark.parametrize("how", ["reset", "freeze"])
def test_an_upload_cut_in_the_middle_leaves_the_old_file_and_nothing_else(
    sshd: Sshd, proxy: Proxy, tmp_path: Path, how: str
) -> None:
    (tmp_path / "new").write_bytes(b"n" * (4 << 20))
    folder = tmp_path / "there"
    folder.mkdir()
    (folder / "image").write_bytes(b"old")
    cuts = []

    def cut(proxy: Proxy, sent_bytes: int) -> None:
        if sent_bytes > 1 << 20 and not cuts:
            cuts.append(sent_bytes)
            getattr(proxy, how)()

    proxy.on_upload = cut
    shell = shell_through(proxy, sshd, replace(PULSE, transfer_s=60))
    with within(60), pytest.raises(MachineError):
        shell.put(tmp_path / "new", str(folder / "image"))
    assert cuts
    proxy.thaw()
    assert (folder / "image").read_bytes() == b"old"
    # The next one succeeds.
    shell.put(tmp_path / "new", str(folder / "image"))
    assert (folder / "image").read_bytes() == (tmp_path / "new").read_bytes()
    shell.close()


def test_scenario_09_a_connection_lost_while_a_result_is_fetched_does_not_cost_the_run(
    sshd: Sshd, proxy: Proxy, tmp_path: Path
) -> None:
    class Struck(Shell):
        fetched = 0

        def read_bytes(self, remote: str, *, limit_bytes: int = 64 << 20) -> bytes:
            self.fetched += 1
            if self.fetched == 1:
                proxy.reset()
            return super().read_bytes(remote, limit_bytes=limit_bytes)

    shell = Struck(replace(sshd.target, port=proxy.listens_at), limits=PULSE)
    times = tmp_path / "times"
    result = Jobs(shell, root=str(tmp_path / "jobs")).run(("sh", "-c", f"echo once >>{times}; echo done"), timeout_s=60)
    assert result.stdout == b"done\n"
    assert times.read_text() == "once\n"
    assert shell.fetched >= 2
    shell.close()


@pytest.fixture
def before_box(box: FakeBox) -> Iterator[Proxy]:
    with proxy_to(box.port) as proxy:
        yield proxy


def machine_behind(proxy: Proxy, box: FakeBox, tmp_path: Path, **changes: object) -> PhysicalMachine:
    config = box.config(port=proxy.listens_at, boot_timeout_s=15.0, **changes)
    return PhysicalMachine(config, proven_in(tmp_path / "hunt"), session="hunt", limits=PULSE)


@pytest.mark.parametrize("how", ["reset", "freeze"])
def test_scenario_08_a_connection_lost_in_the_reboot_command_is_no_error(
    box: FakeBox, before_box: Proxy, tmp_path: Path, how: str
) -> None:
    machine = machine_behind(before_box, box, tmp_path)
    image = fake_kernel(tmp_path, 1)
    boots = box.on_order

    def lose(word: str) -> None:
        boots(word)
        if word == "reboot":
            getattr(before_box, how)()
            threading.Timer(2.0, before_box.thaw).start()

    box.on_order = lose
    with within(90):
        record = machine.boot(image, console=tmp_path / "console", on_progress=lambda _: None)
    assert record.boot_id == box.boot_id
    assert box.boots[1:] == [f"reboot: {image.release}"]
    box.on_order = boots
    machine.release()


@pytest.mark.parametrize("how", ["reset", "freeze"])
def test_scenario_09_a_job_outlives_a_network_that_fails_in_the_middle_and_runs_once(
    box: FakeBox, before_box: Proxy, tmp_path: Path, how: str
) -> None:
    machine = machine_behind(before_box, box, tmp_path)
    machine.boot(fake_kernel(tmp_path, 1), console=tmp_path / "console", on_progress=lambda _: None)
    threading.Timer(0.7, getattr(before_box, how)).start()
    threading.Timer(4.0, before_box.thaw).start()
    times = box.root / "times"
    with within(90):
        result = machine.jobs.run(("sh", "-c", "echo once >>/mnt/times; sleep 2; echo done"), timeout_s=60)
    assert result.stdout == b"done\n"
    assert times.read_text() == "once\n"
    machine.release()


def test_a_machine_is_given_back_although_the_network_fails_at_that_moment(
    box: FakeBox, before_box: Proxy, tmp_path: Path
) -> None:
    machine = machine_behind(before_box, box, tmp_path)
    machine.boot(fake_kernel(tmp_path, 1), console=tmp_path / "console", on_progress=lambda _: None)
    before_box.freeze()
    threading.Timer(4.0, before_box.thaw).start()
    with within(90):
        machine.release()
    assert (box.release, box.leased) == (DEFAULT_RELEASE, False)

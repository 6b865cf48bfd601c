import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from lab.machines import free_port, running, wait_until

from bisector.lab.process import GuestProcess, end_left_over, start_time
from bisector.lab.programs import QEMU, SETPRIV, missing_programs

pytestmark = pytest.mark.skipif(bool(missing_programs((QEMU, SETPRIV))), reason="needs qemu-system-x86 and util-linux")


def guest_argv(mark: str) -> list[str]:
    """A real QEMU that starts in a blink and waits: -S."""
    return [str(QEMU.path()), "-S", "-nodefaults", "-display", "none", "-m", "16", "-accel", "tcg", "-name", mark]


def alive(pid: int) -> bool:
    return start_time(pid) is not None


@pytest.fixture
def mark(tmp_path: Path) -> Iterator[str]:
    mark = f"guest-{os.getpid()}-{free_port()}"
    yield mark
    for pid in running(mark):
        os.kill(pid, signal.SIGKILL)


def test_a_guest_is_recorded_before_anybody_relies_on_it_and_forgotten_when_it_ends(tmp_path: Path, mark: str) -> None:
    guest = GuestProcess(tmp_path / "guest.json")
    guest.start(guest_argv(mark), stderr=tmp_path / "stderr")
    pid = guest.pid
    assert pid is not None
    told = json.loads((tmp_path / "guest.json").read_text())
    assert (told["pid"], told["start_time"]) == (pid, start_time(pid))
    wait_until(lambda: running(f"{mark}\0") == [pid] and "qemu" in str(Path(f"/proc/{pid}/exe").readlink()))
    assert os.getsid(pid) == pid
    assert guest.exit_code() is None
    guest.close()
    assert not alive(pid)
    assert not (tmp_path / "guest.json").exists()


def test_a_guest_survives_the_thread_that_asked_for_it(tmp_path: Path, mark: str) -> None:
    guest = GuestProcess(tmp_path / "guest.json")
    worker = threading.Thread(target=guest.start, args=(guest_argv(mark),), kwargs={"stderr": tmp_path / "stderr"})
    worker.start()
    worker.join()
    time.sleep(0.3)
    try:
        assert guest.exit_code() is None
    finally:
        guest.close()


CONTROLLER = """
import sys, time
from pathlib import Path
from bisector.lab.process import GuestProcess
folder = Path(sys.argv[1])
guest = GuestProcess(folder / "guest.json")
guest.start(sys.argv[2:], stderr=folder / "stderr")
print(guest.pid, flush=True)
time.sleep(600)
"""


def controller(folder: Path, argv: list[str]) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-c", CONTROLLER, str(folder), *argv], stdout=subprocess.PIPE, text=True)


def test_a_guest_dies_with_its_controller_by_kill_nine(tmp_path: Path, mark: str) -> None:
    process = controller(tmp_path, guest_argv(mark))
    assert process.stdout is not None
    pid = int(process.stdout.readline())
    assert alive(pid)
    process.kill()
    process.wait()
    wait_until(lambda: not alive(pid), limit_s=5)
    assert running(mark) == []
    assert (tmp_path / "guest.json").exists()
    assert end_left_over(tmp_path / "guest.json") is None
    assert not (tmp_path / "guest.json").exists()


def test_no_moment_of_death_leaves_a_guest_behind(tmp_path: Path, mark: str) -> None:
    for delay_s in (0.0, 0.002, 0.005, 0.01, 0.02, 0.05):
        process = controller(tmp_path, guest_argv(mark))
        # Its interpreter has started when it opens the file that takes the guest's errors.
        wait_until((tmp_path / "stderr").exists)
        time.sleep(delay_s)
        process.kill()
        process.wait()
        (tmp_path / "stderr").unlink(missing_ok=True)
        wait_until(lambda: running(mark) == [], limit_s=5)


def orphan(folder: Path, mark: str) -> subprocess.Popen[bytes]:
    """A QEMU that nobody's death ends, recorded as a controller would have."""
    process = subprocess.Popen(guest_argv(mark), stdin=subprocess.DEVNULL)
    wait_until(lambda: running(mark))
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    record = {"pid": process.pid, "start_time": start_time(process.pid), "host_boot": boot}
    (folder / "guest.json").write_text(json.dumps(record))
    return process


def test_a_left_over_guest_is_ended_on_recovery(tmp_path: Path, mark: str) -> None:
    process = orphan(tmp_path, mark)
    assert end_left_over(tmp_path / "guest.json") == process.pid
    assert process.wait(5) == -signal.SIGKILL
    assert not (tmp_path / "guest.json").exists()
    assert end_left_over(tmp_path / "guest.json") is None


@pytest.mark.parametrize("changed", [{"start_time": 1}, {"host_boot": "another boot"}])
def test_a_process_that_merely_got_the_same_number_is_left_alone(
    tmp_path: Path, mark: str, changed: dict[str, object]
) -> None:
    process = orphan(tmp_path, mark)
    record = json.loads((tmp_path / "guest.json").read_text())
    (tmp_path / "guest.json").write_text(json.dumps(record | changed))
    try:
        assert end_left_over(tmp_path / "guest.json") is None
        assert process.poll() is None
        assert not (tmp_path / "guest.json").exists()
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize("text", ["", "{}", "[1]", '{"pid": "x", "start_time": 1, "host_boot": ""}'])
def test_a_damaged_record_is_dropped_and_nothing_is_killed(tmp_path: Path, text: str) -> None:
    (tmp_path / "guest.json").write_text(text)
    assert end_left_over(tmp_path / "guest.json") is None
    assert not (tmp_path / "guest.json").exists()


def test_a_zombie_does_not_count_as_alive() -> None:
    process = subprocess.Popen(["true"])
    wait_until(lambda: b") Z " in Path(f"/proc/{process.pid}/stat").read_bytes())
    assert start_time(process.pid) is None
    process.wait()

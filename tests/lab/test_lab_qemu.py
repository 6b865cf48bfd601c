"""The embedded machine with real QEMUs. Most guests are half a kilobyte; those marked `kernel` boot Linux."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from lab.machines import HANG, RESET, real_kernel, running, tiny_kernel, wait_until

from bisector.lab import qemu
from bisector.lab.process import start_time
from bisector.lab.programs import missing_programs
from bisector.lab.qemu import EmbeddedMachine
from bisector.model.errors import KernelError, MachineError
from bisector.model.outcome import Outcome
from bisector.model.progress import Progress
from bisector.recipe.schema import EmbeddedMachine as Config

pytestmark = pytest.mark.skipif(
    bool(missing_programs()), reason=f"needs {', '.join(p.package for p in missing_programs())}"
)


def quiet(progress: Progress) -> None:
    pass


class Lab:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.console = folder / "console.log"
        self.machines: list[EmbeddedMachine] = []

    def machine(self, **changes: Any) -> EmbeddedMachine:
        wanted = {"kind": "embedded", "accelerator": "tcg", "boot_timeout_s": 60.0} | changes
        self.machines.append(EmbeddedMachine(Config.model_validate(wanted), self.folder / "machine"))
        return self.machines[-1]

    def guests(self) -> list[int]:
        return running(str(self.console))


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    lab = Lab(tmp_path)
    yield lab
    for machine in lab.machines:
        machine.release()
    assert lab.guests() == []


def test_a_panic_while_booting_is_a_crash_noticed_at_once_with_its_lines(lab: Lab) -> None:
    image = tiny_kernel(lab.folder / "bzImage", "boot\r\nKernel panic - not syncing: VFS\r\ntrace\r\n", then=RESET)
    started = time.monotonic()
    with pytest.raises(KernelError) as caught:
        lab.machine().boot(image, console=lab.console, on_progress=quiet)
    assert time.monotonic() - started < 15
    assert caught.value.outcome is Outcome.CRASHED
    assert caught.value.details == "Kernel panic - not syncing: VFS\ntrace"
    assert lab.console.read_bytes().startswith(b"boot\r\n")
    assert lab.guests() == []


def test_a_panic_that_does_not_reset_is_noticed_as_well(lab: Lab) -> None:
    image = tiny_kernel(lab.folder / "bzImage", "Kernel panic - not syncing: stuck\r\n", then=HANG)
    started = time.monotonic()
    with pytest.raises(KernelError) as caught:
        lab.machine().boot(image, console=lab.console, on_progress=quiet)
    assert caught.value.outcome is Outcome.CRASHED
    assert time.monotonic() - started < 15


def test_an_oops_while_booting_is_a_crash(lab: Lab) -> None:
    image = tiny_kernel(lab.folder / "bzImage", "BUG: kernel NULL pointer dereference\r\nOops: 0000\r\n", then=HANG)
    with pytest.raises(KernelError, match="oops") as caught:
        lab.machine().boot(image, console=lab.console, on_progress=quiet)
    assert caught.value.outcome is Outcome.CRASHED


def test_a_guest_that_hangs_fails_to_boot_after_the_recipes_time(lab: Lab) -> None:
    image = tiny_kernel(lab.folder / "bzImage", "starting\r\nlast words\r\n", then=HANG)
    words: list[str] = []
    with pytest.raises(KernelError) as caught:
        lab.machine(boot_timeout_s=6.0).boot(
            image, console=lab.console, on_progress=lambda progress: words.append(progress.text)
        )
    assert caught.value.outcome is Outcome.BOOT_FAILED
    assert "last words" in caught.value.details
    assert "boot_timeout_s" in caught.value.resolution
    assert any("last words" in word for word in words)


def test_a_guest_that_resets_without_a_word_fails_to_boot(lab: Lab) -> None:
    image = tiny_kernel(lab.folder / "bzImage", "early\r\n", then=RESET)
    with pytest.raises(KernelError, match="without a word") as caught:
        lab.machine().boot(image, console=lab.console, on_progress=quiet)
    assert caught.value.outcome is Outcome.BOOT_FAILED


def test_a_kernel_file_that_qemu_refuses_accuses_no_commit(lab: Lab) -> None:
    image = tiny_kernel(lab.folder / "bzImage", "")
    for path in (lab.folder / "missing", lab.folder / "empty"):
        (lab.folder / "empty").touch()
        with pytest.raises(MachineError, match="QEMU ended with 1"):
            lab.machine().boot(replace(image, path=str(path)), console=lab.console, on_progress=quiet)


def test_a_qemu_that_somebody_killed_accuses_no_commit(lab: Lab) -> None:
    image = tiny_kernel(lab.folder / "bzImage", "starting\r\n", then=HANG)
    for number in (signal.SIGKILL, signal.SIGTERM):
        machine = lab.machine()

        def kill(progress: Progress, number: signal.Signals = number) -> None:
            if "starting" in progress.text:
                for pid in lab.guests():
                    os.kill(pid, number)

        with pytest.raises(MachineError, match="QEMU"):
            machine.boot(image, console=lab.console, on_progress=kill)


def test_a_port_lost_between_choice_and_bind_is_chosen_anew(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    image = tiny_kernel(lab.folder / "bzImage", "Kernel panic - not syncing: reached\r\n", then=RESET)
    chosen: list[int] = []
    with socket.create_server(("127.0.0.1", 0)) as taken:
        free = qemu.free_port

        def choose() -> int:
            chosen.append(taken.getsockname()[1] if len(chosen) < 2 else free())
            return chosen[-1]

        monkeypatch.setattr(qemu, "free_port", choose)
        with pytest.raises(KernelError, match="reached"):
            lab.machine().boot(image, console=lab.console, on_progress=quiet)
        assert len(chosen) == 3
        monkeypatch.setattr(qemu, "free_port", lambda: int(taken.getsockname()[1]))
        with pytest.raises(MachineError, match="could not bind the port"):
            lab.machine().boot(image, console=lab.console, on_progress=quiet)


def test_a_free_port_can_be_bound() -> None:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", qemu.free_port()))


def test_the_recipe_decides_clock_memory_and_command_line(lab: Lab) -> None:
    places = {"kernel": Path("/k"), "initramfs": Path("/i"), "console": Path("/a,b"), "port": 1022}
    counted = lab.machine(clock="instructions", icount_shift=1, cmdline="mitigations=off").command(**places)  # type: ignore[arg-type]
    assert counted[counted.index("-icount") + 1] == "shift=1,align=off,sleep=off"
    assert counted[counted.index("-append") + 1].endswith(" mitigations=off")
    assert "nokaslr" in counted[-1]
    assert "tsc_early_khz" not in counted[-1]
    assert "file,id=console,path=/a,,b" in counted
    assert "user,id=net,restrict=on,hostfwd=tcp:127.0.0.1:1022-:22" in counted
    wall = lab.machine(clock="wall", memory_mib=768).command(**places)  # type: ignore[arg-type]
    assert "-icount" not in wall
    assert wall[wall.index("-m") + 1] == "768"


def test_without_a_guest_there_is_no_shell_and_release_is_harmless(lab: Lab) -> None:
    machine = lab.machine()
    machine.recover()
    machine.release()
    machine.release()
    machine.check()
    with pytest.raises(MachineError, match="no guest"):
        _ = machine.shell
    with pytest.raises(MachineError, match="no guest"):
        _ = machine.jobs


@pytest.mark.kernel
@pytest.mark.parametrize("clock", ["wall", "instructions"])
def test_a_real_kernel_boots_is_proven_and_works(lab: Lab, clock: str) -> None:
    image, machine = real_kernel(), lab.machine(clock=clock, cmdline="lab_test=1", boot_timeout_s=120.0)
    first = machine.boot(image, console=lab.console, on_progress=quiet)
    second = machine.boot(image, console=lab.console, on_progress=quiet)
    assert first.boot_id != second.boot_id
    assert (second.release, second.build_id) == (image.release, image.build_id)
    assert second.facts.differences(first.facts) == []
    facts = dict(first.facts.pairs)
    assert facts["accelerator"] == "tcg"
    assert facts["clock"].startswith(clock)
    assert facts["clocksource"] == "tsc"
    assert facts["cmdline"].endswith("lab_test=1")

    (lab.folder / "tool").write_text("#!/bin/sh\necho works\nexit 4\n")
    machine.put(lab.folder / "tool", "/tmp/tool", mode=0o755)
    result = machine.jobs.run(("/tmp/tool",), timeout_s=60)
    assert (result.exit_code, result.stdout) == (4, b"works\n")
    machine.shell.close()
    assert machine.shell.check(("nproc",), timeout_s=60) == "1\n"
    print(f"{clock}: boot to proof {first.duration_s:.1f} s, {second.duration_s:.1f} s")


@pytest.mark.kernel
def test_a_timed_out_job_in_a_guest_leaves_nothing_running(lab: Lab) -> None:
    machine = lab.machine(clock="wall")
    machine.boot(real_kernel(), console=lab.console, on_progress=quiet)
    with pytest.raises(MachineError, match="did not end within 2 s"):
        machine.jobs.run(("sh", "-c", "setsid sleep 77 & sleep 78"), timeout_s=2)
    assert "sleep 7" not in machine.shell.check(("ps",), timeout_s=60)


@pytest.mark.kernel
def test_another_build_of_the_same_release_is_the_wrong_kernel(lab: Lab) -> None:
    image = real_kernel()
    for wrong in (replace(image, build_id="ab" * 20), replace(image, release=image.release + "+")):
        with pytest.raises(KernelError) as caught:
            lab.machine(clock="wall").boot(wrong, console=lab.console, on_progress=quiet)
        assert caught.value.outcome is Outcome.WRONG_KERNEL
    assert lab.guests() == []


@pytest.mark.kernel
def test_a_real_panic_before_the_network_is_noticed_at_once(lab: Lab) -> None:
    machine = lab.machine(cmdline="rdinit=/bin/false", boot_timeout_s=120.0)
    started = time.monotonic()
    with pytest.raises(KernelError, match="Attempted to kill init") as caught:
        machine.boot(real_kernel(), console=lab.console, on_progress=quiet)
    assert caught.value.outcome is Outcome.CRASHED
    assert time.monotonic() - started < 40


@pytest.mark.kernel
def test_a_kernel_that_dies_under_a_job_is_a_crash_and_not_a_lost_connection(lab: Lab) -> None:
    image, machine = real_kernel(), lab.machine(clock="wall")
    machine.boot(image, console=lab.console, on_progress=quiet)
    started = time.monotonic()
    with pytest.raises(KernelError, match="reset the machine without a word, after") as caught:
        machine.jobs.run(("sh", "-c", "sleep 1; reboot -f"), timeout_s=100)
    assert caught.value.outcome is Outcome.CRASHED

    machine.boot(image, console=lab.console, on_progress=quiet)
    with pytest.raises(KernelError, match="BUG: Bad page state") as caught:
        machine.jobs.run(("sh", "-c", "echo '<0>BUG: Bad page state' >/dev/kmsg; sleep 200"), timeout_s=100)
    assert caught.value.outcome is Outcome.CRASHED
    machine.boot(image, console=lab.console, on_progress=quiet)
    with pytest.raises(KernelError, match="without a word"):
        machine.shell.run(("reboot", "-f"), timeout_s=60)
    assert time.monotonic() - started < 90


@pytest.mark.kernel
def test_a_guest_with_another_host_key_is_refused(lab: Lab) -> None:
    image, machine = real_kernel(), lab.machine(clock="wall")
    machine.boot(image, console=lab.console, on_progress=quiet)
    machine.release()
    # The key is replaced, but the user space still holds the old one: as if another guest had answered.
    keys, initramfs = lab.folder / "machine" / "keys", lab.folder / "machine" / "initramfs.cpio.gz"
    (keys / "host_key").unlink()
    newer = time.time() + 3600
    os.utime(initramfs, (newer, newer))
    with pytest.raises(MachineError, match="another host key") as caught:
        machine.boot(image, console=lab.console, on_progress=quiet)
    assert caught.value.details.count("SHA256:") == 2


CONTROLLER = """
import sys, time
from pathlib import Path
from lab.machines import real_kernel
from bisector.lab.qemu import EmbeddedMachine
from bisector.recipe.schema import EmbeddedMachine as Config
folder = Path(sys.argv[1])
machine = EmbeddedMachine(Config(kind="embedded", clock="wall", accelerator="tcg"), folder / "machine")
machine.boot(real_kernel(), console=folder / "console.log", on_progress=lambda progress: None)
print("booted", flush=True)
machine.jobs.run(("sleep", "500"), timeout_s=600)
"""


@pytest.mark.kernel
def test_kill_nine_of_a_controller_in_mid_job_leaves_no_guest(lab: Lab) -> None:
    real_kernel()
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    argv = [sys.executable, "-c", CONTROLLER, str(lab.folder)]
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, env=env)
    assert process.stdout is not None
    assert process.stdout.readline() == "booted\n"
    (pid,) = lab.guests()
    assert start_time(pid) is not None
    process.kill()
    process.wait()
    wait_until(lambda: start_time(pid) is None, limit_s=5)
    machine = lab.machine(clock="wall")
    machine.recover()
    assert not (lab.folder / "machine" / "guest.json").exists()
    machine.boot(real_kernel(), console=lab.console, on_progress=quiet)

"""The hardware watchdog, on a box whose /dev/watchdog0 is a pipe that this test reads as the hardware would.

A real driver and QEMU's device are tried in test_lab_debian_kernel.py.
"""

import os
import select
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from lab.controllers import proven_in
from lab.fakebox import DEFAULT_RELEASE, USABLE, WHY_NOT, FakeBox, fake_kernel
from lab.machines import QUICK, wait_until

from bisector.lab.physical import PhysicalMachine
from bisector.lab.survey import Finding, Grade, Survey
from bisector.model.errors import KernelError, MachineError
from bisector.model.machine import BootRecord

pytestmark = pytest.mark.skipif(not USABLE, reason=WHY_NOT)

_MOUNTS = """
mkdir -p /mnt/over
mount -t tmpfs over /mnt/over
mkdir /mnt/over/upper /mnt/over/work
mount -t overlay over -o lowerdir=/dev,upperdir=/mnt/over/upper,workdir=/mnt/over/work /dev
touch /dev/watchdog0
mount --bind /mnt/watchdog0 /dev/watchdog0
mount --bind /mnt/class /sys/class
"""

_WDCTL = '[ "$1 $3" = "-s /dev/watchdog0" ] && echo "$2" >/sys/class/watchdog/watchdog0/timeout'


class Hardware:
    """Counts from the first letter on, and resets the box when none came for too long. A reset disarms it."""

    def __init__(self, box: FakeBox, *, patience_s: float) -> None:
        self.about = box.root / "class/watchdog/watchdog0"
        self.fed = 0
        self._box, self._patience_s = box, patience_s
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._count, daemon=True)
        self.about.mkdir(parents=True)
        for name, content in (("identity", "Toy timer"), ("state", "inactive"), ("timeout", "30")):
            (self.about / name).write_text(f"{content}\n")
        os.mkfifo(box.root / "watchdog0")
        (box.root / "mounts").write_text(_MOUNTS)
        box.program("wdctl", _WDCTL)

    def __enter__(self) -> "Hardware":
        self._pipe = os.open(self._box.root / "watchdog0", os.O_RDWR | os.O_NONBLOCK)
        self._thread.start()
        return self

    def __exit__(self, *gone: object) -> None:
        self._end.set()
        self._thread.join(10)
        os.close(self._pipe)

    def _count(self) -> None:
        armed_in, until = 0, 0.0
        while not self._end.is_set():
            if select.select([self._pipe], [], [], 0.05)[0]:
                os.read(self._pipe, 100)
                self.fed += 1
                armed_in, until = len(self._box.boots), time.monotonic() + self._patience_s
                (self.about / "state").write_text("active\n")
            elif armed_in and (armed_in != len(self._box.boots) or time.monotonic() > until):
                if armed_in == len(self._box.boots):
                    self._box.crash()
                armed_in = 0
                (self.about / "state").write_text("inactive\n")


@pytest.fixture
def box(tmp_path: Path) -> Iterator[FakeBox]:
    box = FakeBox(tmp_path / "box")
    yield box
    box.close()


def boot(box: FakeBox, tmp_path: Path, **changes: object) -> tuple[PhysicalMachine, BootRecord]:
    config = box.config(power=None, watchdog_s=10, **changes)
    machine = PhysicalMachine(config, proven_in(tmp_path / "hunt"), session="hunt", limits=QUICK)
    record = machine.boot(fake_kernel(tmp_path, 1), console=tmp_path / "console", on_progress=lambda _: None)
    return machine, record


def test_a_test_kernel_that_hangs_is_reset_by_the_watchdog_into_the_default_kernel(
    box: FakeBox, tmp_path: Path
) -> None:
    with Hardware(box, patience_s=6.0) as hardware:
        box.start()
        machine, record = boot(box, tmp_path)
        facts = dict(record.facts.pairs)
        assert facts["watchdog"] == "Toy timer, 10 s"
        assert "systemd.watchdog_sec=10" in facts["cmdline"].split()
        wait_until(lambda: hardware.fed > 1)
        assert machine.jobs.run(("echo", "alive"), timeout_s=20).stdout == b"alive\n"
        # What a hang is to the hardware: nobody feeds it.
        box.run_inside('pkill -STOP -f "^sh -c exec 3>"')
        with pytest.raises(KernelError, match=f"rebooted by itself and runs {DEFAULT_RELEASE}"):
            machine.jobs.run(("sleep", "600"), timeout_s=60)
        assert box.boots[-1] == f"crash: {DEFAULT_RELEASE}"
        machine.release()


def test_a_watchdog_that_somebody_feeds_already_is_left_to_them(box: FakeBox, tmp_path: Path) -> None:
    with Hardware(box, patience_s=60.0) as hardware:
        (hardware.about / "state").write_text("active\n")
        box.start()
        machine, record = boot(box, tmp_path)
        assert dict(record.facts.pairs)["watchdog"] == "Toy timer, 30 s"
        assert hardware.fed == 0
        machine.release()


@pytest.mark.parametrize(
    ("identity", "words"),
    [("Software Watchdog", "there is no hardware watchdog"), (None, "there is no hardware watchdog")],
)
def test_a_test_kernel_without_the_watchdog_that_was_asked_for_is_the_labs_trouble(
    box: FakeBox, tmp_path: Path, identity: str | None, words: str
) -> None:
    with Hardware(box, patience_s=60.0) as hardware:
        (hardware.about / "identity").unlink()
        if identity is not None:
            (hardware.about / "identity").write_text(identity + "\n")
        box.start()
        with pytest.raises(MachineError, match=words):
            boot(box, tmp_path)


def test_the_check_and_the_facts_tell_of_it(box: FakeBox, tmp_path: Path) -> None:
    with Hardware(box, patience_s=60.0) as hardware:
        box.start()

        def found(watchdog_s: int | None) -> Finding:
            survey = Survey(box.config(watchdog_s=watchdog_s), limits=QUICK)
            try:
                return survey._finding("watchdog", lambda: survey._connect() and survey._watchdog())
            finally:
                survey.close()

        assert found(None).seen == "Toy timer, 30 s; watchdog_s: in its entry would use it"
        assert found(60).seen == "Toy timer, 30 s; resets a test kernel that hangs for 60 s"
        (hardware.about / "identity").unlink()
        assert (found(60).grade, found(None).grade) == (Grade.FAIL, Grade.PASS)

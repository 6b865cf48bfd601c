"""`bisector lab shell` in a real terminal (a pty that this test holds the other end of), on a box with a real sshd."""

import fcntl
import os
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from lab.fakebox import USABLE, WHY_NOT, FakeBox, running_box
from lab.machines import wait_until

pytestmark = pytest.mark.skipif(not USABLE, reason=WHY_NOT)


@pytest.fixture(scope="module")
def box(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FakeBox]:
    with running_box(tmp_path_factory.mktemp("lab") / "box") as box:
        yield box


def command(box: FakeBox, folder: Path, *more: str) -> list[str]:
    file = folder / "lab.yaml"
    file.write_text(yaml.safe_dump({"machines": [box.config().model_dump(mode="json")]}))
    return [sys.executable, "-m", "bisector.cli", "lab", "shell", "--file", str(file), "box1", *more]


class Terminal:
    """A terminal of 33 lines and 101 columns with a program in it."""

    def __init__(self, argv: list[str]) -> None:
        self.ours, theirs = os.openpty()
        self.resize(33, 101)
        self.before = termios.tcgetattr(self.ours)
        self.process = subprocess.Popen(
            ["setsid", "--ctty", *argv],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env={**os.environ, "TERM": "vt100"},
        )
        os.close(theirs)
        self.said = ""

    def resize(self, lines: int, columns: int) -> None:
        fcntl.ioctl(self.ours, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def type(self, text: str) -> None:
        os.write(self.ours, text.encode())

    def expect(self, pattern: str, *, limit_s: float = 60.0) -> str:
        """Read until the pattern has been said; what was said up to there is forgotten."""
        until = time.monotonic() + limit_s
        while not (found := re.search(pattern, self.said)):
            assert time.monotonic() < until, f"not said: {pattern!r}, but {self.said!r}"
            if select.select([self.ours], [], [], 0.2)[0]:
                try:
                    self.said += os.read(self.ours, 65536).decode(errors="replace")
                except OSError:
                    pytest.fail(f"the terminal was closed before {pattern!r}: {self.said!r}")
        self.said = self.said[found.end() :]
        return found[0]

    @property
    def restored(self) -> bool:
        return termios.tcgetattr(self.ours) == self.before

    def close(self) -> None:
        self.process.kill()
        self.process.wait(20)
        os.close(self.ours)


@pytest.fixture
def terminal(box: FakeBox, tmp_path: Path) -> Iterator[Terminal]:
    terminal = Terminal(command(box, tmp_path))
    try:
        # Typed ahead, and echoed as typed: the words looked for are made by the shell there.
        terminal.type("echo rea''dy\r")
        terminal.expect("ready")
        yield terminal
    finally:
        terminal.close()
        wait_until(lambda: not box.leased, limit_s=20)


def test_a_session_has_a_terminal_of_our_size_and_ends_with_its_exit_code(
    terminal: Terminal, box: FakeBox, tmp_path: Path
) -> None:
    assert box.leased
    assert not terminal.restored
    terminal.type("stty size; echo $TERM\r")
    terminal.expect(r"33 101\r\nvt100\r\n")
    terminal.resize(50, 132)
    terminal.type("stty size\r")
    terminal.expect(r"50 132\r\n")
    # Ctrl-C is the machine's.
    terminal.type("sleep 1000; echo int''errupted $?\r")
    time.sleep(0.5)
    terminal.type("\x03")
    terminal.type("echo still he''re\r")
    terminal.expect("still here")
    other = subprocess.run(command(box, tmp_path, "true"), capture_output=True, text=True, timeout=60)
    assert other.returncode == 3
    assert "box1 is held by " in other.stderr
    assert "session an interactive shell" in other.stderr
    terminal.type("exit 7\r")
    assert terminal.process.wait(30) == 7
    assert terminal.restored
    assert not box.leased


def test_a_session_that_is_ended_from_outside_gives_the_machine_and_the_terminal_back(
    terminal: Terminal, box: FakeBox
) -> None:
    # setsid became the program itself: as no leader of a group it had no need of a child.
    terminal.process.send_signal(signal.SIGTERM)
    assert terminal.process.wait(30) == 128 + signal.SIGTERM
    assert terminal.restored
    assert not box.leased


def test_a_machine_that_is_lost_ends_the_session_and_says_so(terminal: Terminal, box: FakeBox) -> None:
    box.drop_connections()
    terminal.expect("box1 was lost during the session")
    assert terminal.process.wait(30) == 3
    assert terminal.restored
    # Only the connection was lost: over a new one the lease was given back.
    assert not box.leased


def test_a_session_that_a_signal_ends_is_no_lost_machine(terminal: Terminal) -> None:
    terminal.type("kill -KILL $$\r")
    assert terminal.process.wait(30) == 255
    assert terminal.restored


def test_without_a_terminal_a_command_gets_our_input_and_none_of_its_bytes_is_changed(
    box: FakeBox, tmp_path: Path
) -> None:
    sent = bytes(range(256)) * 2000
    argv = command(box, tmp_path, "--", "cat; test -t 0 || exit 5")
    done = subprocess.run(argv, input=sent, capture_output=True, timeout=60)
    assert (done.returncode, done.stderr) == (5, b"")
    assert done.stdout == sent
    assert not box.leased


def test_a_machine_that_somebody_died_with_is_taken_over_and_that_is_told(box: FakeBox, tmp_path: Path) -> None:
    folder = box.root / "var/bisector/lease"
    folder.mkdir(parents=True, exist_ok=True)
    for record in folder.glob("lease.*"):
        record.unlink()
    (folder / "lease.4").write_text("abc 1000\nalice@desk\nfork-6.9\n")
    done = subprocess.run(
        command(box, tmp_path, "true"), capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL
    )
    assert done.returncode == 0
    assert "box1 was left by alice@desk, session fork-6.9: it may run a test kernel" in done.stderr
    assert not box.leased

import os
import signal
import threading
import time
from pathlib import Path

import pytest
from lab.machines import Sshd, running, some_seconds, wait_until

from bisector.lab.jobs import Jobs
from bisector.lab.ssh import Shell
from bisector.model.errors import KernelError, MachineError
from bisector.model.outcome import Outcome


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "jobs"


def test_a_job_gives_back_its_code_and_raw_output(any_shell: Shell, root: Path) -> None:
    jobs = Jobs(any_shell, root=str(root))
    result = jobs.run(("sh", "-c", r"printf 'a\000\377'; printf 'e\351' >&2; exit 7"), timeout_s=30)
    assert (result.exit_code, result.stdout, result.stderr) == (7, b"a\0\xff", b"e\xe9")
    assert 0 < result.duration_s < 30
    assert list(root.iterdir()) == []


def test_a_job_that_dies_by_a_signal_says_which(any_shell: Shell, root: Path) -> None:
    result = Jobs(any_shell, root=str(root)).run(("sh", "-c", "kill -SEGV $$"), timeout_s=30)
    assert result.exit_code == 128 + signal.SIGSEGV


def test_a_program_that_is_not_there_is_an_answer(any_shell: Shell, root: Path) -> None:
    result = Jobs(any_shell, root=str(root)).run(("/no/such/program", "x y"), timeout_s=30)
    assert result.exit_code != 0
    assert b"/no/such/program" in result.stderr


def test_a_jobs_arguments_arrive_exactly_as_given(any_shell: Shell, root: Path) -> None:
    awkward = ["", "a b", "'", '"', "$HOME", "`id`", "*", "\\", "a\nb", "--", ";true", "&", "-n"]
    result = Jobs(any_shell, root=str(root)).run(
        ("sh", "-c", 'for a in "$@"; do printf "%s\\0" "$a"; done', "args", *awkward), timeout_s=30
    )
    assert result.stdout.decode().split("\0")[:-1] == awkward


def test_a_job_reads_nothing_and_sees_an_empty_standard_input(any_shell: Shell, root: Path) -> None:
    assert Jobs(any_shell, root=str(root)).run(("cat",), timeout_s=30).stdout == b""


def test_megabytes_of_output_are_collected_whole(shell: Shell, root: Path) -> None:
    result = Jobs(shell, root=str(root)).run(("sh", "-c", "head -c 5000000 /dev/zero; exit 0"), timeout_s=60)
    assert result.stdout == b"\0" * 5_000_000


def test_a_job_outlives_its_connection_and_is_collected_afterwards(sshd: Sshd, any_shell: Shell, root: Path) -> None:
    any_shell.connect()
    threading.Timer(1.0, sshd.signal_sessions, (signal.SIGKILL,)).start()
    log = root.parent / "log"
    script = f"echo once >>{log}; sleep 2.5; echo done; exit 5"
    result = Jobs(any_shell, root=str(root)).run(("sh", "-c", script), timeout_s=30)
    assert (result.exit_code, result.stdout) == (5, b"done\n")
    assert log.read_text() == "once\n"
    assert (sshd.folder / "log").read_text().count("Accepted publickey") >= 2


def test_a_job_outlives_its_server(sshd: Sshd, shell: Shell, root: Path) -> None:
    shell.connect()

    def restart() -> None:
        sshd.stop()
        time.sleep(1.0)
        sshd.start()

    thread = threading.Timer(0.8, restart)
    thread.start()
    result = Jobs(shell, root=str(root)).run(("sh", "-c", "sleep 1.5; echo done"), timeout_s=30)
    thread.join()
    assert result.stdout == b"done\n"


def test_a_machine_that_stays_away_is_the_labs_trouble(sshd: Sshd, shell: Shell, root: Path) -> None:
    span = some_seconds()
    shell.connect()
    threading.Timer(0.5, sshd.stop).start()
    try:
        with pytest.raises(MachineError, match="does not answer"):
            Jobs(shell, root=str(root), reconnect_s=1.5).run(("sleep", span), timeout_s=60)
    finally:
        for pid in running(f"\0{span}\0"):
            os.kill(pid, signal.SIGKILL)


def test_a_job_whose_time_is_up_is_killed_with_all_its_children(any_shell: Shell, root: Path) -> None:
    span = some_seconds()
    script = f"setsid sleep {span} & (sleep {span} & sleep {span}) & echo begun >&2; sleep {span}"
    with pytest.raises(MachineError, match="did not end within 1 s") as caught:
        Jobs(any_shell, root=str(root)).run(("sh", "-c", script), timeout_s=1)
    assert "begun" in caught.value.details
    assert running(span) == []
    assert list(root.iterdir()) == []


def test_the_machine_ends_a_job_in_time_even_if_nobody_comes_back(any_shell: Shell, root: Path) -> None:
    span = some_seconds()
    jobs = Jobs(any_shell, root=str(root))
    job = jobs.start(("sleep", span), timeout_s=1)
    any_shell.close()
    wait_until(lambda: not running(f"\0{span}\0"), limit_s=10)
    wait_until(lambda: jobs.poll(job).kind == "timed_out")
    jobs.kill(job)


def test_a_finished_job_leaves_no_watch_behind(any_shell: Shell, root: Path) -> None:
    Jobs(any_shell, root=str(root)).run(("true",), timeout_s=4567)
    wait_until(lambda: not running("\0004567\0"), limit_s=5)


def test_the_same_job_started_twice_runs_once(any_shell: Shell, root: Path) -> None:
    jobs, log = Jobs(any_shell, root=str(root)), root.parent / "log"
    argv = ("sh", "-c", f"echo run >>{log}; sleep 0.5")
    first = jobs.start(argv, timeout_s=20, job_id="abc")
    assert jobs.start(argv, timeout_s=20, job_id="abc") == first
    wait_until(lambda: jobs.poll(first).kind == "ended")
    assert jobs.collect(first).exit_code == 0
    assert log.read_text() == "run\n"
    assert jobs.poll(first).kind == "gone"


def test_a_running_job_cannot_be_collected(shell: Shell, root: Path) -> None:
    span = some_seconds()
    jobs = Jobs(shell, root=str(root))
    job = jobs.start(("sleep", span), timeout_s=20)
    with pytest.raises(MachineError, match="running"):
        jobs.collect(job)
    jobs.kill(job)
    assert running(f"\0{span}\0") == []


def test_a_killed_keeper_is_noticed_without_waiting_for_the_time_limit(any_shell: Shell, root: Path) -> None:
    span = some_seconds()
    jobs = Jobs(any_shell, root=str(root))

    def kill_keeper() -> None:
        wait_until(lambda: list(root.glob("*/keeper")) and next(root.glob("*/keeper")).read_text())
        os.kill(int(next(root.glob("*/keeper")).read_text()), signal.SIGKILL)

    threading.Timer(1.0, kill_keeper).start()
    started = time.monotonic()
    with pytest.raises(MachineError, match="vanished"):
        jobs.run(("sleep", span), timeout_s=40)
    assert time.monotonic() - started < 20
    assert running(f"\0{span}\0") == []


def test_a_check_that_fails_ends_the_wait_at_once(shell: Shell, root: Path) -> None:
    span = some_seconds()
    polls: list[int] = []

    def check() -> None:
        polls.append(1)
        if len(polls) == 3:
            raise KernelError("panic", outcome=Outcome.CRASHED)

    started = time.monotonic()
    try:
        with pytest.raises(KernelError, match="panic"):
            Jobs(shell, root=str(root), check=check).run(("sleep", span), timeout_s=140)
    finally:
        for pid in running(f"\0{span}\0"):
            os.kill(pid, signal.SIGKILL)
    assert time.monotonic() - started < 20


def test_an_interrupted_run_leaves_nothing_on_the_machine(shell: Shell, root: Path) -> None:
    span = some_seconds()

    def interrupt() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Jobs(shell, root=str(root)).run(("sleep", span), timeout_s=40, on_poll=interrupt)
    assert running(f"\0{span}\0") == []
    assert list(root.iterdir()) == []


def test_the_keeper_sleeps_while_its_job_runs(shell: Shell, root: Path) -> None:
    """A keeper that polled would take the benchmark's only CPU away, once a second or more often."""
    switches: list[int] = []

    def count() -> None:
        for path in root.glob("*/keeper"):
            # Its own session: neither a terminal nor a server that clears up behind itself ends it.
            assert os.getsid(int(path.read_text())) == int(path.read_text())
            status = Path(f"/proc/{path.read_text().strip()}/status").read_text()
            switches.append(int(status.partition("\nvoluntary_ctxt_switches:")[2].split()[0]))

    Jobs(shell, root=str(root)).run(("sleep", "2"), timeout_s=30, on_poll=count)
    assert len(switches) >= 4
    assert switches[-1] - switches[1] == 0

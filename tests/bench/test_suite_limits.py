"""Limits and states in which a test cannot work: it fails or refuses, and prints no number."""

import os
import resource
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from tests.bench.conftest import Ended, RunSuite


def _assert_refused(ended: Ended, code: int, reason: str) -> None:
    assert ended.returncode == code, (ended.returncode, ended.stderr)
    assert b'"type":"sample"' not in ended.stdout
    assert b'"type":"end"' not in ended.stdout
    assert reason in ended.stderr.decode()


def test_a_file_size_limit_is_not_a_fast_page_fault(run_suite: RunSuite) -> None:
    def limit() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))

    ended = run_suite("run", "fault_file_shared", "--ops", "1024", preexec_fn=limit)
    _assert_refused(ended, 4, "ftruncate: File too large")


@pytest.mark.skipif(os.getuid() != 0, reason="only root may make namespaces here")
def test_a_full_file_system_is_not_a_fast_creation(suite: Path, tmp_path: Path) -> None:
    # Two inodes: the root folder and the test's private directory. There is none for its file.
    script = f'mount -t tmpfs -o nr_inodes=2 none "{tmp_path}" && exec "$0" run "$1" --ops "$2" --dir "{tmp_path}"'
    for name, ops in (("creat-clo", "1000"), ("link_test", "63"), ("disk_src", "75"), ("dir_rtns_1", "10000")):
        ended = subprocess.run(
            ["unshare", "-m", "sh", "-c", script, str(suite), name, ops], capture_output=True, check=False, timeout=30
        )
        _assert_refused(ended, 4, "No space left on device")


@pytest.mark.skipif(os.getuid() != 0, reason="only root may make namespaces here")
def test_a_file_system_without_room_for_the_copies_is_not_a_fast_series(suite: Path, tmp_path: Path) -> None:
    script = f'mount -t tmpfs -o size=400k none "{tmp_path}" && exec "$0" run patch_series --ops 99 --dir "{tmp_path}"'
    ended = subprocess.run(
        ["unshare", "-m", "sh", "-c", script, str(suite)], capture_output=True, check=False, timeout=30
    )
    _assert_refused(ended, 4, "cannot be written: No space left on device")


@pytest.mark.skipif(os.getuid() != 0 or shutil.which("unshare") is None, reason="only root may make namespaces here")
def test_without_a_loopback_interface_messages_are_refused(suite: Path) -> None:
    for name in ("tcp_test", "udp_test"):
        ended = subprocess.run(
            ["unshare", "-n", str(suite), "run", name, "--ops", "10"], capture_output=True, check=False, timeout=30
        )
        _assert_refused(ended, 4, "is the interface lo up?")


@pytest.mark.skipif(os.getuid() != 0 or shutil.which("unshare") is None, reason="only root may make namespaces here")
def test_a_program_that_the_machine_does_not_have_is_unsupported_and_no_number(suite: Path, tmp_path: Path) -> None:
    def run(hide: str, *arguments: str) -> Ended:
        script = f'{hide} && exec "$0" run "$@" --ops 1 --dir "{tmp_path}"'
        return subprocess.run(
            ["unshare", "-m", "sh", "-c", script, str(suite), *arguments], capture_output=True, check=False, timeout=30
        )

    nothing = "mount -t tmpfs none /usr/bin && if ! [ -L /bin ]; then mount -t tmpfs none /bin; fi"
    for name in ("shell_rtns_1", "fork_shell"):
        _assert_refused(run(nothing, name), 77, f"{name}: there is no shell /bin/sh: No such file")
    dynamic = ("exec_test", "--param", "variant=dynamic")
    _assert_refused(run(nothing, *dynamic), 77, "neither /usr/bin/true nor /bin/true is a dynamically linked program")
    # One that is there and static, as on a machine of busybox alone, would be another test under the same name.
    static = f'for at in /usr/bin/true /bin/true; do mount --bind "{suite}" $at; done'
    _assert_refused(run(static, *dynamic), 77, "neither /usr/bin/true nor /bin/true is a dynamically linked program")

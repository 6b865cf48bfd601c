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


@pytest.mark.skipif(os.getuid() != 0 or shutil.which("unshare") is None, reason="only root may make namespaces here")
def test_without_a_loopback_interface_messages_are_refused(suite: Path) -> None:
    for name in ("tcp_test", "udp_test"):
        ended = subprocess.run(
            ["unshare", "-n", str(suite), "run", name, "--ops", "10"], capture_output=True, check=False, timeout=30
        )
        _assert_refused(ended, 4, "is the interface lo up?")

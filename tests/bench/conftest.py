"""The suite, compiled once for all workers, and one way to run it."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bisector.bench.compile import build_suite

Ended = subprocess.CompletedProcess[bytes]
RunSuite = Callable[..., Ended]


def assert_no_number(ended: Ended | subprocess.Popen[bytes], stdout: bytes, stderr: bytes, code: int) -> None:
    """It ended with this code, gave no sample, and said why in the last line of standard error."""
    assert ended.returncode == code, (ended.returncode, stderr)
    assert b'"ok":true' not in stdout
    assert b'"type":"end"' not in stdout
    # A shell complains on its own account before that.
    assert stderr.splitlines()[-1].startswith(b"bisector-suite: ")


@pytest.fixture(scope="session")
def suite(tmp_path_factory: pytest.TempPathFactory) -> Path:
    # The parent is shared by the workers of one pytest; building is safe to do at once, and kept by digest.
    return build_suite(tmp_path_factory.getbasetemp().parent / "suite")


@pytest.fixture
def run_suite(suite: Path) -> RunSuite:
    def run(*arguments: str, program: Path = suite, **options: Any) -> Ended:
        return subprocess.run([str(program), *arguments], capture_output=True, timeout=60, check=False, **options)

    return run


@pytest.fixture
def lines() -> Callable[[Ended], list[dict[str, Any]]]:
    return lambda ended: [json.loads(line) for line in ended.stdout.splitlines()]

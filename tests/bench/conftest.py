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

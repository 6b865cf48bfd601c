"""Where the tests on real kernels find them: the home of a finished demonstration, named by BISECTOR_DEMO_HOME.

`sh tests/run.sh kernel` makes it if it is not named. Without it such a test fails: it must not pass unseen.
"""

import json
import os
from pathlib import Path
from typing import Any

import pytest

DEMO_HOME = "BISECTOR_DEMO_HOME"


def demo_home() -> Path:
    """The home in which `bisector demo` ended."""
    named = os.environ.get(DEMO_HOME)
    if not named or not (Path(named) / "demo" / "linux").is_dir():
        pytest.fail(f"{DEMO_HOME} must name the home of a finished demonstration; use: sh tests/run.sh kernel")
    return Path(named)


def home_with_kernels(folder: Path) -> Path:
    """A home of its own in `folder` that shares the demonstration's kernels, so that a hunt there costs no builds."""
    folder.mkdir(exist_ok=True)
    (folder / "kernels").symlink_to(demo_home() / "kernels")
    return folder


def demo_history() -> Path:
    """The demonstration's repository."""
    return demo_home() / "demo" / "linux"


def planted() -> dict[str, Any]:
    """What was planted in it: first_bad, unbuildable, panicking, and more."""
    told: dict[str, Any] = json.loads((demo_history() / ".git" / "bisector-demo.json").read_text())
    return told


def built_kernels(*, uefi: bool = False) -> list[tuple[Path, dict[str, str]]]:
    """(folder with a bzImage, facts: commit, release, build_id, signature) of each kernel the demonstration built.

    `uefi`: instead those that tests built for a machine with UEFI (see lab/uefikernels.py).
    """
    return [
        (path.parent, json.loads(path.read_text()))
        for path in sorted((demo_home() / "kernels" / "images").glob("*/*/image.json"))
        if ("CONFIG_EFI=y" in (path.parent / "config").read_text().splitlines()) is uefi
    ]

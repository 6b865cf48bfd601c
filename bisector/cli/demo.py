"""The embedded demonstration: make the kernel history, then hunt in it like in any other."""

import json
import subprocess
import sys
from pathlib import Path

from bisector.model.errors import BisectorError, UsageError
from bisector.session.home import Home
from bisector.session.state import Status, fold

RECIPES = {"instructions": "demo.yaml", "wall": "demo-wall.yaml"}


def demo_folder() -> Path:
    """Where the demonstration's recipes and its history script are: in the package, or beside it in a checkout."""
    package = Path(__file__).resolve().parent.parent
    for folder in (package / "_recipes" / "demo", package.parent / "recipes" / "demo"):
        if (folder / "make_history.py").exists():
            return folder
    raise UsageError("The demonstration's files are missing", details=f"looked for recipes/demo near {package}")


def make_history(destination: Path) -> dict[str, object]:
    """Make the demonstration repository, or find it made; what was planted is returned. Progress goes to stderr."""
    destination.parent.mkdir(parents=True, exist_ok=True)
    script = demo_folder() / "make_history.py"
    made = subprocess.run(
        [sys.executable, str(script), str(destination), "--json"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        check=False,
    )
    if made.returncode == 2:
        raise UsageError("The demonstration's kernel history cannot be made", details="the reason stands above")
    if made.returncode != 0:
        raise BisectorError(
            f"Making the kernel history ended with exit status {made.returncode}",
            resolution=f"Try it alone: {sys.executable} {script} {destination}",
        )
    planted: dict[str, object] = json.loads(made.stdout)
    return planted


def session_name(home: Home, wanted: str) -> tuple[str, bool]:
    """The session to use, and whether it exists: an unfinished demonstration is resumed, a finished one kept."""
    number = 1
    while True:
        name = wanted if number == 1 else f"{wanted}-{number}"
        if name not in home.names():
            return name, False
        if fold(home.read(name).entries).status is not Status.FINISHED:
            return name, True
        number += 1

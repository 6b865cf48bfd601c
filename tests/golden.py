"""Comparing a text with the one that was looked at and kept: tests/data/report/NAME.txt.

`BISECTOR_GOLDEN=write pytest ...` writes the files anew; look at the difference before it is committed.
"""

import os
from pathlib import Path

FOLDER = Path(__file__).parent / "data" / "report"


def assert_golden(name: str, text: str) -> None:
    path = FOLDER / f"{name}.txt"
    if os.environ.get("BISECTOR_GOLDEN") == "write":
        path.write_text(text + "\n", encoding="utf-8")
    assert text + "\n" == path.read_text(encoding="utf-8"), f"{path} differs; see tests/golden.py"

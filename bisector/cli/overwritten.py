"""One line on the terminal that is written over while something goes on. On the standard error."""

import sys

from bisector.report.words import clip


class Line:
    """Nothing of it is seen without a terminal, or when `quiet`; leaving the `with` block wipes it away."""

    def __init__(self, *, quiet: bool = False) -> None:
        self._seen = sys.stderr.isatty() and not quiet

    def __enter__(self) -> "Line":
        return self

    def __exit__(self, *_: object) -> None:
        self.clear()

    def show(self, text: str) -> None:
        """Write over what it said."""
        self._write(f"\r{clip(text, 100)}\033[K")

    def clear(self) -> None:
        """Wipe it away."""
        self._write("\r\033[K")

    def _write(self, text: str) -> None:
        if self._seen:
            sys.stderr.write(text)
            sys.stderr.flush()

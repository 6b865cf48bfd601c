"""How far a long step is: what builders and machines tell whoever watches."""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far a long step is: `fraction` from 0 to 1, or None where nobody knows; `text` for the live view only."""

    fraction: float | None
    text: str


OnProgress = Callable[[Progress], None]

"""What one would do without this search: other strategies for the same labs, each a step as `drive` takes it.

For comparison in invented labs only; a session never asks them.
"""

from bisector.search.drive import Step
from bisector.search.rivals.classic import classic

RIVALS: dict[str, Step] = {"classic": classic}

__all__ = ["RIVALS"]

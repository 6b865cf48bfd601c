"""What one would do without this search: other strategies for the same labs, each a step as `drive` takes it.

For comparison in invented labs only; a session never asks them.
"""

from bisector.search.drive import Step
from bisector.search.rivals.classic import classic
from bisector.search.rivals.fixed import fixed
from bisector.search.rivals.passfail import pass_fail
from bisector.search.rivals.pinpoint import pinpoint
from bisector.search.rivals.sprt import sprt

RIVALS: dict[str, Step] = {
    "classic": classic,
    "fixed": fixed,
    "sprt": sprt,
    "pinpoint": pinpoint,
    "pass-fail": pass_fail,
}
"""By the name that `simulate` knows them by."""

__all__ = ["RIVALS"]

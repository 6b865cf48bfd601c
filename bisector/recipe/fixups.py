"""Small changes that some commits need before they can be tested, as people make them by hand: to compile, to boot.

Source: the page_test hunt of 2011, where a call was commented out to make commits in between compile.
"""

from pydantic import model_validator

from bisector.recipe.machines import Name, Part, Text


class FixupPart(Part):
    """One change, and which commits get it: one of `patch`, `cherry_pick`, `revert`, under all of its conditions.

    `patch` is a file for `git apply` (relative to the recipe's folder); `cherry_pick` and `revert` are revisions of
    the repository, whose difference to the first parent is applied, or taken back. A commit gets it if it contains
    `contains`, does not contain `lacks` (revisions; a commit contains itself) and has a file or folder `path`. Left
    out, `lacks` is the commit that is picked, and `contains` the one that is reverted.
    """

    name: Name
    patch: Text | None = None
    cherry_pick: Text | None = None
    revert: Text | None = None
    contains: Text | None = None
    lacks: Text | None = None
    path: Text | None = None

    @model_validator(mode="after")
    def _is_one_change(self) -> "FixupPart":
        given = [key for key in ("patch", "cherry_pick", "revert") if getattr(self, key) is not None]
        if len(given) != 1:
            raise ValueError(f"must have one of patch, cherry_pick and revert, has {' and '.join(given) or 'none'}")
        return self

    @property
    def must_contain(self) -> str | None:
        """The revision that a commit must contain to get it."""
        return self.contains if self.contains is not None else self.revert

    @property
    def must_lack(self) -> str | None:
        """The revision that a commit must not contain to get it."""
        return self.lacks if self.lacks is not None else self.cherry_pick

"""What the builder needs of the commits: their files in a folder. `bisector.history` has the real trees."""

from pathlib import Path
from typing import Protocol


class SourceTree(Protocol):
    """Where the sources come from: a private tree, moved from commit to commit (history's WorkTree or FixedTree).

    Every method raises BuilderError when the tree cannot be had.
    """

    def move_to(self, commit: str) -> Path:
        """The folder, now holding exactly this commit's files and its fix-ups; unchanged files keep their times.

        Raises KernelError(build_failed) if a fix-up does not apply.
        """
        ...

    def tree_id(self, commit: str) -> str:
        """Equal for two commits exactly when their files are."""
        ...

    def verify(self, commit: str) -> None:
        """Raise unless the folder still stands at this commit."""
        ...

    def fixups(self, commit: str) -> tuple[str, ...]:
        """Names of the recipe's changes that `move_to` makes to this commit's files."""
        ...

"""The configuration that all kernels of a session start from: made once, from the good end's tree, then kept.

From it, every commit's own `olddefconfig` makes the final one.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from bisector.kernel.config import (
    digest_of,
    merge,
    parse_config,
    parse_wanted,
    shortfalls,
    wanted_lines,
)
from bisector.kernel.output import write_durably
from bisector.model.errors import KernelError, RecipeError, UsageError
from bisector.model.outcome import Outcome
from bisector.recipe.schema import KernelPart

MakeConfig = Callable[[Sequence[str]], None]
"""Runs make with these words (targets, NAME=value) in the source tree; raises if it fails."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wishes:
    """What the recipe says of the configuration, its files read. `laid_over` is set, `asserted` must come out."""

    base: str
    base_text: str
    laid_over: dict[str, str]
    asserted: dict[str, str]

    @property
    def digest(self) -> str:
        """Differs whenever the recipe or one of its files says something else."""
        return digest_of([self.base, self.base_text, *wanted_lines(self.laid_over), "", *wanted_lines(self.asserted)])


def read_wishes(part: KernelPart, recipe_folder: Path) -> Wishes:
    """Read the recipe's configuration files. Raises RecipeError with file and line, UsageError if one is missing."""
    laid_over: dict[str, str] = {}
    for name in part.fragments:
        laid_over |= parse_wanted(_read(recipe_folder / name), where=str(recipe_folder / name))
    asserted = laid_over | parse_wanted("\n".join(part.required), where="kernel.required")
    contradictions = shortfalls(asserted, {name: value for name, value in laid_over.items() if value != "n"})
    contradictions = tuple(line for line in contradictions if line.split(":")[0] in laid_over)
    if contradictions:
        raise RecipeError(
            f"kernel.required contradicts the fragments: {contradictions[0]}",
            details="\n".join(contradictions[1:]),
            resolution="Let a fragment set what is required",
        )
    # The tree's state must not get into the release: the builder gives each commit its own.
    laid_over["CONFIG_LOCALVERSION_AUTO"] = "n"
    base_text = "" if part.base in ("allnoconfig", "defconfig") else _read(recipe_folder / part.base)
    return Wishes(base=part.base, base_text=base_text, laid_over=laid_over, asserted=asserted)


def make_base(wishes: Wishes, folder: Path, make: MakeConfig) -> str:
    """The base configuration's text, made from the tree that `make` works in.

    `allnoconfig` takes the fragments as KCONFIG_ALLCONFIG, so that what they select is switched on; the other bases
    get them laid over, later lines winning.
    """
    if wishes.base_text:
        return merge(wishes.base_text, wishes.laid_over)
    draft = folder / "base.draft"
    draft.unlink(missing_ok=True)
    words = [f"KCONFIG_CONFIG={draft}"]
    if wishes.base == "allnoconfig":
        fragment = folder / "fragments.config"
        write_durably(fragment, ("\n".join(wanted_lines(wishes.laid_over)) + "\n").encode())
        words.append(f"KCONFIG_ALLCONFIG={fragment}")
    make([*words, wishes.base])
    text = draft.read_text()
    return text if wishes.base == "allnoconfig" else merge(text, wishes.laid_over)


def settle(base: str, folder: Path, make: MakeConfig) -> str:
    """The final configuration's text: the base, put through this tree's `olddefconfig`."""
    draft = folder / "final.draft"
    write_durably(draft, base.encode())
    make([f"KCONFIG_CONFIG={draft}", "olddefconfig"])
    return draft.read_text()


def check(wishes: Wishes, config: str, commit: str) -> None:
    """Raise KernelError(config_failed) unless every wish came out: options vanish in silence."""
    missing = shortfalls(wishes.asserted, parse_config(config))
    if missing:
        raise KernelError(
            f"the configuration of {commit[:12]} is not as required: {missing[0]}",
            outcome=Outcome.CONFIG_FAILED,
            details="\n".join(missing),
            resolution="Set what these options depend on in a fragment, or take them out of the recipe",
        )


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError as error:
        raise UsageError(
            f"{path}: cannot be read: {error.strerror}",
            resolution="`kernel: base` and `kernel: fragments` are relative to the recipe's folder",
        ) from error

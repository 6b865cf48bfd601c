"""A recipe's text becomes a checked `Recipe`, or every error in it with file, line and column, all at once.

`load_recipe` also looks at the files a recipe names; `parse_recipe` reads text alone, for whoever only reports.
"""

import hashlib
import json
import os
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from bisector.model.errors import RecipeError, UsageError
from bisector.recipe.errors import Loc, dotted, explain
from bisector.recipe.fixups import FixupPart
from bisector.recipe.lab import PATH_KEYS, place_machines
from bisector.recipe.schema import EmbeddedMachine, Recipe, SshMachine
from bisector.recipe.together import pointless
from bisector.recipe.tree import Place, Problem, TextError, Tree, decode, parse

CONFIG_TARGETS = frozenset({"allnoconfig", "defconfig"})
"""Words for `kernel.base` that are make targets; everything else is the path of a configuration file."""

TEXT_SOURCE = "<recipe>"


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedRecipe:
    """A checked recipe: its paths absolute, `text` the canonical YAML that loads to an equal recipe from anywhere.

    `digest` is the SHA-256 of the recipe and of the contents of the files it names, in hex.
    """

    recipe: Recipe
    text: str
    digest: str
    folder: Path


def load_recipe(path_or_text: Path | str, *, overrides: Sequence[str] = ()) -> LoadedRecipe:
    """Return the recipe of a file, or of a text, with `key.path=value` overrides applied in order.

    A `Path` is a file; a `str` is a text if it holds a line feed, a file's path otherwise. Paths in a recipe are
    relative to its folder, paths in an override (and in a text) to the current directory: where they were typed.
    Machines that the recipe only refers to (`kind: lab`) come from the machines file.

    Raises RecipeError whose `brief` lists every error as `file:line:column: path.to.key: message, got VALUE` in
    order of line, those of an override as `--set key=value: ...`; UsageError if the file cannot be read.
    """
    recipe, tree, folder = _read(path_or_text, overrides)
    paths, problems = _absolute_paths(recipe, tree, folder)
    problems += pointless(recipe, tree)
    if problems:
        raise _refusal(problems)
    recipe = _with_paths(recipe, paths)
    digest, problems = _digest(recipe, tree)
    if problems:
        raise _refusal(problems)
    return LoadedRecipe(recipe=recipe, text=canonical_text(recipe), digest=digest, folder=folder)


@lru_cache(maxsize=8)
def parse_recipe(text: str) -> Recipe:
    """Return the recipe of a text that was checked before (a session's); no file is looked at.

    The last few are kept: a hunt and a live view ask at every event.

    Raises RecipeError as `load_recipe` does.
    """
    return _checked(*_tree_of(text, TEXT_SOURCE, ()))


def with_fixups(loaded: LoadedRecipe, fixups: Sequence[FixupPart]) -> LoadedRecipe:
    """The same recipe with these fix-ups: their revisions were names, and are commit ids now."""
    recipe = loaded.recipe.with_fixups(fixups)
    return replace(loaded, recipe=recipe, text=canonical_text(recipe))


def text_override(key_path: str, value: str) -> str:
    """The override that sets a key to a text, whatever YAML would read it as: `good` to "12345678"."""
    return f"{key_path}={json.dumps(value, ensure_ascii=False)}"


def canonical_text(recipe: Recipe) -> str:
    """The YAML of a recipe, every key that counts written out, in the schema's order."""
    written = recipe.model_dump(mode="json")
    if recipe.benchmark.command is not None:
        del written["benchmark"]["sample_ms"]
    return str(yaml.safe_dump(written, sort_keys=False, allow_unicode=True, width=100))


def _read(path_or_text: Path | str, overrides: Sequence[str]) -> tuple[Recipe, Tree, Path]:
    if isinstance(path_or_text, str) and "\n" in path_or_text:
        tree, problems = _tree_of(path_or_text, TEXT_SOURCE, overrides)
        return _with_lab(tree, problems, Path.cwd()), tree, Path.cwd()
    path = Path(path_or_text)
    try:
        content = path.read_bytes()
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise UsageError(
            f"cannot read the recipe {str(path)!r}: {reason}",
            resolution="give the path of a recipe file; recipes/ holds some to copy",
        ) from None
    try:
        text = decode(content, str(path))
    except TextError as error:
        raise _refusal([error.problem]) from None
    tree, problems = _tree_of(text, str(path), overrides)
    folder = path.resolve().parent
    return _with_lab(tree, problems, folder), tree, folder


def _with_lab(tree: Tree, problems: list[Problem], folder: Path) -> Recipe:
    wrong, unplaced = place_machines(tree, folder)
    return _checked(tree, problems + wrong, unplaced)


def _tree_of(text: str, source: str, overrides: Sequence[str]) -> tuple[Tree, list[Problem]]:
    try:
        tree, problems = parse(text, source)
    except TextError as error:
        raise _refusal([error.problem]) from None
    place = Place(0, 1, 1, source)
    if tree is None:
        message = "the recipe is empty: it needs at least name, repo, good, bad and machines"
        raise _refusal([Problem(place, message)])
    if tree.mapping is None:
        found = "a list" if tree.sequence is not None else f"the text {tree.text[:60]!r}"
        raise _refusal([Problem(tree.place, f"a recipe is a mapping of keys (name: ...), this is {found}")])
    for rank, option in enumerate(overrides, start=1):
        problems = problems + _override(tree, option, rank)
    return tree, problems


def _override(root: Tree, option: str, rank: int) -> list[Problem]:
    """Lay `key.path=value` over the tree; what is wrong with it otherwise."""
    place = Place(rank, 1, 1, f"--set {option}")
    key_path, equals, written = option.partition("=")
    keys = [key.strip() for key in key_path.split(".")]
    if not equals or not all(keys):
        return [Problem(place, "must be key.path=value, for example --set search.confidence=0.95")]
    try:
        value, problems = parse(written, place.source, rank=rank)
    except TextError as error:
        return [error.problem]
    value = value or Tree(place=place, key_place=place, plain=True)
    tree = root
    for depth, key in enumerate(keys):
        last = depth == len(keys) - 1
        if tree.sequence is not None:
            if not (key.isdecimal() and int(key) < len(tree.sequence)):
                name, count = dotted(tuple(keys[:depth])), len(tree.sequence)
                return [Problem(place, f"{name} is a list of {count}: write {name}.0 for its first item, got {key!r}")]
            if last:
                tree.sequence[int(key)] = value
            else:
                tree = tree.sequence[int(key)]
            continue
        if tree.mapping is None:
            if not (tree.plain and tree.scalar is None):
                return [Problem(place, f"{dotted(tuple(keys[:depth]))} is a single value, it has no key {key!r}")]
            tree.mapping = {}
        if last:
            tree.mapping[key] = value
        else:
            tree = tree.mapping.setdefault(key, Tree(place=place, key_place=place, mapping={}))
    return problems


def _checked(tree: Tree, problems: list[Problem], unplaced: Collection[int] = ()) -> Recipe:
    """`unplaced` are machines whose reference is among the problems already."""
    try:
        recipe = Recipe.model_validate(tree.value())
    except ValidationError as invalid:
        echoes = [("machines", index) for index in unplaced]
        errors = [error for error in invalid.errors(include_url=False) if error["loc"][:2] not in echoes]
        explained = [explain(error, tree) for error in errors]
        raise _refusal([*problems, *(problem for problem in explained if problem)]) from None
    if problems:
        raise _refusal(problems)
    return recipe


def _refusal(problems: list[Problem]) -> RecipeError:
    ordered = sorted(set(problems), key=lambda problem: (problem.place, problem.message))
    return RecipeError("\n".join(map(str, ordered)))


def _named_paths(recipe: Recipe) -> dict[Loc, str]:
    named: dict[Loc, str] = {("repo",): recipe.repo}
    if recipe.kernel.base not in CONFIG_TARGETS:
        named["kernel", "base"] = recipe.kernel.base
    for index, fragment in enumerate(recipe.kernel.fragments):
        named["kernel", "fragments", index] = fragment
    for index, fixup in enumerate(recipe.kernel.fixups):
        if fixup.patch is not None:
            named["kernel", "fixups", index, "patch"] = fixup.patch
    for index, file in enumerate(recipe.benchmark.command.files if recipe.benchmark.command else ()):
        named["benchmark", "command", "files", index] = file
    for index, machine in enumerate(recipe.machines):
        if isinstance(machine, SshMachine):
            written = machine.model_dump()
            for keys in PATH_KEYS:
                if path := _at(written, keys):
                    named["machines", index, *keys] = path
    return named


def _at(written: dict[str, Any], keys: Sequence[str]) -> str | None:
    value: Any = written
    for key in keys:
        value = value.get(key) if value is not None else None
    return value if value is None else str(value)


def _absolute_paths(recipe: Recipe, tree: Tree, folder: Path) -> tuple[dict[Loc, str], list[Problem]]:
    """Every path the recipe names, absolute and free of links, by its key path."""
    absolute: dict[Loc, str] = {}
    problems = []
    for loc, path in _named_paths(recipe).items():
        node, _ = tree.find(loc)
        base = folder if node.place.rank == 0 else Path.cwd()
        # realpath, not Path.resolve: it never raises, whatever was written.
        resolved = os.path.realpath(base / os.path.expanduser(path))  # noqa: PTH111
        if resolved != resolved.strip():
            problems.append(Problem(node.place, f"{dotted(loc)}: must not end in white space, got {path!r}"))
        if loc[0] == "machines" and not os.access(resolved, os.R_OK):
            problems.append(Problem(node.place, f"{dotted(loc)}: not a readable file, got {path!r}"))
        absolute[loc] = resolved
    return absolute, problems


def _with_paths(recipe: Recipe, paths: dict[Loc, str]) -> Recipe:
    fragments = tuple(paths["kernel", "fragments", index] for index in range(len(recipe.kernel.fragments)))
    base = paths.get(("kernel", "base"), recipe.kernel.base)
    fixups = tuple(
        fixup.model_copy(update={"patch": paths.get(("kernel", "fixups", index, "patch"))})
        for index, fixup in enumerate(recipe.kernel.fixups)
    )
    kernel = recipe.kernel.model_copy(update={"base": base, "fragments": fragments, "fixups": fixups})
    machines = tuple(
        _machine_with_paths(machine, {loc[2:]: path for loc, path in paths.items() if loc[:2] == ("machines", index)})
        for index, machine in enumerate(recipe.machines)
    )
    changes = {"repo": paths["repo",], "kernel": kernel, "machines": machines}
    if (command := recipe.benchmark.command) is not None:
        files = tuple(paths["benchmark", "command", "files", index] for index in range(len(command.files)))
        command = command.model_copy(update={"files": files})
        changes["benchmark"] = recipe.benchmark.model_copy(update={"command": command})
    return recipe.model_copy(update=changes)


def _machine_with_paths(machine: EmbeddedMachine | SshMachine, paths: dict[Loc, str]) -> EmbeddedMachine | SshMachine:
    own = {str(loc[0]): path for loc, path in paths.items() if len(loc) == 1}
    jumps = {str(loc[1]): path for loc, path in paths.items() if len(loc) == 2}
    if isinstance(machine, SshMachine) and machine.jump is not None:
        return machine.model_copy(update={**own, "jump": machine.jump.model_copy(update=jumps)})
    return machine.model_copy(update=own)


def _digest(recipe: Recipe, tree: Tree) -> tuple[str, list[Problem]]:
    """SHA-256 over canonical JSON of the recipe and the SHA-256 of each file it names for kernel or benchmark."""
    contents = {}
    problems = []
    for loc, path in _named_paths(recipe).items():
        # Keys say nothing of what is measured, and a digest of a private key is nobody's business.
        if loc == ("repo",) or loc[0] == "machines":
            continue
        try:
            contents[dotted(loc)] = hashlib.sha256(Path(path).read_bytes()).hexdigest()
        except OSError as error:
            place = tree.find(loc)[0].place
            known = f" (nor one of {', '.join(sorted(CONFIG_TARGETS))})" if loc[-1] == "base" else ""
            problems.append(Problem(place, f"{dotted(loc)}: not a readable file{known}: {path}: {error.strerror}"))
    whole = {"recipe": recipe.model_dump(mode="json"), "files": contents}
    canonical = json.dumps(whole, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(canonical.encode()).hexdigest(), problems

"""The machines file: the lab's machines, written once, named by many recipes.

A recipe's `kind: lab` is replaced by the entry it names before the recipe is checked, so that a session's recipe is
whole without the file, and an error in an entry is shown where it stands: in the file, with line and column.
"""

from dataclasses import dataclass
from pathlib import Path

import platformdirs
from pydantic import BaseModel, ValidationError

from bisector.model.errors import RecipeError, UsageError
from bisector.recipe.errors import Loc, dotted, explain
from bisector.recipe.machines import EmbeddedMachine, LabFile, LabReference, SshMachine
from bisector.recipe.tree import Place, Problem, TextError, Tree, decode, parse

PATH_KEYS: tuple[tuple[str, ...], ...] = (("key",), ("known_hosts",), ("jump", "key"), ("jump", "known_hosts"))
"""What in a machine's entry is the path of a file on this computer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lab:
    """A checked machines file: its machines in order, and the tree of each."""

    path: Path
    machines: tuple[EmbeddedMachine | SshMachine, ...]
    trees: tuple[Tree, ...]


def lab_path() -> Path:
    """Where this user's machines file is: `~/.config/bisector/lab.yaml` unless $XDG_CONFIG_HOME says otherwise."""
    return platformdirs.user_config_path("bisector") / "lab.yaml"


def load_lab(path: Path) -> Lab:
    """The machines of a file, paths in it absolute (they are relative to its folder).

    Raises RecipeError listing every error as `load_recipe` does, UsageError if the file cannot be read.
    """
    lab, problems = read_lab(path)
    if lab is None:
        raise RecipeError("\n".join(map(str, sorted(problems, key=lambda problem: (problem.place, problem.message)))))
    return lab


def read_lab(path: Path) -> tuple[Lab | None, list[Problem]]:
    """The same, or what is wrong. Raises UsageError if the file cannot be read."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise UsageError(
            f"cannot read the machines file {str(path)!r}: {error.strerror}",
            resolution="Write one: machines: [{kind: ssh, name: ..., host: ..., key: ..., host_key: [...], boot: ...}]",
        ) from None
    try:
        tree, problems = parse(decode(content, str(path)), str(path))
    except TextError as error:
        return None, [error.problem]
    if tree is None or tree.mapping is None:
        place = tree.place if tree is not None else Place(0, 1, 1, str(path))
        return None, [*problems, Problem(place, "a machines file begins with machines: and lists them below")]
    checked, wrong = checked_tree(tree, LabFile)
    if not isinstance(checked, LabFile) or problems:
        return None, problems + wrong
    entries = tree.mapping["machines"].sequence or []
    for entry in entries:
        _make_paths_absolute(entry, path.resolve().parent)
    checked, _ = checked_tree(tree, LabFile)
    assert isinstance(checked, LabFile), "an absolute path is as good as a relative one"
    return Lab(path=path, machines=checked.machines, trees=tuple(entries)), []


def checked_tree(tree: Tree, model: type[BaseModel], *, prefix: Loc = ()) -> tuple[BaseModel | None, list[Problem]]:
    """What a tree means by a model, or what is wrong with it."""
    try:
        return model.model_validate(tree.value()), []
    except ValidationError as invalid:
        explained = (explain(e, tree, model=model, prefix=prefix) for e in invalid.errors(include_url=False))
        return None, [problem for problem in explained if problem is not None]


def place_machines(recipe: Tree, folder: Path) -> tuple[list[Problem], set[int]]:
    """Put the entries of the machines file where a recipe's tree refers to them (`kind: lab`).

    Returns what is wrong, and the indices of the references (by their order afterwards) that stand as they were.
    Raises UsageError if a file cannot be read.
    """
    listed = recipe.child("machines")
    if listed is None or listed.sequence is None or not any(map(_refers, listed.sequence)):
        return [], set()
    labs: dict[Path, Lab | None] = {}
    problems: list[Problem] = []
    placed: list[Tree] = []
    failed: set[int] = set()
    taken = {str(kind.text) for entry in listed.sequence if (kind := entry.child("name")) is not None}
    for index, entry in enumerate(listed.sequence):
        found, wrong = _entries_for(entry, index, folder, labs, taken) if _refers(entry) else ([entry], [])
        problems += wrong
        if not found:
            failed.add(len(placed))
        placed += found or [entry]
    listed.sequence = placed
    return problems, failed


def _refers(entry: Tree) -> bool:
    kind = entry.child("kind")
    return kind is not None and kind.scalar == "lab"


def _entries_for(
    entry: Tree, index: int, folder: Path, labs: dict[Path, Lab | None], taken: set[str]
) -> tuple[list[Tree], list[Problem]]:
    where: Loc = ("machines", index)
    reference, problems = checked_tree(entry, LabReference, prefix=where)
    if not isinstance(reference, LabReference):
        return [], problems
    path = folder / Path(reference.file).expanduser() if reference.file is not None else lab_path()
    if path not in labs:
        labs[path], problems = read_lab(path)
    lab = labs[path]
    if lab is None:
        return [], problems
    wanted = set(reference.tags)
    if reference.name is not None:
        found = [tree for machine, tree in zip(lab.machines, lab.trees, strict=True) if machine.name == reference.name]
        missing = f"{dotted((*where, 'name'))}: no machine of that name in {path}, got {reference.name!r}"
        at = entry.child("name")
    else:
        fitting = [
            (machine.name, tree)
            for machine, tree in zip(lab.machines, lab.trees, strict=True)
            if isinstance(machine, SshMachine) and wanted <= set(machine.tags) and machine.name not in taken
        ][: reference.count]
        taken |= {name for name, _ in fitting}
        found = [tree for _, tree in fitting] if len(fitting) == reference.count else []
        missing = f"{dotted((*where, 'tags'))}: {path} has {len(fitting)} more with all of these, of {reference.count}"
        at = entry.child("tags")
    known = ", ".join(machine.name for machine in lab.machines)
    return found, [] if found else [Problem((at or entry).place, f"{missing}; known there: {known}")]


def _make_paths_absolute(entry: Tree, folder: Path) -> None:
    for keys in PATH_KEYS:
        at, whole = entry.find(keys)
        if whole and isinstance(at.scalar, str):
            at.text = at.scalar = str(folder / Path(at.scalar).expanduser())

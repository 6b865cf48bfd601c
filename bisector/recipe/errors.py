"""What pydantic found wrong becomes a sentence with its place, the value seen, and what to write instead."""

import difflib
import math
import typing
from collections.abc import Iterator

from pydantic import BaseModel
from pydantic_core import ErrorDetails

from bisector.recipe.schema import Recipe
from bisector.recipe.tree import Odd, Problem, Tree, meaning

Loc = tuple[int | str, ...]
"""Where a value stands: keys and indices from the root."""

_WANTED = {
    "string_type": "text",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
    "tuple_type": "a list",
    "model_type": "a mapping of keys",
    "dict_type": "a mapping of keys",
    "model_attributes_type": "a mapping of keys",
    "none_required": "nothing",
}
_SHOWN = 60


def explain(error: ErrorDetails, root: Tree, *, model: type[BaseModel] = Recipe, prefix: Loc = ()) -> Problem | None:
    """The problem that one of pydantic's errors is, for what was read into `root`; None for an echo of another.

    `model` is what `root` was checked against, `prefix` where `root` itself stands.
    """
    loc = error["loc"]
    tree, _ = root.find(loc)
    path = dotted((*prefix, *_without_tags(loc, model)))
    kind = error["type"]
    if kind == "extra_forbidden":
        return Problem(tree.key_place, f"{path}: unknown key{_suggestion(loc, model)}")
    if kind in ("missing", "union_tag_not_found"):
        key = str(error["ctx"]["discriminator"]).strip("'") if kind == "union_tag_not_found" else ""
        return Problem(tree.place, f"{'.'.join(part for part in (path, key) if part) or 'kind'}: this key is missing")
    if kind == "union_tag_invalid":
        key = str(error["ctx"]["discriminator"]).strip("'")
        at = tree.child(key) or tree
        return Problem(at.place, f"{path}.{key}: must be {error['ctx']['expected_tags']}, got {shown(at)}")
    if kind == "value_error" and tree.mapping is not None and loc:
        return Problem(tree.place, f"{path}: {error['ctx']['error']}")
    if kind == "value_error" and not loc:
        message = str(error["ctx"]["error"])
        named, _ = root.find((message.partition(":")[0],))
        return Problem(named.key_place, message)
    if kind == "too_short" and tree.sequence:
        # pydantic counts only the items that passed; those that did not have errors of their own.
        return None
    if kind in _WANTED:
        return Problem(tree.place, f"{path}: {_wrong_type(_WANTED[kind], loc, tree)}")
    if isinstance(tree.scalar, float) and not math.isfinite(tree.scalar):
        return Problem(tree.place, f"{path}: must be a finite number, got {shown(tree)}")
    return Problem(tree.place, f"{path}: {_wrong_value(error)}, got {shown(tree)}")


def dotted(loc: Loc) -> str:
    """`machines.0.clock`, the spelling `--set` takes."""
    return ".".join(str(element) for element in loc)


def shown(tree: Tree) -> str:
    """The value as it was written, quoted, cut to a line."""
    if tree.mapping is not None:
        return "a mapping"
    if tree.sequence is not None:
        return f"a list of {len(tree.sequence)}"
    if tree.plain and tree.scalar is None:
        return "nothing"
    text = tree.text if len(tree.text) <= _SHOWN else tree.text[: _SHOWN - 3] + "..."
    return text if tree.plain and not isinstance(tree.scalar, str) else repr(text)


def _wrong_type(wanted: str, loc: tuple[int | str, ...], tree: Tree) -> str:
    says = f"must be {wanted}, got {shown(tree)}"
    if tree.mapping is not None or tree.sequence is not None or (tree.plain and tree.scalar is None):
        return says
    quoted = "'" + tree.text.replace("'", "''") + "'"
    if wanted == "text":
        written = f"{loc[-1]}: {quoted}" if loc and isinstance(loc[-1], str) else f"- {quoted}"
        return f"{says}, which is read as {meaning(tree)}: quote it: {written}"
    if wanted == "a list":
        return f"{says}: write [{quoted}]"
    if isinstance(tree.scalar, Odd):
        return f"{says}, which is read as {meaning(tree)}: write it in decimal"
    if wanted in ("a number", "a whole number") and (number := _as_number(tree, wanted)) is not None:
        return f"{says}, which YAML reads as text: write {number}"
    return says


def _as_number(tree: Tree, wanted: str) -> str | None:
    """The spelling of a number that YAML 1.1 reads as one: `1e-3` and '8' are text to it."""
    if not isinstance(tree.scalar, str):
        return None
    try:
        number = float(tree.text)
        return str(int(tree.text)) if wanted == "a whole number" else _plain_float(number)
    except ValueError:
        return None


def _plain_float(number: float) -> str | None:
    text = repr(number)
    if "n" in text:
        return None
    mantissa, exponent_mark, exponent = text.partition("e")
    return text if not exponent_mark else f"{mantissa if '.' in mantissa else mantissa + '.0'}e{exponent}"


def _wrong_value(error: ErrorDetails) -> str:
    match error["type"]:
        case "string_too_short":
            return "must not be empty"
        case "too_short":
            return "must hold at least one item"
        case "string_pattern_mismatch":
            return "must be letters, digits, dot, dash and underscore, at most 64, beginning with a letter or digit"
        case "literal_error":
            return "must be " + str(error["ctx"]["expected"])
        case "value_error":
            return str(error["ctx"]["error"])
    return error["msg"].replace("Input should be", "must be")


def _suggestion(loc: Loc, root: type[BaseModel]) -> str:
    key = str(loc[-1])
    here = sorted({name for model in _models_at(loc[:-1], root) for name in model.model_fields})
    if near := difflib.get_close_matches(key.lower().replace("-", "_"), here, n=1):
        return f"; did you mean {dotted((*_without_tags(loc, root)[:-1], near[0]))}?"
    elsewhere = sorted({path for path in _all_paths(root, ()) if path[-1] == key}, key=len)
    if elsewhere:
        return f" here; did you mean {' or '.join(map(dotted, elsewhere))}?"
    return f"; known here: {', '.join(here)}"


def _without_tags(loc: Loc, root: type[BaseModel]) -> Loc:
    """A place as people write it: pydantic puts the tag of a union between an index and a key."""
    kept: list[int | str] = []
    for index, element in enumerate(loc):
        models = _models_at(loc[:index], root)
        if not any(element in _tags(model) and element not in model.model_fields for model in models):
            kept.append(element)
    return tuple(kept)


def _models_at(loc: Loc, root: type[BaseModel]) -> list[type[BaseModel]]:
    """The models whose keys may stand at a path; a union's tag chooses among several."""
    models: list[type[BaseModel]] = [root]
    for element in loc:
        found = [m for model in models for m in _models_in_field(model, element)]
        # An index leads to no field: the models stay the same.
        models = found or [model for model in models if element in _tags(model)] or models
    return models


def _tags(model: type[BaseModel]) -> list[object]:
    fields = (model.model_fields.get(name) for name in ("kind", "method"))
    return [tag for field in fields if field is not None for tag in typing.get_args(field.annotation)]


def _models_in_field(model: type[BaseModel], name: int | str) -> list[type[BaseModel]]:
    field = model.model_fields.get(str(name))
    return list(_models_in(field.annotation)) if field else []


def _models_in(annotation: object) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in typing.get_args(annotation):
        yield from _models_in(argument)


def _all_paths(model: type[BaseModel], before: Loc) -> Iterator[Loc]:
    for name, field in model.model_fields.items():
        yield (*before, name)
        for inner in _models_in(field.annotation):
            index = (0,) if typing.get_origin(field.annotation) is tuple else ()
            yield from _all_paths(inner, (*before, name, *index))

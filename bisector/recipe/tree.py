"""YAML text becomes a tree in which every value knows where it stands. Nothing here knows what a recipe is.

PyYAML reads YAML 1.1, which guesses: `no` is false, `12:30` is 750, `010` is 8, a date is a date. The tree keeps the
text as written and what YAML makes of it, so that a refusal can show both. Only `recipe.load` uses this module.
"""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

import yaml
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

MAX_BYTES = 64 * 1024
"""A recipe is a page or two; what is larger is the wrong file."""

MAX_DEPTH = 24
MAX_NODES = 20_000
"""Aliases multiply: nine levels of nine-fold aliases are 300 bytes of text and 387 million values."""

_STR, _NULL, _BOOL, _INT, _FLOAT, _DATE, _MERGE = (
    f"tag:yaml.org,2002:{name}" for name in ("str", "null", "bool", "int", "float", "timestamp", "merge")
)
_DECIMAL = re.compile(r"[-+]?(0|[1-9][0-9]*)")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """Where something stands: rank 0 is the recipe, 1 and up are options in the order given. Counted from 1."""

    rank: int
    line: int
    column: int
    source: str

    def __str__(self) -> str:
        return f"{self.source}:{self.line}:{self.column}" if self.rank == 0 else self.source


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong, in its place."""

    place: Place
    message: str

    def __str__(self) -> str:
        return f"{self.place}: {self.message}"


@dataclass(frozen=True, slots=True)
class Odd:
    """A plain scalar that YAML 1.1 reads as something nobody means: a date, base 60, octal. No type accepts it."""

    meaning: str


Scalar = str | bool | int | float | Odd | None


@dataclass(slots=True, kw_only=True)
class Tree:
    """A value and its place: a scalar (`text` as written, `plain` without quotes), a mapping, or a sequence."""

    place: Place
    key_place: Place
    text: str = ""
    plain: bool = False
    scalar: Scalar = None
    mapping: "dict[str, Tree] | None" = None
    sequence: "list[Tree] | None" = None

    def value(self) -> object:
        """Plain Python: dicts, tuples (strict models want tuples), scalars."""
        if self.mapping is not None:
            return {key: child.value() for key, child in self.mapping.items()}
        if self.sequence is not None:
            return tuple(child.value() for child in self.sequence)
        return self.scalar

    def find(self, path: Sequence[int | str]) -> "tuple[Tree, bool]":
        """The subtree at a path and True, or the deepest one on the way and False.

        Path elements that name no child on the way (a union's tag) are stepped over.
        """
        tree, whole = self, True
        for element in path:
            child = tree.child(element)
            whole = child is not None
            tree = child if child is not None else tree
        return tree, whole

    def child(self, element: int | str) -> "Tree | None":
        """The child of that key or index, or None."""
        if self.mapping is not None and isinstance(element, str):
            return self.mapping.get(element)
        if self.sequence is not None and isinstance(element, int) and 0 <= element < len(self.sequence):
            return self.sequence[element]
        return None


class TextError(Exception):
    """The text is not YAML at all (or not ours): one problem, and reading stops."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(str(problem))
        self.problem = problem


class _Loader(yaml.SafeLoader):
    """The safe loader, composing only, and not deeper than a recipe is. Recursion would end in a stack trace."""

    depth = 0

    def compose_node(self, parent: Node | None, index: int) -> Node | None:
        event = self.peek_event()  # type: ignore[no-untyped-call]
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise yaml.MarkedYAMLError(problem=f"nested deeper than {MAX_DEPTH} levels", problem_mark=event.start_mark)
        node: Node | None = super().compose_node(parent, index)
        self.depth -= 1
        return node


@dataclass(slots=True, kw_only=True)
class _Reader:
    source: str
    rank: int
    problems: list[Problem] = field(default_factory=list)
    nodes: int = 0

    def place(self, mark: yaml.Mark) -> Place:
        return Place(self.rank, mark.line + 1, mark.column + 1, self.source)

    def read(self, node: Node, key_place: Place | None, path: tuple[str, ...] = ()) -> Tree:
        place = self.place(node.start_mark)
        self.nodes += 1
        if self.nodes > MAX_NODES or len(path) > MAX_DEPTH:
            raise TextError(Problem(place, "aliases make this document too large or endless: write the values out"))
        tree = Tree(place=place, key_place=key_place or place)
        if isinstance(node, MappingNode):
            self.check_tag(node, "map", place)
            tree.mapping = self.read_mapping(node, path)
        elif isinstance(node, SequenceNode):
            self.check_tag(node, "seq", place)
            tree.sequence = [self.read(child, None, (*path, str(i))) for i, child in enumerate(node.value)]
        elif isinstance(node, ScalarNode):
            tree.text, tree.plain = node.value, node.style is None
            tree.scalar = self.read_scalar(node, place)
        return tree

    def check_tag(self, node: Node, expected: str, place: Place) -> None:
        if node.tag != f"tag:yaml.org,2002:{expected}":
            self.problems.append(Problem(place, f"remove the tag {node.tag!r}: a recipe holds plain values only"))

    def read_mapping(self, node: MappingNode, path: tuple[str, ...]) -> dict[str, Tree]:
        own: dict[str, Tree] = {}
        merged: dict[str, Tree] = {}
        merge_seen = False
        for key_node, value_node in node.value:
            place = self.place(key_node.start_mark)
            if key_node.tag == _MERGE:
                if merge_seen:
                    self.problems.append(Problem(place, "the merge key << stands twice: write <<: [*one, *two]"))
                merge_seen = True
                merged.update(self.read_merge(value_node, place, path))
                continue
            key = self.read_key(key_node, place)
            if key is None:
                continue
            if key in own:
                first, dotted = own[key].key_place, ".".join((*path, key))
                message = f"{dotted}: this key stands twice, first in line {first.line}: remove one of them"
                self.problems.append(Problem(place, message))
                continue
            own[key] = self.read(value_node, place, (*path, key))
        return {**merged, **own}

    def read_merge(self, node: Node, place: Place, path: tuple[str, ...]) -> dict[str, Tree]:
        sources = node.value if isinstance(node, SequenceNode) else [node]
        merged: dict[str, Tree] = {}
        # The first source of a merge list wins (YAML 1.1, type "merge").
        for source in reversed(sources):
            if isinstance(source, MappingNode):
                merged.update(self.read(source, place, (*path, "<<")).mapping or {})
            else:
                self.problems.append(Problem(place, "<<: wants a mapping, or a list of mappings, to merge in"))
        return merged

    def read_key(self, node: Node, place: Place) -> str | None:
        if not isinstance(node, ScalarNode):
            self.problems.append(Problem(place, "a key must be a word, not a list or a mapping"))
            return None
        if node.tag != _STR:
            read_as = _meaning(self.read_scalar(node, place))
            self.problems.append(Problem(place, f"the key {node.value!r} is read as {read_as}: quote it"))
            return None
        return str(node.value)

    def read_scalar(self, node: ScalarNode, place: Place) -> Scalar:
        text, tag = str(node.value), node.tag
        if found := _CONTROL.search(text):
            self.problems.append(Problem(place, f"holds the control character {found.group()!r}: remove it"))
            return _CONTROL.sub("?", text)
        if tag == _NULL:
            return None
        if tag == _BOOL:
            return text.lower() in ("yes", "true", "on")
        if tag in (_INT, _FLOAT):
            return _number(text, is_int=tag == _INT)
        if tag == _DATE:
            return Odd("a date")
        # "=" and "<<" are types of their own in YAML 1.1; as values they are text.
        if tag not in (_STR, _MERGE, "tag:yaml.org,2002:value"):
            self.problems.append(Problem(place, f"remove the tag {tag!r}: a recipe holds plain values only"))
        return text


def _number(text: str, *, is_int: bool) -> Scalar:
    bare = text.replace("_", "")
    try:
        if ":" in text:
            return Odd("a number in base 60")
        if is_int:
            if _DECIMAL.fullmatch(bare):
                return int(bare)
            digits = bare.lstrip("+-").lower()
            return Odd({"0x": "a hexadecimal number", "0b": "a binary number"}.get(digits[:2], "an octal number"))
        if bare.lower().lstrip("+-") in (".inf", ".nan"):
            return math.nan if bare.lower()[-1] == "n" else math.copysign(math.inf, -1 if bare[0] == "-" else 1)
        return float(bare)
    except ValueError:
        # A tag such as !!int before something else, or more digits than Python converts.
        return Odd("a number that cannot be read")


def _meaning(scalar: Scalar) -> str:
    match scalar:
        case None:
            return "nothing"
        case Odd():
            return scalar.meaning
        case bool():
            return str(scalar).lower()
        case int() | float():
            return f"the number {scalar}"
    return "text"


def meaning(tree: Tree) -> str:
    """What YAML makes of a scalar, in words: "the number 12345678", "false", "a date"."""
    return _meaning(tree.scalar)


def decode(content: bytes, source: str) -> str:
    """The text of a recipe file. Raises TextError unless it is UTF-8 and of a recipe's size."""
    if len(content) > MAX_BYTES:
        message = f"is {len(content)} bytes; a recipe has at most {MAX_BYTES}: is this the right file?"
        raise TextError(Problem(Place(0, 1, 1, source), message))
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = content[: error.start]
        column = len(before[before.rfind(b"\n") + 1 :].decode("utf-8", "replace")) + 1
        place = Place(0, before.count(b"\n") + 1, column, source)
        raise TextError(
            Problem(place, f"byte 0x{content[error.start]:02x} is not UTF-8: save the file as UTF-8")
        ) from None


def parse(text: str, source: str, *, rank: int = 0) -> tuple[Tree | None, list[Problem]]:
    """The tree of one YAML document (None if it is empty) and what is wrong in it short of its meaning.

    Raises TextError if the text is no YAML, holds several documents, or is deeper or larger than any recipe.
    """
    reader = _Reader(source=source, rank=rank)
    try:
        loader = _Loader(text)
        node = loader.get_single_node()
    except yaml.MarkedYAMLError as error:
        raise TextError(_syntax_problem(error, reader)) from None
    except yaml.reader.ReaderError as error:
        before = text[: error.position]
        place = Place(rank, before.count("\n") + 1, len(before) - before.rfind("\n"), source)
        raise TextError(Problem(place, f"the character {chr(error.character)!r} is not allowed in YAML")) from None
    except (ValueError, OverflowError) as error:
        # PyYAML turns an escape such as "\UFFFFFFFF" into a character without looking.
        raise TextError(Problem(Place(rank, 1, 1, source), f"a character that does not exist: {error}")) from None
    if node is None or (isinstance(node, ScalarNode) and node.tag == _NULL and not node.value):
        return None, []
    tree = reader.read(node, None)
    return tree, reader.problems


def _syntax_problem(error: yaml.MarkedYAMLError, reader: _Reader) -> Problem:
    mark = error.problem_mark or error.context_mark
    place = reader.place(mark) if mark else Place(reader.rank, 1, 1, reader.source)
    problem = error.problem or "not YAML"
    if "'\\t'" in problem:
        problem = "a tab stands where YAML wants spaces: replace it by spaces"
    elif "found character" in problem and "cannot start any token" in problem:
        problem += ": quote the value"
    elif "another document" in problem:
        problem = "a second document begins: a recipe is one document, remove the --- and what follows"
    elif error.context:
        problem = f"{problem} ({error.context})"
    return Problem(place, problem)

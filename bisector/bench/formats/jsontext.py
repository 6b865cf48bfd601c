"""JSON whose values know their line. The standard library's reader forgets where a value stood.

Stricter than that reader: no NaN, no Infinity, no key twice in one object, nothing behind the value.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass

from bisector.bench.formats.reading import COMMA_HINT, FormatError, number, shown

MAX_DEPTH = 64
_BLANK = re.compile(r"[ \t\r\n]*")
_WORD = re.compile(r"[^\s,:\[\]{}\"]+")
_NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_STRINGS = json.JSONDecoder()
"""Only ever pointed at an opening quote."""

_CONSTANTS = {"true": True, "false": False, "null": None}


@dataclass(frozen=True, slots=True)
class Node:
    """A value and the line where it begins: a dict or list of nodes, a text, a number, a truth value or None."""

    value: "dict[str, Node] | list[Node] | str | float | bool | None"
    line: int

    def get(self, key: str) -> "Node | None":
        """What an object holds under a key; None for another kind of value, or without that key."""
        return self.value.get(key) if isinstance(self.value, dict) else None

    def need(self, key: str) -> "Node":
        """The same. Raises FormatError where `get` gives None."""
        node = self.get(key)
        if node is None:
            raise FormatError(f'"{key}" is missing', line=self.line)
        return node

    def items(self) -> "Iterator[Node]":
        """The items of a list. Raises FormatError for anything else."""
        if not isinstance(self.value, list):
            raise FormatError("a list is expected here", line=self.line)
        return iter(self.value)

    def fields(self) -> "Iterator[tuple[str, Node]]":
        """The fields of an object. Raises FormatError for anything else."""
        if not isinstance(self.value, dict):
            raise FormatError("an object is expected here", line=self.line)
        return iter(self.value.items())

    def number(self, what: str) -> float:
        """A number. Raises FormatError for anything else."""
        if isinstance(self.value, bool) or not isinstance(self.value, float):
            raise FormatError(f"{what} must be a number, got {self.shown()}", line=self.line)
        return self.value

    def text(self, what: str) -> str:
        """A text. Raises FormatError for anything else."""
        if not isinstance(self.value, str):
            raise FormatError(f"{what} must be a text, got {self.shown()}", line=self.line)
        return self.value

    def shown(self) -> str:
        """The value as people read it, short."""
        match self.value:
            case dict():
                return "an object"
            case list():
                return "a list"
            case None:
                return "null"
            case str():
                return shown(self.value)
        return json.dumps(self.value)


def read_json(text: str, *, first_line: int = 1) -> Node:
    """The value of a JSON text that begins on `first_line`. Raises FormatError with the line of what is wrong."""
    reader = _Reader(text, first_line)
    node = reader.value(0)
    reader.blank()
    if reader.at < len(text):
        raise FormatError(f"something stands behind the value: {shown(text[reader.at :].strip())}", line=reader.line)
    return node


class _Reader:
    def __init__(self, text: str, first_line: int) -> None:
        self._text = text
        self.at = 0
        self.line = first_line

    def blank(self) -> None:
        match = _BLANK.match(self._text, self.at)
        assert match is not None  # it matches nothing as well
        self.line += match.group().count("\n")
        self.at = match.end()

    def value(self, depth: int) -> Node:
        self.blank()
        line = self.line
        if depth > MAX_DEPTH:
            raise FormatError(f"nested deeper than {MAX_DEPTH} levels", line=line)
        match self._text[self.at : self.at + 1]:
            case "":
                raise FormatError("incomplete: the JSON text ends too early", line=line)
            case "{":
                return Node(self._object(depth), line)
            case "[":
                return Node(self._list(depth), line)
            case '"':
                return Node(self._string(), line)
        return Node(self._word(), line)

    def _word(self) -> float | bool | None:
        match = _WORD.match(self._text, self.at)
        word = match.group() if match else self._text[self.at]
        self.at += len(word)
        if word in _CONSTANTS:
            return _CONSTANTS[word]
        if not _NUMBER.fullmatch(word):
            raise FormatError(f"{shown(word)} is no JSON value", line=self.line)
        return number(word, line=self.line, what="a value")

    def _string(self) -> str:
        try:
            text, end = _STRINGS.raw_decode(self._text, self.at)
        except json.JSONDecodeError as error:
            raise FormatError(f"a text is not closed: {error.msg}", line=self.line) from None
        self.at = end
        return str(text)

    def _list(self, depth: int) -> list[Node]:
        items: list[Node] = []
        self.at += 1
        if self._taken("]"):
            return items
        while True:
            items.append(self.value(depth + 1))
            if self._taken("]"):
                return items
            self._expect(",", "a comma or ] in a list")

    def _object(self, depth: int) -> dict[str, Node]:
        fields: dict[str, Node] = {}
        self.at += 1
        if self._taken("}"):
            return fields
        while True:
            key = self._key()
            if key in fields:
                raise FormatError(f'the key "{key}" stands twice in one object', line=self.line)
            self._expect(":", f'a colon behind "{key}"')
            fields[key] = self.value(depth + 1)
            if self._taken("}"):
                return fields
            self._expect(",", "a comma or } in an object")

    def _key(self) -> str:
        self.blank()
        following = self._text[self.at : self.at + 1]
        if following == '"':
            return self._string()
        if following.isdecimal():
            raise FormatError(f"a key must follow the comma, not a digit: {COMMA_HINT}", line=self.line)
        raise self._wrong("a key in quotes")

    def _taken(self, mark: str) -> bool:
        self.blank()
        found = self._text.startswith(mark, self.at)
        self.at += len(mark) if found else 0
        return found

    def _expect(self, mark: str, what: str) -> None:
        if not self._taken(mark):
            raise self._wrong(what)

    def _wrong(self, expected: str) -> FormatError:
        if self.at >= len(self._text):
            return FormatError("incomplete: the JSON text ends too early", line=self.line)
        return FormatError(f"expected {expected}, found {shown(self._text[self.at : self.at + 20])}", line=self.line)

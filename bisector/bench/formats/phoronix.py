"""Phoronix Test Suite: composite.xml, the one format that says its direction itself (Proportion: HIB or LIB).

Read with expat alone: it fetches nothing, it tells lines, and a document type, without which there are no entities to
expand, is refused at its first character. So the dangers that defusedxml is for cannot begin.
"""

from dataclasses import dataclass, field
from typing import NoReturn
from xml.parsers import expat

from bisector.bench.formats.reading import (
    HIGHER,
    LOWER,
    FormatError,
    Missing,
    Output,
    Reading,
    decoded,
    output_of,
    reading_or_missing,
    shown,
)

_DIRECTIONS = {"HIB": HIGHER, "LIB": LOWER, "": None}
_ROOT = "PhoronixTestSuite"
_MAX_DEPTH = 64


@dataclass(slots=True)
class _Element:
    name: str
    line: int
    text: str = ""
    children: "list[_Element]" = field(default_factory=list)

    def all(self, name: str) -> "list[_Element]":
        return [child for child in self.children if child.name == name]

    def first(self, name: str) -> "_Element | None":
        return next(iter(self.all(name)), None)

    def said(self, name: str) -> str:
        child = self.first(name)
        return child.text.strip() if child is not None else ""


def read(data: bytes) -> Output:
    """Every run's value of `IDENTIFIER DESCRIPTION`, with the entry's name behind it where there are several.

    Raises FormatError.
    """
    decoded(data)
    root = _Reader().read(data)
    found: list[Reading | Missing] = []
    for result in root.all("Result"):
        found += _result(result)
    return output_of(found, nothing="there is no result", last_line=root.line)


def _result(result: _Element) -> list[Reading | Missing]:
    name = " ".join(part for part in (result.said("Identifier"), result.said("Description")) if part)
    if not name:
        raise FormatError("a result without Identifier", line=result.line)
    proportion = result.said("Proportion")
    if proportion not in _DIRECTIONS:
        line = next(element.line for element in result.all("Proportion"))
        raise FormatError(f"{name}: Proportion must be HIB or LIB, got {shown(proportion)}", line=line)
    holder = result.first("Data")
    entries = holder.all("Entry") if holder is not None else []
    found: list[Reading | Missing] = []
    for entry in entries:
        metric = name if len(entries) == 1 else f"{name} @ {entry.said('Identifier')}"
        source = entry.first("RawString")
        if source is None or not source.text.strip():
            source = entry.first("Value")
        if source is None:
            raise FormatError(f"{metric}: neither RawString nor Value", line=entry.line)
        for text in source.text.strip().split(":"):
            found.append(
                reading_or_missing(
                    metric,
                    text,
                    line=source.line,
                    unit=result.said("Scale") or None,
                    higher_is_better=_DIRECTIONS[proportion],
                )
            )
    return found


class _Reader:
    def __init__(self) -> None:
        self._open: list[_Element] = [_Element("", 1)]
        # Always UTF-8, whatever the declaration says: the output was decoded as that.
        self._parser = expat.ParserCreate("UTF-8")
        self._parser.buffer_text = True
        self._parser.StartElementHandler = self._start
        self._parser.EndElementHandler = self._end
        self._parser.CharacterDataHandler = self._characters
        self._parser.StartDoctypeDeclHandler = self._doctype

    def read(self, data: bytes) -> _Element:
        try:
            self._parser.Parse(data, True)  # noqa: FBT003 - takes no names
        except expat.ExpatError as error:
            raise FormatError(f"not XML: {expat.ErrorString(error.code)}", line=error.lineno) from None
        [root] = self._open[0].children
        if root.name != _ROOT:
            raise FormatError(f"the root must be {_ROOT}, got {shown(root.name)}", line=root.line)
        return root

    def _start(self, name: str, _: dict[str, str]) -> None:
        if len(self._open) > _MAX_DEPTH:
            raise FormatError(f"nested deeper than {_MAX_DEPTH} levels", line=self._parser.CurrentLineNumber)
        element = _Element(name, self._parser.CurrentLineNumber)
        self._open[-1].children.append(element)
        self._open.append(element)

    def _end(self, _: str) -> None:
        self._open.pop()

    def _characters(self, text: str) -> None:
        self._open[-1].text += text

    def _doctype(self, *_: object) -> NoReturn:
        raise FormatError("a document type (DOCTYPE) is not accepted", line=self._parser.CurrentLineNumber)

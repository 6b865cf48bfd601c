"""hackbench: `Time: 0.323`, once for each time it was run."""

from bisector.bench.formats.reading import LOWER, Missing, Output, Reading, number, output_of, text_lines

_LABEL = "Time:"


def read(data: bytes) -> Output:
    """`Time` in s. Raises FormatError if there is none."""
    lines = text_lines(data)
    found: list[Reading | Missing] = [
        Reading(
            metric="Time",
            value=number(line.strip().removeprefix(_LABEL), line=at, what="Time"),
            unit="s",
            higher_is_better=LOWER,
            line=at,
        )
        for at, line in lines
        if line.strip().startswith(_LABEL)
    ]
    return output_of(found, nothing=f"no line begins with {_LABEL!r}", last_line=len(lines))

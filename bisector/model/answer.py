"""How a hunt ended."""

from dataclasses import dataclass

from bisector.model.outcome import AnswerKind


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The end of a hunt: `commits` are full ids, most probable first; `probability` is of the whole answer.

    `reason` is the sentence people read; `share` is the part of the ends' difference that the accused explains
    (1.0 = all of it), None where nobody is accused.
    """

    kind: AnswerKind
    commits: tuple[str, ...]
    probability: float
    reason: str
    share: float | None = None

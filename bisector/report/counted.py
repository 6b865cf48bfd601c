"""Which counters gave no number, said once: a row of zeros would be believed."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from bisector.model.sample import Sample
from bisector.report.words import plain


@dataclass(frozen=True, slots=True, kw_only=True)
class AbsentCounter:
    """A counter that was asked for and is missing in `samples` of `of` samples, with the last reason given."""

    name: str
    reason: str
    samples: int
    of: int


def absent_counters(samples: Iterable[Sample]) -> tuple[AbsentCounter, ...]:
    """Return the counters that are missing in any of the samples, in the order in which they first were."""
    missed: Counter[str] = Counter()
    counted: Counter[str] = Counter()
    reasons: dict[str, str] = {}
    for sample in samples:
        counted.update(counter.name for counter in sample.counters)
        for missing in sample.missing_counters:
            missed[missing.name] += 1
            reasons[missing.name] = plain(missing.reason)
    return tuple(
        AbsentCounter(name=name, reason=reason, samples=missed[name], of=missed[name] + counted[name])
        for name, reason in reasons.items()
    )


def absent_text(absent: Sequence[AbsentCounter]) -> str:
    """Return one paragraph: what this machine does not have, and what is missing now and then. "" if nothing is."""
    never: dict[str, list[str]] = {}
    for counter in absent:
        if counter.samples == counter.of:
            never.setdefault(counter.reason, []).append(counter.name)
    told = []
    if never:
        groups = "; ".join(f"{', '.join(names)} ({reason})" for reason, names in never.items())
        told.append(f"Not available on this machine: {groups}.")
    told += [
        f"{counter.name} is missing in {counter.samples} of {counter.of} samples ({counter.reason})."
        for counter in absent
        if counter.samples < counter.of
    ]
    return " ".join(told)

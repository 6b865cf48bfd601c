"""Claimed against true: is a commit that is called 97 % sure the right one 97 times in a hundred?"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from bisector.search import Trial

BINS = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 0.995, 0.999, 1.0 + 1e-9)
ANSWER = 0.99


@dataclass(slots=True)
class Reliability:
    """What was claimed and whether it was so, by bins of the claimed probability.

    From 0.99 on each named commit is one sample. Below, where the search does not stop, each hunt gives at most one
    sample a bin: the leading commit's probability the first time that it lies in the bin. A belief that is right at
    every moment is right at such a moment too; taking all moments of a hunt would count one mistake ten times. Only
    hunts for a single commit give these samples.
    """

    samples: dict[int, list[tuple[float, bool]]] = field(default_factory=lambda: defaultdict(list))
    answers: int = 0
    wrong: int = 0

    def add(self, trials: Iterable[Trial]) -> None:
        """Count these hunts."""
        for trial in trials:
            for place, sample in _moments(trial):
                self.samples[place].append(sample)
            if trial.result.kind == "commit":
                sample = (trial.result.probability, trial.verdict == "correct")
                place = bin_of(sample[0])
                if place is not None and sample[0] >= ANSWER:
                    self.samples[place].append(sample)
                    self.answers += 1
                    self.wrong += not sample[1]

    def lines(self) -> Iterator[str]:
        """Yield the table."""
        yield f"{'claimed':>13} {'samples':>8} {'mean claim':>11} {'true':>8} {'off by':>8} {'+- (1 sd)':>10}"
        for place, samples in sorted(self.samples.items()):
            count = len(samples)
            claimed = sum(claim for claim, _ in samples) / count
            true = sum(right for _, right in samples) / count
            # The deviation that the claims themselves allow: a bin of ten samples cannot be off by one point.
            sd = (sum(claim * (1 - claim) for claim, _ in samples) ** 0.5) / count
            low, high = BINS[place], min(1.0, BINS[place + 1])
            yield (
                f"{low:.3f}-{high:.3f} {count:8} {100 * claimed:10.2f}% {100 * true:7.2f}% "
                f"{100 * (true - claimed):+8.2f} {100 * sd:10.2f}"
            )
        if self.answers:
            share = 100 * self.wrong / self.answers
            yield f"answers at >= {ANSWER}: {self.answers}, of them wrong {self.wrong} ({share:.2f} %; allowed: 1 %)"


def bin_of(probability: float) -> int | None:
    """Return the bin of a probability, None below the lowest."""
    places = [place for place in range(len(BINS) - 1) if BINS[place] <= probability < BINS[place + 1]]
    return places[0] if places else None


def _moments(trial: Trial) -> Iterator[tuple[int, tuple[float, bool]]]:
    if len(trial.first_bad) != 1:
        # Where twenty commits share the change, whoever leads is one of them: no test of a belief in a single one.
        return
    seen: set[int] = set()
    for moment in trial.moments:
        place = bin_of(moment.claimed)
        if place is not None and moment.claimed < ANSWER and place not in seen:
            seen.add(place)
            yield place, (moment.claimed, moment.right)

"""The worlds that the search is held to, with what must be reached in each (the floor) and what is wanted (the reach).

All but the named: build 300 s, boot 120 s, run 20 s, one machine that does everything in turn, 2 % wild runs,
1 % between boots and 3 % between runs, confidence 0.99, audit included.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from bisector.search import Tally, Trial, World

BIG = 16000
CALM = {"boot_sd_percent": 0.5, "run_sd_percent": 1.0}
REALISTIC = {"unbuildable": 0.05, "layout_sd_percent": 0.3, "drift_percent_per_h": 0.05, "wave_percent": 0.3}
# With so many trials a share is taken as it is; with fewer one miss more than allowed is no finding.
ENOUGH_TRIALS = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """The least share of right answers, the largest of wrong ones, mean machine seconds, kernels and boots allowed."""

    correct: float = 0.0
    wrong: float = 1.0
    mean_s: float = float("inf")
    kernels: float = float("inf")
    boots: float = float("inf")

    def missed(self, tally: Tally) -> list[str]:
        """Return what of this a tally does not reach, each with the limit."""
        slack = 1 / tally.trials if tally.trials < ENOUGH_TRIALS else 1e-9
        sides = [
            ("correct", self.correct - slack > tally.correct, f">= {100 * self.correct:g} %"),
            ("wrong", self.wrong + slack < tally.wrong, f"<= {100 * self.wrong:g} %"),
            ("time", self.mean_s < tally.machine_s_mean, f"<= {self.mean_s:.0f} s"),
            ("kernels", self.kernels < tally.builds, f"<= {self.kernels:g}"),
            ("boots", self.boots < tally.boots, f"<= {self.boots:g}"),
        ]
        return [f"{name} {limit}" for name, off, limit in sides if off]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A world and its goals. `clean`: the model holds in it, so that claimed and true must agree.

    With `says` at least `share_saying` of the hunts must end with one of these words in their reason within
    `within_boots`; with `like` the mean time may be a tenth above that row's.
    """

    world: World
    min_effect_percent: float = 1.0
    floor: Goal = Goal()
    reach: Goal | None = None
    clean: bool = False
    says: tuple[str, ...] = ()
    share_saying: float = 0.9
    within_boots: float = float("inf")
    like: str = ""

    def unsaid(self, trials: Sequence[Trial]) -> list[str]:
        """Return what these trials' reasons lack."""
        if not self.says:
            return []
        said = [
            any(word in trial.result.reason for word in self.says) and trial.result.boots <= self.within_boots
            for trial in trials
        ]
        share = sum(said) / len(said)
        if share >= self.share_saying:
            return []
        return [f"says {' or '.join(map(repr, self.says))} within {self.within_boots:g} boots: {100 * share:.0f} %"]


ROWS = {
    "n16000-5": Row(
        world=World(commits=BIG),
        floor=Goal(correct=0.99, wrong=0.01, mean_s=14400, kernels=17.5, boots=41),
        reach=Goal(mean_s=12500),
        clean=True,
    ),
    "n16000-5-calm": Row(
        world=World(commits=BIG, **CALM),
        floor=Goal(correct=0.995, wrong=0.005, mean_s=9900),
        reach=Goal(mean_s=9000),
        clean=True,
    ),
    "n16000-20": Row(
        world=World(commits=BIG, effect_percent=20),
        floor=Goal(correct=0.995, wrong=0.005, mean_s=9700),
        reach=Goal(mean_s=8700),
        clean=True,
    ),
    "n16000-2-calm": Row(
        world=World(commits=BIG, effect_percent=2, **CALM),
        floor=Goal(correct=0.99, wrong=0.01, mean_s=15800),
        reach=Goal(mean_s=13000),
        clean=True,
    ),
    "n16000-2-1/1": Row(
        world=World(commits=BIG, effect_percent=2, run_sd_percent=1),
        floor=Goal(correct=0.96, wrong=0.015, mean_s=25900),
        reach=Goal(mean_s=21000),
        clean=True,
    ),
    "n1000-5": Row(
        world=World(), floor=Goal(correct=0.99, wrong=0.01, mean_s=11500), reach=Goal(mean_s=10000), clean=True
    ),
    "n64-5": Row(
        world=World(commits=64),
        floor=Goal(correct=0.985, wrong=0.01, mean_s=9000),
        reach=Goal(correct=0.99, mean_s=7900),
        clean=True,
    ),
    "realistic": Row(
        world=World(commits=BIG, **REALISTIC),
        floor=Goal(correct=0.98, wrong=0.003, mean_s=17000),
        reach=Goal(mean_s=15000),
    ),
    "null": Row(
        world=World(regression=False),
        min_effect_percent=2.0,
        floor=Goal(correct=0.97, wrong=0.0, mean_s=10000),
        reach=Goal(mean_s=7000),
    ),
    "drift-1": Row(world=World(drift_percent_per_h=1.0), floor=Goal(correct=0.95, wrong=0.0), reach=Goal(correct=0.97)),
    "layout-1": Row(world=World(layout_sd_percent=1.0), floor=Goal(correct=0.92, wrong=0.06), reach=Goal(wrong=0.01)),
    "outliers-10": Row(world=World(outliers=0.1), floor=Goal(correct=0.98, wrong=0.01)),
    "bimodal": Row(world=World(second_mode=0.3), floor=Goal(correct=0.87, wrong=0.02), reach=Goal(correct=0.95)),
    "gradual-20": Row(world=World(gradual=20), says=("gradual",), within_boots=120),
    # What it would take is said by all but those in whose boots a slope or no effect at all shows by chance.
    "n1000-1": Row(
        world=World(effect_percent=1),
        floor=Goal(wrong=0.02),
        says=("would show the smallest effect", "more are needed"),
        share_saying=0.75,
    ),
    "dag-5000": Row(
        world=World(commits=5000, merges=0.08), floor=Goal(correct=0.99, wrong=0.01), like="n5000-5", clean=True
    ),
    "n5000-5": Row(world=World(commits=5000), floor=Goal(correct=0.99, wrong=0.01), clean=True),
    "two-5+5": Row(world=World(two_steps=True, effect_percent=10.25), floor=Goal(wrong=0.01)),
    "improvement": Row(world=World(improvement=True), floor=Goal(correct=0.98, wrong=0.01), clean=True),
}
"""In the order of the targets' table: the first is row 1. The last three are not in it."""

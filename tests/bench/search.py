"""The search in invented labs: accuracy and cost beside their targets. Run: python tests/bench/search.py [--help]

Not a test: `--trials 500` over all rows takes an hour or two of one core. Every row is seeded and repeats exactly.
"""

import argparse
import sys
import time
from collections import Counter
from dataclasses import dataclass

from bisector.search import Options, Tally, Trial, World, simulate


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A world with the least share of right answers, the largest of wrong ones, and machine seconds allowed."""

    world: World
    min_effect_percent: float = 1.0
    correct: float = 0.0
    wrong: float = 1.0
    floor_s: float = float("inf")
    reach_s: float | None = None


def half(**more: float) -> dict[str, float]:
    """A calmer lab: 0.5 % between boots, 1 % within."""
    return {"boot_sd_percent": 0.5, "run_sd_percent": 1.0, **more}


BIG, REALISTIC = (
    16000,
    {"unbuildable": 0.05, "layout_sd_percent": 0.3, "drift_percent_per_h": 0.05, "wave_percent": 0.3},
)
ROWS = {
    "n16000-5": Row(world=World(commits=BIG), correct=0.99, wrong=0.01, floor_s=14400, reach_s=12500),
    "n16000-5-calm": Row(world=World(commits=BIG, **half()), correct=0.995, wrong=0.005, floor_s=9900, reach_s=9000),
    "n16000-20": Row(
        world=World(commits=BIG, effect_percent=20), correct=0.995, wrong=0.005, floor_s=9700, reach_s=8700
    ),
    "n16000-2-calm": Row(
        world=World(commits=BIG, **half(effect_percent=2)), correct=0.99, wrong=0.01, floor_s=15800, reach_s=13000
    ),
    "n16000-2-1/1": Row(
        world=World(commits=BIG, effect_percent=2, run_sd_percent=1),
        correct=0.96,
        wrong=0.015,
        floor_s=25900,
        reach_s=21000,
    ),
    "n1000-5": Row(world=World(), correct=0.99, wrong=0.01, floor_s=11500, reach_s=10000),
    "n64-5": Row(world=World(commits=64), correct=0.985, wrong=0.01, floor_s=9000, reach_s=7900),
    "realistic": Row(world=World(commits=BIG, **REALISTIC), correct=0.98, wrong=0.003, floor_s=17000, reach_s=15000),
    "null": Row(
        world=World(regression=False),
        min_effect_percent=2.0,
        correct=0.97,
        wrong=0.0,
        floor_s=10000,
        reach_s=7000,
    ),
    "drift-1": Row(world=World(drift_percent_per_h=1.0), correct=0.95, wrong=0.0),
    "layout-1": Row(world=World(layout_sd_percent=1.0), correct=0.92, wrong=0.06),
    "outliers-10": Row(world=World(outliers=0.1), correct=0.98, wrong=0.01),
    "bimodal": Row(world=World(second_mode=0.3), correct=0.87, wrong=0.02),
    "two-5+5": Row(world=World(two_steps=True, effect_percent=10.25)),
    "gradual-20": Row(world=World(gradual=20)),
    "n1000-1": Row(world=World(effect_percent=1), wrong=0.02),
    "dag-5000": Row(world=World(commits=5000, merges=0.08), correct=0.99, wrong=0.01),
    "improvement": Row(world=World(improvement=True), correct=0.98, wrong=0.01),
}
COLUMNS = "{:14} {:>6} {:>7} {:>6} {:>6} {:>6} {:>8} {:>7} {:>6} {:>6} {:>8} {:>8} {:>8} {:>6}  {}"


def main() -> int:
    """Print one line a row; the exit status is the number of rows below their floor (0 if all hold)."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rows", nargs="*", help=f"of: {', '.join(ROWS)} (default: all)")
    parser.add_argument("--trials", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--strategy", default="belief")
    parser.add_argument("--no-audit", action="store_true", help="as the floors' prototype: accuse without fresh pairs")
    given = parser.parse_args()
    unknown = sorted(set(given.rows) - set(ROWS))
    if unknown:
        parser.error(f"no such row: {', '.join(unknown)}")
    names = "row trials correct wrong set none claimed kernels boots runs mean_s p90_s ms/step against verdict"
    print(COLUMNS.format(*names.split()))
    missed = 0
    pooled: list[Trial] = []
    for name in given.rows or ROWS:
        row = ROWS[name]
        tally, trials = run(name, row, given)
        pooled += trials
        said = verdict(row, tally)
        missed += said.startswith("below")
        print_row(name, row, tally, said)
    reliability(pooled)
    return missed


def run(name: str, row: Row, given: argparse.Namespace) -> tuple[Tally, list[Trial]]:
    """Return a row's tally and its trials."""
    trials: list[Trial] = []

    def on_trial(trial: Trial) -> None:
        trials.append(trial)
        progress(name, trial.number + 1, given.trials)

    options = Options(audit=not given.no_audit, min_effect_percent=row.min_effect_percent)
    tally = simulate(
        row.world,
        options,
        trials=given.trials,
        seed=given.seed,
        strategy=given.strategy,
        clock=time.perf_counter,
        on_trial=on_trial,
    )
    return tally, trials


def progress(name: str, done: int, of: int) -> None:
    """Show how far a row is, on a terminal only."""
    if sys.stderr.isatty():
        print(f"\r{name}: {done} of {of} ", end="" if done < of else "\r", file=sys.stderr, flush=True)


def verdict(row: Row, tally: Tally) -> str:
    """Return "reach", "floor" or what is below it. With few trials one miss more than the floor is no finding."""
    slack = 1 / tally.trials
    problems = []
    if tally.correct + slack < row.correct:
        problems.append("correct")
    if tally.wrong - slack > row.wrong:
        problems.append("wrong")
    if tally.machine_s_mean > row.floor_s:
        problems.append("time")
    if problems:
        return f"below the floor: {', '.join(problems)}"
    return "reach" if row.reach_s is not None and tally.machine_s_mean <= row.reach_s else "floor"


def print_row(name: str, row: Row, tally: Tally, said: str) -> None:
    """Print one line of the table."""
    shares = [f"{100 * share:.1f}" for share in (tally.correct, tally.wrong, tally.set, tally.none)]
    means = [f"{tally.builds:.1f}", f"{tally.boots:.1f}", f"{tally.runs:.0f}"]
    seconds = [f"{tally.machine_s_mean:.0f}", f"{tally.machine_s_p90:.0f}", f"{tally.decision_ms_mean:.1f}"]
    against = f"{tally.machine_s_mean / row.floor_s:.2f}" if row.floor_s < float("inf") else "-"
    claimed = f"{100 * tally.claimed:.2f}"
    print(COLUMNS.format(name, tally.trials, *shares, claimed, *means, *seconds, against, said), flush=True)


def reliability(trials: list[Trial]) -> None:
    """Print claimed against true for the commits named, in bands of the claimed probability."""
    bands = [(0.5, 0.9), (0.9, 0.95), (0.95, 0.99), (0.99, 0.995), (0.995, 0.999), (0.999, 1.01)]
    named = [trial for trial in trials if trial.result.kind == "commit"]
    print("\nclaimed        named  mean claimed  true")
    for low, high in bands:
        of = [trial for trial in named if low <= trial.result.probability < high]
        if of:
            claimed = sum(trial.result.probability for trial in of) / len(of)
            right = Counter(trial.verdict for trial in of)["correct"] / len(of)
            print(f"{low:.3f}-{min(high, 1.0):.3f} {len(of):6} {100 * claimed:12.2f}% {100 * right:6.2f}%")


if __name__ == "__main__":
    sys.exit(main())

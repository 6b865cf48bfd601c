"""The search in invented labs: accuracy and cost against their targets, calibration, and its peers in the same labs.

Run: python tests/bench/search.py --trials 500 --jobs 2

Not a test: 500 trials over all rows take hours of two cores. Every row is seeded and repeats exactly, whatever the
jobs. The exit status is the number of rows below their floor.
"""

import argparse
import sys
import time
from concurrent.futures import Executor
from typing import TypeVar

import bounds
import machines
import peers
from calibration import Reliability
from rows import ROWS, Goal, Row

from bisector.cli.trials import Plan, crew, hunt, usable_cores
from bisector.search import Options, Tally, Trial, tally
from bisector.search.rivals import RIVALS

COLUMNS = "{:>2} {:14} {:>6} {:>7} {:>6} {:>5} {:>5} {:>7} {:>7} {:>6} {:>5} {:>7} {:>7} {:>6} {:>6} {:>6}  {}"
HEAD = "# row trials correct wrong set none claims kernels boots runs mean_s p90_s /floor /reach ms/dec verdict"
K = TypeVar("K")
SECTIONS = ("rows", "machines", "peers")


def main() -> int:
    """Print the sections asked for; return the number of rows below their floor."""
    given = arguments()
    began = time.monotonic()
    missed = 0
    with crew(given.jobs) as pool:
        if "rows" in given.only:
            missed = print_rows(given, pool)
        if "machines" in given.only and (not given.rows or machines.ROW in given.rows):
            print_machines(given, pool)
        if "peers" in given.only:
            print_peers(given, pool)
    print(f"\n{(time.monotonic() - began) / 60:.0f} min with {given.jobs} jobs, seed {given.seed}")
    return missed


def arguments() -> argparse.Namespace:
    """Return what was typed, rows by their names."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    numbered = ", ".join(f"{number} {name}" for number, name in enumerate(ROWS, 1))
    parser.add_argument("rows", nargs="*", help=f"names or numbers of: {numbered} (default: all)")
    parser.add_argument("--trials", type=int, default=100)
    parser.add_argument("--peer-trials", type=int, help="default: as --trials, at most 200")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=usable_cores())
    parser.add_argument("--only", action="append", choices=SECTIONS, help="default: everything")
    parser.add_argument("--no-audit", action="store_true", help="as the floors' prototype: accuse without fresh pairs")
    parser.add_argument("--strategy", default="belief", help=f"of: belief, {', '.join(RIVALS)}")
    given = parser.parse_args()
    by_number = {str(number): name for number, name in enumerate(ROWS, 1)}
    given.rows = [by_number.get(row, row) for row in given.rows]
    unknown = sorted(set(given.rows) - set(ROWS))
    if unknown:
        parser.error(f"no such row: {', '.join(unknown)}")
    given.only = given.only or list(SECTIONS)
    given.peer_trials = given.peer_trials or min(given.trials, 200)
    return given


def print_rows(given: argparse.Namespace, pool: Executor | None) -> int:
    """Print one line a row, then claimed against true; return the number of rows below their floor."""
    print(COLUMNS.format(*HEAD.split()), flush=True)
    clean, everything = Reliability(), Reliability()
    means: dict[str, float] = {}
    wanted = [name for name in ROWS if name in (given.rows or ROWS)]
    # A row that is held to another one comes after it.
    missed = 0
    for name in sorted(wanted, key=lambda name: bool(ROWS[name].like)):
        row = ROWS[name]
        trials = run(row, given, pool, name)
        figures = tally(trials)
        means[name] = figures.machine_s_mean
        problems = row.floor.missed(figures) + row.unsaid(trials)
        if row.like in means:
            problems += Goal(mean_s=1.1 * means[row.like]).missed(figures)
        missed += bool(problems)
        print_row(name, row, figures, problems)
        everything.add(trials)
        if row.clean:
            clean.add(trials)
    print()
    for line in bounds.lines(wanted, seed=given.seed, trials=given.trials):
        print(line)
    for title, reliability in (("worlds in which the model holds", clean), ("all rows", everything)):
        print(f"\nClaimed against true, {title}:")
        for line in reliability.lines():
            print(line)
    return missed


def run(row: Row, given: argparse.Namespace, pool: Executor | None, label: str) -> list[Trial]:
    """Return a row's trials."""
    options = Options(audit=not given.no_audit, min_effect_percent=row.min_effect_percent)
    plan = Plan(world=row.world, options=options, strategy=given.strategy, seed=given.seed)
    trials = []
    for _, trial in hunt([plan], pool, jobs=given.jobs, wanted=lambda number: number < given.trials):
        trials.append(trial)
        progress(label, len(trials), given.trials)
    return trials


def print_row(name: str, row: Row, figures: Tally, problems: list[str]) -> None:
    """Print one line of the table: machine seconds also as ratios to the floor's and the reach's."""
    shares = [f"{100 * share:.1f}" for share in (figures.correct, figures.wrong, figures.set, figures.none)]
    means = [f"{figures.builds:.1f}", f"{figures.boots:.1f}", f"{figures.runs:.0f}"]
    seconds = [f"{figures.machine_s_mean:.0f}", f"{figures.machine_s_p90:.0f}"]
    goals = [row.floor, row.reach or Goal()]
    ratios = [f"{figures.machine_s_mean / goal.mean_s:.2f}" if goal.mean_s < float("inf") else "-" for goal in goals]
    said = "floor"
    if problems:
        said = f"BELOW THE FLOOR: {', '.join(problems)}"
    elif row.reach is not None:
        short = row.reach.missed(figures)
        said = f"floor; not the reach: {', '.join(short)}" if short else "reach"
    number = list(ROWS).index(name) + 1
    claimed = f"{100 * figures.claimed:.2f}"
    cells = [number, name, figures.trials, *shares, claimed, *means, *seconds, *ratios]
    print(COLUMNS.format(*cells, f"{figures.decision_ms_mean:.1f}", said), flush=True)


def print_machines(given: argparse.Namespace, pool: Executor | None) -> None:
    """Print row 1 on more machines, with and without builders beside them."""
    print(f"\n{machines.ROW} on more machines, {given.peer_trials} trials:", flush=True)
    tallies = everybody(machines.plans(given.seed), given, pool, label="machines")
    for line in machines.lines(tallies):
        print(line)


def print_peers(given: argparse.Namespace, pool: Executor | None) -> None:
    """Print rows 1, 3 and 4 with everybody in the same labs."""
    names = [name for name in peers.ROWS if name in (given.rows or ROWS)]
    if not names:
        return
    print(
        f"\nThe same labs for everybody, {given.peer_trials} trials; seconds, kernels and boots as ratios to belief's:"
    )
    if peers.Bisector is None:
        print("(git-bayesect is not installed: pip install git-bayesect)")
    for name in names:
        tallies = everybody(peers.plans(ROWS[name].world, given.seed), given, pool, label=f"{name}, all strategies")
        for line in peers.lines(name, tallies):
            print(line, flush=True)


def everybody(plans: dict[K, Plan], given: argparse.Namespace, pool: Executor | None, *, label: str) -> dict[K, Tally]:
    """Return the tally of every plan, each with the same trials."""
    names = list(plans)
    done: dict[K, list[Trial]] = {name: [] for name in names}
    hunts = hunt(list(plans.values()), pool, jobs=given.jobs, wanted=lambda number: number < given.peer_trials)
    for count, (place, trial) in enumerate(hunts, 1):
        done[names[place]].append(trial)
        progress(label, count, given.peer_trials * len(names))
    return {name: tally(trials) for name, trials in done.items()}


def progress(label: str, done: int, of: int) -> None:
    """Show how far it is, on a terminal only."""
    if sys.stderr.isatty():
        print(f"\r{label}: {done} of {of}\033[K", end="" if done < of else "\r\033[K", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())

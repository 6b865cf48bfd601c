"""Hunts through fault storms, many seeds: `python tests/bench/storm.py --seeds 50`. Needs root (namespaces, a tmpfs).

Each seed is a whole hunt over SSH on a fake box where every tenth operation fails in a random way. Prints a line for
each and the sum; exits 1 if any verdict was wrong.
"""

import argparse
import sys
import tempfile
from collections import Counter
from pathlib import Path

TESTS = Path(__file__).parents[1]


def main() -> int:
    sys.path[:0] = [str(TESTS), str(TESTS.parent)]
    from lab.fakebox import USABLE, WHY_NOT
    from lab.storm import Verdict, ride_out

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=50, help="how many storms")
    parser.add_argument("--first", type=int, default=1, help="the first seed")
    parser.add_argument("--share", type=float, default=0.1, help="of the operations that fail")
    asked = parser.parse_args()
    if not USABLE:
        print(WHY_NOT, file=sys.stderr)
        return 2
    verdicts: list[Verdict] = []
    for seed in range(asked.first, asked.first + asked.seeds):
        with tempfile.TemporaryDirectory(prefix="bisector-storm-") as folder:
            verdict = ride_out(seed, Path(folder) / "storm", share=asked.share)
        verdicts.append(verdict)
        print(verdict, flush=True)
    strikes = Counter(strike.rpartition(" (")[0] for verdict in verdicts for strike in verdict.struck)
    wrong = [verdict.seed for verdict in verdicts if verdict.wrong]
    paused = sum(bool(verdict.paused) for verdict in verdicts)
    print(f"{len(verdicts)} storms, {strikes.total()} faults in {sum(v.boots for v in verdicts)} boots")
    print("faults: " + ", ".join(f"{fault} {times}" for fault, times in strikes.most_common()))
    print(f"ended in one life {len(verdicts) - paused}, paused and went on {paused}")
    print(f"wrong verdicts {len(wrong)}" + (f": seeds {wrong}" if wrong else ""))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

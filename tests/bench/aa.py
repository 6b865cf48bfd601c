"""The suite against itself on this computer: `python tests/bench/aa.py [--pairs 20] [TEST...]` (all tests if none).

Each pair is two results of five runs each, measured in turns (A B B A ...), compared as `bisector bench compare` does.
Nothing differs, so what is seen is a false alarm: about the declared share of pairs. Prints each test's deviation from
run to run too. Never an assertion: the computer may be as busy as it likes.
"""

import argparse
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

import numpy as np
from scipy import stats

from bisector.bench.compile import build_suite
from bisector.bench.local import LocalMachine
from bisector.bench.runner import SuiteRunner
from bisector.bench.tests import known_tests
from bisector.recipe.schema import BenchmarkPart
from bisector.search.contrast import contrast

ORDER = "ABBAABBAAB"
LEVELS = (0.05, 0.01)

Values = dict[str, list[float]]


def measured(tests: list[str], program: Path, *, pairs: int, sample_ms: int, cpu: int) -> list[dict[str, Values]]:
    """For each pair the values of A and of B, by test and phase."""
    part = BenchmarkPart(test=tests[0], also=tuple(tests[1:]), sample_ms=sample_ms, cpu=cpu)
    suite = SuiteRunner(part, program)
    found = []
    with LocalMachine() as here, tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log"
        suite.install(here)
        batches = suite.calibrate(here, log)
        for number in range(pairs):
            sides: dict[str, Values] = {side: defaultdict(list) for side in "AB"}
            for side in ORDER:
                for sample in suite.run(here, batches, log).samples:
                    sides[side][sample.test].append(sample.value)
            found.append(sides)
            print(f"pair {number + 1} of {pairs}", end="\r", file=sys.stderr, flush=True)
    return found


def run_sd_percent(pairs: list[dict[str, Values]], test: str) -> float:
    """From run to run within a result, pooled."""
    logs = [np.log(sides[side][test]) for sides in pairs for side in "AB"]
    return float(100 * np.sqrt(np.mean([one.var(ddof=1) for one in logs])))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tests", nargs="*")
    parser.add_argument("--pairs", type=int, default=20)
    parser.add_argument("--sample-ms", type=int, default=50)
    parser.add_argument("--cpu", type=int, default=0)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        program = build_suite(Path(folder))
        tests = asked.tests or [test.name for test in known_tests(program)]
        pairs = measured(tests, program, pairs=asked.pairs, sample_ms=asked.sample_ms, cpu=asked.cpu)
    alarms = dict.fromkeys(LEVELS, 0)
    print(
        f"{'test':<20} {'run sd':>8}  false alarms of {asked.pairs} at " + ", ".join(f"{level:g}" for level in LEVELS)
    )
    metrics = list(pairs[0]["A"])
    for test in metrics:
        p_values = [contrast([sides["A"][test]], [sides["B"][test]], same_boot=True).p_value for sides in pairs]
        seen = {level: sum(p < level for p in p_values) for level in LEVELS}
        for level, count in seen.items():
            alarms[level] += count
        print(
            f"{test:<20} {run_sd_percent(pairs, test):>6.2f} %  " + ", ".join(f"{seen[level]:>3}" for level in LEVELS)
        )
    total = asked.pairs * len(metrics)
    for level, count in alarms.items():
        low, high = stats.binom.interval(0.95, total, level)
        print(f"at {level:g}: {count} of {total}; {level * total:.0f} expected, 95 % chance of {low:.0f} to {high:.0f}")


if __name__ == "__main__":
    main()

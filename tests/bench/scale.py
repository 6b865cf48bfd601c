"""How one decision grows with the history: seconds and memory over n. Run: python tests/bench/scale.py [--help]

Not a test: it prints processor seconds (a busy machine does not count) and asserts nothing about them. Every size and
shape runs in a process of its own, so that its peak memory is its own. The last columns are ratios between a size and
the one before it in the same run; 3.2 beside a ratio of 4 in commits is growth slower than the history.
"""

import argparse
import json
import resource
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np

from bisector.search import Boot, Costs, Evidence, Graph, Options, Purpose, assess, assign, propose, rank_builds

SIZES = (1000, 5000, 16000, 64000, 200000)
COSTS = Costs(build_s=300.0, boot_s=120.0, run_s=20.0)
OPTIONS = Options(max_boots=10_000)
LOOKS = (20, 60)
Parents = list[tuple[int, ...]]
TIMES = ("load", "first", *(f"after {looks}" for looks in LOOKS), "assess", "builds", "8 at once")


def line(count: int) -> Parents:
    """A history without merges."""
    return [(), *((commit,) for commit in range(count - 1))]


def trees(count: int, seed: int = 1) -> Parents:
    """A kernel's shape, 8 % merges: twelve trees merge branches of their own and are merged by a main line.

    Now and then a tree takes the main line in, and forks anew from it after it was merged.
    """
    rng = np.random.default_rng(seed)
    parents: Parents = [()]
    tip, heads = 0, [0] * 12
    while len(parents) < count - 1:
        which, kind = int(rng.integers(len(heads))), rng.random()
        here = heads[which]
        if kind < 0.1:
            branch = here
            for _ in range(min(int(rng.integers(1, 9)), count - 3 - len(parents))):
                parents.append((branch,))
                branch = len(parents) - 1
            parents.append((here, branch) if branch != here else (here,))
        elif kind < 0.115 and here != tip:
            parents.append((tip, here))
            tip = len(parents) - 1
        elif kind < 0.118 and here != tip:
            parents.append((here, tip))
        else:
            parents.append((here,))
        heads[which] = len(parents) - 1
    parents.append((tip, *sorted(set(heads) - {tip})))
    return parents


def of_git(listing: Path, count: int) -> Parents:
    """The last `count` commits of a real history: `git rev-list --topo-order --reverse --parents HEAD > listing`.

    A parent outside them stands as the first one.
    """
    index: dict[str, int] = {}
    parents: Parents = [()]
    for words in [text.split() for text in listing.read_text().splitlines()][-(count - 1) :]:
        parents.append(tuple(sorted({index.get(parent, 0) for parent in words[1:]})) or (0,))
        index[words[0]] = len(parents) - 1
    loose = set(range(len(parents) - 1)) - {parent for of in parents for parent in of}
    parents[-1] = tuple(sorted({*parents[-1], *loose}))
    return parents


def evidence(graph: Graph, looks: int, seed: int = 1) -> Evidence:
    """Six boots of the ends and these looks, two thirds all over the history, the others near the first bad commit."""
    rng, count = np.random.default_rng(seed), len(graph)
    first_bad = int(0.57 * count)
    slow = graph.descendants([first_bad])[0]
    near = np.clip(rng.integers(first_bad - 100, first_bad + 100, looks // 3), 1, count - 2)
    spread = rng.integers(1, count - 1, looks - near.size)
    boots = []
    for place, commit in enumerate([0, count - 1] * 3 + spread.tolist() + near.tolist()):
        level = 1000 * np.exp((-5.0 * slow[commit] + rng.normal(0, 1)) / 100)
        values = tuple(level * np.exp(rng.normal(0, 0.03, 6)))
        purpose = Purpose.GATE if place < 6 else Purpose.SEARCH
        boots.append(Boot(commit=commit, values=values, at_s=240.0 * place, purpose=purpose))
    built = frozenset(boot.commit for boot in boots)
    return Evidence(boots=tuple(boots), built=built, now_s=240.0 * len(boots))


def in_a_fleet(known: Evidence, machines: int) -> Evidence:
    """The same with its looks made by several machines in turn, each of which has booted both ends."""
    ends = [replace(boot, machine=machine) for machine in range(machines) for boot in known.boots[:6]]
    others = [replace(boot, machine=place % machines) for place, boot in enumerate(known.boots[6:])]
    return replace(known, boots=(*ends, *others))


def seconds(work: Callable[[], object], times: int) -> float:
    """The least processor seconds of a few."""
    spent = []
    for _ in range(times):
        begin = time.process_time()
        work()
        spent.append(time.process_time() - begin)
    return min(spent)


def peak_mb(work: Callable[[], object]) -> float:
    """The most memory that was in use during this, beyond what was before."""
    tracemalloc.start()
    work()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak / 1e6


def measure(shape: str, count: int, times: int) -> dict[str, float]:
    """All figures of one size."""
    parents = line(count) if shape == "line" else trees(count) if shape == "trees" else of_git(Path(shape), count)
    graph = Graph.from_parents(parents)
    known = {looks: evidence(graph, looks) for looks in (0, *LOOKS)}
    figures = {"n": float(len(parents)), "merges": sum(len(of) > 1 for of in parents) / len(parents)}
    figures["load"] = seconds(lambda: Graph.from_parents(parents), times)
    for name, looks in zip(TIMES[1:4], known, strict=True):
        figures[name] = seconds(lambda looks=looks: propose(graph, known[looks], COSTS, OPTIONS), times)  # type: ignore[misc]
    figures["assess"] = seconds(lambda: assess(graph, known[60], OPTIONS), times)
    figures["builds"] = seconds(lambda: rank_builds(graph, known[60], COSTS, OPTIONS, 8), times)
    fleet = in_a_fleet(known[20], 8)
    figures["8 at once"] = seconds(lambda: assign(graph, fleet, COSTS, OPTIONS, range(8)), times)
    figures["rss"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    figures["load_mb"] = peak_mb(lambda: Graph.from_parents(parents))
    figures["decide_mb"] = peak_mb(lambda: propose(graph, known[60], COSTS, OPTIONS))
    return figures


def main() -> int:
    """Print one line for each shape and size."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    parser.add_argument("--shapes", nargs="+", default=["line", "trees"], help="line, trees, or a listing of git's")
    parser.add_argument("--times", type=int, default=3)
    parser.add_argument("--json", action="store_true", help="one size and shape, in this process, as JSON")
    asked = parser.parse_args()
    if asked.json:
        print(json.dumps(measure(asked.shapes[0], asked.sizes[0], asked.times)))
        return 0
    heads = (*(f"{name} ms" for name in TIMES), "load MB", "decide MB", "rss MB")
    print(
        f"{'shape':6} {'n':>7} {'merges':>6} "
        + " ".join(f"{head:>11}" for head in heads)
        + "   x n   x load  x after 60"
    )
    for shape in asked.shapes:
        before: dict[str, float] = {}
        for size in asked.sizes:
            command = [sys.executable, __file__, "--json", "--shapes", shape, "--sizes", str(size)]
            ended = subprocess.run([*command, "--times", str(asked.times)], check=True, capture_output=True, text=True)
            now = json.loads(ended.stdout)
            texts = [f"{1000 * now[name]:11.1f}" for name in TIMES]
            texts += [f"{now[name]:11.1f}" for name in ("load_mb", "decide_mb", "rss")]
            ratios = [f"{now[name] / max(before[name], 1e-4):5.1f}" for name in ("n", "load", "after 60") if before]
            name = shape if shape in ("line", "trees") else "git"
            print(
                f"{name:6} {now['n']:7.0f} {now['merges']:6.1%} {' '.join(texts)}   {'    '.join(ratios)}", flush=True
            )
            before = now
    return 0


if __name__ == "__main__":
    sys.exit(main())

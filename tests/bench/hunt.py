"""What a hunt cost, read from its journal: `python tests/bench/hunt.py [SESSION]` (the one last worked on if none).

Prints seconds as they were and, because machines differ, the ratios that carry over to others.
"""

import sys
from statistics import median

from bisector.report.counts import count_up
from bisector.session.home import Home
from bisector.session.state import SessionState, fold


def figures(state: SessionState) -> list[tuple[str, str]]:
    counts = count_up(state)
    builds = sorted(
        (build.started_at, build.duration_s)
        for build in state.builds.values()
        if build.image is not None and not build.image.from_cache
    )
    boots = [look.record.duration_s for look in state.looks if look.record is not None]
    runs = [run.duration_s for look in state.looks for run in look.runs]
    worked_s = state.last_at - state.started_at - state.paused_s
    rows = [
        ("whole hunt", f"{worked_s / 60:.1f} min"),
        ("distinct kernels looked at", str(len({look.commit for look in state.looks}))),
        ("kernels built, from the cache, failed", f"{counts.built}, {counts.from_cache}, {counts.build_failures}"),
        ("boots, runs", f"{counts.boots}, {counts.runs}"),
    ]
    if len(builds) > 1:
        first, later = builds[0][1], median(seconds for _, seconds in builds[1:])
        rows += [
            ("first build", f"{first:.0f} s"),
            ("incremental build, median", f"{later:.1f} s"),
            ("incremental / first", f"{later / first:.3f}"),
        ]
    if boots and runs:
        rows += [
            ("boot to proven kernel, median", f"{median(boots):.1f} s"),
            ("one run of all tests, median", f"{median(runs):.1f} s"),
        ]
    rows.append(("machine waited for builds / whole hunt", f"{counts.waited_s / worked_s:.2f}"))
    return rows


def main() -> None:
    home = Home.of_this_user()
    name = home.pick(sys.argv[1] if len(sys.argv) > 1 else None)
    for label, value in figures(fold(home.read(name).entries)):
        print(f"{label:<42} {value}")


if __name__ == "__main__":
    main()

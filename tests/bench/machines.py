"""What more machines and separate builders save: row 1's hunt by the clock on the wall, as ratios to one machine's."""

from collections.abc import Iterator
from dataclasses import replace

from rows import ROWS

from bisector.cli.trials import Plan
from bisector.search import Options, Tally

ROW = "n16000-5"
MACHINES = (1, 2, 4, 8)
FLOOR = {2: 0.63, 4: 0.45, 8: 0.35}
REACH = {2: 0.58, 4: 0.40, 8: 0.30}

Lab = tuple[int, int]
"""Machines and builders."""


def plans(seed: int) -> dict[Lab, Plan]:
    """Return the plan of each lab: machines that build for themselves, then with as many builders beside them."""
    labs = [(machines, builders) for machines in MACHINES for builders in (0, machines)]
    return {
        (machines, builders): Plan(
            world=replace(ROWS[ROW].world, machines=machines, builders=builders),
            options=Options(),
            strategy="belief",
            seed=seed,
        )
        for machines, builders in labs
    }


def lines(tallies: dict[Lab, Tally]) -> Iterator[str]:
    """Yield the table."""
    one = tallies[1, 0]
    head = ("machines", "builders", "right", "wrong", "wall s", "x one", "machine x", "kernels", "boots")
    yield "".join(f"{name:>10}" for name in head) + "  verdict"
    for (machines, builders), tally in tallies.items():
        ratio = tally.wall_s_mean / one.wall_s_mean
        shares = [f"{100 * share:.1f}%" for share in (tally.correct, tally.wrong)]
        times = [f"{tally.wall_s_mean:.0f}", f"{ratio:.2f}", f"{tally.machine_s_mean / one.machine_s_mean:.2f}"]
        cells = [str(machines), str(builders), *shares, *times, f"{tally.builds:.1f}", f"{tally.boots:.1f}"]
        yield "".join(f"{cell:>10}" for cell in cells) + f"  {_verdict(machines, ratio)}"


def _verdict(machines: int, ratio: float) -> str:
    if machines not in FLOOR:
        return "-"
    if ratio > FLOOR[machines]:
        return f"BELOW THE FLOOR: <= {FLOOR[machines]}"
    return "reach" if ratio <= REACH[machines] else f"floor; not the reach: <= {REACH[machines]}"

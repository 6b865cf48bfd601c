"""What `simulate` says: one line a strategy, and the same as JSON.

The keys of a strategy's figures are promised to scripts, and so are those of the first strategy at the top: more may
come, these stay.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from bisector.report.words import count, duration, wrap
from bisector.search import Options, Tally, World

HEAD = ("strategy", "right", "wrong", "set", "none", "claims", "kernels", "boots", "runs", "machine time", "9 of 10 in")
WALL_HEAD = ("wall time", "9 of 10 in")
CLAIMING = ("belief", "sprt", "pass-fail")
"""The strategies that say how sure they are; the others simply stop."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulated:
    """What was asked and what came out. `tallies` are by strategy, in the order asked for; `origin` says what of the
    world is real, `notes` what people should know about it; `cut_after_s` is set when time ended the trials.
    """

    world: World
    options: Options
    seed: int
    tallies: Mapping[str, Tally]
    origin: str = ""
    notes: Sequence[str] = ()
    cut_after_s: float | None = None

    @property
    def commits(self) -> int:
        """How many commits are in question: of a real range those after the good end."""
        return self.world.commits if self.world.parents is None else len(self.world.parents) - 1

    @property
    def merges(self) -> int:
        """How many of them are merges."""
        return sum(len(of) > 1 for of in self.world.parents or ())


def simulated_text(done: Simulated) -> str:
    """Return the table for people."""
    trials = next(iter(done.tallies.values())).trials
    lines = wrap(f"{count(trials, 'hunt')} in invented labs{_each(done)}: {_world(done)}.", indent="  ", first="")
    for sentence in ([f"From {done.origin}."] if done.origin else []) + list(done.notes):
        lines += wrap(sentence, indent="  ", first="")
    lines.append("")
    rows = [HEAD, *(_row(name, tally) for name, tally in done.tallies.items())]
    if done.world.machines > 1 or done.world.builders:
        walls = [(duration(tally.wall_s_mean), duration(tally.wall_s_p90)) for tally in done.tallies.values()]
        rows = [(*row, *wall) for row, wall in zip(rows, [WALL_HEAD, *walls], strict=True)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines += [
        "  ".join(
            cell.ljust(width) if column == 0 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
    lines += ["", *_readings(done), *_wording(done)]
    if done.cut_after_s is not None:
        lines.append(f"No more hunts were begun after {done.cut_after_s:.0f} s; for more: --trials 200")
    return "\n".join(lines)


def _each(done: Simulated) -> str:
    return " with each strategy, in the same labs" if len(done.tallies) > 1 else ""


def _world(done: Simulated) -> str:
    world = done.world
    merges = f" with {count(done.merges, 'merge')}" if done.merges else ""
    change = f"{world.effect_percent:.3g} % {'better' if world.improvement else 'slower'}"
    change += " in two steps" if world.two_steps else ""
    parts = [
        f"{count(done.commits, 'commit')}{merges}",
        change if world.regression else "both ends equal",
        f"{world.boot_sd_percent:.3g} % between boots, {world.run_sd_percent:.3g} % between runs",
        f"build {world.build_s:.3g} s, boot {world.boot_s:.3g} s, run {world.run_s:.3g} s",
    ]
    more = {
        "outlier runs": 100 * world.outliers,
        "unbuildable": 100 * world.unbuildable,
        "an hour of drift": abs(world.drift_percent_per_h),
    }
    parts += [f"{value:.3g} % {name}" for name, value in more.items() if value]
    if world.machines > 1:
        parts.append(count(world.machines, "machine"))
    if world.builders:
        parts.append(count(world.builders, "builder") + " beside them")
    return "; ".join(parts)


def _row(name: str, tally: Tally) -> tuple[str, ...]:
    shares = [f"{100 * share:.1f}%" for share in (tally.correct, tally.wrong, tally.set, tally.none)]
    claims = f"{100 * tally.claimed:.1f}%" if name in CLAIMING and tally.claimed else "-"
    means = [f"{tally.builds:.1f}", f"{tally.boots:.1f}", f"{tally.runs:.0f}"]
    return (name, *shares, claims, *means, duration(tally.machine_s_mean), duration(tally.machine_s_p90))


def _readings(done: Simulated) -> list[str]:
    """Claimed against true, for each strategy that claims something."""
    lines = []
    for name, tally in done.tallies.items():
        right, named = _named(tally)
        if named and name in CLAIMING and done.world.regression:
            low, high = _interval(tally) or (0.0, 1.0)
            lines += wrap(
                f"Claimed against true, {name}: {100 * tally.claimed:.1f} % against {100 * right / named:.1f} % "
                f"({right} of {named} named were the right one; 95 % interval {100 * low:.0f} to {100 * high:.0f} %).",
                indent="  ",
                first="",
            )
    return lines


def _named(tally: Tally) -> tuple[int, int]:
    """How many trials named the right commit, and how many named one."""
    right = round(tally.trials * tally.correct)
    return right, right + round(tally.trials * tally.wrong)


def _interval(tally: Tally) -> tuple[float, float] | None:
    """The 95 % interval (Wilson 1927) of the share of named commits that are right; None if none was named."""
    right, named = _named(tally)
    if not named:
        return None
    # Slow to load, and only needed here.
    from scipy import stats

    found = stats.binomtest(right, named).proportion_ci(method="wilson")
    return float(found.low), float(found.high)


def _wording(done: Simulated) -> list[str]:
    if not done.world.regression:
        return ['With equal ends "right" is to say so, and "wrong" to accuse somebody.']
    sets = [f"{name} {100 * tally.in_set:.0f} %" for name, tally in done.tallies.items() if tally.set]
    return [f"Sets that hold the first bad commit: {', '.join(sets)}."] if sets else []


def simulated_document(done: Simulated) -> dict[str, Any]:
    """Return the figures for scripts: the first strategy's at the top, all of them in `strategies`, and the input."""
    figures = {name: _figures(tally) for name, tally in done.tallies.items()}
    world = {key: value for key, value in asdict(done.world).items() if key != "parents"}
    return {
        **next(iter(figures.values())),
        "strategies": figures,
        "world": {**world, "commits": done.commits, "merge_commits": done.merges},
        "options": asdict(done.options),
        "seed": done.seed,
        "origin": done.origin,
        "notes": list(done.notes),
    }


def _figures(tally: Tally) -> dict[str, Any]:
    right, named = _named(tally)
    return {**asdict(tally), "true": right / named if named else None, "true_interval": _interval(tally)}

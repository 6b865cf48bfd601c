"""What a hunt would cost, before it costs anything: the dry run and `simulate`."""

from dataclasses import asdict, replace
from typing import Any

import click

from bisector.cli.hunt import Prepared
from bisector.report.as_json import to_json
from bisector.report.words import count, duration
from bisector.search import Options, Tally, World, simulate

DRY_RUN_TRIALS = 10
DRY_RUN_LAB = World(build_s=60.0, boot_s=20.0, run_s=10.0)
"""Costs assumed before a lab has shown its own: an incremental build, a small machine's boot, a run of five tests."""


def text(prepared: Prepared) -> str:
    """What `--dry-run` says: the range, the lab, and what a hunt of that length takes on an ordinary lab."""
    recipe, commits = prepared.loaded.recipe, prepared.range
    options = Options(
        confidence=recipe.search.confidence,
        min_effect_percent=recipe.search.smallest_effect_percent,
        audit=recipe.search.audit,
    )
    world = replace(DRY_RUN_LAB, parents=commits.parents)
    tally = simulate(world, options, trials=DRY_RUN_TRIALS, seed=recipe.search.seed)
    siblings = f", and {', '.join(recipe.benchmark.also)} beside it" if recipe.benchmark.also else ""
    machines = "; ".join(f"{machine.name} ({machine.kind}, clock: {machine.clock})" for machine in recipe.machines)
    lines = [
        f"Session {prepared.name} would hunt in {count(len(commits) - 1, 'commit')} of {recipe.repo}:",
        f"  good  {commits.good.short}  {commits.good.subject}",
        f"  bad   {commits.bad.short}  {commits.bad.subject}",
        f"  measuring {recipe.benchmark.test}{siblings}",
        f"  on {machines}",
        f"  with {recipe.kernel.compiler}, {recipe.kernel.base}"
        + "".join(f" + {fragment}" for fragment in recipe.kernel.fragments),
        f"A slowdown of {world.effect_percent:g} % with {world.boot_sd_percent:g} % between boots and "
        f"{world.run_sd_percent:g} % between runs would take about "
        f"{tally.builds:.0f} kernels, {tally.boots:.0f} boots and {tally.runs:.0f} runs: "
        f"{duration(tally.machine_s_mean)} if a build takes {world.build_s:g} s, a boot {world.boot_s:g} s "
        f"and a run {world.run_s:g} s.",
        "Nothing was written.",
    ]
    return "\n".join(lines)


def simulation(
    *, trials: int, seed: int, strategy: str, as_json: bool, no_regression: bool, effect: float, **lab: Any
) -> str:
    """What `simulate` prints."""
    import sys
    import time

    world = World(
        commits=lab["commits"],
        effect_percent=abs(effect),
        improvement=effect < 0,
        boot_sd_percent=lab["boot_sd"],
        run_sd_percent=lab["run_sd"],
        build_s=lab["build_s"],
        boot_s=lab["boot_s"],
        run_s=lab["run_s"],
        outliers=lab["outliers"],
        drift_percent_per_h=lab["drift"],
        unbuildable=lab["unbuildable"],
        regression=not no_regression,
    )
    quiet = not sys.stderr.isatty()
    with click.progressbar(length=trials, label="hunting in invented labs", file=sys.stderr, hidden=quiet) as bar:
        tally = simulate(
            world,
            Options(find_improvement=world.improvement),
            trials=trials,
            seed=seed,
            strategy=strategy,
            on_trial=lambda _: bar.update(1),
            clock=time.perf_counter,
        )
    return to_json(asdict(tally)) if as_json else _told(tally, strategy)


def _told(tally: Tally, strategy: str) -> str:
    return "\n".join(
        [
            f"{count(tally.trials, 'hunt')} with the strategy {strategy}:",
            f"  right {100 * tally.correct:.1f} %, wrong {100 * tally.wrong:.1f} %, "
            f"a set {100 * tally.set:.1f} %, no answer {100 * tally.none:.1f} %; "
            f"it claims {100 * tally.claimed:.1f} %",
            f"  kernels built {tally.builds:.1f}, boots {tally.boots:.1f}, runs {tally.runs:.1f}",
            f"  machine time {duration(tally.machine_s_mean)} on average, "
            f"{duration(tally.machine_s_p90)} in nine of ten",
            f"  {tally.decision_ms_mean:.1f} ms a decision",
        ]
    )

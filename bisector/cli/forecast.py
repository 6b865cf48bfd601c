"""What `start --dry-run` says: what would be done, and what it would cost on an ordinary lab."""

from dataclasses import replace

from bisector.cli.hunt import Prepared
from bisector.model.commit import CommitRange
from bisector.recipe.fixups import FixupPart
from bisector.report.words import count, duration
from bisector.search import Options, World, simulate

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
        f"Session {prepared.name} would hunt in {count(len(commits) - 1, 'commit')} of {recipe.repo}"
        + (" along first parents:" if recipe.first_parent else ":"),
        f"  good  {commits.good.short}  {commits.good.subject}",
        f"  bad   {commits.bad.short}  {commits.bad.subject}",
        *(f"  taken as {mark.verdict}: {_named(commits, mark.commit)}" for mark in prepared.marks),
        f"  measuring {recipe.benchmark.test}{siblings}",
        f"  on {machines}",
        f"  with {recipe.kernel.compiler}, {recipe.kernel.base}"
        + "".join(f" + {fragment}" for fragment in recipe.kernel.fragments),
        *(f"  fix-up {fixup.name}: {_change(fixup)}" for fixup in recipe.kernel.fixups),
        f"A slowdown of {world.effect_percent:g} % with {world.boot_sd_percent:g} % between boots and "
        f"{world.run_sd_percent:g} % between runs would take about "
        f"{tally.builds:.0f} kernels, {tally.boots:.0f} boots and {tally.runs:.0f} runs: "
        f"{duration(tally.machine_s_mean)} if a build takes {world.build_s:g} s, a boot {world.boot_s:g} s "
        f"and a run {world.run_s:g} s.",
        "Nothing was written.",
    ]
    return "\n".join(lines)


def _change(fixup: FixupPart) -> str:
    what = (
        fixup.patch or f"{'picks' if fixup.cherry_pick else 'reverts'} {(fixup.cherry_pick or fixup.revert or '')[:12]}"
    )
    conditions = [
        *([f"that contain {fixup.contains[:12]}"] if fixup.contains else []),
        *([f"that do not contain {fixup.lacks[:12]}"] if fixup.lacks else []),
        *([f"that have {fixup.path}"] if fixup.path else []),
    ]
    return f"{what}, on {'commits ' + ' and '.join(conditions) if conditions else 'every commit'}"


def _named(commits: CommitRange, commit: str) -> str:
    return f"{commit[:12]}  {commits.commits[commits.index_of(commit)].subject}"

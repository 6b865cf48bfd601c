"""What `simulate` does: a world from the options, a repository or a session, and hunts in it until there are enough."""

import math
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from bisector.cli.trials import Plan, crew, hunt, usable_cores
from bisector.model.errors import UsageError
from bisector.report.as_json import to_json
from bisector.report.simulated import Simulated, simulated_document, simulated_text
from bisector.report.words import count
from bisector.search import Options, Tally, Trial, World, tally
from bisector.session.home import Home

FEWEST_TRIALS, MOST_TRIALS = 10, 200
ENOUGH_S = 5.0
"""Without `--trials`: at least ten hunts of each strategy, then as many as fit in this time."""

_LAB = {
    "boot_sd": "boot_sd_percent",
    "run_sd": "run_sd_percent",
    "build_s": "build_s",
    "boot_s": "boot_s",
    "run_s": "run_s",
    "outliers": "outliers",
    "drift": "drift_percent_per_h",
    "unbuildable": "unbuildable",
    "machines": "machines",
    "builders": "builders",
}
"""Options that are figures of the lab, by the field of the world that they set."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What is simulated, and where its figures come from."""

    world: World
    options: Options
    origin: str = ""
    notes: tuple[str, ...] = field(default=())


def simulate(
    *, strategies: Sequence[str], trials: int | None, seed: int, jobs: int | None, as_json: bool, **given: Any
) -> str:
    """What `simulate` prints; `given` are its other options, None or False where they were not typed.

    Raises UsageError for options that contradict each other, RevisionError for ends that make no range.
    """
    setting = _setting(given)
    names = list(dict.fromkeys(strategies)) or ["belief"]
    world = setting.world
    if names != ["belief"] and (world.machines > 1 or world.builders):
        raise UsageError(
            f"{count(world.machines, 'machine')} and {count(world.builders, 'builder')}: of the strategies only "
            "belief can use more than one machine that builds for itself",
            resolution="Type --machines 1 --builders 0, or leave out every other --strategy",
        )
    plans = [Plan(world=setting.world, options=setting.options, strategy=name, seed=seed) for name in names]
    tallies, cut = _hunts(plans, trials, jobs or usable_cores())
    result = Simulated(
        world=setting.world,
        options=setting.options,
        seed=seed,
        tallies=dict(zip(names, tallies, strict=True)),
        origin=setting.origin,
        notes=setting.notes,
        cut_after_s=ENOUGH_S if cut else None,
    )
    return to_json(simulated_document(result)) if as_json else simulated_text(result)


def _hunts(plans: Sequence[Plan], trials: int | None, jobs: int) -> tuple[list[Tally], bool]:
    """The tallies of the plans, and whether time ended the trials before there were many."""
    start = time.monotonic()

    def wanted(number: int) -> bool:
        if trials is not None:
            return number < trials
        return number < FEWEST_TRIALS or (number < MOST_TRIALS and time.monotonic() - start < ENOUGH_S)

    # A few trials are done before another process has loaded what it needs.
    jobs = min(jobs, (trials or MOST_TRIALS) * len(plans))
    done: list[list[Trial]] = [[] for _ in plans]
    progress = _Progress(None if trials is None else trials * len(plans), start)
    try:
        with crew(jobs) as pool:
            for place, trial in hunt(plans, pool, jobs=jobs, wanted=wanted):
                done[place].append(trial)
                progress.show(sum(len(of) for of in done))
    finally:
        progress.clear()
    return [tally(of) for of in done], trials is None and len(done[0]) < MOST_TRIALS


class _Progress:
    """How many hunts are done, in one line that is written over, on a terminal only."""

    def __init__(self, total: int | None, start: float) -> None:
        self._total, self._start = total, start
        self._on = sys.stderr.isatty()

    def show(self, done: int) -> None:
        if not self._on:
            return
        passed = time.monotonic() - self._start
        text = f"{count(done, 'hunt')} in invented labs, {passed:.0f} s"
        if self._total is not None:
            left = passed * (self._total - done) / done
            text = f"{done} of {self._total} hunts in invented labs, {passed:.0f} s, about {left:.0f} s to go"
        sys.stderr.write(f"\r{text}\033[K")
        sys.stderr.flush()

    def clear(self) -> None:
        if self._on:
            sys.stderr.write("\r\033[K")
            sys.stderr.flush()


def _setting(given: Mapping[str, Any]) -> Setting:
    _refuse_contradictions(given)
    if given["session"] is not None:
        setting = _of_session(Home.of_this_user(), given["session"])
    elif given["repo"] is not None:
        setting = _of_repository(given["repo"], given["good"], given["bad"])
    else:
        world = World() if given["commits"] is None else World(commits=given["commits"])
        setting = Setting(world=world, options=Options())
    if given["qualified"] is not None:
        setting = _on_machine(Home.of_this_user(), given["qualified"], setting)
    typed = {field: given[name] for name, field in _LAB.items() if given[name] is not None}
    typed |= {"regression": not given["no_regression"], "two_steps": given["two_steps"]}
    world = replace(setting.world, **typed)
    if given["effect"] is not None:
        world = replace(world, effect_percent=abs(given["effect"]), improvement=given["effect"] < 0)
    options = replace(setting.options, find_improvement=world.improvement)
    if given["confidence"] is not None:
        options = replace(options, confidence=given["confidence"])
    if given["min_effect"] is not None:
        options = replace(options, min_effect_percent=given["min_effect"])
    if world.two_steps and ((world.parents is not None and len(world.parents) < 3) or world.commits < 3):
        raise UsageError("--two-steps needs two commits between the ends", resolution="Take a longer range")
    return replace(setting, world=world, options=options)


def _refuse_contradictions(given: Mapping[str, Any]) -> None:
    numbers = [name for name, value in given.items() if isinstance(value, float) and not math.isfinite(value)]
    if numbers:
        raise UsageError(f"--{numbers[0].replace('_', '-')}: {given[numbers[0]]} is no number to calculate with")
    if given["effect"] == 0:
        raise UsageError("--effect 0 is no change", resolution="For two equal ends: --no-regression")
    if given["no_regression"] and given["two_steps"]:
        raise UsageError("--no-regression and --two-steps exclude each other", resolution="Leave one of them out")
    ranges = [name for name in ("commits", "repo", "session") if given[name] is not None]
    if len(ranges) > 1:
        first, second = (f"--{'from-session' if name == 'session' else name}" for name in ranges[:2])
        raise UsageError(f"{first} and {second} both say which commits", resolution="Leave one of them out")
    if given["session"] is not None and given["qualified"] is not None:
        raise UsageError("--from-session and --from-qualify both say which lab", resolution="Leave one of them out")
    ends = [name for name in ("good", "bad") if given[name] is not None]
    if given["repo"] is not None and len(ends) < 2:
        raise UsageError(
            f"--repo {given['repo']}: which commits of it?", resolution="Name both ends: --good REV --bad REV"
        )
    if ends and given["repo"] is None:
        raise UsageError(
            f"--{ends[0]} {given[ends[0]]}: a commit of which repository?", resolution="Name it: --repo DIR"
        )


def _of_repository(repo: Path, good: str, bad: str) -> Setting:
    from bisector.history.repository import Repository

    commits = Repository.open(repo).read_range(good, bad)
    origin = f"the commits {commits.good.short}..{commits.bad.short} of {repo.resolve()}"
    return Setting(world=World(parents=commits.parents), options=Options(), origin=origin)


def _of_session(home: Home, name: str) -> Setting:
    """The deviations, costs, range and search options of a session; its effect too, if its ends clearly differ."""
    from bisector.cli.show import read
    from bisector.recipe.load import parse_recipe
    from bisector.session.evidence import costs_of, evidence_of, options_of

    state, assessment = read(home, home.pick(name))
    recipe = parse_recipe(state.recipe_text)
    boots = [boot.commit for boot in evidence_of(state, recipe.benchmark.test).boots]
    at_good, at_bad = boots.count(0), boots.count(len(state.range) - 1)
    if assessment is None or assessment.effect_percent is None:
        raise UsageError(
            f"Session {name} has not measured both ends: "
            f"{count(at_good, 'boot')} of the good one, {count(at_bad, 'boot')} of the bad one",
            resolution=f"Let it: bisector resume {name}",
        )
    options = options_of(recipe, higher_is_better=True)
    costs = costs_of(state)
    world = World(
        parents=state.range.parents,
        run_sd_percent=assessment.run_sd_percent,
        boot_sd_percent=assessment.boot_sd_percent,
        build_s=costs.build_s,
        boot_s=costs.boot_s,
        run_s=costs.run_s,
        machines=len(state.machines),
        improvement=options.find_improvement,
    )
    seen, detectable = assessment.effect_percent, assessment.detectable_percent
    notes = [f"Its ends differ by {seen:+.1f} %."]
    if detectable is not None and abs(seen) >= detectable:
        # A world's effect is by how much more the worse value is; "x % less" of a rate is 1 / (1 - x) - 1 of it.
        world = replace(world, effect_percent=100 * math.expm1(abs(math.log1p(seen / 100))))
    else:
        notes = [f"Its ends differ by {seen:+.1f} %, too little to be sure of; {world.effect_percent:g} % is assumed."]
    origin = f"session {state.name}: its commits, its costs, and its deviations in {len(boots)} boots"
    return Setting(world=world, options=options, origin=origin, notes=tuple(notes))


def _on_machine(home: Home, machine: str, setting: Setting) -> Setting:
    """The same with the deviations and costs that the last A/A test of a machine found."""
    from bisector.cli.qualify import latest
    from bisector.report.qualified import qualification_report

    state = latest(home, machine)
    report = qualification_report(state) if state is not None else None
    if report is None or report.qualified is None:
        raise UsageError(
            f"--from-qualify {machine}: there is no A/A test of it with boots enough",
            resolution=f"Make one: bisector lab qualify {machine}",
        )
    seen, costs = report.qualified, report.costs
    world = replace(
        setting.world,
        run_sd_percent=seen.run_sd_percent,
        boot_sd_percent=seen.boot_sd_percent,
        outliers=seen.wild_runs / seen.total_runs,
        boot_s=costs.boot_s,
        run_s=costs.run_s,
    )
    lab = f"the deviations and costs of the A/A test {report.state.name} in {len(seen.values)} boots"
    return replace(setting, world=world, origin=" and ".join(part for part in (setting.origin, lab) if part))

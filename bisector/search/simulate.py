"""Whole hunts in invented labs: what a hunt would cost and how sure it would be. Seeded, no clock."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from bisector.model.outcome import AnswerKind
from bisector.search.assign import serve
from bisector.search.fleet import DriveResult, drive_fleet
from bisector.search.graph import Graph
from bisector.search.rivals import RIVALS
from bisector.search.situation import situation
from bisector.search.types import Costs, Evidence, Finding, Look, Options, Wait
from bisector.search.world import Lab, World, history

STRATEGIES = ("belief", *RIVALS)
"""This search first, then its rivals."""

Clock = Callable[[], float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """What the search believed before one of its steps: the leading commit's probability, and whether it was right."""

    claimed: float
    right: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One hunt in an invented lab. `verdict` is correct, wrong, set or none; `decision_ms` of the mean decision.

    `moments` are the beliefs before each step, in order; empty for a rival, which has none.
    """

    number: int
    first_bad: tuple[int, ...]
    verdict: str
    result: DriveResult
    decision_ms: float
    moments: tuple[Moment, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """All trials together: fractions, and means per trial. `claimed` is the mean probability of the named commits.

    With no regression "correct" is "not reproduced". `in_set` is the fraction of sets that hold the true commit (of
    all sets; 0 without any), `not_reproduced` the fraction of trials that ended so.
    """

    trials: int
    correct: float
    wrong: float
    set: float
    none: float
    builds: float
    boots: float
    runs: float
    machine_s_mean: float
    machine_s_p90: float
    wall_s_mean: float
    wall_s_p90: float
    claimed: float
    decision_ms_mean: float
    in_set: float
    not_reproduced: float


class Hunts:
    """The trials of one world and strategy by their number: `hunts(7)` is the same trial wherever it is run."""

    def __init__(
        self, world: World, options: Options | None = None, *, seed: int = 1, strategy: str = "belief"
    ) -> None:
        """Raises ValueError for an unknown strategy or a world that makes no sense."""
        if strategy != "belief" and strategy not in RIVALS:
            raise ValueError(f"strategy must be one of {', '.join(STRATEGIES)}, got {strategy!r}")
        if strategy != "belief" and world.machines > 1:
            raise ValueError(f"strategy {strategy!r} knows one machine only, got machines={world.machines}")
        options = options or Options()
        self._world, self._seed, self._strategy = world, seed, strategy
        self._options = replace(options, find_improvement=options.find_improvement or world.improvement)
        # A line or a given history is the same in every trial; an invented one with merges is part of the trial.
        one_for_all = world.merges == 0 or world.parents is not None
        self._graph = history(world, np.random.default_rng([seed, 2**31])) if one_for_all else None

    def __call__(self, number: int, clock: Clock | None = None) -> Trial:
        """Return this trial; `clock` returns seconds and is only used for `decision_ms`."""
        rng = np.random.default_rng([self._seed, number])
        graph = self._graph or history(self._world, rng)
        lab = Lab(graph, self._world, rng, self._options)
        watch = _Watch(lab, self._strategy, clock)
        result = drive_fleet(
            graph,
            lab.measure_on,
            self._world.costs,
            self._options,
            machines=self._world.machines,
            builders=self._world.builders,
            builds=lab.builds,
            step=watch.step,
        )
        return Trial(
            number=number,
            first_bad=lab.first_bad,
            verdict=_judge(result, lab.first_bad),
            result=result,
            decision_ms=float(np.mean(watch.decisions_ms)),
            moments=tuple(watch.moments),
        )


class _Watch:
    """A strategy's step, timed, with what it believed when there is something to believe."""

    def __init__(self, lab: Lab, strategy: str, clock: Clock | None) -> None:
        self._first_bad, self._clock = lab.first_bad, clock or (lambda: 0.0)
        self._rival = RIVALS.get(strategy)
        self.decisions_ms: list[float] = []
        self.moments: list[Moment] = []

    def step(
        self, graph: Graph, evidence: Evidence, costs: Costs, options: Options, free: Sequence[int]
    ) -> Mapping[int, Look | Wait] | Finding:
        start = self._clock()
        taken = self._decide(graph, evidence, costs, options, free)
        self.decisions_ms.append(1000 * (self._clock() - start))
        return taken

    def _decide(
        self, graph: Graph, evidence: Evidence, costs: Costs, options: Options, free: Sequence[int]
    ) -> Mapping[int, Look | Wait] | Finding:
        if self._rival is not None:
            taken = self._rival(graph, evidence, costs, options)
            return taken if isinstance(taken, Finding) else {free[0]: taken}
        now = situation(graph, evidence, options)
        if now.searching:
            leading = int(np.argmax(now.belief.probability))
            claimed = float(now.belief.probability[leading])
            self.moments.append(Moment(claimed=claimed, right=leading in self._first_bad))
        return serve(now, costs, free)


def simulate(
    world: World,
    options: Options | None = None,
    *,
    trials: int = 100,
    seed: int = 1,
    strategy: str = "belief",
    on_trial: Callable[[Trial], None] | None = None,
    clock: Clock | None = None,
) -> Tally:
    """Hunt `trials` times in fresh labs of this world and return the tally; the same seed gives the same tally.

    `strategy` is "belief" (this search) or one of its rivals, see `STRATEGIES`. `on_trial` is called after each
    trial; `clock` returns seconds and is only used for `decision_ms`. Raises ValueError for an unknown strategy or a
    world that makes no sense.
    """
    if trials < 1:
        raise ValueError(f"trials must be at least 1, got {trials}")
    hunts = Hunts(world, options, seed=seed, strategy=strategy)
    done = []
    for number in range(trials):
        trial = hunts(number, clock)
        done.append(trial)
        if on_trial is not None:
            on_trial(trial)
    return tally(done)


def tally(trials: Sequence[Trial]) -> Tally:
    """Return what these trials come to. Raises ValueError without any."""
    if not trials:
        raise ValueError("no trial to count")
    count = len(trials)
    share = {name: sum(t.verdict == name for t in trials) / count for name in ("correct", "wrong", "set", "none")}
    machine_s = np.array([trial.result.machine_s for trial in trials])
    wall_s = np.array([trial.result.wall_s for trial in trials])
    named = [trial.result.probability for trial in trials if trial.result.kind is AnswerKind.COMMIT]
    sets = [trial for trial in trials if trial.result.kind is AnswerKind.SET]
    held = sum(bool(set(trial.first_bad) & set(trial.result.commits)) for trial in sets)
    return Tally(
        trials=count,
        **share,
        builds=float(np.mean([trial.result.builds for trial in trials])),
        boots=float(np.mean([trial.result.boots for trial in trials])),
        runs=float(np.mean([trial.result.runs for trial in trials])),
        machine_s_mean=float(machine_s.mean()),
        machine_s_p90=float(np.quantile(machine_s, 0.9)),
        wall_s_mean=float(wall_s.mean()),
        wall_s_p90=float(np.quantile(wall_s, 0.9)),
        claimed=float(np.mean(named)) if named else 0.0,
        decision_ms_mean=float(np.mean([trial.decision_ms for trial in trials])),
        in_set=held / len(sets) if sets else 0.0,
        not_reproduced=sum(t.result.kind is AnswerKind.NOT_REPRODUCED for t in trials) / count,
    )


def _judge(result: DriveResult, first_bad: tuple[int, ...]) -> str:
    if result.kind is AnswerKind.COMMIT:
        return "correct" if result.commits[0] in first_bad else "wrong"
    if result.kind is AnswerKind.SET:
        return "set"
    if result.kind is AnswerKind.NOT_REPRODUCED and not first_bad:
        return "correct"
    return "none"

"""What the search may know of a session: its state in the search's own words. Pure.

The search sees indexes, values and seconds; it never sees events, machines or recipes.
"""

from statistics import median

from bisector.model.outcome import Outcome, Verdict
from bisector.recipe.schema import Recipe
from bisector.search.types import Boot, Costs, Evidence, Options, Pending
from bisector.session.blame import blamed
from bisector.session.machines import lost, set_aside
from bisector.session.state import Look, SessionState

FIRST_COSTS = Costs(build_s=120.0, boot_s=30.0, run_s=10.0)
"""Guesses until this lab has shown its own figures; only their ratios matter to the plan."""


def options_of(recipe: Recipe, *, higher_is_better: bool) -> Options:
    """The recipe's search part as the engine takes it."""
    search = recipe.search
    return Options(
        confidence=search.confidence,
        higher_is_better=higher_is_better,
        find_improvement=search.find == "improvement",
        min_effect_percent=search.smallest_effect_percent,
        max_boots=search.max_boots,
        budget_s=None if search.time_budget_h is None else search.time_budget_h * 3600.0,
        audit=search.audit,
        seed=search.seed,
    )


def evidence_of(state: SessionState, test: str, *, under_way: bool = False) -> Evidence:
    """Every ended look with at least one whole run of `test`, what is pending, built, being built, and skipped.

    With `under_way` also the runs so far of looks that go on. The next look must not hang on them, it would change
    with every run; what is built ahead may.
    """
    costs = costs_of(state)
    live = [look for look in state.looks if look.ended_at is None and look.runs] if under_way else []
    return Evidence(
        boots=tuple(_boot(state, look, test) for look in [*measured_looks(state), *live]),
        built=frozenset(commit for commit, build in state.builds.items() if build.image is not None),
        skipped=frozenset(skips(state)),
        signatures={commit: build.image.signature for commit, build in state.builds.items() if build.image is not None},
        marked_good=_marked(state, Verdict.GOOD),
        marked_bad=_marked(state, Verdict.BAD),
        now_s=state.last_at - state.started_at,
        # Nobody waits for what a lost machine may never tell.
        pending=tuple(
            _pending(state, look) for look in state.looks if look.ended_at is None and not lost(state, look.machine)
        ),
        coming={
            commit: build.started_at + costs.build_s - state.started_at
            for commit, build in state.builds.items()
            if build.outcome is None
        },
    )


def _pending(state: SessionState, look: Look) -> Pending:
    return Pending(
        commit=look.commit,
        runs=look.planned_runs,
        machine=state.machines.index(look.machine),
        purpose=look.purpose,
    )


def measured_looks(state: SessionState) -> list[Look]:
    """The looks whose numbers count, in order."""
    return [look for look in state.looks if look.ended_at is not None and look.runs and not look.forgotten]


def _boot(state: SessionState, look: Look, test: str) -> Boot:
    at = look.booted_at if look.booted_at is not None else look.started_at
    return Boot(
        commit=look.commit,
        values=tuple(run.value_of(test) for run in look.runs),
        at_s=at - state.started_at,
        purpose=look.purpose,
        machine=state.machines.index(look.machine),
    )


def _marked(state: SessionState, verdict: Verdict) -> frozenset[int]:
    return frozenset(commit for commit, said in state.marks.items() if said is verdict)


def skips(state: SessionState) -> dict[int, tuple[Outcome | None, str]]:
    """Commits that cannot be tested, each with the kind (None: a person said so) and the reason.

    A build that failed is the commit's fault at once; for kernels that do not come up or crash see `blame`.
    """
    found: dict[int, tuple[Outcome | None, str]] = {
        commit: (build.outcome, build.reason)
        for commit, build in state.builds.items()
        if build.outcome in (Outcome.BUILD_FAILED, Outcome.CONFIG_FAILED)
    }
    for commit, look in blamed(state, set_aside(state)).items():
        found[commit] = (look.outcome, look.reason)
    for commit, verdict in state.marks.items():
        if verdict is Verdict.SKIPPED:
            found[commit] = (None, "marked as skipped")
        else:
            found.pop(commit, None)
    return found


def costs_of(state: SessionState) -> Costs:
    """Seconds of a build, a boot and a run on this lab: medians of what was seen, guesses for what was not."""
    builds = [build.duration_s for build in state.builds.values() if build.image and not build.image.from_cache]
    # The first build of a tree makes everything; those that the plan weighs are incremental.
    builds = builds[1:] or builds
    boots = [look.record.duration_s for look in state.looks if look.record is not None]
    runs = [run.duration_s for look in state.looks for run in look.runs]
    return Costs(
        build_s=_median_or(builds, FIRST_COSTS.build_s),
        boot_s=_median_or(boots, FIRST_COSTS.boot_s),
        run_s=_median_or(runs, FIRST_COSTS.run_s),
    )


def _median_or(values: list[float], guess: float) -> float:
    # A planner that divides by cost must never see zero.
    return max(0.01, median(values)) if values else guess

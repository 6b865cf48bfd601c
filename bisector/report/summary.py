"""What is told of a session, computed once from its state and the search's assessment. No text, no colour.

The final report, `status`, the JSON and the live view all read a `Summary`: two of them can never disagree.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from bisector.model.commit import Commit
from bisector.model.outcome import AnswerKind, Outcome, Verdict
from bisector.recipe.load import parse_recipe
from bisector.recipe.schema import Recipe
from bisector.report.counted import AbsentCounter, absent_counters
from bisector.report.counts import BUILD_FAILURES, Counts, Method, count_up, method_of
from bisector.report.drift import Drift, FixupDrift, drifts, fixup_drifts
from bisector.report.siblings import SiblingChange, sibling_changes
from bisector.report.words import plain
from bisector.search.types import Assessment, CommitVerdict
from bisector.session.budgets import Budget, budgets_of, errors_of
from bisector.session.evidence import costs_of, measured_looks, skips
from bisector.session.state import BUILDER, SessionState, Status

SUSPECTS_KEPT = 12
"""Leading suspects that a summary names; the others are counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitLine:
    """A commit as it is shown: the subject is safe to print."""

    index: int
    id: str
    subject: str
    author_date: str

    @property
    def short(self) -> str:
        """The first 12 digits."""
        return self.id[:12]


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """A change in percent of the good end, negative = lower value, with its 95 % interval."""

    percent: float
    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One commit that was looked at, or tried, or marked. `outcome` is None while nothing came of it yet.

    `first_bad_probability` is that of being the first bad commit, `bad_probability` that of lying on the bad side.
    `why` is why it was looked at, `reason` what went wrong, `artefact` where to read about it.
    """

    commit: CommitLine
    outcome: Outcome | None
    verdict: Verdict
    effect: Effect | None
    value: float | None
    bad_probability: float | None
    first_bad_probability: float | None
    boots: int
    runs: int
    why: str
    reason: str
    artefact: str
    from_cache: bool
    fixups: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Suspect:
    """A commit that may be the first bad one. `note` says why it could not be told apart from the others."""

    commit: CommitLine
    probability: float
    row: Row | None
    note: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerLine:
    """How the hunt ended. `suspects` are the answer's commits, most probable first."""

    kind: AnswerKind
    probability: float
    reason: str
    share: float | None
    suspects: tuple[Suspect, ...]
    files: tuple[str, ...]
    parents: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Belief:
    """What the search believes now. Levels in the metric's unit; deviations and effects in percent."""

    suspects: tuple[Suspect, ...]
    suspects_left: int
    good_level: float | None
    bad_level: float | None
    effect: Effect | None
    threshold: float | None
    run_sd_percent: float | None
    boot_sd_percent: float | None
    detectable_percent: float | None
    entropy_bits: float | None
    remaining_boots: float | None
    remaining_s: float | None
    audit: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NotGivenBack:
    """A machine that the session let go of and could not give back, and what to type."""

    machine: str
    reason: str
    resolution: str

    @property
    def sentence(self) -> str:
        """All of it in one line."""
        return f"{self.machine} was not given back: {'; '.join(filter(None, (self.reason, self.resolution)))}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """Everything that is told of a session. Times are seconds since the epoch, durations seconds.

    `belief` is None before anything could be assessed; `answer` is None before the end.
    """

    session: str
    status: Status
    started_at: float
    last_at: float
    worked_s: float
    recipe: Recipe
    unit: str
    higher_is_better: bool
    good: CommitLine
    bad: CommitLine
    commits: int
    counts: Counts
    method: Method
    rows: tuple[Row, ...]
    belief: Belief | None
    answer: AnswerLine | None
    siblings: tuple[SiblingChange, ...]
    pause_reason: str
    pause_resolution: str
    next_why: str
    budgets: tuple[Budget, ...] = ()
    errors: Mapping[str, Budget] = field(default_factory=dict)
    not_given_back: tuple[NotGivenBack, ...] = ()
    drifts: tuple[Drift, ...] = ()
    fixup_drifts: tuple[FixupDrift, ...] = ()
    absent_counters: tuple[AbsentCounter, ...] = ()

    @property
    def skipped(self) -> tuple[Row, ...]:
        """The commits that could not be tested."""
        return tuple(row for row in self.rows if row.verdict is Verdict.SKIPPED)


def summarise(
    state: SessionState,
    assessment: Assessment | None,
    *,
    files: tuple[str, ...] = (),
    parents: tuple[str, ...] = (),
    siblings: bool = True,
) -> Summary:
    """Return what is told of a session.

    `assessment` is the search's for this state (None before there is one), `files` those that the accused commit
    touches, `parents` all of its parents' ids, `siblings=False` leaves out the `also` tests (the live view has no room
    for them).
    Raises RecipeError if the session's recipe is not one.
    """
    recipe = parse_recipe(state.recipe_text)
    test = recipe.benchmark.test
    unit, higher = _unit_of(state, recipe)
    rows = _rows(state, assessment, test)
    by_index = {row.commit.index: row for row in rows}
    changes: tuple[SiblingChange, ...] = ()
    if siblings and assessment is not None:
        changes = sibling_changes(state, assessment, recipe)
    return Summary(
        session=state.name,
        status=state.status,
        started_at=state.started_at,
        last_at=state.last_at,
        worked_s=max(0.0, state.last_at - state.started_at - state.paused_s),
        recipe=recipe,
        unit=unit,
        higher_is_better=higher,
        good=line_of(state, 0),
        bad=line_of(state, len(state.range) - 1),
        commits=len(state.range),
        counts=count_up(state),
        method=method_of(state, recipe),
        rows=rows,
        belief=None if assessment is None else _belief(state, assessment, recipe, by_index),
        answer=_answer(state, assessment, by_index, files, parents),
        siblings=changes,
        pause_reason=plain(state.pause_reason),
        pause_resolution=plain(state.pause_resolution),
        next_why=plain(next((look.why for look in reversed(state.looks) if look.ended_at is None), "")),
        budgets=budgets_of(state),
        errors={worker: errors_of(state, worker) for worker in (BUILDER, *state.machines)},
        not_given_back=tuple(
            NotGivenBack(machine=left.machine, reason=plain(left.reason), resolution=plain(left.resolution))
            for left in state.not_given_back.values()
        ),
        drifts=drifts(state, state.answer),
        fixup_drifts=fixup_drifts(state, state.answer),
        absent_counters=absent_counters(s for look in state.looks for run in look.runs for s in run.samples),
    )


def line_of(state: SessionState, index: int) -> CommitLine:
    """A commit of the session's range, as it is shown."""
    commit: Commit = state.range.commits[index]
    return CommitLine(index=index, id=commit.id, subject=plain(commit.subject), author_date=plain(commit.author_date))


def _unit_of(state: SessionState, recipe: Recipe) -> tuple[str, bool]:
    test, command = recipe.benchmark.test, recipe.benchmark.command
    for look in state.looks:
        for run in look.runs:
            for sample in run.samples:
                if sample.test == test:
                    return plain(sample.unit), sample.higher_is_better
    for metric in command.metrics if command is not None else ():
        if metric.name == test:
            return plain(metric.unit), metric.better == "higher"
    return "ops/s", True


def _finite(value: float | None) -> float | None:
    """The value, or None where there is no number: JSON and people have no use for NaN."""
    return float(value) if value is not None and math.isfinite(value) else None


def _effect(percent: float | None, interval: tuple[float, float] | None) -> Effect | None:
    middle = _finite(percent)
    if middle is None:
        return None
    low, high = (_finite(end) for end in interval or (None, None))
    return Effect(percent=middle, low=middle if low is None else low, high=middle if high is None else high)


def _rows(state: SessionState, assessment: Assessment | None, test: str) -> tuple[Row, ...]:
    """One row for each commit that anything happened to, in the order in which it first did."""
    happened = sorted(
        [(look.started_at, look.commit) for look in state.looks if not look.forgotten]
        + [(build.started_at, commit) for commit, build in state.builds.items() if build.outcome in BUILD_FAILURES]
        + [(state.last_at, commit) for commit in state.marks]
    )
    verdicts = {} if assessment is None else {verdict.commit: verdict for verdict in assessment.verdicts}
    skipped = skips(state)
    order = dict.fromkeys(commit for _, commit in happened)
    return tuple(_row(state, commit, verdicts.get(commit), skipped, assessment, test) for commit in order)


def _row(
    state: SessionState,
    commit: int,
    seen: CommitVerdict | None,
    skipped: dict[int, tuple[Outcome | None, str]],
    assessment: Assessment | None,
    test: str,
) -> Row:
    looks = [look for look in state.looks if look.commit == commit and not look.forgotten]
    measured = [look for look in measured_looks(state) if look.commit == commit]
    build = state.builds.get(commit)
    ended = [look for look in looks if look.outcome is not None]
    # The last thing that came of it, but numbers once given stay the outcome.
    outcome = Outcome.MEASURED if measured else ended[-1].outcome if ended else None
    reason = ended[-1].reason if ended and not measured else ""
    artefact = ended[-1].artefact if ended and not measured else ""
    if build is not None and build.outcome in BUILD_FAILURES and not measured:
        outcome, reason, artefact = build.outcome, build.reason, build.artefact
    verdict = Verdict.UNDECIDED if seen is None else seen.verdict
    if commit in skipped:
        kind, reason = skipped[commit]
        outcome, verdict = kind or outcome, Verdict.SKIPPED
    verdict = state.marks.get(commit, verdict)
    if commit in state.marks:
        reason = f"marked {verdict} by hand"
    values = [sum(run.value_of(test) for run in look.runs) / len(look.runs) for look in measured]
    probability = None if assessment is None else _finite(assessment.probability[commit])
    return Row(
        commit=line_of(state, commit),
        outcome=outcome,
        verdict=verdict,
        effect=None if seen is None else _effect(seen.effect_percent, seen.interval_percent),
        value=sum(values) / len(values) if values else None,
        bad_probability=None if seen is None else _finite(seen.bad_probability),
        first_bad_probability=probability,
        boots=len(measured),
        runs=sum(len(look.runs) for look in measured),
        why=plain(looks[0].why) if looks else "",
        reason=plain(reason),
        artefact=artefact,
        from_cache=build is not None and build.image is not None and build.image.from_cache,
        fixups=build.image.fixups if build is not None and build.image is not None else (),
    )


def _belief(state: SessionState, assessment: Assessment, recipe: Recipe, by_index: dict[int, Row]) -> Belief:
    probability = [float(value) for value in assessment.probability]
    order = sorted(range(len(probability)), key=lambda index: -probability[index])
    left, mass = 0, 0.0
    while left < len(order) and mass < recipe.search.confidence and probability[order[left]] > 0:
        mass += probability[order[left]]
        left += 1
    named = [index for index in order[:SUSPECTS_KEPT] if probability[index] > 0]
    boots = _finite(assessment.remaining_boots)
    costs = costs_of(state)
    runs = [look.planned_runs for look in state.looks] or [4]
    a_boot_s = costs.boot_s + costs.run_s * sum(runs) / len(runs)
    return Belief(
        suspects=tuple(_suspect(state, index, probability[index], by_index, named) for index in named),
        suspects_left=left,
        good_level=_finite(assessment.good_level),
        bad_level=_finite(assessment.bad_level),
        effect=_effect(assessment.effect_percent, assessment.effect_interval_percent),
        threshold=_finite(assessment.threshold),
        run_sd_percent=_finite(assessment.run_sd_percent),
        boot_sd_percent=_finite(assessment.boot_sd_percent),
        detectable_percent=_finite(assessment.detectable_percent),
        entropy_bits=_finite(assessment.entropy_bits),
        remaining_boots=boots,
        remaining_s=None if boots is None else boots * a_boot_s / max(1, len(state.machines)),
        audit=plain(assessment.audit),
    )


def _answer(
    state: SessionState,
    assessment: Assessment | None,
    by_index: dict[int, Row],
    files: tuple[str, ...],
    parents: tuple[str, ...],
) -> AnswerLine | None:
    answer = state.answer
    if answer is None:
        return None
    indexes = [state.range.index_of(commit) for commit in answer.commits]
    alone = answer.probability if len(indexes) == 1 else 0.0
    return AnswerLine(
        kind=answer.kind,
        probability=answer.probability,
        reason=plain(answer.reason),
        share=_finite(answer.share),
        suspects=tuple(
            _suspect(state, i, alone if assessment is None else float(assessment.probability[i]), by_index, indexes)
            for i in indexes
        ),
        files=tuple(plain(file) for file in files),
        parents=parents,
    )


def _suspect(
    state: SessionState, index: int, probability: float, by_index: dict[int, Row], others: list[int]
) -> Suspect:
    row = by_index.get(index)
    note = _note(state, index, row, others)
    return Suspect(commit=line_of(state, index), probability=probability, row=row, note=note)


def _note(state: SessionState, index: int, row: Row | None, others: list[int]) -> str:
    """Why a suspect could not be told apart from the others."""
    build = state.builds.get(index)
    if build is not None and build.image is not None:
        for other in others:
            twin = state.builds.get(other)
            if other != index and twin and twin.image and twin.image.signature == build.image.signature:
                return f"the same code and data as {state.range.commits[other].short}"
    if row is None:
        return "built, but never booted" if build is not None and build.image is not None else "never looked at"
    if row.verdict is Verdict.SKIPPED:
        return f"cannot be tested: {row.reason or 'skipped'}"
    if row.outcome is Outcome.MEASURED:
        return f"{row.verdict} after {row.boots} boot{'' if row.boots == 1 else 's'}"
    if row.outcome is None:
        return "its first boot goes on"
    return f"not measured yet: {row.reason}" if row.reason else "not measured yet"

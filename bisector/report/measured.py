"""What was measured as an MMTests-style table: a column for each kernel, a row for each test."""

from statistics import mean

from bisector.model.commit import CommitRange
from bisector.recipe.load import parse_recipe
from bisector.report.counts import places_of
from bisector.report.mmtests import MmtestsRow, PercentOf, mmtests_table
from bisector.search.types import Assessment
from bisector.session.evidence import measured_looks
from bisector.session.state import Look, SessionState


def measured_table(state: SessionState, assessment: Assessment | None, *, percent_of: PercentOf = "base") -> str:
    """Return the table, the good end first, then the kernels in the order of their history; values are means of boots.

    A boot's value is the mean of its runs, so that a boot with many runs counts no more than another. The last row
    is the machine time spent on each kernel. Empty text if nothing was measured.
    """
    looks: dict[int, list[Look]] = {}
    for look in measured_looks(state):
        looks.setdefault(look.commit, []).append(look)
    commits = sorted(looks)
    if not commits:
        return ""
    verdicts = {} if assessment is None else {seen.commit: str(seen.verdict) for seen in assessment.verdicts}
    samples = looks[commits[0]][0].runs[0].samples
    rows = [
        MmtestsRow(
            test=sample.test,
            values=tuple(_value(looks[commit], sample.test) for commit in commits),
            higher_is_better=sample.higher_is_better,
        )
        for sample in samples
    ]
    table = mmtests_table(
        f"{state.name} ({', '.join(sorted({sample.unit for sample in samples}))})",
        [(_name(state.range, commit), verdicts.get(commit, "")) for commit in commits],
        rows,
        durations_s=[sum(look.machine_s for look in looks[commit]) for commit in commits],
        percent_of=percent_of,
    )
    return table + "".join(f"{line}\n" for line in _places(state))


def _places(state: SessionState) -> list[str]:
    """Below the table, a line a machine: kernels that were told other words, or other CPUs, are not to be compared."""
    return [
        f"{place.machine}: {place.pinned}; kernel command line: {place.cmdline or 'not told'}"
        for place in places_of(state, parse_recipe(state.recipe_text))
    ]


def _name(commits: CommitRange, index: int) -> str:
    return commits.commits[index].short


def _value(looks: list[Look], test: str) -> float:
    return mean(mean(run.value_of(test) for run in look.runs) for look in looks)

"""What the report says was asked for: the range, the metric, the machines, and what the kernels were booted with."""

from bisector.model.outcome import AnswerKind
from bisector.report.summary import Summary
from bisector.report.words import count, number, pad, wrap


def asked_text(summary: Summary) -> str:
    """Return what was asked for, and what the kernels were told: a row for each, lines of at most 100 columns."""
    recipe = summary.recipe
    machines = ", ".join(f"{machine.name} ({machine.kind}, clock: {machine.clock})" for machine in recipe.machines)
    lines = ["What was asked"]
    direction = "higher" if summary.higher_is_better else "lower"
    for name, value in (
        ("repository", recipe.repo),
        ("good", f"{recipe.good} = {summary.good.short}  {summary.good.subject}"),
        ("bad", f"{recipe.bad} = {summary.bad.short}  {summary.bad.subject}"),
        (
            "metric",
            f"{recipe.benchmark.test} in {summary.unit}, {direction} is better; looking for {recipe.search.find}s",
        ),
        ("machines", machines),
        (
            "kernel",
            f"{recipe.kernel.base}, {count(len(recipe.kernel.fragments), 'fragment')}, {recipe.kernel.compiler}",
        ),
        *_boot_rows(summary),
        ("threshold", _threshold(summary)),
    ):
        lines += wrap(value, indent=" " * 14, first=f"  {pad(name, 12)}")
    return "\n".join(lines)


def _boot_rows(summary: Summary) -> list[tuple[str, str]]:
    """The command line of the kernels, which is part of what was measured; of each machine where they differ."""
    told = {place.machine: place.cmdline for place in summary.method.places if place.cmdline}
    if len(set(told.values())) == 1 and len(told) == len(summary.recipe.machines):
        return [("booted with", next(iter(told.values())))]
    return [("booted with", f"{cmdline} ({machine})") for machine, cmdline in told.items()]


def _threshold(summary: Summary) -> str:
    if summary.belief is None or summary.belief.threshold is None:
        return "none yet: both ends must be measured first"
    if summary.answer is not None and summary.answer.kind is AnswerKind.NOT_REPRODUCED:
        return "none: the two ends were not shown to differ"
    side = "below" if summary.higher_is_better == (summary.recipe.search.find == "regression") else "above"
    value = number(summary.belief.threshold)
    return f"bad is {side} {value} {summary.unit}, the middle between the two ends"

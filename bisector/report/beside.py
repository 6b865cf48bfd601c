"""The tests and counters beside the metric that decides, as text: a sentence for the answer, and a table."""

from bisector.report.counted import absent_text
from bisector.report.siblings import Movement, SiblingChange
from bisector.report.summary import Summary
from bisector.report.words import interval, number, pad, signed, wrap

NAME_WIDTH = 16


def sibling_lines(summary: Summary) -> list[str]:
    """Return what moved with it, what did not, and what cannot be told; nothing if there are no siblings."""
    groups = []
    for movement, word in (
        (Movement.MOVED, "also moved"),
        (Movement.UNCHANGED, "unchanged"),
        (Movement.UNCLEAR, "unclear"),
    ):
        told = [_sibling(change) for change in summary.siblings if change.movement is movement]
        if told:
            groups.append(f"{word}: {', '.join(told)}")
    return wrap("; ".join(groups), indent="        ", first="    ") if groups else []


def _sibling(change: SiblingChange) -> str:
    if change.effect_percent is None or change.low_percent is None or change.high_percent is None:
        if min(change.good_boots, change.bad_boots) < 2 or change.good_value is None or change.bad_value is None:
            return f"{change.label} (too few boots)"
        return f"{change.label} ({number(change.good_value)}, then {number(change.bad_value)})"
    if change.movement is Movement.UNCHANGED:
        return f"{change.label} {signed(change.effect_percent)}"
    return f"{change.label} {signed(change.effect_percent)} {interval(change.low_percent, change.high_percent)}"


def siblings_table(summary: Summary) -> str:
    """Return a row for each, and once what could not be counted; "" if nothing was measured beside it."""
    absent = absent_text(summary.absent_counters)
    below = ["\n".join(wrap(absent, indent="  ", first="  "))] if absent else []
    if not summary.siblings:
        return "\n".join(below)
    name = max(NAME_WIDTH, *(len(change.label) for change in summary.siblings))
    lines = [
        "Tests measured beside it: settled good commits against settled bad ones, a boot is one value",
        f"  {pad('test', name)} {pad('good side', 12)} {pad('bad side', 12)} {pad('change', 26)} boots   says",
    ]
    for change in summary.siblings:
        good, bad = (number(value) if value is not None else "-" for value in (change.good_value, change.bad_value))
        effect = "-"
        if change.effect_percent is not None and change.low_percent is not None and change.high_percent is not None:
            effect = f"{signed(change.effect_percent)} {interval(change.low_percent, change.high_percent)}"
        boots = f"{change.good_boots}+{change.bad_boots}"
        columns = f"  {pad(change.label, name)} {pad(good, 12)} {pad(bad, 12)} {pad(effect, 26)} {pad(boots, 7)} "
        lines.append(columns + change.movement)
    return "\n".join(lines + below)

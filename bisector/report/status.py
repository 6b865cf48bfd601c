"""`bisector status`: where a hunt stands, and with `--why` what it will do next and on which grounds."""

from bisector.report.summary import Belief, Row, Summary
from bisector.report.text import (
    CLEARED,
    deviation,
    effect_text,
    not_given_back_lines,
    row_effect,
    suspect_lines,
    verdict_line,
)
from bisector.report.words import WIDTH, belief, clip, clock, count, day, duration, number, pad, signed, wrap
from bisector.session.state import SessionState, Status

LEADING = 5
LOOKS_EXPLAINED = 3


def status_text(summary: Summary) -> str:
    """Return where a hunt stands, in at most a screen."""
    lines = [headline(summary), _state_line(summary), *metric_lines(summary)]
    if summary.belief is not None:
        lines += ["", *belief_lines(summary, summary.belief)]
    lines += ["", *wrap(_done_line(summary)), *_budget_lines(summary), *not_given_back_lines(summary)]
    if summary.status is Status.FINISHED:
        lines += ["", *wrap(verdict_line(summary)), f"Next:  bisector report {summary.session}"]
    elif summary.status is Status.PAUSED:
        lines += ["", f"Next:  bisector resume {summary.session}"]
    return "\n".join(lines)


def why_text(summary: Summary, state: SessionState) -> str:
    """Return the grounds: the threshold, the doubt left, the deviations, the last decisions with their reasons."""
    lines = ["Why"]
    seen = summary.belief
    if seen is None:
        lines.append("  Nothing has been measured yet: the two ends come first.")
    else:
        lines += _grounds(summary, seen)
    for look in state.looks[-LOOKS_EXPLAINED:]:
        commit = state.range.commits[look.commit]
        going = "now" if look.ended_at is None else "ended"
        lines += wrap(
            f"{look.why} ({look.purpose}, {going})", indent=" " * 10, first=f"  boot {look.number} of {commit.short}: "
        )
    if summary.belief is not None:
        open_suspects = [suspect for suspect in summary.belief.suspects if suspect.probability >= CLEARED]
        lines += ["Suspects, and what keeps each open", *suspect_lines(open_suspects)]
    return "\n".join(lines)


def headline(summary: Summary) -> str:
    """Name, range and what is left, in one line."""
    recipe = summary.recipe
    text = f"{summary.session}   {recipe.good}..{recipe.bad}   {count(summary.commits, 'commit')}"
    if summary.belief is not None:
        left, share = count(summary.belief.suspects_left, "suspect"), 100 * recipe.search.confidence
        text += f", {left} left ({share:g} % of the belief)"
    return clip(text, WIDTH)


def _state_line(summary: Summary) -> str:
    when = f"{day(summary.last_at)} {clock(summary.last_at)}"
    match summary.status:
        case Status.RUNNING:
            text = f"running: {duration(summary.worked_s)} so far{expected(summary)}; last event {when}"
        case Status.PAUSED:
            text = f"paused since {when}: {summary.pause_reason}. {summary.pause_resolution}"
        case Status.FINISHED:
            text = f"finished {when} after {duration(summary.worked_s)}"
    return "\n".join(wrap(text, indent="    ", first=""))


def expected(summary: Summary) -> str:
    """ ", about 12 boots and 40 m to go", or nothing where nobody knows."""
    seen = summary.belief
    if seen is None or seen.remaining_boots is None or summary.status is Status.FINISHED:
        return ""
    boots = max(1, round(seen.remaining_boots))
    time = "" if seen.remaining_s is None else f" and {duration(seen.remaining_s)}"
    return f", about {count(boots, 'boot')}{time} to go"


def metric_lines(summary: Summary) -> list[str]:
    """The metric, its levels at the two ends, and the step between them."""
    direction = "higher" if summary.higher_is_better else "lower"
    text = f"metric {summary.recipe.benchmark.test} {summary.unit}, {direction} is better"
    seen = summary.belief
    if seen is not None and seen.good_level is not None:
        text += f"   good {number(seen.good_level)}"
        if seen.bad_level is not None:
            text += f"   bad {number(seen.bad_level)}"
        if seen.effect is not None:
            text += f"   step {signed(seen.effect.percent)}"
    return wrap(text, indent="    ", first="")


def belief_lines(summary: Summary, seen: Belief, *, most: int = LEADING, width: int = WIDTH) -> list[str]:
    """The leading suspects with their probability and how each looked, and the mass of all others."""
    table = [("belief", "commit", "subject", "looked at")]
    named = [suspect for suspect in seen.suspects if suspect.probability >= CLEARED][:most]
    for suspect in named:
        table.append(
            (belief(suspect.probability), suspect.commit.short, suspect.commit.subject, looked_at(suspect.row))
        )
    looked_width = max(len(line[3]) for line in table)
    subject_width = max(8, width - 28 - looked_width)
    lines = [
        clip(f"  {line[0]:>8}  {pad(line[1], 12)}  {pad(line[2], subject_width)}  {line[3]}", width).rstrip()
        for line in table
    ]
    rest = 1.0 - sum(suspect.probability for suspect in named)
    others = summary.commits - 1 - len(named)
    if others > 0 and rest >= CLEARED:
        lines.append(f"  {belief(rest):>8}  {count(others, 'other')}")
    return lines


def looked_at(row: Row | None) -> str:
    """ "bad -12.6 % [-13.4, -11.9] 3 boots", "does not compile", "not yet"."""
    if row is None or row.outcome is None:
        return "not yet"
    if row.effect is None:
        return row_effect(row) or str(row.verdict)
    verdict = f"{row.verdict:<4}"
    return f"{verdict} {effect_text(row.effect)} {count(row.boots, 'boot')} {count(row.runs, 'run')}"


def _done_line(summary: Summary) -> str:
    done = summary.counts
    return (
        f"Looked at {count(done.kernels, 'kernel')}: {count(done.boots, 'boot')}, {count(done.runs, 'run')}, "
        f"{duration(done.machine_s)} of machine time, {duration(done.builder_s)} of building."
    )


def _budget_lines(summary: Summary) -> list[str]:
    """What is used of the limits on failures in a row; nothing where nothing failed."""
    budgets = (*summary.budgets, *summary.errors.values())
    used = [f"{one.used} of {one.allowed} {one.words}" for one in budgets if one.used]
    return wrap(f"Used of its limits: {', '.join(used)}.") if used else []


def _grounds(summary: Summary, seen: Belief) -> list[str]:
    lines = []
    if seen.threshold is not None:
        text = (
            f"A commit is called good or bad against {number(seen.threshold)} {summary.unit}, the middle of the ends."
        )
        lines += wrap(text, indent="    ", first="  ")
    if seen.entropy_bits is not None:
        text = (
            f"Doubt left: {seen.entropy_bits:.2f} bit over {count(seen.suspects_left, 'suspect')}{expected(summary)}."
        )
        lines += wrap(text, indent="    ", first="  ")
    if seen.boot_sd_percent is not None and seen.run_sd_percent is not None:
        boots, runs = deviation(seen.boot_sd_percent), deviation(seen.run_sd_percent)
        text = f"Deviation between boots {boots}, between runs of one boot {runs}"
        if seen.detectable_percent is not None:
            text += f"; smallest effect these boots can show {deviation(seen.detectable_percent)}"
        lines += wrap(text + ".", indent="    ", first="  ")
    if seen.audit:
        lines += wrap(f"Audit of the leading suspect against its parent: {seen.audit}.", indent="    ", first="  ")
    return lines

"""The report as text: how the hunt ended, what it cost, how it measured, and every commit looked at."""

from collections.abc import Iterable

from bisector.model.outcome import AnswerKind, Outcome, Verdict
from bisector.report.asked import asked_text
from bisector.report.beside import sibling_lines, siblings_table
from bisector.report.summary import AnswerLine, Effect, Row, Summary, Suspect
from bisector.report.words import (
    WIDTH,
    belief,
    between,
    clip,
    count,
    duration,
    interval,
    number,
    pad,
    percent,
    signed,
    wrap,
)
from bisector.session.state import Status

FILES_NAMED = 6
_OPTIONS_SHOWN = 6
CLEARED = 0.0005
"""Below this a skipped commit "cannot be the first bad one": less than what `belief` can show."""

AUDIT_NOT_BEGUN = "not begun"
"""What an assessment says of an audit that there is nothing to tell of (`search.forecast`)."""

OUTCOME_WORDS = {
    Outcome.MEASURED: "measured",
    Outcome.CONFIG_FAILED: "does not configure",
    Outcome.BUILD_FAILED: "does not compile",
    Outcome.BOOT_FAILED: "does not boot",
    Outcome.CRASHED: "crashes",
    Outcome.WRONG_KERNEL: "boots as another kernel",
    Outcome.INFRA: "lost to lab trouble",
}


def report_text(summary: Summary) -> str:
    """Return the whole report, lines of at most 100 columns."""
    parts = [ending_text(summary), *_sections(summary)]
    return "\n\n".join(part for part in parts if part)


def ending_text(summary: Summary) -> str:
    """Return how the hunt ended (or stands), what it cost and how it measured: what is printed when a hunt ends."""
    lines = _head(summary)
    lines += _cost_lines(summary)
    lines += _skipped_lines(summary)
    lines += _method_lines(summary)
    lines += _drift_lines(summary)
    lines += _fixup_lines(summary)
    lines += not_given_back_lines(summary)
    lines += ["", _next_line(summary)]
    return "\n".join(lines)


def not_given_back_lines(summary: Summary) -> list[str]:
    """Return the machines that people have to give back, with what to type; nothing if there are none."""
    return [line for left in summary.not_given_back for line in wrap(left.sentence, indent="    ", first="")]


def answer_line(summary: Summary) -> str:
    """Return the answer alone, for `-q`: the full ids, or one sentence."""
    answer = summary.answer
    if answer is None:
        return _standing(summary)
    if answer.suspects:
        return "\n".join(suspect.commit.id for suspect in answer.suspects)
    return answer.reason


def verdict_line(summary: Summary) -> str:
    """Return the answer in one sentence, for `status` and `list`."""
    answer = summary.answer
    if answer is None:
        return _standing(summary)
    sure = belief(answer.probability)
    match answer.kind:
        case AnswerKind.COMMIT:
            accused = answer.suspects[0].commit
            return f"First {_wanted(summary)} commit: {accused.id} ({sure})  {accused.subject}"
        case AnswerKind.SET:
            ids = ", ".join(suspect.commit.short for suspect in answer.suspects)
            return f"The first {_wanted(summary)} commit is one of {len(answer.suspects)} ({sure}): {ids}"
        case AnswerKind.NOT_REPRODUCED:
            return f"Not reproduced: {answer.reason}"
        case AnswerKind.NONE:
            return f"No single commit found: {answer.reason}"


def _head(summary: Summary) -> list[str]:
    answer = summary.answer
    if answer is None:
        return wrap(_standing(summary), indent="    ", first="")
    match answer.kind:
        case AnswerKind.COMMIT:
            return _commit_lines(summary, answer)
        case AnswerKind.SET:
            return _set_lines(summary, answer)
        case AnswerKind.NOT_REPRODUCED:
            return _not_reproduced_lines(summary, answer)
        case AnswerKind.NONE:
            return _none_lines(summary, answer)


def _standing(summary: Summary) -> str:
    if summary.status is Status.PAUSED:
        resume = f"bisector resume {summary.session}"
        mend = summary.pause_resolution.rstrip(".")
        todo = mend if resume in mend else "; ".join(part for part in (mend, f"then: {resume}") if part)
        return f"Paused: {summary.pause_reason or 'nothing was said why'}. {todo[:1].upper()}{todo[1:]}"
    left = f", {count(summary.belief.suspects_left, 'suspect')} left" if summary.belief else ""
    return f"Not finished: {summary.session} looks for the first {_wanted(summary)} commit{left}."


def _wanted(summary: Summary) -> str:
    return "bad" if summary.recipe.search.find == "regression" else "better"


def _commit_lines(summary: Summary, answer: AnswerLine) -> list[str]:
    accused = answer.suspects[0]
    lines = [f"First {_wanted(summary)} commit: {accused.commit.id}  ({belief(answer.probability)})"]
    lines += wrap(accused.commit.subject, indent="    ", first="    ")
    lines.append(f"    of {accused.commit.author_date}")
    lines += _touched_lines(answer.files)
    lines += _effect_lines(summary)
    lines += wrap(answer.reason, indent="    ", first="    ")
    lines += _merge_lines(summary, answer)
    return lines + sibling_lines(summary)


def _merge_lines(summary: Summary, answer: AnswerLine) -> list[str]:
    """A merge that stands for all it brought in, and how to look inside."""
    if not summary.recipe.first_parent or len(answer.parents) < 2:
        return []
    ends = f"--good {answer.parents[0][:12]} --bad {answer.suspects[0].commit.short}"
    text = "A merge: only first parents were walked, what it brought in was not looked at. Go inside, without "
    return wrap(f"{text}first_parent: bisector start RECIPE {ends}", indent="        ", first="    ")


def _touched_lines(files: tuple[str, ...]) -> list[str]:
    if not files:
        return []
    rest = f" and {len(files) - FILES_NAMED} more" if len(files) > FILES_NAMED else ""
    return wrap(f"touches {', '.join(files[:FILES_NAMED])}{rest}", indent="        ", first="    ")


def _effect_lines(summary: Summary) -> list[str]:
    seen = summary.belief
    if seen is None or seen.good_level is None or seen.bad_level is None:
        return []
    text = f"{summary.recipe.benchmark.test}  {number(seen.good_level)} -> {number(seen.bad_level)} {summary.unit}"
    if seen.effect is not None:
        text += f"   {effect_text(seen.effect)}"
    lines = wrap(text, indent="    ", first="    ")
    if seen.audit and seen.audit != AUDIT_NOT_BEGUN:
        lines += wrap(f"audit against its parent: {seen.audit}", indent="        ", first="    ")
    return lines


def effect_text(effect: Effect) -> str:
    """ "-12.8 % [-13.5, -12.1]"."""
    return f"{signed(effect.percent)} {interval(effect.low, effect.high)}"


def _set_lines(summary: Summary, answer: AnswerLine) -> list[str]:
    together = belief(answer.probability)
    amount = len(answer.suspects)
    lines = [f"The first {_wanted(summary)} commit is one of {amount}, {together} together:"]
    lines += suspect_lines(answer.suspects)
    lines += wrap(answer.reason, indent="    ", first="    ")
    return lines + _effect_lines(summary) + sibling_lines(summary)


def suspect_lines(suspects: Iterable[Suspect]) -> list[str]:
    """Return two lines a suspect: its probability, id and subject, and why it was not told apart."""
    lines = []
    for suspect in suspects:
        head = f"  {belief(suspect.probability):>8}  {suspect.commit.short}  "
        lines.append(head + clip(suspect.commit.subject, WIDTH - len(head)))
        lines += wrap(suspect.note, indent=" " * 14, first=" " * 12)
    return lines


def _not_reproduced_lines(summary: Summary, answer: AnswerLine) -> list[str]:
    lines = wrap(f"Not reproduced: no {summary.recipe.search.find} from the good end to the bad one was shown.")
    return lines + wrap(answer.reason, indent="    ", first="    ")


def _none_lines(summary: Summary, answer: AnswerLine) -> list[str]:
    lines = wrap(f"No single commit found: {answer.reason}", indent="    ", first="")
    leading = summary.belief.suspects if summary.belief else ()
    suspects = answer.suspects or tuple(suspect for suspect in leading if suspect.probability >= CLEARED)
    if suspects:
        lines += ["Leading suspects:", *suspect_lines(suspects[:FILES_NAMED])]
    return lines + _effect_lines(summary)


def _cost_lines(summary: Summary) -> list[str]:
    done = summary.counts
    kernels = f"Looked at {count(done.kernels, 'kernel')} ({done.built} built, {done.from_cache} from the cache)"
    waited = f"; the machine waited {duration(done.waited_s)} for builds" if done.waited_s >= 1 else ""
    text = (
        f"{kernels} of {count(summary.commits, 'commit')}, {count(done.boots, 'boot')}, {count(done.runs, 'run')}, "
        f"{duration(done.machine_s)} of machine time, {duration(done.builder_s)} of building{waited}; "
        f"{duration(summary.worked_s)} in all."
    )
    return wrap(text)


def _skipped_lines(summary: Summary) -> list[str]:
    skipped = summary.skipped
    if not skipped:
        return []
    kinds: dict[str, int] = {}
    for row in skipped:
        word = OUTCOME_WORDS[row.outcome] if row.outcome and row.outcome is not Outcome.MEASURED else "marked by hand"
        kinds[word] = kinds.get(word, 0) + 1
    told = ", ".join(f"{amount} {_plural(word, amount)}" for word, amount in kinds.items())
    open_mass = [row for row in skipped if (row.first_bad_probability or 0.0) >= CLEARED]
    if summary.belief is None:
        cleared = ""
    elif not open_mass:
        cleared = " (none can be the first bad commit)" if len(skipped) > 1 else " (it cannot be the first bad commit)"
    else:
        mass = belief(sum(row.first_bad_probability or 0.0 for row in open_mass))
        cleared = f" ({count(len(open_mass), 'of them', 'of them')} may be the first bad commit: {mass})"
    lines = wrap(f"Skipped: {told}{cleared}.", indent="    ", first="")
    for row in skipped:
        head = f"    {row.commit.short}  "
        lines += wrap(row.reason or "marked", indent=" " * 18, first=head)[:3]
    return lines


def _plural(word: str, amount: int) -> str:
    swap = {"does not": "do not", "crashes": "crash", "boots as": "boot as"}
    if amount > 1:
        for one, many in swap.items():
            word = word.replace(one, many)
    return word


def _method_lines(summary: Summary) -> list[str]:
    how, seen = summary.method, summary.belief
    if how.boots_per_commit is None or how.runs_per_boot is None:
        return ["Nothing was measured."]
    boots, runs = between(*how.boots_per_commit, "boot"), between(*how.runs_per_boot, "run")
    parts = [f"How it was measured: {boots} a commit, {runs} a boot"]
    if seen is not None and seen.boot_sd_percent is not None and seen.run_sd_percent is not None:
        parts.append(f"between boots {deviation(seen.boot_sd_percent)}, within {deviation(seen.run_sd_percent)}")
    parts.append(how.pinning)
    if how.counts_instructions:
        parts.append("on a clock that counts instructions, not time or cache misses")
    lines = wrap(", ".join(parts) + ".", indent="    ", first="")
    if seen is not None and seen.detectable_percent is not None:
        lines.append(f"Smallest effect this hunt could have seen: {deviation(seen.detectable_percent)}.")
    return lines


def _drift_lines(summary: Summary) -> list[str]:
    lines = []
    for drift in summary.drifts:
        text = f"Configuration: {drift.role} {drift.commit[:12]} differs from {drift.against[:12]} in "
        text += f"{count(len(drift.changes), 'option')}"
        shown = drift.confounding or drift.changes[:_OPTIONS_SHOWN]
        text += f": {', '.join(shown[:_OPTIONS_SHOWN])}"
        text += ", ..." if len(shown) > _OPTIONS_SHOWN or len(drift.changes) > len(shown) else ""
        if drift.confounding:
            text += "; known to change numbers by themselves: measure once more with them fixed (kernel: fragments)"
        lines += wrap(text + ".", indent="    ", first="")
    return lines


def _fixup_lines(summary: Summary) -> list[str]:
    """Fix-ups that one side of a comparison has and the other has not: the difference may be theirs."""
    lines = []
    for drift in summary.fixup_drifts:
        ours, theirs = (", ".join(names) or "none" for names in (drift.fixups, drift.fixups_against))
        text = f"Fix-ups: {drift.role} {drift.commit[:12]} was built with {ours}, {drift.against[:12]} with {theirs}; "
        lines += wrap(text + "what differs between them may be the fix-up's.", indent="    ", first="")
    return lines


def deviation(value: float) -> str:
    """A spread in percent with two significant digits where it is small: "0.012 %", "2.7 %"."""
    if value >= 0.095:
        return percent(value)
    if value >= 0.00095:
        return f"{value:.2g} %"
    return "< 0.001 %"


def _next_line(summary: Summary) -> str:
    if summary.status is Status.FINISHED:
        return f"Next:  bisector report {summary.session}      bisector log {summary.session} --git"
    if summary.status is Status.PAUSED:
        return f"Next:  bisector resume {summary.session}      bisector status {summary.session} --why"
    return f"Next:  bisector status {summary.session} --why"


def _sections(summary: Summary) -> list[str]:
    return [asked_text(summary), looks_table(summary), siblings_table(summary)]


def looks_table(summary: Summary) -> str:
    """Return the table of all commits looked at, in the order of the range, with why each was."""
    if not summary.rows:
        return "No commit was looked at."
    lines = [
        "Every commit looked at, oldest first",
        f"  {pad('commit', 13)} {pad('verdict', 9)} {pad('effect', 24)} boots runs  subject, and why it was looked at",
    ]
    for row in sorted(summary.rows, key=lambda row: row.commit.index):
        told = f"{pad(row.verdict, 9)} {pad(row_effect(row), 24)} {row.boots:5} {row.runs:4}"
        head = f"  {pad(row.commit.short, 13)} {told}  "
        lines.append(head + clip(row.commit.subject, WIDTH - len(head)))
        if row.why:
            lines += wrap(row.why, indent=" " * 18, first=" " * 16)
        if row.fixups:
            lines += wrap(f"built with {', '.join(row.fixups)}", indent=" " * 18, first=" " * 16)
        if row.verdict is Verdict.SKIPPED and row.artefact:
            lines += wrap(f"see artefacts/{row.artefact}", indent=" " * 18, first=" " * 16)
    return "\n".join(lines)


def row_effect(row: Row) -> str:
    """The effect of a commit against the good end, or why there is none."""
    if row.effect is not None:
        return effect_text(row.effect)
    if row.outcome is None or row.outcome is Outcome.MEASURED:
        return "" if row.outcome is Outcome.MEASURED else "not yet"
    return OUTCOME_WORDS[row.outcome]

"""What the reading commands print: a session's journal becomes a state, an assessment, a summary, and text."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from bisector.history.bisectlog import Mark, write_bisect_log
from bisector.model.errors import BisectorError
from bisector.model.outcome import AnswerKind, Verdict
from bisector.recipe.load import parse_recipe
from bisector.report.as_json import report_document, status_document, to_json
from bisector.report.events import EventLines
from bisector.report.measured import measured_table
from bisector.report.mmtests import PercentOf
from bisector.report.status import status_text, why_text
from bisector.report.summary import Summary, summarise
from bisector.report.text import answer_line, ending_text, report_text
from bisector.report.words import clock, day
from bisector.search.types import Assessment
from bisector.session.home import Home
from bisector.session.journal import as_json as entry_as_json
from bisector.session.outlook import Outlook
from bisector.session.state import SessionState, Status, fold

if TYPE_CHECKING:
    from bisector.cli.display import Current, Display


@dataclass(frozen=True, slots=True, kw_only=True)
class Watching:
    """How a hunt is watched on this terminal: by lines rather than the live view, with all of them, or not at all."""

    plain: bool = False
    verbose: bool = False
    quiet: bool = False


def observer(current: "Current", how: Watching) -> "Display":
    """What watches a hunt on this terminal."""
    # rich is slow to load, and a command that only reads does not need it.
    from rich.console import Console

    from bisector.cli.display import make_observer

    return make_observer(Console(), current, plain=how.plain, quiet=how.quiet, verbose=how.verbose)


def read(home: Home, name: str) -> tuple[SessionState, Assessment | None]:
    """A session as it stands, and what the search believes of it."""
    state = fold(home.read(name).entries)
    return state, Outlook(state, parse_recipe(state.recipe_text)).assessment(state)


def told(state: SessionState, assessment: Assessment | None) -> Summary:
    """The summary of a state, with the files that the accused commit touches, and its parents."""
    files, parents = _of_repository(state)
    return summarise(state, assessment, files=files, parents=parents)


def ending(state: SessionState, *, quiet: bool) -> str:
    """What is printed when a hunt ends or pauses."""
    summary = told(state, Outlook(state, parse_recipe(state.recipe_text)).assessment(state))
    return answer_line(summary) if quiet else ending_text(summary)


def status(home: Home, name: str, *, why: bool, as_json: bool) -> str:
    """Where a hunt stands."""
    state, assessment = read(home, name)
    summary = told(state, assessment)
    if as_json:
        return to_json(status_document(summary))
    text = status_text(summary)
    if state.status is Status.RUNNING and not home.is_driven(name):
        text += f"\n\nNo controller drives it now; go on: bisector resume {name}"
    return f"{text}\n\n{why_text(summary, state)}" if why else text


def sessions(home: Home, *, as_json: bool) -> str:
    """A line for each session; one that cannot be read is named, not hidden."""
    documents: list[dict[str, object]] = []
    lines = []
    for name in home.names():
        try:
            state = fold(home.read(name).entries)
        except (BisectorError, ValueError) as error:
            documents.append({"session": name, "error": str(error)})
            lines.append(f"{name:<28} cannot be read: {str(error).splitlines()[0]}")
            continue
        standing = str(state.status)
        if state.status is Status.RUNNING and not home.is_driven(name):
            standing = "interrupted"
        documents.append({"session": name, "state": str(state.status), "driven": home.is_driven(name)})
        when = f"{day(state.last_at)} {clock(state.last_at)}"
        found = state.answer.commits[0][:12] if state.answer is not None and state.answer.commits else ""
        lines.append(f"{name:<28} {standing:<12} {when}  {len(state.range)} commits  {found}".rstrip())
    if as_json:
        return to_json(documents)
    return "\n".join(lines) if lines else f"No session in {home.folder}. Start one: bisector demo"


def log(home: Home, name: str, *, as_json: bool) -> str:
    """Every event, a line each."""
    entries = home.read(name).entries
    if as_json:
        import json

        return "\n".join(json.dumps(entry_as_json(entry), ensure_ascii=False) for entry in entries)
    return "\n".join(EventLines().lines(entries))


def git_log(home: Home, name: str) -> str:
    """The hunt as `git bisect replay` takes it: settled verdicts and skips, in the order they were first looked at."""
    state, assessment = read(home, name)
    summary = summarise(state, assessment, siblings=False)
    marks: list[Mark] = []
    for row in summary.rows:
        match row.verdict:
            case Verdict.GOOD:
                marks.append((row.commit.index, "good"))
            case Verdict.BAD:
                marks.append((row.commit.index, "bad"))
            case Verdict.SKIPPED:
                marks.append((row.commit.index, "skip"))
            case Verdict.UNDECIDED:
                pass
    accused = [suspect.commit.index for suspect in summary.answer.suspects] if summary.answer is not None else []
    return write_bisect_log(state.range, marks, accused, first_parent=summary.recipe.first_parent)


def report(home: Home, name: str, *, form: str, percent_of: PercentOf) -> str:
    """The report of a hunt."""
    state, assessment = read(home, name)
    match form:
        case "json":
            return to_json(report_document(told(state, assessment)))
        case "mmtests":
            return measured_table(state, assessment, percent_of=percent_of).rstrip("\n")
        case _:
            from bisector.cli.profiling import section

            profiles = section(state, home.session_folder(name))
            text = report_text(told(state, assessment))
            return f"{text.rstrip()}\n\n{profiles}" if profiles else text


def _of_repository(state: SessionState) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Files that the accused commit touches, and its parents; nothing where there is none."""
    if state.answer is None or state.answer.kind is not AnswerKind.COMMIT:
        return (), ()
    from pathlib import Path

    from bisector.history.repository import Repository

    try:
        repository, accused = Repository.open(Path(state.repo)), state.answer.commits[0]
        return repository.files_touched(accused), repository.parents(accused)
    except BisectorError:
        # The repository may be gone by the time somebody reads the report; the answer is not.
        return (), ()

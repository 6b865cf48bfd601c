"""The same for programs: `status --json` and `report --format json`. Full ids, ISO times, no NaN, ever.

The keys `status_document` gives at its top, in `answer`, `counts` and `looks` are promised to scripts: more may
come, these stay.
"""

import json
from dataclasses import asdict
from typing import Any

from bisector.report.summary import AnswerLine, Belief, CommitLine, Effect, Row, Summary, Suspect
from bisector.report.words import iso
from bisector.session.budgets import Budget


def to_json(document: object) -> str:
    """Return the document as JSON text. Raises ValueError on NaN and infinity: neither is JSON."""
    return json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False)


def status_document(summary: Summary) -> dict[str, Any]:
    """Return where a hunt stands: session, state, answer, counts, looks; plain values only."""
    return {
        "session": summary.session,
        "state": str(summary.status),
        "answer": _answer(summary.answer),
        "counts": asdict(summary.counts),
        "looks": [_row(row) for row in summary.rows],
        "belief": _belief(summary.belief),
        "pause": {"reason": summary.pause_reason, "resolution": summary.pause_resolution}
        if summary.pause_reason
        else None,
        "budgets": {budget.kind: _budget(budget) for budget in summary.budgets},
        "errors": {worker: _budget(budget) for worker, budget in summary.errors.items()},
        "not_given_back": [asdict(left) for left in summary.not_given_back],
        "started": iso(summary.started_at),
        "last_event": iso(summary.last_at),
        "worked_s": summary.worked_s,
        "config_drift": [asdict(drift) for drift in summary.drifts],
        "fixup_drift": [asdict(drift) for drift in summary.fixup_drifts],
    }


def _budget(budget: Budget) -> dict[str, int]:
    return {"used": budget.used, "allowed": budget.allowed}


def report_document(summary: Summary) -> dict[str, Any]:
    """Return the whole report: what `status_document` gives, and what was asked, how it was measured, the siblings."""
    recipe = summary.recipe
    return {
        **status_document(summary),
        "recipe": recipe.model_dump(mode="json"),
        "good": _commit(summary.good),
        "bad": _commit(summary.bad),
        "commits": summary.commits,
        "metric": {
            "test": recipe.benchmark.test,
            "unit": summary.unit,
            "higher_is_better": summary.higher_is_better,
        },
        "method": asdict(summary.method),
        "siblings": [{**asdict(change), "movement": str(change.movement)} for change in summary.siblings],
        "missing_counters": [asdict(absent) for absent in summary.absent_counters],
    }


def _answer(answer: AnswerLine | None) -> dict[str, Any]:
    if answer is None:
        return {"kind": "none", "commits": [], "probability": 0.0}
    return {
        "kind": str(answer.kind),
        "commits": [suspect.commit.id for suspect in answer.suspects],
        "probability": answer.probability,
        "reason": answer.reason,
        "share": answer.share,
        "suspects": [_suspect(suspect) for suspect in answer.suspects],
        "files": list(answer.files),
    }


def _suspect(suspect: Suspect) -> dict[str, Any]:
    return {**_commit(suspect.commit), "probability": suspect.probability, "note": suspect.note}


def _commit(commit: CommitLine) -> dict[str, Any]:
    return {"commit": commit.id, "subject": commit.subject, "author_date": commit.author_date}


def _effect(effect: Effect | None) -> dict[str, Any]:
    return {
        "effect_percent": None if effect is None else effect.percent,
        "interval_percent": None if effect is None else [effect.low, effect.high],
    }


def _row(row: Row) -> dict[str, Any]:
    return {
        **_commit(row.commit),
        "outcome": None if row.outcome is None else str(row.outcome),
        "verdict": str(row.verdict),
        **_effect(row.effect),
        "boots": row.boots,
        "runs": row.runs,
        "reason": row.reason or row.why,
        "why": row.why,
        "value": row.value,
        "bad_probability": row.bad_probability,
        "first_bad_probability": row.first_bad_probability,
        "artefact": row.artefact,
        "from_cache": row.from_cache,
        "fixups": list(row.fixups),
    }


def _belief(seen: Belief | None) -> dict[str, Any] | None:
    if seen is None:
        return None
    numbers = asdict(seen)
    del numbers["effect"]
    return {**numbers, **_effect(seen.effect), "suspects": [_suspect(suspect) for suspect in seen.suspects]}

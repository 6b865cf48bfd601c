"""The real search and the real session over a lab in memory, reported: what the rooms say to each other fits."""

import json

import pytest
from fakehunt import controller
from fakes import RECIPE, FakeLab, commit_id, linear_range

from bisector.report.as_json import report_document, to_json
from bisector.report.events import EventLines
from bisector.report.status import status_text, why_text
from bisector.report.summary import summarise
from bisector.report.text import report_text
from bisector.report.words import cells
from bisector.search import assess
from bisector.search.graph import Graph
from bisector.session.evidence import evidence_of, options_of
from bisector.session.journal import open_journal


def hunted(folder, **lab):
    fake = FakeLab(linear_range(41), **lab)
    state = controller(folder, fake).run()
    graph = Graph.from_parents(state.range.parents, good=0, bad=len(state.range) - 1)
    options = options_of(RECIPE, higher_is_better=True)
    summary = summarise(state, assess(graph, evidence_of(state, "page_test"), options))
    entries = open_journal(folder).entries
    lines = EventLines().lines(entries)
    assert len(lines) == len(entries)
    return state, summary, lines


@pytest.mark.parametrize(
    ("lab", "beginning"),
    [
        ({"first_bad": 23, "unbuildable": frozenset({10}), "crashing": frozenset({30})}, "First bad commit: "),
        ({"first_bad": 21, "unbuildable": frozenset({20, 21, 22})}, "The first bad commit is one of "),
        ({"first_bad": None, "boot_sd": 0.003, "run_sd": 0.003}, "Not reproduced: no regression"),
    ],
)
def test_a_whole_hunt_is_told_in_every_form(tmp_path, lab, beginning):
    state, summary, lines = hunted(tmp_path, **lab)
    text = report_text(summary)
    assert text.startswith(beginning)
    everything = "\n".join([text, status_text(summary), why_text(summary, state)])
    assert [line for line in everything.splitlines() if cells(line) > 100] == []
    document = json.loads(to_json(report_document(summary)))
    if document["answer"]["kind"] == "commit":
        assert document["answer"]["commits"] == [commit_id(23)]
        assert document["answer"]["probability"] >= 0.99
        assert "explains" not in text
    assert document["counts"]["runs"] == sum(look["runs"] for look in document["looks"])
    assert document["counts"]["boots"] >= sum(look["boots"] for look in document["looks"])
    assert len(lines) > 20

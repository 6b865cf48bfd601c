"""A machine that a session could not give back: told wherever people look, until the session is taken up again."""

import json
from collections.abc import Callable

import pytest
from story import Story, assessment, found, running

from bisector.model.events import MachineLeft, SessionPaused, SessionResumed
from bisector.report.as_json import report_document, status_document, to_json
from bisector.report.status import status_text
from bisector.report.summary import summarise
from bisector.report.text import ending_text
from bisector.report.words import cells

REASON = "lab-01 does not answer: no route to host"
MEND = "Reset it by hand: that boots its default kernel. Then: bisector lab release lab-01 --force"
LEFT = MachineLeft(machine="lab-01", reason=REASON, resolution=MEND)


def status(story: Story) -> str:
    return status_text(summarise(story.state, assessment(story.state)))


def ending(story: Story) -> str:
    return ending_text(summarise(story.state, assessment(story.state)))


def told(text: str) -> str:
    return " ".join(text.split())


@pytest.mark.parametrize("text_of", [status, ending])
@pytest.mark.parametrize("hunt", [running, found])
def test_status_and_the_ending_say_which_machine_why_and_what_to_type(
    text_of: Callable[[Story], str], hunt: Callable[[], Story]
) -> None:
    assert "was not given back" not in text_of(hunt())
    text = text_of(hunt().tell(LEFT))
    assert f"lab-01 was not given back: {REASON}; {MEND}" in told(text)
    assert all(cells(line) <= 100 for line in text.splitlines())


def test_the_json_of_status_and_report_names_machine_reason_and_mend() -> None:
    story = found()
    for document in (status_document, report_document):
        assert json.loads(to_json(document(summarise(story.state, None))))["not_given_back"] == []
    story.tell(LEFT)
    for document in (status_document, report_document):
        [left] = json.loads(to_json(document(summarise(story.state, None))))["not_given_back"]
        assert left == {"machine": "lab-01", "reason": REASON, "resolution": MEND}


def test_a_machine_that_was_not_given_back_twice_is_told_once_as_it_was_last() -> None:
    story = running().tell(LEFT).tell(MachineLeft(machine="lab-01", reason="it hangs", resolution=""))
    assert told(status(story)).count("was not given back") == 1
    assert "lab-01 was not given back: it hangs\n" in f"{status(story)}\n"


def test_a_resume_takes_the_machine_up_again_and_no_longer_tells_of_it() -> None:
    story = running().tell(SessionPaused(reason="lab trouble", resolution="")).tell(LEFT)
    assert "was not given back" in status(story)
    story.tell(SessionResumed(program="p"))
    assert "was not given back" not in status(story)
    assert status_document(summarise(story.state, None))["not_given_back"] == []


def test_what_a_machine_says_last_cannot_reach_the_terminal() -> None:
    story = running().tell(MachineLeft(machine="lab-01", reason="\x1b[2J\x07oops\nroot#", resolution="\x1b[8m"))
    document = to_json(status_document(summarise(story.state, None)))
    for text in (status(story), ending(story), json.loads(document)["not_given_back"][0]["reason"]):
        assert "oops" in text
        assert not set(text) & {"\x1b", "\x07"}

import json
import math
import subprocess
import sys

import pytest
from story import IDS, Story, assessment, found, good_runs, running

from bisector.model.events import SessionPaused
from bisector.report.as_json import report_document, status_document, to_json
from bisector.report.summary import summarise


def documents(story, **changes):
    state = story.state
    summary = summarise(state, assessment(state, **changes), files=("mm/huge_memory.c",))
    return json.loads(to_json(status_document(summary))), json.loads(to_json(report_document(summary)))


def test_the_promised_keys_are_there_with_full_ids():
    status, _ = documents(found())
    assert {"session", "state", "answer", "counts", "looks"} <= status.keys()
    assert {"kernels", "boots", "runs", "machine_s"} <= status["counts"].keys()
    keys = {"commit", "outcome", "verdict", "effect_percent", "boots", "runs", "reason"}
    assert all(keys <= look.keys() for look in status["looks"])
    assert (status["session"], status["state"]) == ("page-test-hunt", "finished")
    assert status["answer"]["kind"] == "commit"
    assert status["answer"]["commits"] == [IDS[4]]
    assert status["answer"]["probability"] == pytest.approx(0.9941)


def test_looks_tell_outcome_and_reason_of_what_was_skipped():
    status, _ = documents(found())
    looks = {look["commit"]: look for look in status["looks"]}
    assert looks[IDS[6]]["outcome"] == "build_failed"
    assert looks[IDS[6]]["verdict"] == "skipped"
    assert looks[IDS[6]]["effect_percent"] is None
    assert looks[IDS[6]]["reason"].startswith("mm/memory.c:3201:2: error")
    assert looks[IDS[4]]["effect_percent"] == pytest.approx(-12.9, abs=0.05)


def test_a_hunt_without_an_answer_has_the_kind_none():
    status, _ = documents(running())
    assert status["answer"] == {"kind": "none", "commits": [], "probability": 0.0}
    assert status["state"] == "running"


def test_a_pause_is_told_with_its_mend():
    status, _ = documents(running().tell(SessionPaused(reason="disk full", resolution="free 9 GB")))
    assert status["state"] == "paused"
    assert status["pause"] == {"reason": "disk full", "resolution": "free 9 GB"}


def test_the_report_adds_recipe_method_siblings_and_files():
    status, report = documents(found())
    assert {key: report[key] for key in status} == status
    assert report["recipe"]["benchmark"]["test"] == "page_test"
    assert report["method"]["boots_per_commit"] == [1, 2]
    assert {change["test"]: change["movement"] for change in report["siblings"]}["fork_test"] == "moved"
    assert report["answer"]["files"] == ["mm/huge_memory.c"]
    assert report["metric"] == {"test": "page_test", "unit": "ops/s", "higher_is_better": True}


def test_times_are_iso():
    status, _ = documents(Story().build(0).look(0, good_runs()))
    assert status["started"] == "2023-11-14T22:13:20.000+00:00"


def test_nan_is_refused_and_what_is_no_number_is_null():
    with pytest.raises(ValueError, match="not JSON compliant"):
        to_json({"x": math.nan})
    status, _ = documents(running(), remaining_boots=math.inf, effect_percent=math.nan)
    assert status["belief"]["remaining_boots"] is None
    assert status["belief"]["effect_percent"] is None


def test_reporting_loads_neither_scipy_nor_rich_nor_matplotlib():
    code = (
        "import sys, bisector.report.text, bisector.report.status, bisector.report.as_json, bisector.report.events; "
        "print([name for name in ('scipy', 'rich', 'matplotlib', 'git', 'paramiko') if name in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"

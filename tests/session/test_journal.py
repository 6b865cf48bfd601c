"""The journal on a real disk."""

import json
import os
import signal
import sqlite3
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from fakes import commit_id, linear_range, sample, session_started
from hypothesis import given
from hypothesis import strategies as st

from bisector.model.errors import SessionError, SessionLockedError
from bisector.model.events import BuildFailed, BuildStarted, Event, RunFinished, SessionPaused, SessionResumed
from bisector.model.outcome import Outcome
from bisector.model.sample import CounterValue, RunRecord
from bisector.session.journal import create_journal, is_driven, open_journal, session_lock


def test_what_was_appended_is_read_back_equal(tmp_path: Path) -> None:
    journal = create_journal(tmp_path, clock=lambda: 12.5)
    events: list[Event] = [session_started(linear_range(4)), SessionResumed(program="x")]
    for event in events:
        journal.append(event)
    journal.close()
    assert [entry.event for entry in open_journal(tmp_path).entries] == events
    assert [entry.seq for entry in open_journal(tmp_path).entries] == [1, 2]


@given(reason=st.text(), resolution=st.text(), duration=st.floats(min_value=0, allow_nan=False, allow_infinity=False))
def test_any_text_survives_the_journal(
    tmp_path_factory: pytest.TempPathFactory, reason: str, resolution: str, duration: float
) -> None:
    folder = tmp_path_factory.mktemp("journal")
    clean = reason.encode("utf-8", "replace").decode()
    failed = BuildFailed(
        commit=commit_id(1), outcome=Outcome.BUILD_FAILED, reason=clean, artefact="", duration_s=duration
    )
    journal = create_journal(folder)
    journal.append(failed)
    journal.append(SessionPaused(reason=clean, resolution=resolution.encode("utf-8", "replace").decode()))
    journal.close()
    assert open_journal(folder).entries[0].event == failed


def test_a_nan_is_refused_at_the_door_and_nothing_is_written(tmp_path: Path) -> None:
    journal = create_journal(tmp_path)
    bad = BuildFailed(
        commit=commit_id(1), outcome=Outcome.BUILD_FAILED, reason="", artefact="", duration_s=float("nan")
    )
    with pytest.raises(ValueError, match="Out of range float"):
        journal.append(bad)
    assert journal.entries == []
    journal.close()
    assert open_journal(tmp_path).entries == []


def test_a_reader_sees_what_a_writer_appends(tmp_path: Path) -> None:
    writer = create_journal(tmp_path)
    writer.append(session_started(linear_range(3)))
    reader = open_journal(tmp_path)
    writer.append(SessionResumed(program="x"))
    assert [entry.event for entry in reader.refresh()] == [SessionResumed(program="x")]


def test_a_reader_cannot_write(tmp_path: Path) -> None:
    create_journal(tmp_path).close()
    with pytest.raises(SessionError, match="does not take event 1"):
        open_journal(tmp_path).append(SessionResumed(program="x"))


def test_a_journal_of_a_newer_program_is_refused_with_its_number(tmp_path: Path) -> None:
    create_journal(tmp_path).close()
    with sqlite3.connect(tmp_path / "journal.sqlite3") as connection:
        connection.execute("UPDATE meta SET value = '99' WHERE key = 'schema'")
    with pytest.raises(SessionError, match="schema 99; this program reads up to 1"):
        open_journal(tmp_path)


def test_a_damaged_journal_is_an_error_and_not_a_traceback(tmp_path: Path) -> None:
    (tmp_path / "journal.sqlite3").write_bytes(b"not a database" * 100)
    with pytest.raises(SessionError, match="is damaged"):
        open_journal(tmp_path)


def test_a_second_controller_is_refused_and_told_the_first_ones_pid(tmp_path: Path) -> None:
    with session_lock(tmp_path):
        assert is_driven(tmp_path)
        with pytest.raises(SessionLockedError, match=f"pid {os.getpid()}"), session_lock(tmp_path):
            pass
    assert not is_driven(tmp_path)


WRITER = """
import sys
from pathlib import Path
from bisector.model.events import BuildStarted
from bisector.session.journal import open_journal, session_lock
folder = Path(sys.argv[1])
with session_lock(folder):
    journal = open_journal(folder, writer=True)
    while True:
        entry = journal.append(BuildStarted(commit="c" * 40, ahead=False, reason="x" * 2000))
        print(entry.seq, flush=True)
"""


def test_a_killed_writer_loses_no_acknowledged_event_and_leaves_no_lock(tmp_path: Path) -> None:
    create_journal(tmp_path).close()
    acknowledged = 0
    for lines_before_the_kill in (1, 7, 23):
        with subprocess.Popen(
            [sys.executable, "-c", WRITER, str(tmp_path)], stdout=subprocess.PIPE, text=True
        ) as writer:
            assert writer.stdout is not None
            for _ in range(lines_before_the_kill):
                acknowledged = int(writer.stdout.readline())
            writer.send_signal(signal.SIGKILL)
        entries = open_journal(tmp_path).entries
        assert len(entries) >= acknowledged
        assert all(isinstance(entry.event, BuildStarted) for entry in entries)
        assert not is_driven(tmp_path)


def test_samples_of_before_there_were_counters_are_read(tmp_path: Path) -> None:
    counted = replace(sample("page_test", 40.0), counters=(CounterValue(name="page-faults", value=0),))
    record = RunRecord(samples=(counted, sample("brk_test", 2.0)), artefact="", duration_s=1.0)
    event = RunFinished(boot=1, run=1, machine="m", commit=commit_id(1), record=record)
    journal = create_journal(tmp_path)
    journal.append(event)
    journal.close()
    assert open_journal(tmp_path).entries[0].event == event
    with sqlite3.connect(tmp_path / "journal.sqlite3") as connection:
        body = json.loads(connection.execute("SELECT body FROM entries").fetchone()[0])
        for told in body["record"]["samples"]:
            del told["counters"], told["missing_counters"]
        connection.execute("UPDATE entries SET body = ?", (json.dumps(body),))
    [entry] = open_journal(tmp_path).entries
    assert isinstance(entry.event, RunFinished)
    assert [found.counters for found in entry.event.record.samples] == [(), ()]
    assert entry.event.record.value_of("page_test") == 40.0

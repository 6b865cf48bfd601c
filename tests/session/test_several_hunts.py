"""Whole hunts on several machines: the answer, and what a crash of the controller may cost."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from fakehunt import answer_of, controller
from fakes import (
    FakeBuilder,
    FakeLab,
    Killed,
    commit_id,
    crash_before,
    linear_range,
    recipe_for,
)
from session.fleet import THREE, TWO, fleet

from bisector.model.events import (
    BatchesCalibrated,
    Booted,
    BootStarted,
    RunFinished,
    RunStarted,
)
from bisector.model.outcome import AnswerKind
from bisector.search import Finding, Graph, propose
from bisector.session.decide import (
    BootOrder,
    decide,
    plan_of,
)
from bisector.session.evidence import costs_of, evidence_of, options_of
from bisector.session.journal import open_journal
from bisector.session.state import Entry, fold


@pytest.mark.parametrize("names", [TWO, THREE], ids=["two", "three"])
def test_several_machines_name_the_planted_commit(tmp_path: Path, names: tuple[str, ...]) -> None:
    lab = FakeLab(linear_range(40), first_bad=27)
    state = controller(tmp_path, lab, *fleet(lab, names)).run()
    assert answer_of(state) == (AnswerKind.COMMIT, (commit_id(27),))
    assert all(look.ended_at is not None for look in state.looks)
    for name in names:
        first = [look.commit for look in state.looks if look.machine == name][:2]
        assert set(first) <= {0, 39}


def test_the_answer_is_what_the_whole_journal_says(tmp_path: Path) -> None:
    lab = FakeLab(linear_range(60), first_bad=33, boot_sd=0.02, run_sd=0.03, effect=0.1)
    state = controller(tmp_path, lab, *fleet(lab, THREE)).run()
    options = options_of(recipe_for(*THREE), higher_is_better=True)
    graph = Graph.from_parents(state.range.parents)
    finding = propose(graph, evidence_of(state, "page_test"), costs_of(state), options)
    assert isinstance(finding, Finding)
    assert state.answer is not None
    assert tuple(commit_id(index) for index in finding.commits) == state.answer.commits


@pytest.mark.parametrize("step", [3, 9, 30])
def test_a_crash_with_two_machines_at_work_loses_their_running_steps_only(tmp_path: Path, step: int) -> None:
    lab = FakeLab(linear_range(24), first_bad=9, unbuildable=frozenset({11, 12}), crashing=frozenset({14}))
    cache = FakeBuilder(lab).cache
    lab.before = crash_before(step)
    with pytest.raises(Killed):
        controller(tmp_path, lab, *fleet(lab, TWO), builder=FakeBuilder(lab, cache)).run()
    lab.before = lambda what: None
    state = controller(tmp_path, lab, *fleet(lab, TWO), builder=FakeBuilder(lab, cache)).run()
    assert answer_of(state) == (AnswerKind.COMMIT, (commit_id(9),))
    assert len(lab.built) == len(set(lab.built)), "a kernel was built twice"
    finished = [entry.event for entry in open_journal(tmp_path).entries if isinstance(entry.event, RunFinished)]
    assert len({(event.boot, event.run) for event in finished}) == len(finished)
    assert len(finished) <= len(lab.runs) <= len(finished) + len(TWO)


def idle_after(entries: Sequence[Entry]) -> frozenset[str]:
    """The machines of TWO that no step went on at after these entries."""
    busy: set[str] = set()
    calibrated: set[str] = set()
    for entry in entries:
        match entry.event:
            case BootStarted(machine=name) | RunStarted(machine=name):
                busy.add(name)
            case BatchesCalibrated(machine=name):
                calibrated.add(name)
                busy.discard(name)
            case Booted(machine=name):
                busy -= {name} & calibrated
            case RunFinished(machine=name):
                busy.discard(name)
    return frozenset(TWO) - busy


def test_every_look_of_a_journal_is_what_its_past_decides(tmp_path: Path) -> None:
    lab = FakeLab(linear_range(40), first_bad=27)
    controller(tmp_path, lab, *fleet(lab, TWO)).run()
    entries = list(open_journal(tmp_path).entries)
    recipe = recipe_for(*TWO)
    plan = plan_of(fold(entries[:1]), recipe, options_of(recipe, higher_is_better=True))
    for place, entry in enumerate(entries):
        if isinstance(entry.event, BootStarted):
            past = entries[:place]
            orders = decide(fold(past), plan, idle_after(past))
            commits = {order.machine: commit_id(order.commit) for order in orders if isinstance(order, BootOrder)}
            assert commits[entry.event.machine] == entry.event.commit

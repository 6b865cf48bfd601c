"""Whole hunts on several machines at once, in labs where the machines differ, fail or deceive."""

from dataclasses import replace
from itertools import pairwise

import pytest
from hostile import COSTS, Fleet, line, modes, normal, still

from bisector.search import (
    AnswerKind,
    Boot,
    Evidence,
    Look,
    Options,
    Pending,
    Purpose,
    Wait,
    assign,
    drive_fleet,
    propose,
)
from bisector.search.pending import gate_covered

LINE = line(200)
FIRST_BAD = 77


def hunt(fleet, options=None, *, graph=LINE, **how):
    return drive_fleet(graph, fleet, COSTS, options, machines=len(fleet.labs), **how)


def names_it(answer, first_bad=FIRST_BAD):
    return answer.kind is AnswerKind.COMMIT and answer.commits == (first_bad,) and answer.probability >= 0.99


def by_machine(answer, machines):
    return [sorted(boot.at_s for boot in answer.evidence.boots if boot.machine == one) for one in range(machines)]


@pytest.mark.parametrize("builders", [0, 1, 3])
@pytest.mark.parametrize("machines", [1, 2, 5, 8])
def test_any_number_of_machines_and_builders_names_the_change_and_keeps_the_books(machines, builders):
    answer = hunt(Fleet(LINE, {FIRST_BAD: -8}, machines), builders=builders)
    assert names_it(answer)
    shortest_boot_s = COSTS.boot_s + 3 * COSTS.run_s
    for ends_s in by_machine(answer, machines):
        assert all(later - earlier >= shortest_boot_s for earlier, later in pairwise(ends_s))
    assert answer.machine_s <= machines * answer.wall_s + 1e-6
    assert answer.builder_s <= builders * answer.wall_s + 1e-6
    assert not answer.evidence.pending


def test_more_machines_end_sooner():
    wall_s = [hunt(Fleet(LINE, {FIRST_BAD: -8}, machines)).wall_s for machines in (1, 2, 4, 8)]
    assert wall_s == sorted(wall_s, reverse=True)
    assert wall_s[-1] < 0.6 * wall_s[0]


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_machines_of_any_speed_are_compared_each_with_itself(seed):
    speeds = {0: {"value": 1000.0}, 1: {"value": 420.0}, 2: {"value": 1e6}}
    assert names_it(hunt(Fleet(LINE, {FIRST_BAD: -5}, 3, seed=seed, of_machine=speeds)))


@pytest.mark.parametrize(
    "of_machine",
    [
        {1: {"boots": normal(5), "runs": normal(10)}},
        {0: {"trend": lambda hour: hour}, 1: {"trend": lambda hour: -hour}},
        {2: {"boots": modes(0.3, 4)}},
        {1: {"boots": still, "runs": still}},
    ],
    ids=["one ten times as noisy", "two that drift apart", "one with a slow mode", "one that repeats exactly"],
)
@pytest.mark.parametrize("seed", [1, 2])
def test_one_odd_machine_among_three_does_not_move_the_answer(of_machine, seed):
    assert names_it(hunt(Fleet(LINE, {FIRST_BAD: -8}, 3, seed=seed, of_machine=of_machine)))


@pytest.mark.parametrize("seed", [1, 2, 3, 4])
def test_a_machine_that_is_half_as_fast_from_the_middle_on_leads_to_no_wrong_name(seed):
    steps = {1: {"trend": lambda hour: -69.3 * (hour > 0.6)}}
    answer = hunt(Fleet(LINE, {FIRST_BAD: -8}, 3, seed=seed, of_machine=steps))
    assert FIRST_BAD in answer.commits
    assert len(answer.commits) <= 10


@pytest.mark.parametrize("builders", [0, 3])
def test_untestable_commits_leave_the_same_set_as_on_one_machine(builders):
    broken = range(70, 85)
    fleet = Fleet(LINE, {FIRST_BAD: -8}, 4, broken=broken)
    answer = hunt(fleet, builders=builders, builds=(lambda commit: commit not in broken) if builders else None)
    assert answer.kind is AnswerKind.SET
    assert set(answer.commits) == set(range(70, 86))
    tried = [commit for lab in fleet.labs for commit in lab.asked if commit in broken]
    assert len(tried) == len(set(tried))


@pytest.mark.parametrize(("changes", "broken"), [({}, ()), ({FIRST_BAD: 8}, ()), ({FIRST_BAD: -8}, (0,))])
def test_a_hunt_that_is_none_ends_before_anything_between_the_ends_is_booted(changes, broken):
    answer = hunt(Fleet(LINE, changes, 4, broken=broken))
    assert answer.kind in (AnswerKind.NOT_REPRODUCED, AnswerKind.NONE)
    assert answer.commits == ()
    assert {look.commit for look in answer.looks} <= {0, 199}


@pytest.mark.parametrize("boots", [3, 9, 14, 20])
def test_boots_under_way_count_against_the_budget(boots):
    answer = hunt(Fleet(LINE, {FIRST_BAD: -8}, 4), Options(max_boots=boots))
    assert answer.boots <= boots
    assert answer.kind is AnswerKind.NOT_REPRODUCED or FIRST_BAD in answer.commits
    assert answer.kind is not AnswerKind.COMMIT


def test_a_budget_of_time_is_overrun_by_the_looks_under_way_at_most():
    answer = hunt(Fleet(LINE, {FIRST_BAD: -8}, 4), Options(budget_s=1500.0))
    assert answer.kind is AnswerKind.SET
    assert FIRST_BAD in answer.commits
    assert answer.wall_s <= 1500.0 + COSTS.build_s + COSTS.boot_s + 16 * COSTS.run_s


def test_a_gradual_change_is_told_from_a_step_by_several_machines_as_well():
    answer = hunt(Fleet(LINE, {90 + i: -0.5 for i in range(20)}, 4))
    assert answer.kind is AnswerKind.SET
    assert "gradual" in answer.reason
    assert set(answer.commits) <= set(range(88, 113))


@pytest.mark.parametrize("machines", [2, 8])
def test_more_machines_than_commits_only_boot_the_two_there_are(machines):
    graph = line(2)
    answer = hunt(Fleet(graph, {1: -8}, machines), graph=graph)
    assert names_it(answer, 1)
    assert answer.builds == 2
    assert {look.purpose for look in answer.looks} <= {Purpose.GATE, Purpose.AUDIT, Purpose.REFERENCE}


def test_the_same_fleet_gives_the_same_hunt():
    one, other = (hunt(Fleet(LINE, {FIRST_BAD: -5}, 4), builders=2) for _ in range(2))
    assert one.looks == other.looks


def gate_of_machine_0():
    levels = [(end, level) for _ in range(3) for end, level in ((0, 1000.0), (199, 900.0))]
    boots = [
        Boot(commit=end, values=(level, level + 1, level - 1), at_s=0.0, purpose=Purpose.GATE) for end, level in levels
    ]
    return Evidence(boots=tuple(boots), built=frozenset({0, 199}))


def test_a_machine_that_comes_late_boots_both_ends_before_anything_else():
    evidence = gate_of_machine_0()
    asked = []
    for _ in range(2):
        look = assign(LINE, evidence, COSTS, Options(), [3])[3]
        assert isinstance(look, Look)
        assert look.purpose is Purpose.GATE
        asked.append(look.commit)
        more = Boot(commit=look.commit, values=(500.0, 501.0, 499.0), at_s=0.0, purpose=look.purpose, machine=3)
        evidence = replace(evidence, boots=(*evidence.boots, more))
    assert set(asked) == {0, 199}
    assert assign(LINE, evidence, COSTS, Options(), [3])[3].purpose is Purpose.SEARCH


def test_a_machine_that_comes_late_is_of_use_though_an_end_no_longer_boots():
    look = assign(LINE, replace(gate_of_machine_0(), skipped=frozenset({0})), COSTS, Options(), [3])[3]
    assert isinstance(look, Look)
    assert look.commit != 0


def test_looks_between_the_ends_are_no_pairs_of_the_gate():
    evidence = gate_of_machine_0()
    search = Pending(commit=50, runs=3, machine=1, purpose=Purpose.SEARCH)
    pair = Pending(commit=0, runs=3, machine=1, purpose=Purpose.GATE)
    assert not gate_covered(replace(evidence, pending=(search,)), (0, 199), 0, pairs_left=1.0)
    assert gate_covered(replace(evidence, pending=(search, pair)), (0, 199), 0, pairs_left=1.0)


def test_a_lab_of_one_machine_is_not_asked_while_its_look_is_under_way():
    pending = (Pending(commit=0, runs=3, machine=0, purpose=Purpose.GATE),)
    with pytest.raises(ValueError, match="ask `assign`"):
        propose(LINE, Evidence(pending=pending), COSTS, Options(max_boots=1))


@pytest.mark.parametrize(("machines", "builders"), [(0, 0), (1, -1)])
def test_a_hunt_without_a_machine_is_refused(machines, builders):
    with pytest.raises(ValueError, match="at least one machine"):
        drive_fleet(LINE, Fleet(LINE, {}, 1), COSTS, machines=machines, builders=builders)


def test_a_step_that_lets_every_machine_wait_for_nothing_is_refused():
    def waits(graph, evidence, costs, options, free):
        return {machine: Wait(reason="for nothing") for machine in free}

    with pytest.raises(ValueError, match="every machine waits"):
        hunt(Fleet(LINE, {}, 2), step=waits)

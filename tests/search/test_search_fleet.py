"""Whole hunts on several machines in virtual time."""

from collections import Counter
from dataclasses import dataclass, field, replace
from itertools import pairwise

import pytest

from bisector.search import (
    AnswerKind,
    Costs,
    Finding,
    Graph,
    Look,
    Options,
    Purpose,
    Wait,
    World,
    drive,
    drive_fleet,
    simulate,
)

COSTS = Costs(build_s=60.0, boot_s=20.0, run_s=5.0)
LINE = Graph.from_parents([(), *((commit,) for commit in range(299))])


@dataclass
class Fleet:
    """Machines a quarter apart around a tiny lab; remembers who measured what, and when."""

    lab: object
    took: list = field(default_factory=list)

    def __call__(self, commit, boots, runs, *, machine, at_s):
        self.took.append((machine, commit, at_s, at_s + COSTS.boot_s + runs * COSTS.run_s))
        measured = self.lab(commit, boots, runs)
        return measured and [[value * 1.25**machine for value in boot] for boot in measured]


@pytest.fixture
def fleet(tiny_lab):
    def make(graph=LINE, first_bad=170, **more):
        return Fleet(tiny_lab(graph, first_bad, **more))

    return make


@pytest.mark.parametrize("machines", [2, 3, 8])
def test_machines_together_name_the_commit_sooner_than_one(fleet, machines):
    noisy = {"effect_percent": 8.0, "boot_sd": 1.0, "run_sd": 2.0}
    alone = drive_fleet(LINE, fleet(**noisy), COSTS, machines=1)
    together = drive_fleet(LINE, fleet(**noisy), COSTS, machines=machines)
    assert (together.kind, together.commits) == (AnswerKind.COMMIT, (170,))
    assert together.wall_s < 0.75 * alone.wall_s
    assert together.machine_s <= machines * together.wall_s


def test_one_machine_is_what_drive_does(fleet, tiny_lab):
    one = drive(LINE, tiny_lab(LINE, 170, boot_sd=1.0, run_sd=2.0), COSTS)
    same = drive_fleet(LINE, fleet(boot_sd=1.0, run_sd=2.0), COSTS, machines=1)
    assert same == replace(one, evidence=same.evidence)
    assert same.evidence.boots == one.evidence.boots
    assert one.wall_s == one.machine_s == one.evidence.now_s


def test_the_same_fleet_makes_the_same_hunt(fleet):
    first = drive_fleet(LINE, fleet(boot_sd=1.0), COSTS, machines=3, builders=2)
    again = drive_fleet(LINE, fleet(boot_sd=1.0), COSTS, machines=3, builders=2)
    assert first.looks == again.looks


def test_no_two_machines_are_at_one_commit_while_others_would_tell_more(fleet):
    lab = fleet()
    answer = drive_fleet(LINE, lab, COSTS, machines=3)
    searched = {look.commit for look in answer.looks if look.purpose is Purpose.SEARCH}
    began = Counter(commit for _, commit, _, _ in lab.took)
    # With noise of a hundredth of the effect one boot settles a commit: a second would be for nothing.
    inside = searched - {0, 299, 169, 170}
    assert inside
    assert {began[commit] for commit in inside} == {1}


@pytest.mark.parametrize("builders", [0, 2])
def test_no_machine_is_at_two_looks_at_once(fleet, builders):
    lab = fleet(boot_sd=1.0, run_sd=1.0)
    drive_fleet(LINE, lab, COSTS, machines=4, builders=builders)
    for machine in range(4):
        spans = sorted((begin, end) for at, _, begin, end in lab.took if at == machine)
        assert all(before[1] <= after[0] for before, after in pairwise(spans))


def test_a_kernel_is_built_once_for_all_machines(fleet):
    answer = drive_fleet(LINE, fleet(), COSTS, machines=4)
    assert answer.builds == len(answer.evidence.built)


def test_a_machine_that_waits_for_the_ends_makes_a_kernel_of_the_middle_meanwhile(fleet):
    lab = fleet()
    drive_fleet(LINE, lab, COSTS, machines=3)
    # Two machines make the ends, the third boots one of them: its own kernel, the middle, is ready by then.
    first_inside = min(begin for _, commit, begin, _ in lab.took if commit not in (0, 299))
    gate = max(end for _, commit, begin, end in lab.took if commit in (0, 299) and begin < first_inside)
    assert first_inside == gate


def test_builders_spare_the_machines_their_builds(fleet):
    noisy = {"effect_percent": 8.0, "boot_sd": 1.0, "run_sd": 2.0}
    own = drive_fleet(LINE, fleet(**noisy), COSTS, machines=2)
    served = drive_fleet(LINE, fleet(**noisy), COSTS, machines=2, builders=2)
    assert served.wall_s < own.wall_s
    assert own.builder_s == 0.0
    of_boots = sum(COSTS.boot_s + len(boot.values) * COSTS.run_s for boot in served.evidence.boots)
    assert of_boots <= served.machine_s <= of_boots + 2 * (COSTS.boot_s + 16 * COSTS.run_s)
    assert served.builder_s > 0


def test_what_does_not_compile_is_found_out_by_the_builder_and_never_booted(fleet):
    broken = frozenset(range(165, 170))
    lab = fleet(broken=broken)
    answer = drive_fleet(LINE, lab, COSTS, machines=2, builders=2, builds=lambda commit: commit not in broken)
    assert not broken & {commit for _, commit, _, _ in lab.took}
    assert answer.kind is AnswerKind.SET
    assert set(answer.commits) == {165, 166, 167, 168, 169, 170}


def test_a_fleet_with_merges_in_its_history_names_the_commit(fleet, demo_graph):
    answer = drive_fleet(demo_graph, fleet(graph=demo_graph, first_bad=20), COSTS, machines=3)
    assert answer.commits == (20,)


def test_ends_that_do_not_differ_are_told_by_all_machines_together(fleet):
    answer = drive_fleet(LINE, fleet(effect_percent=0.0, boot_sd=0.5), COSTS, Options(min_effect_percent=2), machines=3)
    assert answer.kind is AnswerKind.NOT_REPRODUCED
    assert {boot.commit for boot in answer.evidence.boots} == {0, 299}


def test_the_budget_of_boots_holds_for_the_whole_fleet(fleet):
    answer = drive_fleet(LINE, fleet(effect_percent=2.0, boot_sd=2.0), COSTS, Options(max_boots=30), machines=4)
    assert answer.boots <= 30


def test_looks_under_way_at_the_end_are_given_up_and_their_time_counts(fleet):
    lab = fleet(boot_sd=1.0, run_sd=2.0, effect_percent=8.0)
    answer = drive_fleet(LINE, lab, COSTS, machines=8)
    assert answer.evidence.pending == ()
    given_up = len(lab.took) - answer.boots
    assert given_up >= 0
    of_boots = sum(COSTS.boot_s + len(boot.values) * COSTS.run_s for boot in answer.evidence.boots)
    assert answer.machine_s >= of_boots


def test_a_fleet_of_none_is_refused(fleet):
    with pytest.raises(ValueError, match="at least one machine"):
        drive_fleet(LINE, fleet(), COSTS, machines=0)


def test_a_step_that_lets_everybody_wait_for_nothing_is_refused(fleet):
    def idle(graph, evidence, costs, options, free):
        return {machine: Wait(reason="no") for machine in free}

    with pytest.raises(ValueError, match="nothing is under way"):
        drive_fleet(LINE, fleet(), COSTS, machines=2, step=idle)


def test_a_look_whose_kernel_took_long_is_weighed_anew_when_others_told_something_meanwhile(fleet):
    lab = fleet()
    seen = []

    def scripted(graph, evidence, costs, options, free):
        seen.append((evidence.now_s, tuple(free), 50 in evidence.built))
        if 50 in evidence.built:
            return Finding(kind=AnswerKind.NONE, commits=(), probability=0.0, reason="seen enough")
        wanted = {0: 50 if evidence.boots else 0, 1: 0}
        return {
            machine: Look(commit=wanted[machine], runs=3, purpose=Purpose.SEARCH, reason="as told") for machine in free
        }

    # Both boot the good end at 60 s; at 95 s the first one builds 50 until 155 s, the second one boots until 130 s.
    drive_fleet(LINE, lab, COSTS, machines=2, step=scripted)
    assert seen == [(0.0, (0, 1), False), (95.0, (0, 1), False), (130.0, (1,), False), (155.0, (0,), True)]


def test_worlds_have_machines_with_levels_of_their_own():
    world = World(commits=200, effect_percent=20.0, machines=3, builders=3, machine_sd_percent=60.0)
    trials = []
    tally = simulate(world, trials=2, seed=2, on_trial=trials.append)
    assert tally.correct == 1.0
    assert tally.wall_s_mean < tally.machine_s_mean
    boots = trials[0].result.evidence.boots
    of_good = {boot.machine: boot.values[0] for boot in boots if boot.commit == 0}
    assert len(of_good) == 3
    assert max(of_good.values()) / min(of_good.values()) > 1.05

"""What looks under way are worth to the next one, and what each of several machines is told."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bisector.search import (
    Boot,
    Costs,
    Evidence,
    Finding,
    Graph,
    Look,
    Options,
    Pending,
    Purpose,
    Wait,
    assign,
    propose,
)
from bisector.search.belief import believe
from bisector.search.gate import judge
from bisector.search.noise import read
from bisector.search.pending import foresee
from bisector.search.plan import expected_information, information, next_look
from bisector.search.situation import situation

LINE = Graph.from_parents([(), *((commit,) for commit in range(199))])
FIRST_BAD = 120
COSTS = Costs(build_s=60.0, boot_s=20.0, run_s=5.0)
OPTIONS = Options()
SPEED = (1000.0, 1370.0, 610.0, 905.0)


def boots_of(*looks, first_bad=FIRST_BAD, effect=0.2):
    """One boot a (machine, commit[, purpose]), 100 s apart, the machines' levels far apart."""
    made = []
    for number, (machine, commit, *purpose) in enumerate(looks):
        level = SPEED[machine] * ((1 - effect) if commit >= first_bad else 1.0)
        wobble = 1 + 0.002 * ((number * 7) % 5 - 2)
        made.append(
            Boot(
                commit=commit,
                values=tuple(level * wobble * (1 + 0.002 * (run - 1)) for run in range(3)),
                at_s=100.0 * (number + 1),
                purpose=purpose[0] if purpose else Purpose.GATE,
                machine=machine,
            )
        )
    return tuple(made)


def gate(*machines):
    return [(machine, end) for machine in machines for end in (0, 199, 199, 0)]


def evidence(*looks, pending=(), effect=0.2, **more):
    boots = boots_of(*looks, effect=effect)
    built = frozenset({0, 199, *(boot.commit for boot in boots)})
    going_on = tuple(
        Pending(commit=commit, runs=3, machine=machine, purpose=purpose) for machine, commit, purpose in pending
    )
    return Evidence(boots=boots, built=built, now_s=100.0 * len(boots), pending=going_on, **more)


def looks_of(known, *free):
    steps = assign(LINE, known, COSTS, OPTIONS, free)
    assert not isinstance(steps, Finding)
    return {machine: step for machine, step in steps.items() if isinstance(step, Look)}


def belief_of(known):
    return believe(LINE, known, read(known.boots, OPTIONS, LINE.good))


@settings(max_examples=25)
@given(
    commits=st.lists(st.integers(min_value=1, max_value=198), min_size=1, max_size=8, unique=True),
    apart=st.floats(min_value=0.1, max_value=9.0),
)
def test_what_looks_may_show_is_on_average_what_is_believed_now(commits, apart):
    belief = belief_of(evidence(*gate(0)))
    futures = foresee(LINE, belief, dict.fromkeys(commits, apart))
    after = futures.bad_probability(LINE, belief, np.arange(200))
    assert futures.chance.sum() == pytest.approx(1.0)
    assert after @ futures.chance == pytest.approx(belief.bad_probability(LINE, np.arange(200)), abs=1e-9)


@settings(max_examples=25)
@given(
    q=st.lists(st.floats(min_value=0.0, max_value=1.0), min_size=2, max_size=6),
    d=st.floats(min_value=0.0, max_value=13.0),
)
def test_information_over_several_outcomes_is_the_mean_of_each(q, d):
    chance = np.arange(1, len(q) + 1) / sum(range(1, len(q) + 1))
    together = expected_information(np.array([q]), chance, np.array([[d]]))[0, 0]
    assert together == pytest.approx(information(np.array(q), np.array(d)) @ chance, abs=1e-12)


def test_a_look_tells_no_more_when_others_are_under_way():
    known = evidence(*gate(0, 1))
    readings, belief = read(known.boots, OPTIONS, 0), belief_of(known)
    alone = next_look(LINE, known, readings, belief, COSTS)
    busy = replace(known, pending=(Pending(commit=alone.commit, runs=3, machine=1, purpose=Purpose.SEARCH),))
    beside = next_look(LINE, busy, readings, belief, COSTS)
    assert beside.bits < alone.bits
    assert beside.commit != alone.commit


def test_idle_machines_spread_over_the_range():
    looks = looks_of(evidence(*gate(0, 1, 2)), 0, 1, 2)
    places = sorted(look.commit for look in looks.values())
    assert len(set(places)) == 3
    # The middle and, to a few commits, the middles of what it leaves.
    assert np.abs(np.array(places) - np.array([50, 100, 150])).max() <= 12


def test_one_machine_without_pending_looks_does_what_it_always_did():
    for looks in ([], gate(0), [*gate(0), (0, 100, Purpose.SEARCH)], [*gate(0), (0, 119, Purpose.AUDIT)]):
        known = evidence(*looks)
        step = propose(LINE, known, COSTS, OPTIONS)
        assert assign(LINE, known, COSTS, OPTIONS, [0]) == {0: step}


def test_a_search_for_one_machine_refuses_evidence_it_would_have_to_wait_with():
    # 5 % at 0.8 % a boot: the second pair is the last one wanted, and machine 1 is at it.
    known = evidence((0, 0), (0, 199), pending=[(1, 0, Purpose.GATE)], effect=0.05)
    assert isinstance(assign(LINE, known, COSTS, OPTIONS, [0])[0], Wait)
    with pytest.raises(ValueError, match="assign"):
        propose(LINE, known, COSTS, OPTIONS)


def test_pairs_of_all_machines_add_up_and_only_within_a_machine():
    def verdict(*looks):
        known = evidence(*looks)
        return judge(read(known.boots, OPTIONS, 0), (0, 199), OPTIONS, spent=False)

    assert verdict((0, 0), (0, 199), (1, 199), (1, 0), (2, 0), (2, 199)).pairs == 3
    # Machine 1 is 37 % faster than machine 0: across machines this would be a clear difference.
    apart = verdict((0, 0), (0, 0), (0, 0), (1, 199), (1, 199), (1, 199))
    assert (apart.pairs, apart.delta, apart.verdict.value) == (0, 0.0, "open")


def test_machines_that_disagree_make_the_gate_doubt_its_error():
    def gate_of(shifts):
        boots = []
        for machine, shift in enumerate(shifts):
            for commit, level in ((0, 1000.0), (199, 1000.0 * (1 - shift / 100))):
                boots.append(Boot(commit=commit, values=(level,) * 3, at_s=0.0, purpose=Purpose.GATE, machine=machine))
        return judge(read(boots, OPTIONS, 0), (0, 199), OPTIONS, spent=False)

    # Four pairs, with 4 % between the ends on average: no commit was booted twice on one machine.
    agreeing, scattered = gate_of([4.0, 3.5, 4.5, 4.0]), gate_of([9.0, -3.0, 8.0, 2.0])
    assert agreeing.verdict.value == "different"
    assert scattered.verdict.value == "open"
    assert scattered.se > 2 * agreeing.se


def test_machines_begin_the_gate_at_both_ends():
    looks = looks_of(Evidence(), 0, 1, 2, 3)
    assert sorted(look.commit for look in looks.values()) == [0, 0, 199, 199]
    assert {look.purpose for look in looks.values()} == {Purpose.GATE}


def test_a_machine_that_comes_late_boots_both_ends_before_it_searches():
    known = evidence(*gate(0), (0, 100, Purpose.SEARCH))
    first = looks_of(known, 1)[1]
    assert (first.commit in (0, 199), first.purpose) == (True, Purpose.GATE)
    then = looks_of(evidence(*gate(0), (0, 100, Purpose.SEARCH), (1, first.commit)), 1)[1]
    assert {first.commit, then.commit} == {0, 199}


def test_a_reference_boot_is_every_machines_own():
    known = replace(evidence(*gate(0, 1), (0, 60, Purpose.SEARCH)), now_s=900.0 + 45 * 60)
    # Machine 0's last boot of a known side is as old as machine 1's; both are asked for their own.
    looks = looks_of(known, 0, 1)
    assert {look.purpose for look in looks.values()} == {Purpose.REFERENCE}
    fresh = replace(known, boots=(*known.boots, *(replace(b, at_s=known.now_s) for b in boots_of((0, 0)))))
    assert looks_of(fresh, 0, 1)[0].purpose is Purpose.SEARCH
    assert looks_of(fresh, 0, 1)[1].purpose is Purpose.REFERENCE


def settled():
    """Both machines have seen the jump between 119 and 120."""
    seen = [(machine, commit, Purpose.SEARCH) for commit in (119, 120) for machine in (0, 1)]
    return [*gate(0, 1), *seen, *seen]


def test_each_machine_audits_with_pairs_of_its_own():
    looks = looks_of(evidence(*settled()), 0, 1)
    assert {(look.commit, look.purpose) for look in looks.values()} == {(119, Purpose.AUDIT)}
    half = [(0, 119, Purpose.AUDIT), (1, 119, Purpose.AUDIT)]
    looks = looks_of(evidence(*settled(), *half), 0, 1)
    assert {(look.commit, look.purpose) for look in looks.values()} == {(120, Purpose.AUDIT)}
    whole = [*half, (0, 120, Purpose.AUDIT), (1, 120, Purpose.AUDIT)]
    found = assign(LINE, evidence(*settled(), *whole), COSTS, OPTIONS, [0, 1])
    assert isinstance(found, Finding)
    assert found.commits == (120,)
    assert "2 fresh pairs" in found.reason


def test_a_parent_on_one_machine_and_the_accused_on_another_are_no_pair():
    split = [(0, 119, Purpose.AUDIT), (1, 120, Purpose.AUDIT)] * 3
    steps = assign(LINE, evidence(*settled(), *split), COSTS, OPTIONS, [0, 1])
    assert not isinstance(steps, Finding)
    assert (steps[0].commit, steps[1].commit) == (120, 119)


def test_no_more_machines_audit_than_pairs_are_needed():
    known = evidence(*gate(2, 3), *settled(), pending=[(0, 119, Purpose.AUDIT), (1, 119, Purpose.AUDIT)])
    for step in assign(LINE, known, COSTS, OPTIONS, [2, 3]).values():
        assert isinstance(step, Wait) or step.purpose is not Purpose.AUDIT


def test_the_boots_under_way_count_against_the_budget():
    boots = len(evidence(*gate(0, 1)).boots)
    known = evidence(*gate(0, 1), pending=[(0, 100, Purpose.SEARCH)])
    steps = assign(LINE, known, COSTS, replace(OPTIONS, max_boots=boots + 1), [1])
    assert isinstance(steps[1], Wait)


def test_nobody_waits_when_nobody_looks():
    for looks in ([], gate(0), gate(0, 1), settled(), [*settled(), (0, 119, Purpose.AUDIT)]):
        steps = assign(LINE, evidence(*looks), COSTS, OPTIONS, [1])
        assert not isinstance(steps[1], Wait)


def test_a_kernel_that_is_being_made_costs_what_is_left_of_its_build():
    known = evidence(*gate(0, 1))
    readings, belief = read(known.boots, OPTIONS, 0), belief_of(known)
    soon = replace(known, coming={104: known.now_s + 1.0})
    assert next_look(LINE, known, readings, belief, COSTS).commit in (99, 100)
    look = next_look(LINE, soon, readings, belief, COSTS)
    assert (look.commit, look.cost_s) == (104, 1.0 + 20.0 + 3 * 5.0)


@settings(max_examples=12)
@given(order=st.permutations([0, 1, 2]), looks=st.lists(st.integers(min_value=1, max_value=198), max_size=6))
def test_the_names_of_the_machines_do_not_matter(order, looks):
    known = evidence(*gate(0, 1, 2), *((place % 3, commit, Purpose.SEARCH) for place, commit in enumerate(looks)))
    renamed = replace(known, boots=tuple(replace(boot, machine=order[boot.machine]) for boot in known.boots))
    one, other = (situation(LINE, each, OPTIONS) for each in (known, renamed))
    assert other.belief.probability == pytest.approx(one.belief.probability, abs=1e-9)
    assert (other.gate.verdict, other.gate.pairs) == (one.gate.verdict, one.gate.pairs)
    assert other.belief.delta == pytest.approx(one.belief.delta)

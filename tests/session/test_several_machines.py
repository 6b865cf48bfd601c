"""Several machines in one session: what each is told to do."""

import os
from pathlib import Path

from fakes import (
    FakeBuilder,
    commit_id,
)
from session.fleet import TWO, Told, nearly_found

from bisector.model.events import (
    BootEnded,
    BuildStarted,
    KernelBuilt,
)
from bisector.model.outcome import Outcome, Purpose
from bisector.session.decide import (
    BuildOrder,
    EndLook,
    FetchOrder,
    Finish,
    RunOrder,
    decide,
)
from bisector.session.evidence import evidence_of, skips
from bisector.session.machines import set_aside


def test_two_machines_begin_the_gate_at_different_ends() -> None:
    told = Told(*TWO)
    told.build(0, 39)
    orders = told.boot_orders(*TWO)
    assert {orders[name].commit for name in TWO} == {0, 39}
    assert {orders[name].purpose for name in TWO} == {Purpose.GATE}


def test_the_pairs_of_two_machines_pass_the_gate_together() -> None:
    told = Told(*TWO)
    told.build(0, 39, 19)
    for machine in TWO:
        told.look(machine, 0)
        told.look(machine, 39, shift=0.1)
    orders = told.boot_orders(*TWO)
    assert all(order.purpose is Purpose.SEARCH for order in orders.values())


def test_values_of_two_machines_are_not_compared() -> None:
    told = Told(*TWO)
    told.build(0, 39)
    for _ in range(3):
        # The second machine is faster by as much as the bad end is slower.
        told.look("lab-01", 0)
        told.look("lab-02", 39)
    orders = told.boot_orders(*TWO)
    assert {(name, orders[name].commit) for name in TWO} == {("lab-01", 39), ("lab-02", 0)}


def test_two_idle_machines_are_not_sent_to_the_same_look() -> None:
    told = Told(*TWO)
    told.gate(*TWO)
    told.build(9, 19, 29)
    orders = told.boot_orders(*TWO)
    assert len({order.commit for order in orders.values()}) == 2


def test_a_machine_that_becomes_idle_looks_beside_the_look_that_goes_on() -> None:
    told = Told(*TWO)
    told.gate(*TWO)
    told.build(9, 19, 29)
    told.booted(told.start("lab-01", 19, purpose=Purpose.SEARCH), "lab-01", 19)
    order = told.boot_orders("lab-02")["lab-02"]
    assert order.commit in (9, 29)


def test_a_kernel_in_the_cache_is_not_waited_for_behind_a_build() -> None:
    told = Told(*TWO)
    told.gate(*TWO)
    built = next(order for order in told.orders(*TWO, "builder") if isinstance(order, BuildOrder))
    told.tell(BuildStarted(commit=commit_id(built.commit), ahead=False, reason=built.reason))
    asked = [order.commit for order in told.orders(*TWO) if isinstance(order, FetchOrder)]
    assert asked
    assert built.commit not in asked
    assert decide(told.state, told.plan, frozenset(TWO), frozenset(asked)) == []
    builder = FakeBuilder(told.lab)
    image = builder.build(commit_id(asked[0]), log=Path(os.devnull), on_progress=lambda _: None)
    told.tell(KernelBuilt(commit=commit_id(asked[0]), image=image))
    assert asked[0] in {order.commit for order in told.boot_orders(*TWO).values()}


def test_a_kernel_that_one_machine_waits_for_is_built_once() -> None:
    told = Told(*TWO)
    told.gate(*TWO)
    orders = told.orders(*TWO, "builder")
    assert sum(isinstance(order, BuildOrder) for order in orders) == 1
    built = next(order for order in orders if isinstance(order, BuildOrder))
    told.tell(BuildStarted(commit=commit_id(built.commit), ahead=False, reason=built.reason))
    assert not [order for order in told.orders(*TWO) if not isinstance(order, FetchOrder)]


def test_a_machine_that_has_not_booted_both_ends_does_that_before_it_searches() -> None:
    told = Told(*TWO)
    told.gate("lab-01")
    told.build(9, 19, 29)
    told.look("lab-01", 19, purpose=Purpose.SEARCH)
    order = told.boot_orders("lab-02")["lab-02"]
    assert (order.commit in (0, 39), order.purpose) == (True, Purpose.GATE)


def test_an_answer_ends_the_looks_that_go_on_after_the_run_in_hand() -> None:
    told = nearly_found()
    assert isinstance(told.orders(*TWO)[0], Finish)
    # The same with a look that goes on: it is not waited for longer than its run takes, and what it has counts.
    boot = told.start("lab-02", 19, purpose=Purpose.SEARCH)
    told.booted(boot, "lab-02", 19)
    told.run(boot, 1, "lab-02", 19)
    assert told.orders("lab-01") == []
    orders = told.orders(*TWO)
    assert [type(order) for order in orders] == [EndLook]
    ended = orders[0]
    assert isinstance(ended, EndLook)
    told.tell(BootEnded(boot=boot, machine="lab-02", commit=commit_id(19), reason=ended.reason))
    assert len(evidence_of(told.state, "page_test").boots) == len(told.state.looks)
    assert isinstance(told.orders(*TWO)[0], Finish)


def test_a_look_goes_on_while_another_machine_searches() -> None:
    told = Told(*TWO)
    told.gate(*TWO)
    told.build(9, 19, 29)
    told.booted(told.start("lab-01", 19, purpose=Purpose.SEARCH), "lab-01", 19)
    assert told.orders("lab-01") == [RunOrder(machine="lab-01")]


def test_a_machine_with_trouble_three_times_in_a_row_gets_no_more_looks() -> None:
    told = Told(*TWO)
    told.gate(*TWO)
    told.build(9, 19, 29)
    for _ in range(3):
        told.trouble("lab-02", told.start("lab-02", 19, purpose=Purpose.SEARCH))
    assert set(set_aside(told.state)) == {"lab-02"}
    assert set(told.boot_orders(*TWO)) == {"lab-01"}
    assert skips(told.state) == {}
    assert told.state.looks[-1].outcome is Outcome.INFRA


def test_a_run_that_succeeds_forgives_earlier_trouble_and_a_mere_boot_does_not() -> None:
    told = Told(*TWO)
    told.gate(*TWO)
    told.build(19)
    for _ in range(3):
        boot = told.start("lab-02", 19, purpose=Purpose.SEARCH)
        told.booted(boot, "lab-02", 19)
        told.trouble("lab-02", boot)
    assert set(set_aside(told.state)) == {"lab-02"}
    told.look("lab-02", 19, purpose=Purpose.SEARCH)
    assert set_aside(told.state) == {}


def test_a_healthy_machine_that_boots_is_waited_for_at_the_end() -> None:
    told = nearly_found()
    told.start("lab-02", 19, purpose=Purpose.SEARCH)
    assert told.orders("lab-01") == []
    told.trouble("lab-02")
    orders = told.orders("lab-01")
    assert orders == [EndLook(machine="lab-02", reason="the answer is there without it")]

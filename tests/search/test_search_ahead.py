"""A real hunt on a line of 49 commits, at the moments when its builder was free and chose what nobody asked for."""

from dataclasses import replace

import pytest

from bisector.search import Boot, Costs, Evidence, Graph, Options, Pending, Purpose, propose, rank_builds

LINE = Graph.from_parents([(), *((i,) for i in range(48))])
COSTS = Costs(build_s=17.0, boot_s=4.7, run_s=6.0)


def boot(commit, at_s, *values, purpose=Purpose.SEARCH):
    return Boot(commit=commit, values=values, at_s=at_s, purpose=purpose)


GATE = (
    boot(0, 200, 30443, 30432, 30448, 30452, purpose=Purpose.GATE),
    boot(48, 240, 19998, 19979, 19978, 19987, purpose=Purpose.GATE),
    boot(48, 270, 19986, 19986, 19986, purpose=Purpose.GATE),
    boot(0, 295, 30454, 30448, 30453, purpose=Purpose.GATE),
)
SEARCHED = Evidence(
    boots=(*GATE, boot(25, 316, 30455, 30438, 30448), boot(42, 361, 19986, 19988, 19981)),
    built=frozenset({0, 6, 12, 18, 25, 29, 33, 36, 37, 42, 48}),
    skipped=frozenset({23, 24, 36}),
    now_s=404.0,
)


def shown(evidence, commit, at_s, *values):
    return replace(evidence, boots=(*evidence.boots, boot(commit, at_s, *values)), now_s=at_s + 20)


def test_the_runs_so_far_of_a_look_say_which_of_its_outcomes_to_build_for():
    # 33 is measured and 29 and 37 stand ready: 40 would be wanted after "good", 27 and 31 after "bad".
    assert propose(LINE, SEARCHED, COSTS, Options()).commit == 33
    assert 40 in rank_builds(LINE, SEARCHED, COSTS, Options(), 3)
    bad_so_far = shown(SEARCHED, 33, 385.0, 19983, 19974)
    assert sorted(rank_builds(LINE, bad_so_far, COSTS, Options(), 2)) == [27, 31]
    good_so_far = shown(SEARCHED, 33, 385.0, 30451, 30439)
    assert rank_builds(LINE, good_so_far, COSTS, Options(), 1) == [40]


def test_the_middle_of_the_half_that_the_look_leaves_is_built_first():
    searched = shown(SEARCHED, 33, 385.0, 19983, 19974, 19980)
    assert propose(LINE, searched, COSTS, Options()).commit == 29
    assert sorted(rank_builds(LINE, searched, COSTS, Options(), 2)) == [27, 31]
    assert rank_builds(LINE, shown(searched, 29, 412.0, 19978, 19974), COSTS, Options(), 1) == [27]
    assert rank_builds(LINE, shown(searched, 29, 412.0, 30450, 30441), COSTS, Options(), 1) == [31]


@pytest.mark.parametrize("values", [(19980, 19984, 19978), (30448, 30452, 30441)])
def test_what_the_search_wants_after_a_look_was_ranked_before_it(values):
    evidence = SEARCHED
    for at_s in (500.0, 600.0, 700.0):
        step = propose(LINE, evidence, COSTS, Options())
        ranked = rank_builds(LINE, evidence, COSTS, Options(), 4)
        evidence = shown(evidence, step.commit, at_s, *values)
        evidence = replace(evidence, built=evidence.built | {step.commit})
        after = propose(LINE, evidence, COSTS, Options())
        assert after.purpose is not Purpose.SEARCH or after.commit in {*evidence.built, *ranked}


def test_where_kernels_fail_the_second_choice_for_the_same_half_is_ranked_too():
    evidence = Evidence(boots=GATE, built=frozenset({0, 24, 48}), now_s=320.0)
    calm = rank_builds(LINE, evidence, COSTS, Options(), 8)
    rough = replace(evidence, skipped=frozenset(range(1, 12)))
    # One commit in three fails here, 24 may be the next: then a neighbour of it is wanted at once.
    assert not {22, 23, 25, 26} & set(calm[:6])
    assert {22, 23, 25, 26} & set(rank_builds(LINE, rough, COSTS, Options(), 6))


def test_a_kernel_that_splits_the_other_way_round_is_still_no_reason_to_build_beside_it():
    # 29 stands ready and leaves 4 and 4 of 8: nothing near it is wanted before the middles of its halves.
    searched = shown(SEARCHED, 33, 385.0, 19983, 19974, 19980)
    ranked = rank_builds(LINE, searched, COSTS, Options(), 8)
    assert ranked.index(27) < ranked.index(28)
    assert ranked.index(31) < ranked.index(30)


def test_a_look_that_is_pending_somewhere_is_imagined_to_end_before_the_search_is_asked():
    look = Pending(commit=33, runs=3, machine=0, purpose=Purpose.SEARCH)
    pending = replace(SEARCHED, pending=(look,))
    ranked = rank_builds(LINE, pending, COSTS, Options(), 4)
    # What the two halves of 33 want, 29 and 37 being ready; and with two of its runs in, those of one half alone.
    assert sorted(ranked) == [27, 31, 35, 40]
    so_far = replace(shown(SEARCHED, 33, 385.0, 19983, 19974), pending=(look,))
    assert sorted(rank_builds(LINE, so_far, COSTS, Options(), 2)) == [27, 31]


def test_of_two_pending_looks_every_joint_outcome_is_prepared_for():
    looks = tuple(Pending(commit=commit, runs=3, machine=commit % 2, purpose=Purpose.SEARCH) for commit in (16, 33))
    evidence = Evidence(boots=GATE, built=frozenset({0, 16, 33, 48}), pending=looks, now_s=320.0)
    assert sorted(rank_builds(LINE, evidence, COSTS, Options(), 3)) == pytest.approx([8, 24, 40], abs=1)

import subprocess
import sys
import time
import tracemalloc

import numpy as np
import pytest

from bisector.search import (
    Boot,
    Costs,
    Evidence,
    Graph,
    Options,
    Purpose,
    Verdict,
    World,
    assess,
    propose,
    rank_builds,
)
from bisector.search.world import history

COSTS = Costs(build_s=300.0, boot_s=120.0, run_s=20.0)
LINE = Graph.from_parents([(), *((i,) for i in range(100))])


def boots(commit, level, times=1, purpose=Purpose.SEARCH):
    return tuple(
        Boot(commit=commit, values=(level, level + 1, level - 1), at_s=0.0, purpose=purpose) for _ in range(times)
    )


def gate():
    ends = (boots(0, 1000.0, purpose=Purpose.GATE) + boots(100, 700.0, purpose=Purpose.GATE)) * 3
    return Evidence(boots=ends, built=frozenset({0, 100}))


def test_before_the_gate_both_ends_then_the_middle_then_the_quartiles_are_built():
    ranked = rank_builds(LINE, Evidence(), COSTS, Options(), 5)
    assert ranked[:2] == [0, 100]
    assert ranked[2] in (50, 51)
    assert sorted(ranked[3:]) == pytest.approx([25, 75], abs=1)


def test_ends_that_are_built_are_not_built_again():
    ranked = rank_builds(LINE, Evidence(built=frozenset({0, 100})), COSTS, Options(), 3)
    assert ranked[0] in (50, 51)


def test_in_the_search_both_outcomes_of_the_current_look_are_prepared():
    evidence = gate()
    assert propose(LINE, evidence, COSTS, Options()).commit == 50
    built = Evidence(boots=evidence.boots, built=evidence.built | {50})
    assert sorted(rank_builds(LINE, built, COSTS, Options(), 2)) == [25, 75]
    assert rank_builds(LINE, evidence, COSTS, Options(), 3)[0] == 50


def test_a_kernel_that_stands_ready_near_a_middle_splits_it_and_its_neighbours_are_not_built():
    evidence = gate()
    ready = Evidence(boots=evidence.boots, built=evidence.built | {50, 27, 74})
    # The quartiles are taken care of, so what comes after them is built: the eighths.
    assert sorted(rank_builds(LINE, ready, COSTS, Options(), 4)) == pytest.approx([13, 38, 62, 87], abs=2)


def test_what_the_search_will_hardly_come_to_is_not_built():
    evidence = gate()
    settled = Evidence(
        boots=evidence.boots + boots(30, 1000.0, 3) + boots(31, 700.0, 3), built=evidence.built | {30, 31}
    )
    assert assess(LINE, settled, Options()).probability[31] > 0.9
    assert rank_builds(LINE, settled, COSTS, Options(), 8) == []


def test_skipped_and_built_commits_are_never_ranked():
    evidence = gate()
    closed = Evidence(boots=evidence.boots, built=evidence.built | {25, 50}, skipped=frozenset({75, 76}))
    ranked = rank_builds(LINE, closed, COSTS, Options(), 40)
    assert len(ranked) == len(set(ranked)) == 40
    assert not set(ranked) & {0, 25, 50, 75, 76, 100}


def test_in_the_audit_of_a_commit_whose_parents_were_booted_nothing_is_built():
    parents = [(), (0,), (1,), (1,), (2, 3), (4,)]
    graph = Graph.from_parents(parents)
    ends = (boots(0, 1000.0, purpose=Purpose.GATE) + boots(5, 700.0, purpose=Purpose.GATE)) * 3
    evidence = Evidence(
        boots=ends + boots(2, 1000.0, 3) + boots(3, 1000.0, 3) + boots(4, 700.0, 3),
        built=frozenset({0, 2, 4, 5}),
    )
    assert propose(graph, evidence, COSTS, Options()).purpose is Purpose.AUDIT
    # Parent 3 was booted, so its kernel exists even if the evidence does not list it.
    assert rank_builds(graph, evidence, COSTS, Options(), 2) == []


def test_when_the_hunt_is_over_nothing_is_built():
    evidence = Evidence(skipped=frozenset({0}))
    assert rank_builds(LINE, evidence, COSTS, Options(), 5) == []


def test_an_assessment_before_any_boot_is_the_prior():
    report = assess(LINE, Evidence(), Options())
    assert report.probability[1] == pytest.approx(0.01)
    assert report.entropy_bits == pytest.approx(np.log2(100))
    assert report.good_level is None
    assert report.effect_percent is None
    assert report.remaining_boots > 6


def test_an_assessment_states_levels_in_the_metrics_unit_and_the_effect_with_its_sign():
    evidence = gate()
    evidence = Evidence(boots=evidence.boots + boots(50, 1000.0), built=evidence.built, skipped=frozenset({60}))
    report = assess(LINE, evidence, Options())
    assert report.good_level == pytest.approx(1000, rel=0.01)
    assert report.bad_level == pytest.approx(700, rel=0.01)
    assert report.effect_percent == pytest.approx(-30, abs=1)
    low, high = report.effect_interval_percent
    assert low < report.effect_percent < high < 0
    assert report.good_level > report.threshold > report.bad_level
    said = {verdict.commit: verdict for verdict in report.verdicts}
    assert said[0].verdict is Verdict.GOOD
    assert said[50].verdict is Verdict.GOOD
    assert said[100].verdict is Verdict.BAD
    assert said[100].effect_percent == pytest.approx(-30, abs=1)
    assert said[60].verdict is Verdict.SKIPPED
    assert said[60].effect_percent is None
    assert (said[50].boots, said[50].runs) == (1, 3)
    assert sum(report.probability[:51]) < 0.01


def test_marks_are_shown_as_verdicts():
    evidence = Evidence(boots=gate().boots, marked_good=frozenset({10}), marked_bad=frozenset({90}))
    said = {verdict.commit: verdict.verdict for verdict in assess(LINE, evidence, Options()).verdicts}
    assert said[10] is Verdict.GOOD
    assert said[90] is Verdict.BAD


def test_one_wild_boot_is_worth_less_than_two_calm_ones():
    rng = np.random.default_rng(2)

    def noisy(commit, level):
        values = tuple(level * np.exp(rng.normal(0, 0.03, 6)))
        return Boot(commit=commit, values=values, at_s=0.0, purpose=Purpose.SEARCH)

    ends = [noisy(end, level) for _ in range(6) for end, level in ((0, 1000.0), (100, 900.0))]
    wild = Evidence(boots=(*ends, noisy(50, 300.0)))
    calmed = Evidence(boots=(*wild.boots, noisy(50, 1000.0), noisy(50, 1000.0)))
    bad = [assess(LINE, evidence, Options()).verdicts[1].bad_probability for evidence in (wild, calmed)]
    assert bad[1] < 0.05


def test_importing_the_search_does_not_import_scipy():
    code = "import sys, bisector.search; sys.exit('scipy' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.fixture(scope="module")
def big():
    rng = np.random.default_rng(1)
    graph = history(World(commits=16000, merges=0.08), rng)
    first_bad, evidence = 9000, []
    slow = graph.descendants([first_bad])[0]
    looked = [0, 15999] * 6 + [int(one) for one in rng.integers(1, 15999, 40)]
    looked += [int(one) for one in rng.integers(8900, 9100, 18)]
    for place, commit in enumerate(looked):
        level = 1000 * np.exp((-5.0 * slow[commit] + rng.normal(0, 1)) / 100)
        values = tuple(level * np.exp(rng.normal(0, 0.03, 6)))
        evidence.append(Boot(commit=commit, values=values, at_s=300.0 * place, purpose=Purpose.SEARCH))
    return graph, Evidence(boots=tuple(evidence), built=frozenset(looked), now_s=300.0 * len(looked))


def best_of(times, work):
    spent = []
    for _ in range(times):
        start = time.process_time()
        work()
        spent.append(time.process_time() - start)
    return min(spent)


def test_decisions_at_16000_commits_with_merges_are_no_hang(big):
    # tests/bench/search.py prints the figures; these bounds only tell a decision from a wait.
    graph, evidence = big
    assert best_of(3, lambda: propose(graph, evidence, COSTS, Options())) <= 2.0
    assert best_of(2, lambda: Graph.from_parents(graph.parents)) <= 2.0


def test_a_decision_at_200000_commits_takes_memory_for_the_commits_and_not_for_their_square():
    graph = history(World(commits=200_000, merges=0.08), np.random.default_rng(1))
    levels = {0: 1000.0, 199_999: 950.0, 60_000: 1000.0, 150_000: 950.0}
    shown = [boots(commit, level) for _ in range(3) for commit, level in levels.items()]
    evidence = Evidence(boots=sum(shown, ()), built=frozenset(levels))
    tracemalloc.start()
    step = propose(graph, evidence, COSTS, Options())
    ranked = rank_builds(graph, evidence, COSTS, Options(), 3)
    report = assess(graph, evidence, Options())
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert graph.mass_below([step.commit], np.array(report.probability))[0] == pytest.approx(0.5, abs=0.01)
    assert ranked[0] == step.commit
    # Every commit against every other takes 5 GB in bits.
    assert peak < 100e6

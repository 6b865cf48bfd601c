"""The demonstration's world: 44 commits, a merged side branch, a run that does not compile, a panic, 31 % effect."""

import pytest

from bisector.search import AnswerKind, Options, Purpose, drive

NOT_COMPILING = frozenset({20, 21, 22})
PANICS = frozenset({31})


def kernels(answer):
    return len({look.commit for look in answer.looks})


@pytest.mark.parametrize("run_sd", [0.01, 0.1])
def test_every_first_bad_commit_of_the_demo_is_named_with_few_kernels(demo_graph, costs, tiny_lab, run_sd):
    counts = []
    # Neighbours of untestable commits cannot be told apart from them: those have a test of their own.
    for first_bad in set(range(1, 44)) - {20, 21, 22, 23, 31, 32}:
        lab = tiny_lab(demo_graph, first_bad, run_sd=run_sd, broken=NOT_COMPILING | PANICS, seed=first_bad)
        answer = drive(demo_graph, lab, costs)
        assert answer.kind is AnswerKind.COMMIT, (first_bad, answer.reason)
        assert answer.commits == (first_bad,)
        assert answer.probability >= 0.99
        counts.append((kernels(answer), answer.boots))
    assert max(count for count, _ in counts) <= 14
    assert sum(count for count, _ in counts) / len(counts) <= 10.5
    assert max(boots for _, boots in counts) <= 22


@pytest.mark.parametrize("first_bad", [3, 12, 18, 25, 30, 36, 40])
def test_the_demo_is_solved_under_the_wall_clock_too(demo_graph, costs, tiny_lab, first_bad):
    broken = NOT_COMPILING | PANICS
    lab = tiny_lab(demo_graph, first_bad, boot_sd=5.0, run_sd=15.0, broken=broken, seed=first_bad)
    answer = drive(demo_graph, lab, costs)
    assert answer.kind is AnswerKind.COMMIT, answer.reason
    assert answer.commits == (first_bad,)
    assert answer.probability >= 0.99
    assert kernels(answer) <= 14
    assert answer.boots <= 80


@pytest.mark.parametrize("first_bad", [20, 21, 22, 23])
def test_a_first_bad_commit_among_untestable_ones_ends_in_exactly_the_set_that_cannot_be_told_apart(
    demo_graph, costs, tiny_lab, first_bad
):
    lab = tiny_lab(demo_graph, first_bad, broken=NOT_COMPILING | PANICS, seed=first_bad)
    answer = drive(demo_graph, lab, costs)
    assert answer.kind is AnswerKind.SET
    assert set(answer.commits) == {20, 21, 22, 23}
    assert answer.probability >= 0.99
    assert "3 of them could not be tested" in answer.reason


def test_skips_next_to_the_first_probes_do_not_stop_the_hunt(demo_graph, costs, tiny_lab):
    first_bad = 24
    plain = drive(demo_graph, tiny_lab(demo_graph, first_bad), costs)
    probes = [look.commit for look in plain.looks if look.purpose is Purpose.SEARCH]
    parents = {parent for commit in (first_bad,) for parent in demo_graph.parents[commit]}
    for probe in probes[:4]:
        beside = {probe, *demo_graph.parents[probe], probe + 1} - {0, 43, first_bad} - parents
        answer = drive(demo_graph, tiny_lab(demo_graph, first_bad, broken=frozenset(beside)), costs)
        assert answer.kind is AnswerKind.COMMIT, (beside, answer.reason)
        assert answer.commits == (first_bad,)


def test_a_merge_that_brings_the_slowdown_itself_is_named(demo_graph, costs, tiny_lab):
    answer = drive(demo_graph, tiny_lab(demo_graph, 36), costs)
    assert demo_graph.parents[36] == (35, 27)
    assert answer.kind is AnswerKind.COMMIT
    assert answer.commits == (36,)
    audited = {look.commit for look in answer.looks if look.purpose is Purpose.AUDIT}
    assert 36 in audited
    assert audited & {35, 27}


def test_every_look_says_why_in_a_sentence_with_numbers(demo_graph, costs, tiny_lab):
    answer = drive(demo_graph, tiny_lab(demo_graph, 25), costs, Options())
    for look in answer.looks:
        assert any(digit in look.reason for digit in "0123456789")
        assert "nan" not in look.reason
    assert any("bit for" in look.reason for look in answer.looks)

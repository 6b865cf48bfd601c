from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bisector.search import AnswerKind, Boot, Costs, Evidence, Graph, Look, Options, Purpose, assess, drive, propose
from bisector.search.situation import situation

COSTS = Costs(build_s=300.0, boot_s=120.0, run_s=20.0)


@st.composite
def graphs(draw, max_size=24):
    count = draw(st.integers(3, max_size))
    parents = [()]
    for child in range(1, count):
        how_many = draw(st.integers(1, min(3, child)))
        choice = st.lists(st.integers(max(0, child - 5), child - 1), min_size=1, max_size=how_many, unique=True)
        parents.append(tuple(draw(choice)))
    loose = set(range(count - 1)) - {p for of in parents for p in of}
    parents[-1] = tuple(sorted(set(parents[-1]) | loose))
    return Graph.from_parents(parents)


@st.composite
def hunts(draw):
    """A graph, a first bad commit, the broken commits, a seed."""
    graph = draw(graphs())
    inner = st.integers(1, len(graph) - 1)
    broken = draw(st.frozensets(inner, max_size=4)) - {len(graph) - 1}
    return graph, draw(inner), broken, draw(st.integers(0, 10**6))


def lab(graph, first_bad, broken, seed, *, effect=8.0, boot_sd=0.5, run_sd=1.0, scale=1000.0, power=1.0):
    rng = np.random.default_rng(seed)
    slow = graph.descendants([first_bad])[0]

    def measure(commit, boots, runs):
        if commit in broken:
            return None
        noise = rng.normal(0, boot_sd) + rng.normal(0, run_sd, runs)
        return [list(scale * np.exp(power * (noise - effect * slow[commit]) / 100))]

    return measure


@settings(max_examples=40, deadline=None)
@given(hunts())
def test_a_planted_step_is_found_in_any_small_history(hunt):
    graph, first_bad, broken, seed = hunt
    answer = drive(graph, lab(graph, first_bad, broken, seed, effect=30.0, boot_sd=0.0, run_sd=0.05), COSTS)
    assert answer.kind in (AnswerKind.COMMIT, AnswerKind.SET)
    assert first_bad in answer.commits
    if not broken:
        assert answer.commits == (first_bad,)
    if answer.kind is AnswerKind.SET:
        assert broken & set(answer.commits) or any(set(graph.parents[one]) & broken for one in answer.commits)


@settings(max_examples=15, deadline=None)
@given(hunts())
def test_a_skipped_commit_is_never_proposed_again_and_keeps_its_mass(hunt):
    graph, first_bad, broken, seed = hunt
    measure = lab(graph, first_bad, broken, seed)
    evidence, skipped = Evidence(), set()
    for _ in range(25):
        step = propose(graph, evidence, COSTS, Options())
        if not isinstance(step, Look):
            break
        assert step.commit not in skipped
        values = measure(step.commit, 1, step.runs)
        before = situation(graph, evidence, Options()).belief.probability
        if values is None:
            skipped.add(step.commit)
            evidence = Evidence(boots=evidence.boots, built=evidence.built, skipped=frozenset(skipped))
            after = situation(graph, evidence, Options()).belief.probability
            assert after == pytest.approx(before)
        else:
            boot = Boot(commit=step.commit, values=tuple(values[0]), at_s=0.0, purpose=step.purpose)
            evidence = Evidence(
                boots=(*evidence.boots, boot), built=evidence.built | {step.commit}, skipped=frozenset(skipped)
            )
            after = situation(graph, evidence, Options()).belief.probability
        assert after.sum() == pytest.approx(1.0)
        assert (after >= 0).all()


def steps(answer):
    return [(look.commit, look.runs, look.purpose) for look in answer.looks]


@settings(max_examples=12, deadline=None)
@given(hunts(), st.sampled_from([1e-15, 1e-3, 7.0, 1e12]))
def test_another_unit_of_the_values_changes_neither_a_step_nor_the_answer(hunt, scale):
    graph, first_bad, broken, seed = hunt
    one = drive(graph, lab(graph, first_bad, broken, seed), COSTS)
    other = drive(graph, lab(graph, first_bad, broken, seed, scale=1000.0 * scale), COSTS)
    assert (one.kind, one.commits) == (other.kind, other.commits)
    assert steps(one) == steps(other)


@settings(max_examples=12, deadline=None)
@given(hunts())
def test_the_reciprocal_metric_in_the_other_direction_changes_neither_a_step_nor_the_answer(hunt):
    graph, first_bad, broken, seed = hunt
    one = drive(graph, lab(graph, first_bad, broken, seed), COSTS)
    other = drive(graph, lab(graph, first_bad, broken, seed, power=-1.0), COSTS, Options(higher_is_better=False))
    assert (one.kind, one.commits) == (other.kind, other.commits)
    assert steps(one) == steps(other)


def renumbered(graph, random):
    """The same history in another topological order, and each commit's new place."""
    count = len(graph)
    order, left = [0], set(range(1, count - 1))
    while left:
        ready = sorted(one for one in left if all(parent in order for parent in graph.parents[one]))
        chosen = random.choice(ready)
        order.append(chosen)
        left.remove(chosen)
    order.append(count - 1)
    place = {old: new for new, old in enumerate(order)}
    return Graph.from_parents([tuple(place[parent] for parent in graph.parents[old]) for old in order]), order, place


@settings(max_examples=12, deadline=None)
@given(hunts(), st.randoms(use_true_random=False))
def test_the_numbers_that_commits_go_by_change_neither_the_belief_nor_the_answer_to_the_same_evidence(hunt, random):
    graph, first_bad, broken, seed = hunt
    renamed, order, place = renumbered(graph, random)
    answer = drive(graph, lab(graph, first_bad, broken, seed), COSTS)
    evidence = answer.evidence
    moved = replace(
        evidence,
        boots=tuple(replace(boot, commit=place[boot.commit]) for boot in evidence.boots),
        built=frozenset(place[one] for one in evidence.built),
        skipped=frozenset(place[one] for one in evidence.skipped),
    )
    half = len(evidence.boots) // 2
    for length in (half, len(evidence.boots)):
        original = situation(graph, replace(evidence, boots=evidence.boots[:length]), Options()).belief.probability
        other = situation(renamed, replace(moved, boots=moved.boots[:length]), Options()).belief.probability
        assert other == pytest.approx(original[order], abs=1e-9)
    finding = propose(renamed, moved, COSTS, Options())
    assert finding.kind is answer.kind
    assert set(finding.commits) == {place[commit] for commit in answer.commits}
    assert finding.probability == pytest.approx(answer.probability, abs=1e-6)
    assert finding.reason == answer.reason


@settings(max_examples=12, deadline=None)
@given(hunts(), st.randoms(use_true_random=False))
def test_a_whole_hunt_through_renumbered_commits_ends_in_the_same_answer(hunt, random):
    graph, first_bad, broken, seed = hunt
    renamed, _, place = renumbered(graph, random)
    one = drive(graph, lab(graph, first_bad, broken, seed, effect=30.0, run_sd=0.1), COSTS)
    moved = lab(renamed, place[first_bad], {place[one] for one in broken}, seed, effect=30.0, run_sd=0.1)
    other = drive(renamed, moved, COSTS)
    assert other.kind is one.kind
    assert set(other.commits) == {place[commit] for commit in one.commits}


@settings(max_examples=12, deadline=None)
@given(hunts(), st.randoms(use_true_random=False))
def test_the_same_journal_gives_the_same_next_step_however_it_was_read(hunt, random):
    graph, first_bad, broken, seed = hunt
    journal = drive(graph, lab(graph, first_bad, broken, seed), COSTS).evidence
    for length in (0, 3, len(journal.boots) // 2, len(journal.boots)):
        part = replace(journal, boots=journal.boots[:length], signatures={one: f"i{one}" for one in journal.built})
        shuffled = sorted(journal.built, key=lambda _: random.random())
        again = Evidence(
            boots=tuple(replace(boot, values=tuple(boot.values)) for boot in part.boots),
            built=frozenset(shuffled),
            skipped=frozenset(sorted(part.skipped, reverse=True)),
            signatures={one: f"i{one}" for one in shuffled},
            now_s=part.now_s,
        )
        assert propose(graph, again, COSTS, Options()) == propose(graph, part, COSTS, Options())


@settings(max_examples=12, deadline=None)
@given(hunts(), st.randoms(use_true_random=False))
def test_the_order_of_boots_and_of_their_runs_does_not_change_the_belief(hunt, random):
    graph, first_bad, broken, seed = hunt
    evidence = drive(graph, lab(graph, first_bad, broken, seed), COSTS).evidence
    runs_moved = tuple(replace(b, values=tuple(random.sample(b.values, len(b.values)))) for b in evidence.boots)
    all_moved = tuple(random.sample(runs_moved, len(runs_moved)))
    now = situation(graph, evidence, Options())
    for boots in (runs_moved, all_moved):
        then = situation(graph, replace(evidence, boots=boots), Options())
        assert then.belief.probability == pytest.approx(now.belief.probability, abs=1e-8)
        assert then.belief.delta == pytest.approx(now.belief.delta, abs=1e-8)
        assert then.gate.t == pytest.approx(now.gate.t, rel=1e-8)
    assert (
        propose(graph, replace(evidence, boots=runs_moved), COSTS, Options()).commits
        == propose(graph, evidence, COSTS, Options()).commits
    )


@settings(max_examples=12, deadline=None)
@given(hunts())
def test_an_assessment_of_any_moment_is_finite_and_sums_to_one(hunt):
    graph, first_bad, broken, seed = hunt
    answer = drive(graph, lab(graph, first_bad, broken, seed), COSTS)
    for length in (0, 1, 2, len(answer.evidence.boots) // 2, len(answer.evidence.boots)):
        part = Evidence(boots=answer.evidence.boots[:length], skipped=answer.evidence.skipped)
        report = assess(graph, part, Options())
        assert sum(report.probability) == pytest.approx(1.0)
        assert report.probability[0] == 0.0
        numbers = [report.run_sd_percent, report.boot_sd_percent, report.entropy_bits, report.remaining_boots]
        numbers += [n for v in report.verdicts for n in (v.bad_probability, *(v.interval_percent or ()))]
        assert np.isfinite(numbers).all()


@settings(max_examples=10, deadline=None)
@given(hunts(), st.sampled_from([Purpose.SEARCH, Purpose.REFERENCE]))
def test_more_boots_of_a_settled_commit_do_not_move_it_to_the_other_side(hunt, purpose):
    graph, first_bad, _, seed = hunt
    answer = drive(graph, lab(graph, first_bad, frozenset(), seed), COSTS)
    evidence = answer.evidence
    measure = lab(graph, first_bad, frozenset(), seed + 1)
    for commit in (0, len(graph) - 1):
        for _ in range(4):
            boot = Boot(commit=commit, values=tuple(measure(commit, 1, 4)[0]), at_s=evidence.now_s, purpose=purpose)
            evidence = Evidence(boots=(*evidence.boots, boot), built=evidence.built, now_s=evidence.now_s)
    before = situation(graph, answer.evidence, Options()).belief.probability[first_bad]
    after = situation(graph, evidence, Options()).belief.probability[first_bad]
    assert after > before - 0.05


def test_more_boots_of_settled_commits_do_not_raise_the_wrong_side_on_average():
    graph = Graph.from_parents([(), *((i,) for i in range(39))])
    moves, wrong = [], []
    for seed in range(12):
        first_bad = 5 + 2 * seed
        evidence = drive(graph, lab(graph, first_bad, (), seed, effect=5.0, boot_sd=1.0, run_sd=3.0), COSTS).evidence
        measure = lab(graph, first_bad, (), seed + 1000, effect=5.0, boot_sd=1.0, run_sd=3.0)
        belief = situation(graph, evidence, Options()).belief
        side = belief.bad_probability(graph, np.arange(40))
        settled = [one for one in sorted({b.commit for b in evidence.boots}) if min(side[one], 1 - side[one]) < 0.02]
        for commit in settled:
            boots = tuple(
                Boot(commit=commit, values=tuple(measure(commit, 1, 4)[0]), at_s=evidence.now_s, purpose=Purpose.SEARCH)
                for _ in range(4)
            )
            more = situation(graph, replace(evidence, boots=evidence.boots + boots), Options()).belief
            after = float(more.bad_probability(graph, [commit])[0])
            is_bad = commit >= first_bad
            before_wrong, after_wrong = (1 - side[commit], 1 - after) if is_bad else (side[commit], after)
            moves.append(after_wrong - before_wrong)
            wrong.append(after_wrong)
    assert len(moves) >= 80
    assert np.mean(moves) <= 1e-3
    assert np.mean(np.array(wrong) > 0.5) <= 0.01

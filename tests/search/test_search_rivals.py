import git_bayesect
import pytest

from bisector.search import Costs, Graph, Options, World, drive, simulate
from bisector.search.rivals import RIVALS
from bisector.search.rivals.passfail import believe, least_expected_entropy
from bisector.search.rivals.pinpoint import Comparison, compare, high_threshold

PINPOINT = RIVALS["pinpoint"]
COSTS = Costs(build_s=10, boot_s=10, run_s=1)
CLEAR = {"effect_percent": 30, "boot_sd_percent": 0.5, "run_sd_percent": 0.5, "outliers": 0.0}


class Steps:
    """Measures each commit at its level, its boots evenly over a spread."""

    def __init__(self, levels, spread=0.0):
        self.levels, self.spread, self.boots = levels, spread, 0

    def __call__(self, commit, boots, runs):
        self.boots += 1
        return [[self.levels[commit] * (1 + self.spread * (self.boots % 10 - 4.5) / 10)] * runs]


@pytest.mark.parametrize("strategy", RIVALS)
def test_a_clear_change_in_a_history_with_merges_is_found(strategy):
    tally = simulate(World(commits=60, merges=0.1, **CLEAR), trials=6, strategy=strategy)
    assert tally.correct == 1.0


@pytest.mark.parametrize("strategy", RIVALS)
def test_an_improvement_is_found_as_well(strategy):
    tally = simulate(World(commits=40, improvement=True, **CLEAR), trials=3, strategy=strategy)
    assert tally.correct == 1.0


@pytest.mark.parametrize("strategy", ["classic", "fixed", "sprt", "pinpoint"])
def test_a_change_among_commits_that_do_not_build_is_a_set_or_its_name(strategy):
    tally = simulate(World(commits=100, unbuildable=0.3, **CLEAR), trials=10, strategy=strategy, seed=3)
    assert tally.wrong == 0
    assert tally.correct + tally.set == 1.0
    assert 0 < tally.set < 1
    assert tally.in_set == 1.0


def test_a_rival_without_an_end_has_no_answer():
    graph = Graph.from_parents([(), (0,), (1,)])
    for rival in RIVALS.values():
        answer = drive(
            graph, lambda commit, boots, runs: None if commit == 2 else [[1.0] * runs] * boots, COSTS, step=rival
        )
        assert answer.kind == "none"


@pytest.mark.parametrize("strategy", ["fixed", "sprt", "pinpoint", "pass-fail"])
def test_a_bad_end_that_is_better_is_not_reproduced_but_by_ranks_which_know_no_better(strategy):
    graph = Graph.from_parents([(), (0,), (1,)])
    # Higher is better, and the bad end is higher.
    measure = Steps({0: 10.0, 1: 10.0, 2: 11.0})
    answer = drive(graph, measure, COSTS, step=RIVALS[strategy])
    assert answer.kind == ("commit" if strategy == "pinpoint" else "not_reproduced")


def test_ends_that_are_the_same_are_told_at_once_by_ranks():
    graph = Graph.from_parents([(), *((i,) for i in range(9))])
    assert drive(graph, Steps(dict.fromkeys(range(10), 5.0)), COSTS, step=PINPOINT).kind == "not_reproduced"


def test_ranks_name_every_commit_that_does_a_part():
    graph = Graph.from_parents([(), *((i,) for i in range(4))])
    answer = drive(graph, Steps({0: 100.0, 1: 100.0, 2: 98.0, 3: 98.0, 4: 96.0}, spread=0.01), COSTS, step=PINPOINT)
    assert (answer.kind, answer.commits) == ("set", (2, 4))


def test_a_constant_between_two_constant_ends_belongs_to_the_nearer_one():
    graph = Graph.from_parents([(), *((i,) for i in range(2))])
    nearer_to_good = drive(graph, Steps({0: 10.0, 1: 9.8, 2: 9.0}), COSTS, step=RIVALS["fixed"])
    nearer_to_bad = drive(graph, Steps({0: 10.0, 1: 9.2, 2: 9.0}), COSTS, step=RIVALS["fixed"])
    assert (nearer_to_good.commits, nearer_to_bad.commits) == ((2,), (1,))


def test_a_long_history_with_merges_is_searched_by_its_most_open_commits():
    world = World(commits=400, merges=0.08, **CLEAR)
    assert simulate(world, trials=2, strategy="pass-fail").correct == 1.0


def test_a_pass_fail_belief_cannot_name_a_commit_that_does_not_build():
    graph = Graph.from_parents([(), *((i,) for i in range(9))])
    failures = {0: (0, 9), 9: (9, 9), 4: (0, 9), 6: (9, 9)}
    assert believe(graph, failures, frozenset({5})).probability[5] == 0
    assert believe(graph, failures, frozenset()).probability[5] == pytest.approx(0.5, abs=0.01)


@pytest.mark.parametrize("strategy", ["fixed", "sprt", "pinpoint", "pass-fail"])
def test_ends_that_do_not_differ_lead_to_few_accusations(strategy):
    world = World(commits=30, regression=False)
    tally = simulate(world, Options(max_boots=20), trials=6, strategy=strategy, seed=4)
    assert tally.wrong <= (0.2 if strategy == "fixed" else 0.0)
    # Pinpoint mostly cannot tell in time; pass and fail ask for no difference, only for its sign.
    if strategy in ("fixed", "sprt"):
        assert tally.not_reproduced >= 0.8


@pytest.mark.parametrize("strategy", ["sprt", "pinpoint", "pass-fail"])
def test_a_budget_ends_a_rival_without_an_answer(strategy):
    tally = simulate(World(commits=300, effect_percent=9), Options(budget_s=6000), trials=2, strategy=strategy)
    assert tally.none == 1.0
    assert tally.machine_s_mean < 8000


def test_a_sequential_test_asks_more_boots_of_a_noisier_lab():
    calm = simulate(World(commits=100, boot_sd_percent=0.5, run_sd_percent=1), trials=4, strategy="sprt")
    noisy = simulate(World(commits=100, boot_sd_percent=2, run_sd_percent=3), trials=4, strategy="sprt")
    # 16 of them are the ends' in both.
    assert noisy.boots - 16 > 1.5 * (calm.boots - 16)


def test_samples_are_the_same_or_different_or_not_known_to_be_either():
    sample = tuple(float(value) for value in range(10))
    farther = [tuple(value + shift for value in sample) for shift in (0.1, 3.1, 8.1)]
    said = [compare(sample, other, 4.5) for other in farther]
    assert said == [Comparison.SAME, Comparison.UNKNOWN, Comparison.DIFFERENT]


def test_constant_samples_are_compared_without_a_spread():
    assert compare((1.0,) * 10, (1.0,) * 10, 1.0) is Comparison.SAME
    assert compare((1.0,) * 10, (2.0,) * 10, 1.0) is Comparison.DIFFERENT


# Read from the table in catapult, dashboard/pinpoint/models/compare/thresholds.py (a million draws each).
@pytest.mark.parametrize(
    ("tenths", "size", "published"), [(5, 20, 0.9246), (10, 20, 0.0859), (10, 30, 0.0095), (15, 10, 0.0757)]
)
def test_the_high_threshold_is_the_published_one(tenths, size, published):
    assert high_threshold(tenths, size) == pytest.approx(published, rel=0.2)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_pass_and_fail_are_weighed_as_git_bayesect_weighs_them():
    count = 50
    graph = Graph.from_parents([(), *((i,) for i in range(count - 1))])
    failures = {0: (0, 3), 49: (3, 3), 25: (1, 4), 37: (2, 2), 31: (1, 2)}
    # Its index 0 is the newest commit; the good end cannot be the first bad one.
    bisector = git_bayesect.Bisector([1.0] * (count - 1) + [0.0])
    for commit, (failed, looked) in failures.items():
        for number in range(looked):
            bisector.record(count - 1 - commit, number < failed)
    belief = believe(graph, failures, frozenset())
    assert belief.probability == pytest.approx(bisector.distribution[::-1], abs=1e-9)
    assert least_expected_entropy(graph, belief, frozenset()) == count - 1 - bisector.select()

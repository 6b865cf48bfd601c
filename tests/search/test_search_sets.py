"""Sets: what is named when untestable commits hide the first bad one."""

import numpy as np

from bisector.model.outcome import AnswerKind, Purpose
from bisector.search import Costs, Graph, Options, drive

LINE = Graph.from_parents([()] + [(i,) for i in range(23)])
COSTS = Costs(build_s=60, boot_s=20, run_s=10)
UNTESTABLE = {10, 11}
AFTER = 12


def lab(first_bad, bad_minutes=0, seed=1):
    """A lab whose first `bad_minutes` boots of the commit after the untestable ones are slow, whatever it is."""
    rng = np.random.default_rng(seed)
    seen = 0

    def measure(commit, boots, runs):
        nonlocal seen
        if commit in UNTESTABLE:
            return None
        slow = commit >= first_bad
        if commit == AFTER and seen < bad_minutes:
            seen += 1
            slow = True
        level = 70.0 if slow else 100.0
        return [list(level * np.exp(rng.normal(0, 0.03, runs))) for _ in range(boots)]

    return measure


def test_a_set_is_named_after_fresh_pairs_of_the_kernels_on_its_two_sides():
    answer = drive(LINE, lab(first_bad=11), COSTS, Options())
    assert answer.kind is AnswerKind.SET
    assert set(answer.commits) == {10, 11, 12}
    audited = [look.commit for look in answer.looks if look.purpose is Purpose.AUDIT]
    assert set(audited) == {9, 12}
    assert len(audited) >= 4


def test_a_bad_minute_of_the_lab_does_not_settle_a_wrong_set():
    answer = drive(LINE, lab(first_bad=16, bad_minutes=2), COSTS, Options())
    assert answer.kind is AnswerKind.COMMIT
    assert answer.commits == (16,)


def test_without_the_audit_the_bad_minute_would_have_settled_it():
    answer = drive(LINE, lab(first_bad=16, bad_minutes=2), COSTS, Options(audit=False))
    assert answer.kind is AnswerKind.SET
    assert 16 not in answer.commits

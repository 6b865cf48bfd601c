"""Hunts through fault storms: a few seeds here, many by `python tests/bench/storm.py --seeds 50`."""

from pathlib import Path

import pytest
from lab.fakebox import USABLE, WHY_NOT
from lab.storm import FAULTS, ride_out

pytestmark = [pytest.mark.skipif(not USABLE, reason=WHY_NOT), pytest.mark.timeout(1200)]


@pytest.mark.parametrize("seed", [5])
def test_no_storm_makes_a_wrong_verdict_and_every_hunt_ends_right(tmp_path: Path, seed: int) -> None:
    # More faults than in the field, since it is one hunt only.
    verdict = ride_out(seed, tmp_path / "storm", share=0.2)
    assert not verdict.wrong, str(verdict)
    assert len(verdict.struck) >= 2, str(verdict)
    assert {strike.rpartition(" (")[0] for strike in verdict.struck} <= set(FAULTS)

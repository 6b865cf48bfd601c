"""A whole hunt whose benchmark is a script of the user's own: uploaded, run over SSH, read by a parser."""

from pathlib import Path

import pytest
from lab.boxhunt import BoxHunt, box_range
from lab.fakebox import USABLE, WHY_NOT, FakeBox

from bisector.model.events import BootFailed, RunFailed, RunFinished
from bisector.model.outcome import Outcome
from bisector.session.state import Status

pytestmark = [pytest.mark.skipif(not USABLE, reason=WHY_NOT), pytest.mark.timeout(900)]

COUNT, UNTESTABLE, FIRST_BAD = 3, 1, 2

# Two phases, the second slower from the first bad commit on; some noise from boot to boot.
SCRIPT = """#!/bin/sh
read -r boot_id </proc/sys/kernel/random/boot_id
noise=$((10 + $(printf %%s "$boot_id" | cksum | cut -d" " -f1) %% 9))
case $(uname -r) in
*-%(untestable)s) echo "no such system call here" >&2; exit 125;;
%(slow)s) pop=39$noise;;
*) pop=19$noise;;
esac
[ "$(cat prepared)" = yes ] || exit 1
echo "applying 99 patches"
echo "push: 25.5$noise s"
echo "pop: ${pop%%??}.${pop#??} s"
"""


def test_a_hunt_with_a_command_of_ones_own_finds_the_commits(box: FakeBox, tmp_path: Path) -> None:
    ids = [commit.id[:12] for commit in box_range(COUNT).commits]
    script = tmp_path / "patches.sh"
    slow = "|".join(f"*-{short}" for short in ids[FIRST_BAD:])
    script.write_text(SCRIPT % {"untestable": ids[UNTESTABLE], "slow": slow})
    script.chmod(0o755)
    phases = {"name": "both", "sum": ("push", "pop"), "better": "lower", "unit": "s"}
    command = {
        "argv": ("patches.sh",),
        "files": (str(script),),
        "setup": "echo yes >prepared",
        "parser": "key-value",
        "metrics": (phases, {"name": "push", "better": "lower", "unit": "s"}),
    }
    hunt = BoxHunt(
        tmp_path / "hunt",
        [box],
        count=COUNT,
        first_bad=FIRST_BAD,
        benchmark={"test": "both", "also": ("push",), "timeout_s": 30, "cpu": None, "command": command},
    )
    state = hunt.go()
    assert state.status is Status.FINISHED
    assert state.answer is not None
    # The commit that asked to be skipped may be the one, so the answer is both.
    assert state.answer.commits == tuple(commit.id for commit in hunt.commits.commits[UNTESTABLE:])
    [first, *_] = [event for event in hunt.events() if isinstance(event, RunFinished)]
    both, push = first.record.samples
    printed = (hunt.folder / "artefacts" / first.record.artefact).read_text()
    assert f"push: {push.value:g}" in printed
    assert (both.test, both.unit, both.higher_is_better) == ("both", "s", False)
    skipped = [event for event in hunt.events() if isinstance(event, RunFailed)]
    assert {(event.commit[:12], event.outcome) for event in skipped} <= {(ids[UNTESTABLE], Outcome.CRASHED)}
    assert skipped
    assert all("no such system call here" in event.reason for event in skipped)
    assert not [event for event in hunt.events() if isinstance(event, BootFailed)]

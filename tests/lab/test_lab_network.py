"""Three machines behind a jump host, each in a network of its own; one of them is cut off in the middle."""

import shutil
import threading
import time
from pathlib import Path

import pytest
from lab.boxhunt import BoxHunt
from lab.fakebox import DEFAULT_RELEASE, USABLE, WHY_NOT
from lab.netlab import can_be_had, net_lab

from bisector.lab.ssh import Limits
from bisector.model.events import Booted, BootFailed, Event, MachineTrouble, RunFailed, RunFinished, RunStarted
from bisector.session.evidence import skips
from bisector.session.machines import set_aside

pytestmark = [
    pytest.mark.skipif(not USABLE, reason=WHY_NOT),
    pytest.mark.skipif(shutil.which("ip") is None or not can_be_had(), reason="needs ip (iproute2) and namespaces"),
    pytest.mark.timeout(900),
]

# Between this computer and the jump host, and beyond it, where only a question over SSH can tell.
LIMITS = Limits(connect_s=4, banner_s=4, auth_s=10, channel_s=4, silence_s=6, transfer_s=15, pulse_s=6)


def test_a_hunt_on_three_machines_finishes_on_two_when_one_is_cut_off_for_good(tmp_path: Path) -> None:
    with net_lab(tmp_path / "lab", 3) as lab:
        lost = lab.boxes[2]
        seen: list[Event] = []
        cut_at: list[int] = []

        def cut(event: Event) -> None:
            seen.append(event)
            if isinstance(event, RunStarted) and event.machine == lost.name and event.run == 2 and not cut_at:
                cut_at.append(len(seen))
                lab.cut_off(lost)

        reached = {box.name: lab.entry(box, boot_timeout_s=10.0) for box in lab.boxes}
        hunt = BoxHunt(
            tmp_path / "hunt",
            lab.boxes,
            count=16,
            first_bad=11,
            takes_s=0.3,
            limits=LIMITS,
            reached=reached,
            on_event=cut,
        )
        state = hunt.go()
        assert cut_at, "it was never in the middle of anything"
        assert hunt.names_the_first_bad(state), state.pause_reason
        # What it had measured before stays; nothing that came of it later is a figure or a verdict.
        later = [event for event in seen[cut_at[0] :] if getattr(event, "machine", "") == lost.name]
        assert not [event for event in later if isinstance(event, RunFinished | RunFailed | BootFailed | Booted)]
        assert [event for event in later if isinstance(event, MachineTrouble)]
        assert skips(state) == {}
        assert set(set_aside(state)) <= {lost.name}
        others = [event for event in seen[cut_at[0] :] if isinstance(event, RunFinished)]
        assert {event.machine for event in others} == {"box1", "box2"}
        for box in lab.boxes[:2]:
            assert (box.release, box.leased) == (DEFAULT_RELEASE, False)


def test_a_machine_that_vanishes_behind_its_jump_host_is_noticed_in_time(tmp_path: Path) -> None:
    with net_lab(tmp_path / "lab", 1) as lab:
        [box] = lab.boxes
        hunt = BoxHunt(tmp_path / "hunt", lab.boxes, limits=LIMITS, reached={box.name: lab.entry(box)})
        machine = hunt.machine(hunt.recipe().machines[0])
        machine.shell.connect()
        threading.Timer(0.5, lab.cut_off, (box,)).start()
        begun = time.monotonic()
        with pytest.raises(Exception, match="was lost"):
            machine.shell.run(("sleep", "300"), timeout_s=400)
        assert time.monotonic() - begun < 30
        machine.shell.close()

"""Three real machines with GRUB behind a jump host, each in a network of its own; one is lost for good in mid-hunt."""

import shutil
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest
import real
from lab.diskbox import DiskBox
from lab.diskhunt import begin, found, own_kernel, resumed, without_kernel
from lab.grubdisk import UNTOUCHED, environment, make_grub_box, missing
from lab.machines import disk_kernels, running
from lab.netlab import can_be_had, jump_network

from bisector.model.events import Booted, BootFailed, Event, MachineTrouble, RunFailed, RunFinished, RunStarted
from bisector.session.home import Home

DEADLINE_S = 900.0
"""For the hunt, of which nothing is built. Three guests share two cores with whatever else runs."""

NAME = "guests-hunt"

pytestmark = [
    pytest.mark.kernel,
    pytest.mark.timeout(1200),
    pytest.mark.skipif(bool(missing()), reason=f"needs {', '.join(missing())}"),
    pytest.mark.skipif(shutil.which("ip") is None or not can_be_had(), reason="needs ip (iproute2) and namespaces"),
]


@pytest.fixture
def boxes(tmp_path: Path) -> Iterator[list[DiskBox]]:
    """Switched on, and reached through the jump host alone. In the end nothing of it all is left."""
    folder, default = tmp_path / "lab", own_kernel(disk_kernels())
    with ExitStack() as stack:
        network = stack.enter_context(jump_network(folder, 3))
        made = []
        for number, place in enumerate(network.places, 1):
            box = make_grub_box(
                folder / f"guest{number}",
                default,
                name=f"guest{number}",
                clock="instructions",
                namespace=place.namespace,
                address=place.address,
                jump=network.jump_entry,
            )
            stack.callback(box.close)
            made.append(box)
        with ThreadPoolExecutor(len(made)) as pool:
            list(pool.map(DiskBox.start, made))
        yield made
    assert running(str(folder)) == []
    spaces = {network.namespace, *(place.namespace for place in network.places)}
    assert not [space for space in spaces if Path("/run/netns", space).exists()]
    assert not [space for space in spaces if space in Path("/proc/self/mounts").read_text()]
    links = subprocess.run(["ip", "-o", "link"], capture_output=True, text=True, check=True).stdout
    assert network.outer not in links


def ends_around_the_planted() -> tuple[str, str]:
    """The nearest commits with a kernel that have two commits or more between the planted one and themselves."""
    told = real.planted()
    planted = told["first_bad"]
    built = {facts["commit"] for _, facts in real.built_kernels()} - {planted, *told["panicking"]}
    before = [(away, commit) for commit in built if (away := distance(commit, planted)) > 2]
    after = [(away, commit) for commit in built if (away := distance(planted, commit)) > 2]
    return min(before)[1], min(after)[1]


def distance(older: str, newer: str) -> int:
    """How many commits `newer` has that `older` has not; 0 unless `older` is an ancestor of `newer`."""
    git = ["git", "-C", str(real.demo_history())]
    if subprocess.run([*git, "merge-base", "--is-ancestor", older, newer], check=False).returncode:
        return 0
    counted = [*git, "rev-list", "--count", f"{older}..{newer}"]
    return int(subprocess.run(counted, capture_output=True, text=True, check=True).stdout)


def events_of(home: Home) -> list[Event]:
    return [entry.event for entry in home.read(NAME).entries]


def machine_of(event: Event) -> str:
    return getattr(event, "machine", "")


def is_measuring(events: list[Event], name: str) -> bool:
    """Is the machine in the middle of a run, and has it measured before?"""
    mine = [event for event in events if machine_of(event) == name]
    return bool(mine) and isinstance(mine[-1], RunStarted) and any(isinstance(event, RunFinished) for event in mine)


def test_a_hunt_on_three_guests_finishes_on_two_when_one_is_killed_for_good(
    boxes: list[DiskBox], tmp_path: Path
) -> None:
    good, bad = ends_around_the_planted()
    lost, others = boxes[2], boxes[:2]
    configs = [box.config(boot_timeout_s=40.0) for box in boxes]
    unbuilt = without_kernel(good, bad)
    home = begin(tmp_path, configs, NAME, good=good, bad=bad, fragments=["demo.config"], unbuilt=unbuilt)
    begun = time.monotonic()
    with resumed(home, NAME) as controller:
        try:
            while not is_measuring(events_of(home), lost.name):
                assert controller.poll() is None, controller.communicate()[0]
                assert time.monotonic() - begun < DEADLINE_S / 2, "it never measured"
                time.sleep(0.1)
            # Its power command goes on to end well, and does nothing any more.
            lost.deaf = True
            lost.halt()
            before = len(events_of(home))
            killed_after_s = time.monotonic() - begun
            said, _ = controller.communicate(timeout=DEADLINE_S - killed_after_s)
        finally:
            controller.kill()
    print(f"killed after {killed_after_s:.0f} s, ended after {time.monotonic() - begun:.0f} s", said, sep="\n")
    assert controller.returncode == 0, said
    found(home, NAME)

    events = events_of(home)
    assert is_measuring(events[:before], lost.name), "it was not in the middle of a run"
    later = [event for event in events[before:] if machine_of(event) == lost.name]
    assert not [event for event in later if isinstance(event, Booted | BootFailed | RunFinished | RunFailed)]
    assert [event for event in later if isinstance(event, MachineTrouble)]
    measured = {machine_of(event) for event in events[before:] if isinstance(event, RunFinished)}
    assert measured == {box.name for box in others}
    assert not [event for event in events if isinstance(event, MachineTrouble) and event.machine != lost.name]

    for box in others:
        assert box.run("uname -r").strip() == box.boots[0]
        assert environment(box) == UNTOUCHED
        assert box.run("cat /var/lib/bisector/lease/lease.*").startswith("- ")

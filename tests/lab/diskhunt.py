"""A whole hunt on a machine that boots from its disk, by the real command and a machines file."""

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import real
import yaml
from lab.diskbox import DiskBox

from bisector.cli.hunt import prepare
from bisector.model.events import BootFailed, BuildFailed, KernelBuilt, MachineTrouble
from bisector.model.kernel import KernelImage
from bisector.model.outcome import Outcome
from bisector.recipe.machines import SshMachine
from bisector.session.home import Home
from bisector.session.state import SessionState, Status, fold

DEMO = Path(__file__).parents[2] / "recipes" / "demo" / "demo.yaml"


def own_kernel(kernels: Mapping[str, KernelImage]) -> KernelImage:
    """The machine's own kernel: one of the history as well, but of no commit that the hunt turns on."""
    told = real.planted()
    turning = {told["good"], told["bad"], told["first_bad"], *told["panicking"]}
    return next(image for commit, image in sorted(kernels.items()) if commit not in turning)


def after_what_does_not_build() -> str:
    """The first commit that builds again: from there on a hunt finds every kernel in the demonstration's cache."""
    told = real.planted()
    between = f"{told['unbuildable'][-1]}..{told['bad']}"
    command = ["git", "-C", str(real.demo_history()), "rev-list", "--ancestry-path", between]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()[-1]


def write_recipe(
    folder: Path, machines: Sequence[SshMachine], name: str, good: str, bad: str, fragments: Sequence[str]
) -> Path:
    """The demonstration's, for machines of the machines file; short, because these have next to no noise."""
    entries = [machine.model_dump(mode="json") for machine in machines]
    (folder / "lab.yaml").write_text(yaml.safe_dump({"machines": entries}))
    recipe = yaml.safe_load(DEMO.read_text())
    recipe["name"] = name
    recipe["good"], recipe["bad"] = good, bad
    recipe["repo"] = str(real.demo_history())
    recipe["kernel"]["fragments"] = [str(DEMO.parent / fragment) for fragment in fragments]
    recipe["benchmark"] = {"test": "page_test", "sample_ms": 400}
    recipe["machines"] = [{"kind": "lab", "name": machine.name, "file": "lab.yaml"} for machine in machines]
    path = folder / f"{name}.yaml"
    path.write_text(yaml.safe_dump(recipe))
    return path


def without_kernel(good: str, bad: str) -> list[str]:
    """The commits after `good` up to `bad` of which the demonstration has no kernel."""
    command = ["git", "-C", str(real.demo_history()), "rev-list", f"{good}..{bad}"]
    listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    built = {facts["commit"] for _, facts in real.built_kernels()}
    return [commit for commit in listed if commit not in built]


def begin(
    folder: Path,
    machines: Sequence[SshMachine],
    name: str,
    *,
    good: str,
    bad: str,
    fragments: Sequence[str],
    unbuilt: Sequence[str] = (),
    builder: Path | None = None,
) -> Home:
    """The home of a session that only has to be resumed.

    Kernels come from the demonstration's cache or are built into it. The commits in `unbuilt` count as not building.
    In a folder `builder` kernels of the same fragments were built; the session's builder goes on there.
    """
    home = Home(real.home_with_kernels(folder / "home"))
    recipe = write_recipe(folder, machines, name, good, bad, fragments)
    home.create(prepare(home, recipe, ()).started())
    if builder is not None:
        # make resolves links: what it made there it finds unchanged.
        (home.session_folder(name) / "build").symlink_to(builder)
    with home.drive(name) as journal:
        for commit in unbuilt:
            why = "the demonstration has no kernel of it"
            journal.append(
                BuildFailed(commit=commit, outcome=Outcome.BUILD_FAILED, reason=why, artefact="", duration_s=0.0)
            )
    return home


def resumed(home: Home, name: str) -> "subprocess.Popen[str]":
    """The real command, at work."""
    return subprocess.Popen(
        [sys.executable, "-m", "bisector.cli", "resume", name, "--plain"],
        env={**os.environ, "BISECTOR_HOME": str(home.folder)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def found(home: Home, name: str) -> SessionState:
    """The state of a session that ended with the planted commit; raises AssertionError if it did not."""
    state = fold(home.read(name).entries)
    assert state.status is Status.FINISHED
    assert state.answer is not None
    assert state.answer.commits == (real.planted()["first_bad"],)
    assert state.answer.probability >= 0.99
    return state


def hunt_without_builds(folder: Path, box: DiskBox, name: str) -> None:
    """Hunt with the demonstration's kernels only; see `hunt`.

    Commits that the demonstration has no kernel of count as not building: a first build would take longer than the
    hunt.
    """
    good = after_what_does_not_build()
    hunt(folder, box, name, good=good, fragments=["demo.config"], unbuilt=without_kernel(good, real.planted()["bad"]))


def hunt(
    folder: Path,
    box: DiskBox,
    name: str,
    *,
    good: str,
    fragments: Sequence[str],
    unbuilt: Sequence[str] = (),
    builder: Path | None = None,
) -> None:
    """Hunt by the real command, and hold the answer and the machine's boots to what was planted. See `begin`."""
    default, told = box.boots[-1], real.planted()
    home = begin(
        folder,
        [box.config()],
        name,
        good=good,
        bad=told["bad"],
        fragments=fragments,
        unbuilt=unbuilt,
        builder=builder,
    )
    with resumed(home, name) as controller:
        try:
            said, _ = controller.communicate(timeout=1700)
        finally:
            controller.kill()
    print(said)
    assert controller.returncode == 0, said
    found(home, name)
    events = [entry.event for entry in home.read(name).entries]
    assert not [event for event in events if isinstance(event, MachineTrouble)]

    # The commit that panics: its kernel was installed and booted twice, each time the default came back by itself.
    died = {(event.commit, event.outcome) for event in events if isinstance(event, BootFailed)}
    assert died == {(commit, Outcome.CRASHED) for commit in told["panicking"]}
    images = {event.commit: event.image for event in events if isinstance(event, KernelBuilt)}
    panicked = images[told["panicking"][0]].release
    at = box.boots.index(panicked)
    assert box.boots[at : at + 4] == [panicked, default] * 2
    assert box.cuts == 0

    assert box.run("uname -r").strip() == default
    assert box.run("cat /var/lib/bisector/lease/lease.*").startswith("- ")

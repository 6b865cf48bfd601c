"""A whole hunt over SSH, put together by `wire`: real builds of a toy kernel, a real sshd, pretended boots.

What is measured is told by a suite of ours that looks at which kernel runs; everything around it is the real thing.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from gitrepo import GitRepo
from lab.fakebox import DEFAULT_RELEASE, HOOK, USABLE, WHY_NOT, FakeBox, running_box
from lab.toldsuite import told_suite

from bisector.cli import hunt, show
from bisector.model.events import Booted, BootFailed, MachineTrouble
from bisector.model.outcome import Outcome
from bisector.session.home import Home
from bisector.session.state import fold

pytestmark = pytest.mark.skipif(not USABLE, reason=WHY_NOT)

TOY = Path(__file__).parents[1] / "kernel" / "toykernel"
MEMORY = "#include <linux/mm.h>\n\nint fault(int address)\n{\n\treturn address %s;\n}\n"
DIES, SLOW_FROM = 3, 5
"""The commit whose kernel does not come up, and the one to be found."""


@pytest.fixture
def box(tmp_path: Path) -> Iterator[FakeBox]:
    with running_box(tmp_path / "box") as box:
        yield box


@pytest.fixture
def history(tmp_path: Path) -> tuple[GitRepo, list[str]]:
    repo = GitRepo(tmp_path / "linux")
    files = {str(path.relative_to(TOY)): path.read_text() for path in sorted(TOY.rglob("*")) if path.is_file()}
    commits = [repo.commit("toy: first", files)]
    for index in range(1, 7):
        changed = {"mm/memory.c": MEMORY % f"+ {index}"}
        commits.append(repo.commit(f"mm: step {index}", changed, parents=[commits[-1]]))
    return repo, commits


def test_a_hunt_on_a_physical_machine_names_the_commit_and_leaves_the_machine_as_it_was(
    box: FakeBox, history: tuple[GitRepo, list[str]], tmp_path: Path
) -> None:
    repo, commits = history
    box.panicking = {f"-{commits[DIES][:12]}"}
    before = box.editenv("list")
    machine = box.config(boot=HOOK).model_dump(mode="json")
    (tmp_path / "lab.yaml").write_text(yaml.safe_dump({"machines": [machine]}))
    recipe = tmp_path / "hunt.yaml"
    recipe.write_text(
        yaml.safe_dump(
            {
                "name": "physical",
                "repo": str(repo.path),
                "good": commits[0],
                "bad": commits[-1],
                "kernel": {"jobs": 1},
                "machines": [{"kind": "lab", "name": "box1", "file": "lab.yaml"}],
                "search": {"audit": False},
            }
        )
    )
    home = Home(tmp_path / "home")
    prepared = hunt.prepare(home, recipe, ())
    home.create(prepared.started())
    told_suite(home.session_folder("physical") / "suite", (commit[:12] for commit in commits[SLOW_FROM:]))

    code = hunt.drive(home, "physical", lambda c: show.observer(c, show.Watching(quiet=True)), lambda _: None)

    state = fold(home.read("physical").entries)
    events = [entry.event for entry in home.read("physical").entries]
    assert code == hunt.EXIT_FOUND, state.pause_reason
    assert state.answer is not None
    assert state.answer.commits == (commits[SLOW_FROM],)
    assert not [event for event in events if isinstance(event, MachineTrouble)]
    booted = [event for event in events if isinstance(event, Booted)]
    assert {event.record.release for event in booted} <= {f"6.1.0-bisector-{commit[:12]}" for commit in commits}
    assert len({event.record.boot_id for event in booted}) == len(booted)
    died = [(event.commit, event.outcome) for event in events if isinstance(event, BootFailed)]
    assert died == [(commits[DIES], Outcome.BOOT_FAILED)] * 2
    # Another kernel that boots behind it is the control that makes the skip final.
    fallen = [index for index, line in enumerate(box.boots) if line.startswith("panic: ")]
    assert box.boots[fallen[1] + 1].startswith("reboot: 6.1.0-bisector-")
    # The machine is on its own kernel, its boot environment untouched, and free for others.
    assert box.release == DEFAULT_RELEASE
    assert box.editenv("list") == before
    assert not box.leased

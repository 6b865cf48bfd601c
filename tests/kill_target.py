"""A controller over fake ports in a process of its own, to be killed or interrupted.

What it really did goes to a file at once.
"""

import os
import sys
import time
from pathlib import Path

from fakes import RECIPE, FakeBuilder, FakeLab, FakeMachine, Watcher, linear_range, session_started

from bisector.cli.hunt import exit_code, signals_stop
from bisector.model.kernel import KernelImage
from bisector.session.controller import Controller, StopRequest
from bisector.session.home import Home
from bisector.session.ports import OnProgress
from bisector.session.state import fold

FIRST_BAD = 9
STEP_S = 0.01


class DiskCache(dict[str, KernelImage]):
    """An image cache that outlives its process, as the real one does: a file for each image, made after the build."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder = folder
        for path in folder.glob("*.built"):
            index = int(path.stem)
            commit = linear_range(24).commits[index].id
            builder = FakeBuilder(FakeLab(linear_range(24), first_bad=FIRST_BAD))
            super().__setitem__(commit, builder.build(commit, log=Path(os.devnull), on_progress=lambda _: None))

    def __setitem__(self, commit: str, image: KernelImage) -> None:
        index = linear_range(24).index_of(commit)
        (self.folder / f"{index}.built").touch(exist_ok=False)
        super().__setitem__(commit, image)


class SlowBuilder(FakeBuilder):
    """Takes a moment, so that a kill finds something going on."""

    def build(self, commit: str, *, log: Path, on_progress: OnProgress) -> KernelImage:
        time.sleep(STEP_S * 2)
        return super().build(commit, log=log, on_progress=on_progress)


def main(home_folder: str, done_file: str) -> int:
    home = Home(Path(home_folder))
    lab = FakeLab(linear_range(24), first_bad=FIRST_BAD, unbuildable=frozenset({11, 12}), crashing=frozenset({14}))
    done = os.open(done_file, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def before(what: str) -> None:
        time.sleep(STEP_S)
        os.write(done, f"{what}\n".encode())

    lab.before = before
    if "fake-hunt" not in home.names():
        home.create(session_started(lab.commits))
    with home.drive("fake-hunt") as journal:
        # Noise must not depend on how many lives the controller had.
        state = fold(journal.entries)
        lab.runs = [0] * sum(len(look.runs) for look in state.looks)
        stop = StopRequest()
        controller = Controller(
            journal,
            home.session_folder("fake-hunt"),
            RECIPE,
            builder=SlowBuilder(lab, DiskCache(home.folder)),
            machines={"lab-01": FakeMachine(lab)},
            higher_is_better=True,
            observer=Watcher(),
            stop=stop,
        )
        with signals_stop(stop, "bisector resume fake-hunt"):
            state = controller.run()
    return exit_code(state)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2]))

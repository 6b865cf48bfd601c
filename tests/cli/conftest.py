"""A command as a person runs it, and a hunt over fake ports to run it on."""

from collections.abc import Callable

import pytest
from fakes import RECIPE, FakeBuilder, FakeLab, FakeMachine, Watcher, linear_range, session_started

from bisector.cli.main import main
from bisector.recipe.load import canonical_text
from bisector.session.controller import Controller, StopRequest
from bisector.session.home import Home
from bisector.session.state import SessionState


class Said:
    """How a command ended."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Callable[..., Said]:
    def run_command(*arguments: str) -> Said:
        with pytest.raises(SystemExit) as ended:
            main(list(arguments))
        said = capsys.readouterr()
        assert isinstance(ended.value.code, int)
        return Said(ended.value.code, said.out, said.err)

    return run_command


@pytest.fixture
def hunted() -> Callable[..., SessionState]:
    """Hunt over fake ports, in this test's home, until it is finished or so many boots were made."""

    def hunt(name: str, *, boots: int | None = None) -> SessionState:
        home = Home.of_this_user()
        stop = StopRequest()

        def before(what: str) -> None:
            if what == "boot" and boots is not None and len(lab.booted) + 1 >= boots:
                stop.reason = "enough for this test"

        lab = FakeLab(linear_range(20), first_bad=13, unbuildable=frozenset({9}), before=before)
        started = session_started(lab.commits, name)
        fields = {field: getattr(started, field) for field in started.__slots__}
        home.create(type(started)(**{**fields, "recipe": canonical_text(RECIPE)}))
        with home.drive(name) as journal:
            return Controller(
                journal,
                home.session_folder(name),
                RECIPE,
                builder=FakeBuilder(lab),
                machines={"lab-01": FakeMachine(lab)},
                higher_is_better=True,
                observer=Watcher(),
                stop=stop,
            ).run()

    return hunt


@pytest.fixture
def finished(hunted: Callable[..., SessionState]) -> SessionState:
    """A finished hunt called fake-hunt, in this test's home."""
    return hunted("fake-hunt")


@pytest.fixture
def say(capfdbinary: pytest.CaptureFixture[bytes]) -> Callable[..., tuple[object, str, str]]:
    """`bisector bench` with these words: exit code, standard output, standard error."""

    def run(*arguments: str) -> tuple[object, str, str]:
        with pytest.raises(SystemExit) as ended:
            main(["bench", *arguments])
        out, err = capfdbinary.readouterr()
        return ended.value.code, out.decode(), err.decode()

    return run

"""What every room's tests share."""

import os

import pytest
from hypothesis import settings

# A property test on a busy machine is slow, not wrong.
settings.register_profile("default", deadline=None, max_examples=60, derandomize=True)
settings.load_profile("default")


@pytest.fixture(autouse=True)
def own_home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test ever touches the user's sessions, git settings or ssh settings."""
    home = tmp_path_factory.mktemp("home")
    # One compiled benchmark suite for all tests and workers: its cache is keyed by content and filled by rename.
    shared = tmp_path_factory.getbasetemp().parent / "suite"
    shared.mkdir(exist_ok=True)
    (home / "bisector").mkdir()
    (home / "bisector" / "suite").symlink_to(shared)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("BISECTOR_HOME", str(home / "bisector"))
    for name in [name for name in os.environ if name.startswith("GIT_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest group of tests that stay together goes first: no worker should end with it while others idle."""
    items.sort(key=lambda item: not any(mark.args == ("uefi",) for mark in item.iter_markers("xdist_group")))

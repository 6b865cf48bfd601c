"""What every room's tests share."""

import os
from typing import Any

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


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> object:
    """With `--dist loadfile`: a file's tests stay together, and so do all of the UEFI machine's, which come first.

    Its three files share kernels and the folder in which they are built, one process at a time; and no worker should
    end with the longest of them while others idle. xdist's own groups (xdist_group) do not work with pytest 9.2 and
    xdist 3.8.0: the name of the group does not reach the scheduler.
    """
    if config.getvalue("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling

    class ByMachine(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file = nodeid.partition("::")[0]
            return "uefi" if "uefi" in file else file

    return ByMachine(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The UEFI machine's tests first (`pytest_xdist_make_scheduler`)."""
    items.sort(key=lambda item: "uefi" not in item.path.name)

"""Making the demonstration repository, on a small made-up source; the real one has its own tests at the end."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

DEMO = Path(__file__).resolve().parents[2] / "recipes" / "demo"
PACKAGED = Path("/usr/src/linux-source-6.1.tar.xz")


def git(repo: Path, *args: str) -> str:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    env = clean | {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
    return subprocess.run(("git", *args), cwd=repo, env=env, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture(scope="module")
def made(history: ModuleType, small_source: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    record: dict[str, Any] = history.make_history(tmp_path_factory.mktemp("made") / "demo", source=small_source)
    return record


def test_a_missing_source_names_the_package(history: ModuleType, tmp_path: Path) -> None:
    with pytest.raises(history.HistoryError) as caught:
        history.find_source(tmp_path)
    assert "apt-get install linux-source-6.1" in caught.value.resolution


def test_a_missing_source_ends_the_command_with_status_two_and_makes_nothing(tmp_path: Path) -> None:
    absent = tmp_path / "no.tar.xz"
    command = (sys.executable, "-B", str(DEMO / "make_history.py"), str(tmp_path / "demo"), "--source", str(absent))
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 2
    assert str(absent) in run.stderr
    assert "linux-source-6.1" in run.stderr
    assert "Traceback" not in run.stderr
    assert list(tmp_path.iterdir()) == []


def test_the_packaged_6_1_is_preferred(history: ModuleType, tmp_path: Path) -> None:
    for name in ("linux-source-6.1.tar.xz", "linux-source-6.12.tar.xz"):
        (tmp_path / name).touch()
    assert history.find_source(tmp_path).name == "linux-source-6.1.tar.xz"
    (tmp_path / "linux-source-6.1.tar.xz").unlink()
    assert history.find_source(tmp_path).name == "linux-source-6.12.tar.xz"


def test_the_record_agrees_with_the_repository(made: dict[str, Any]) -> None:
    repo = Path(made["repo"])
    assert git(repo, "rev-parse", "demo-good", "demo-bad", "main").split() == [made["good"], made["bad"], made["bad"]]
    between = git(repo, "rev-list", "demo-good..demo-bad").split()
    assert len(between) == made["commits"] >= 42
    assert git(repo, "log", "-1", "--format=%s", made["first_bad"]).startswith("mm/memory: ")
    assert "+\tif (__pte_alloc(vma->vm_mm, vmf->pmd))" in git(repo, "show", made["first_bad"])
    assert len(made["unbuildable"]) == 3
    assert len(made["panicking"]) == 1
    assert {made["first_bad"], *made["unbuildable"], *made["panicking"]} < set(between)
    assert git(repo, "rev-list", "--merges", "demo-good..demo-bad") != ""
    assert json.loads((repo / ".git" / "bisector-demo.json").read_text()) == made


def test_no_reference_tells_the_answer(made: dict[str, Any]) -> None:
    refs = git(Path(made["repo"]), "for-each-ref", "--format=%(refname)").split()
    assert refs == ["refs/heads/main", "refs/tags/demo-bad", "refs/tags/demo-good"]


def test_the_work_tree_is_clean_and_its_objects_are_sound(made: dict[str, Any]) -> None:
    repo = Path(made["repo"])
    assert git(repo, "status", "--porcelain") == ""
    assert git(repo, "fsck", "--strict", "--no-dangling") == ""
    assert git(repo, "ls-files", "-s", "scripts").split()[::4] == ["120000", "100755"]


def test_the_packaging_rule_that_hides_every_file_is_dropped(made: dict[str, Any]) -> None:
    rules = git(Path(made["repo"]), "show", "demo-good:.gitignore").splitlines()
    assert "/*" not in rules
    assert "*.o" in rules


def test_unwanted_sources_go_and_their_kconfig_stays(made: dict[str, Any]) -> None:
    files = git(Path(made["repo"]), "ls-tree", "-r", "--name-only", "demo-good").splitlines()
    assert "sound/pci/Kconfig" in files
    assert "sound/pci/card.c" not in files
    assert "arch/arm/mm/fault.c" not in files
    assert "mm/memory.c" in files


@pytest.mark.parametrize(
    ("path", "kept"),
    [
        ("mm/memory.c", True),
        ("fs/namei.c", True),
        ("fs/xfs/xfs_inode.c", False),
        ("fs/xfs/Kconfig", True),
        ("fs/proc/base.c", True),
        ("drivers/net/virtio_net.c", True),
        ("drivers/net/ethernet/intel/e1000/e1000_main.c", False),
        ("drivers/net/ethernet/intel/Kconfig", True),
        ("drivers/gpu/drm/Makefile", True),
        ("arch/Kconfig", True),
        ("arch/arm/Kconfig", False),
        ("arch/arm/crypto/Kconfig", True),
        ("arch/x86/kernel/Makefile.postlink", True),
        ("Documentation/Kconfig", True),
        ("Documentation/mm/index.rst", False),
        ("drivers/foo/Kconfigure.c", False),
        ("include/dt-bindings/clock/a.h", False),
        ("include/dt-bindings/leds/common.h", True),
        ("tools/perf/Makefile", False),
        ("tools/objtool/check.c", True),
    ],
)
def test_kept_files(history: ModuleType, path: str, kept: bool) -> None:
    assert history.is_kept(path) is kept


def test_the_same_source_gives_the_same_ids_whatever_the_user_has_set_up(
    history: ModuleType, small_source: Path, made: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tmp_path / "gitconfig"
    hooks = tmp_path / "hooks"
    hooks.mkdir()
    config.write_text(
        f"[core]\n\tautocrlf = true\n\thooksPath = {hooks}\n[user]\n\tname = X\n[init]\n\tdefaultBranch = trunk\n"
    )
    for name, value in {
        "GIT_CONFIG_GLOBAL": str(config),
        "GIT_AUTHOR_NAME": "Somebody Else",
        "GIT_COMMITTER_DATE": "2020-01-01T00:00:00",
        "GIT_DIR": str(tmp_path / "elsewhere"),
        "TZ": "Asia/Tokyo",
    }.items():
        monkeypatch.setenv(name, value)
    again = history.make_history(tmp_path / "again", source=small_source)
    assert {**again, "repo": None} == {**made, "repo": None}


def test_a_folder_gives_the_same_ids_as_its_archive(
    history: ModuleType, small_source: Path, made: dict[str, Any], tmp_path: Path
) -> None:
    # Not tarfile: the `filter` that newer Pythons want is unknown to 3.11.2, Debian 12's.
    (tmp_path / "unpacked").mkdir()
    subprocess.run(["tar", "-xf", small_source, "-C", tmp_path / "unpacked"], check=True)
    folder = tmp_path / "unpacked" / "linux-source-6.1"
    for path in folder.rglob("*.c"):
        path.chmod(0o600)
    again = history.make_history(tmp_path / "again", source=folder)
    assert (again["good"], again["bad"]) == (made["good"], made["bad"])


def test_a_finished_history_is_returned_at_once(
    history: ModuleType, small_source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = history.make_history(tmp_path / "demo", source=small_source)
    inode = (tmp_path / "demo" / ".git").stat().st_ino
    monkeypatch.setattr(history, "source_files", lambda source: pytest.fail("the source was read again"))
    said: list[str] = []
    assert history.make_history(tmp_path / "demo", source=small_source, say=said.append) == first
    assert (tmp_path / "demo" / ".git").stat().st_ino == inode
    assert said == [f"{tmp_path / 'demo'} is made already"]


def test_a_moved_history_knows_its_new_place(history: ModuleType, small_source: Path, tmp_path: Path) -> None:
    history.make_history(tmp_path / "demo", source=small_source)
    (tmp_path / "demo").rename(tmp_path / "moved")
    assert history.make_history(tmp_path / "moved", source=small_source)["repo"] == str(tmp_path / "moved")


@pytest.mark.parametrize("damage", ["tag", "record", "key", "objects"])
def test_a_damaged_or_outdated_history_is_made_anew(
    history: ModuleType, small_source: Path, tmp_path: Path, damage: str
) -> None:
    first = history.make_history(tmp_path / "demo", source=small_source)
    record = tmp_path / "demo" / ".git" / "bisector-demo.json"
    match damage:
        case "tag":
            git(tmp_path / "demo", "tag", "-d", "demo-bad")
        case "record":
            record.write_text("{")
        case "key":
            record.write_text(json.dumps(first | {"key": "an older script"}))
        case "objects":
            shutil.rmtree(tmp_path / "demo" / ".git" / "objects")
    assert history.make_history(tmp_path / "demo", source=small_source) == first
    assert git(tmp_path / "demo", "fsck") == ""
    assert [path.name for path in tmp_path.iterdir()] == ["demo"]


def test_what_a_killed_run_left_is_cleared_away(history: ModuleType, small_source: Path, tmp_path: Path) -> None:
    (tmp_path / ".demo.making-12345").mkdir()
    (tmp_path / ".demo.making-12345" / "half").touch()
    history.make_history(tmp_path / "demo", source=small_source)
    assert [path.name for path in tmp_path.iterdir()] == ["demo"]


@pytest.mark.parametrize("as_repository", [False, True])
def test_a_folder_that_is_not_ours_is_refused_and_left_alone(
    history: ModuleType, small_source: Path, tmp_path: Path, as_repository: bool
) -> None:
    theirs = tmp_path / "demo"
    theirs.mkdir()
    (theirs / "thesis.txt").write_text("years of work")
    if as_repository:
        git(theirs, "init", "-q")
    with pytest.raises(history.HistoryError, match="was not made by this script"):
        history.make_history(theirs, source=small_source)
    assert (theirs / "thesis.txt").read_text() == "years of work"


def test_a_source_that_the_changes_do_not_fit_leaves_nothing_behind(
    history: ModuleType, small_tree: dict[str, tuple[int, str]], pack: Callable[..., Path], tmp_path: Path
) -> None:
    mode, text = small_tree["mm/memory.c"]
    other = small_tree | {"mm/memory.c": (mode, text.replace("pte_alloc", "pte_alloc_renamed"))}
    with pytest.raises(history.HistoryError, match=r"in mm/memory\.c, near: if \(pte_alloc"):
        history.make_history(tmp_path / "demo", source=pack(other))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("kept_fraction", [0.0, 0.3, 0.6, 0.9])
def test_an_archive_that_breaks_off_is_reported_as_such(
    history: ModuleType, small_source: Path, tmp_path: Path, kept_fraction: float
) -> None:
    cut = tmp_path / "linux-source-6.1.tar.xz"
    whole = small_source.read_bytes()
    cut.write_bytes(whole[: int(len(whole) * kept_fraction)])
    with pytest.raises(history.HistoryError, match="not a readable archive"):
        history.make_history(tmp_path / "out" / "demo", source=cut)
    assert list((tmp_path / "out").iterdir()) == []


def test_two_runs_at_once_make_one_history(small_source: Path, tmp_path: Path) -> None:
    command = (sys.executable, "-B", str(DEMO / "make_history.py"), "demo", "--source", str(small_source), "--json")
    runs = [subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE) for _ in range(2)]
    answers = [run.communicate(timeout=60) for run in runs]
    assert [run.returncode for run in runs] == [0, 0]
    assert answers[0][0] == answers[1][0] != b""
    assert sum(b"is made already" in said for _, said in answers) == 1


@pytest.mark.parametrize("name", ["demo.yaml", "demo-wall.yaml"])
def test_the_recipes_are_valid_and_their_files_are_there(name: str) -> None:
    from bisector.recipe.load import load_recipe

    recipe = load_recipe(DEMO / name).recipe
    assert (recipe.good, recipe.bad, recipe.kernel.base) == ("demo-good", "demo-bad", "allnoconfig")
    assert recipe.benchmark.test == "page_test"
    assert all(Path(fragment).is_file() for fragment in recipe.kernel.fragments)


needs_source = pytest.mark.skipif(not PACKAGED.is_file(), reason="needs the package linux-source-6.1")


@pytest.mark.kernel
@needs_source
@pytest.mark.timeout(600)
def test_the_changes_fit_the_packaged_kernel_and_every_sourced_kconfig_is_there(
    history: ModuleType, tmp_path: Path
) -> None:
    record = history.make_history(tmp_path / "demo")
    repo = tmp_path / "demo"
    assert git(repo, "rev-list", "--count", "demo-good..demo-bad") == str(record["commits"])
    assert git(repo, "status", "--porcelain") == ""
    waiting, seen, absent = ["Kconfig"], set(), []
    while waiting:
        path = waiting.pop().replace("$(SRCARCH)", "x86").replace("$(HEADER_ARCH)", "x86")
        if path in seen:
            continue
        seen.add(path)
        if not (repo / path).is_file():
            absent.append(path)
            continue
        waiting += re.findall(r'^\s*source\s+"([^"]+)"', (repo / path).read_text(), re.M)
    assert absent == []
    assert len(seen) > 500

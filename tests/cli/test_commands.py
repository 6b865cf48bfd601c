"""The command line, as a person meets it: bad input, reading commands, start-up."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import story

from bisector.model.events import BatchesCalibrated
from bisector.recipe.load import canonical_text
from bisector.session.home import Home
from bisector.session.journal import session_lock
from bisector.session.state import SessionState

Run = Callable[..., Any]


def git(repo: Path, *arguments: str) -> str:
    identity = {
        "GIT_AUTHOR_NAME": "A",
        "GIT_AUTHOR_EMAIL": "a@x",
        "GIT_COMMITTER_NAME": "A",
        "GIT_COMMITTER_EMAIL": "a@x",
    }
    done = subprocess.run(
        ["git", "-C", str(repo), *arguments], check=True, capture_output=True, text=True, env={**os.environ, **identity}
    )
    return done.stdout.strip()


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    """v1 -> v2 -> v3 on main, and a branch `side` from v1."""
    path = tmp_path / "repo"
    path.mkdir()
    git(path, "init", "-q", "-b", "main")
    for version in ("v1", "v2", "v3"):
        (path / "file").write_text(version)
        git(path, "add", "file")
        git(path, "commit", "-qm", version)
        git(path, "tag", version)
    git(path, "checkout", "-q", "-b", "side", "v1")
    git(path, "commit", "-qm", "side", "--allow-empty")
    git(path, "checkout", "-q", "main")
    return path


@pytest.fixture
def recipe(tmp_path: Path, repo: Path) -> Path:
    path = tmp_path / "recipe.yaml"
    path.write_text(
        f"name: hunt\nrepo: {repo}\ngood: v1\nbad: v3\nbenchmark:\n  test: page_test\nmachines:\n  - kind: embedded\n"
    )
    return path


def nothing_written() -> bool:
    return not (Path(os.environ["BISECTOR_HOME"]) / "sessions").exists()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--good", "v3", "--bad", "v3"], ["same commit"]),
        (["--good", "v3", "--bad", "v1"], ["swapped"]),
        (["--good", "side"], ["not an ancestor", "merge base", "--good "]),
        (["--good", "nonsense"], ["unknown revision 'nonsense'"]),
        (["--good=--upload-pack=x"], ["--upload-pack=x"]),
        (["--good", "v1..v2"], ["v1..v2"]),
        (["--good", ""], ["good"]),
        (["--repo", "/"], ["/"]),
        (["--set", "search.confidence=2"], ["search.confidence", "2"]),
        (["--set", "benchmark.test=page_tset"], ["page_tset", "page_test"]),
        (["--set", "kernel.colour=red"], ["kernel.colour"]),
        (["--machine", "lab-07"], ["lab-07", "embedded"]),
        (["--name", "../escape"], ["../escape"]),
    ],
)
def test_bad_input_ends_with_exit_2_says_why_and_writes_nothing(
    run: Run, recipe: Path, options: list[str], words: list[str]
) -> None:
    said = run("start", str(recipe), *options)
    assert said.code == 2
    assert said.out == ""
    for word in words:
        assert word in said.err
    assert "Traceback" not in said.err
    assert nothing_written()


def test_every_error_of_a_recipe_is_told_at_once_with_its_place(run: Run, recipe: Path) -> None:
    text = (
        recipe.read_text()
        .replace("good: v1", "good: 12345678\ncolour: red")
        .replace("page_test", "page_test\n  cpu: -3")
    )
    recipe.write_text(text)
    said = run("start", str(recipe))
    assert said.code == 2
    assert f"{recipe}:3:7: good" in said.err
    assert f"{recipe}:4:1: colour" in said.err
    assert f"{recipe}:8:8: benchmark.cpu" in said.err
    assert nothing_written()


def test_a_recipe_that_is_not_there_is_named(run: Run, tmp_path: Path) -> None:
    said = run("start", str(tmp_path / "no.yaml"))
    assert said.code == 2
    assert "no.yaml" in said.err


def test_a_hunt_begun_with_git_goes_on_from_its_log(run: Run, recipe: Path, repo: Path, tmp_path: Path) -> None:
    (tmp_path / "bisect.log").write_text("git bisect start 'v3' 'v1'\n# skip: [...] v2\ngit bisect skip v2\n")
    said = run("start", str(recipe), "--good", "", "--bisect-log", str(tmp_path / "bisect.log"), "--dry-run")
    assert said.code == 2
    assert "leave out --good and --bad" in said.err
    said = run("start", str(recipe), "--bisect-log", str(tmp_path / "bisect.log"), "--dry-run")
    assert said.code == 0
    assert f"taken as skipped: {git(repo, 'rev-parse', 'v2')[:12]}  v2" in said.out
    said = run("start", str(recipe), "--bisect-log", str(tmp_path / "nowhere"))
    assert said.code == 2
    assert "cannot be read" in said.err
    assert nothing_written()


def test_fixups_are_told_before_anything_is_built(run: Run, recipe: Path, repo: Path) -> None:
    fixups = "kernel.fixups=[{name: undo, revert: v2, path: file}]"
    said = run("start", str(recipe), "--set", fixups, "--dry-run")
    v2 = git(repo, "rev-parse", "v2")[:12]
    assert f"fix-up undo: reverts {v2}, on commits that contain {v2} and that have file" in said.out
    said = run("start", str(recipe), "--set", "kernel.fixups=[{name: undo, revert: nowhere}]")
    assert said.code == 2
    assert "kernel.fixups: undo: revert: unknown revision 'nowhere'" in said.err
    assert nothing_written()


def test_a_dry_run_says_what_would_be_done_and_writes_nothing(run: Run, recipe: Path) -> None:
    said = run("start", str(recipe), "--dry-run")
    assert said.code == 0, said.err
    assert "2 commits" in said.out
    assert "page_test" in said.out
    assert "Nothing was written." in said.out
    assert nothing_written()


def test_without_a_session_the_reading_commands_say_how_to_start_one(run: Run) -> None:
    assert "bisector demo" in run("list").out
    for command in ("status", "log", "report", "resume"):
        said = run(command)
        assert said.code == 2
        assert "bisector start" in said.err


def test_status_json_keeps_the_keys_that_scripts_rely_on(run: Run, finished: SessionState) -> None:
    document = json.loads(run("status", "--json").out)
    assert document["session"] == "fake-hunt"
    assert document["state"] == "finished"
    assert document["answer"]["kind"] == "commit"
    assert document["answer"]["commits"] == [finished.range.commits[13].id]
    assert document["answer"]["probability"] >= 0.99
    assert document["counts"].keys() >= {"kernels", "boots", "runs", "machine_s"}
    wanted = {"commit", "outcome", "verdict", "effect_percent", "boots", "runs", "reason"}
    assert all(look.keys() >= wanted for look in document["looks"])


def test_the_reading_commands_agree_on_the_answer(run: Run, finished: SessionState) -> None:
    accused = finished.range.commits[13]
    assert accused.short in run("status", "--why").out
    assert f"First bad commit: {accused.id}" in run("report").out
    assert json.loads(run("report", "--format", "json").out)["answer"]["commits"] == [accused.id]
    assert accused.short in run("list").out
    assert accused.id[:12] in run("log").out.splitlines()[-1]
    assert f"# first bad commit: [{accused.id}]" in run("log", "--git").out
    assert "page_test" in run("report", "--format", "mmtests").out


def test_a_taken_name_is_refused_with_the_way_to_go_on(run: Run, recipe: Path, finished: SessionState) -> None:
    said = run("start", str(recipe), "--name", "fake-hunt")
    assert said.code == 2
    assert "bisector resume fake-hunt" in said.err


def test_a_second_controller_on_one_session_is_refused(run: Run, finished: SessionState) -> None:
    with session_lock(Home.of_this_user().session_folder("fake-hunt")):
        said = run("resume", "fake-hunt")
    assert said.code == 2
    assert "another controller" in said.err


def test_resuming_a_finished_hunt_shows_its_answer_again_and_adds_nothing(run: Run, finished: SessionState) -> None:
    before = len(Home.of_this_user().read("fake-hunt").entries)
    said = run("resume", "-q")
    assert said.code == 0
    assert said.out.strip() == finished.range.commits[13].id
    assert len(Home.of_this_user().read("fake-hunt").entries) == before


def test_resuming_a_finished_hunt_tries_again_for_the_profiles_that_its_recipe_asks_for(run: Run) -> None:
    recipe = story.recipe()
    asking = recipe.model_copy(update={"benchmark": recipe.benchmark.model_copy(update={"profile": "perf"})})
    home = Home.of_this_user()
    first, *others = story.found().entries
    home.create(replace(first.event, recipe=canonical_text(asking)))
    with home.drive("page-test-hunt") as journal:
        for event in (*(entry.event for entry in others), BatchesCalibrated(machine="lab-01", batches=(("x", 1),))):
            journal.append(event)
    again = "Try again: bisector resume page-test-hunt"
    assert run("report").out.rstrip().endswith(f"The profiles that the recipe asks for were not collected. {again}")
    for _ in range(2):
        said = run("resume", "-q")
        assert (said.code, said.out.strip()) == (0, story.IDS[4])
        # Its kernels were in a cache that is not there any more.
        assert said.err == f"No profiles: the kernel of {story.IDS[3][:12]} is not in the cache any more\n{again}\n"
    assert [entry.event.kind for entry in home.read("page-test-hunt").entries[-2:]] == ["session_resumed"] * 2
    assert json.loads(run("status", "--json").out)["state"] == "finished"


def test_every_command_has_a_help_text_with_an_example(run: Run) -> None:
    for command in ("demo", "start", "resume", "status", "log", "report", "simulate"):
        assert "Example:  bisector" in run(command, "--help").out
    for command in ("list", "check", "facts", "release"):
        assert f"Example:  bisector lab {command}" in run("lab", command, "--help").out


def test_simulate_gives_the_figures_that_scripts_rely_on(run: Run) -> None:
    document = json.loads(run("simulate", "--commits", "32", "--trials", "2", "--json").out)
    assert document.keys() >= {
        "trials", "correct", "wrong", "set", "none", "builds", "boots", "runs",
        "machine_s_mean", "machine_s_p90", "claimed", "decision_ms_mean",
    }  # fmt: skip


@pytest.mark.parametrize("arguments", [["--help"], ["status"]])
def test_help_and_status_load_nothing_slow(finished: SessionState, arguments: list[str]) -> None:
    program = (
        "import sys\nfrom bisector.cli.main import main\n"
        f"try:\n    main({arguments!r})\nexcept SystemExit:\n    pass\n"
        "slow = {'scipy', 'matplotlib', 'paramiko', 'fabric', 'git', 'rich'} & set(sys.modules)\n"
        "sys.exit(','.join(slow) or 0)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr

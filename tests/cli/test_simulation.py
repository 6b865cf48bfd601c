"""`bisector simulate`, as a person meets it."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from gitrepo import GitRepo

from bisector.cli import simulation
from bisector.session.state import SessionState

Run = Callable[..., Any]
QUICK = ("--commits", "32", "--run-sd", "0.5", "--trials", "4", "--jobs", "1")
FIGURES = {
    "trials", "correct", "wrong", "set", "none", "builds", "boots", "runs", "machine_s_mean", "machine_s_p90",
    "wall_s_mean", "wall_s_p90",
    "claimed", "true", "true_interval", "decision_ms_mean", "in_set", "not_reproduced",
}  # fmt: skip


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    """A line of six from v1 to v2, and a side branch of two that is merged last."""
    repo = GitRepo(tmp_path / "linux")
    line = repo.line(6)
    side = repo.commit("side 1", {"g": "1"}, parents=[line[2]], ref="side")
    side = repo.commit("side 2", {"g": "2"}, parents=[side], ref="side")
    repo.commit("merge", {"g": "2"}, parents=[line[-1], side])
    repo.git("tag", "v1", line[0])
    repo.git("tag", "v2", "main")
    repo.git("branch", "-f", "apart", side)
    return repo.path


def test_with_nothing_but_defaults_it_hunts_ten_times_or_as_long_as_a_person_waits(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(simulation, "ENOUGH_S", 0.0)
    said = run("simulate", "--jobs", "1")
    assert said.code == 0, said.err
    assert said.out.startswith("10 hunts in invented labs: 1 000 commits; 5 % slower; 1 % between boots")
    assert "for more: --trials" in said.out
    assert said.err == ""


def test_the_figures_of_the_first_strategy_are_at_the_top_and_all_are_named(run: Run) -> None:
    document = json.loads(run("simulate", *QUICK, "--strategy", "classic", "--strategy", "belief", "--json").out)
    assert document.keys() >= FIGURES | {"strategies", "world", "options", "seed", "origin", "notes"}
    assert list(document["strategies"]) == ["classic", "belief"]
    assert all(figures.keys() >= FIGURES for figures in document["strategies"].values())
    assert document["boots"] == document["strategies"]["classic"]["boots"] < document["strategies"]["belief"]["boots"]
    assert document["trials"] == 4


def test_a_comparison_has_one_line_a_strategy_and_says_what_is_claimed_only_where_something_is(run: Run) -> None:
    said = run("simulate", *QUICK, "--strategy", "belief", "--strategy", "classic")
    lines = {line.split()[0]: line.split() for line in said.out.splitlines() if line.startswith(("belief", "classic"))}
    assert "in the same labs" in said.out
    assert lines["belief"][1:5] == ["100.0%", "0.0%", "0.0%", "0.0%"]
    assert lines["classic"][5] == "-"
    assert "(4 of 4 named were the right one; 95 % interval 51 to 100 %)" in " ".join(said.out.split())


def test_the_same_seed_gives_the_same_figures_whatever_the_jobs(run: Run) -> None:
    def figures(jobs: str, seed: str) -> dict[str, Any]:
        arguments = ("--commits", "32", "--trials", "5", "--jobs", jobs, "--seed", seed, "--json")
        document = json.loads(run("simulate", *arguments).out)["strategies"]["belief"]
        del document["decision_ms_mean"]
        return document

    assert figures("1", "7") == figures("2", "7")
    assert figures("1", "7") != figures("1", "8")


def test_a_real_history_is_hunted_with_its_merges(run: Run, repo: Path) -> None:
    ends = ("--repo", str(repo), "--good", "v1", "--bad", "v2")
    said = run("simulate", *ends, "--trials", "3", "--jobs", "1")
    assert "8 commits with 1 merge;" in said.out
    assert f"of{repo}" in "".join(said.out.split())
    document = json.loads(run("simulate", *ends, "--trials", "3", "--jobs", "1", "--json").out)
    assert (document["world"]["commits"], document["world"]["merge_commits"]) == (8, 1)


def test_several_machines_and_builders_shorten_the_wait_and_it_is_told(run: Run) -> None:
    def figures(*more: str) -> dict[str, Any]:
        arguments = ("--commits", "200", "--run-sd", "1", "--trials", "3", "--jobs", "1", "--json")
        return json.loads(run("simulate", *arguments, *more).out)

    alone, together = figures(), figures("--machines", "2", "--builders", "2")
    assert alone["wall_s_mean"] == alone["machine_s_mean"]
    assert together["wall_s_mean"] < 0.8 * alone["wall_s_mean"]
    assert together["wall_s_p90"] >= together["wall_s_mean"] * 0.9
    said = run("simulate", *QUICK, "--machines", "2", "--builders", "1").out
    assert "2 machines; 1 builder beside them" in " ".join(said.split())
    assert "wall time" in said
    assert "wall time" not in run("simulate", *QUICK).out


def test_no_regression_and_an_improvement_are_judged_by_what_was_asked(run: Run) -> None:
    null = json.loads(run("simulate", *QUICK, "--no-regression", "--min-effect", "4", "--json").out)
    better = json.loads(run("simulate", *QUICK, "--effect", "-8", "--confidence", "0.9", "--json").out)
    assert null["correct"] == null["not_reproduced"] == 1.0
    assert better["correct"] == 1.0
    assert better["world"]["improvement"] is True
    assert better["options"]["confidence"] == 0.9


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--repo", "REPO"], ["--good REV --bad REV"]),
        (["--good", "v1", "--bad", "v2"], ["--good v1", "--repo"]),
        (["--repo", "REPO", "--good", "v1", "--bad", "v9"], ["unknown revision 'v9'"]),
        (["--repo", "REPO", "--good", "v2", "--bad", "v1"], ["swapped"]),
        (["--repo", "/nowhere", "--good", "v1", "--bad", "v2"], ["/nowhere"]),
        (["--repo", "REPO", "--good", "v1", "--bad", "v2", "--commits", "9"], ["--commits and --repo"]),
        (["--from-session", "x", "--commits", "9"], ["--commits and --from-session"]),
        (["--from-session", "nothing-like-it"], ["nothing-like-it"]),
        (["--commits", "1"], ["--commits"]),
        (["--effect", "0"], ["--no-regression"]),
        (["--effect", "nan"], ["--effect"]),
        (["--run-sd", "inf"], ["--run-sd"]),
        (["--boot-sd", "-1"], ["--boot-sd"]),
        (["--build-s", "0"], ["--build-s"]),
        (["--outliers", "2"], ["--outliers"]),
        (["--trials", "0"], ["--trials"]),
        (["--machines", "0"], ["--machines"]),
        (["--machines", "2", "--strategy", "sprt"], ["2 machines", "belief", "--machines 1"]),
        (["--builders", "1", "--strategy", "belief", "--strategy", "fixed"], ["1 builder", "--builders 0"]),
        (["--strategy", "magic"], ["magic", "pinpoint"]),
        (["--no-regression", "--two-steps"], ["--two-steps"]),
        (["--two-steps", "--commits", "2"], ["--two-steps"]),
        (["--confidence", "1"], ["--confidence"]),
    ],
)
def test_a_simulation_of_nothing_sensible_ends_with_exit_2_and_says_why(
    run: Run, repo: Path, options: list[str], words: list[str]
) -> None:
    said = run("simulate", *(str(repo) if option == "REPO" else option for option in options))
    assert said.code == 2
    assert said.out == ""
    for word in words:
        assert word in said.err
    assert "Traceback" not in said.err


def test_a_session_lends_its_commits_deviations_costs_and_effect(run: Run, finished: SessionState) -> None:
    said = run("simulate", "--from-session", "fake-hunt", "--trials", "3", "--jobs", "1", "--json")
    assert said.code == 0, said.err
    document = json.loads(said.out)
    world = document["world"]
    assert world["commits"] == 19
    # Both 0.2 % in that lab; a drop of 30 % there is 43 % more of the good value's than of the bad one's.
    assert 0.1 < world["run_sd_percent"] < 0.4
    assert world["effect_percent"] == pytest.approx(43, rel=0.05)
    assert world["build_s"] == 20
    assert document["correct"] == 1.0


def test_what_is_typed_goes_before_what_the_session_shows(run: Run, finished: SessionState) -> None:
    arguments = ("--from-session", "fake-hunt", "--effect", "3", "--build-s", "77", "--trials", "1", "--jobs", "1")
    world = json.loads(run("simulate", *arguments, "--json").out)["world"]
    assert (world["effect_percent"], world["build_s"]) == (3, 77)


def test_an_unfinished_session_is_enough_once_both_ends_were_measured(
    run: Run, hunted: Callable[..., SessionState]
) -> None:
    assert hunted("half-way", boots=6).answer is None
    said = run("simulate", "--from-session", "half-way", "--trials", "1", "--jobs", "1")
    assert said.code == 0, said.err
    assert "session half-way" in said.out


def test_a_session_without_both_ends_is_refused_with_the_way_to_get_them(
    run: Run, hunted: Callable[..., SessionState]
) -> None:
    hunted("begun", boots=2)
    said = run("simulate", "--from-session", "begun")
    assert said.code == 2
    assert "1 boot of the good one, 0 boots of the bad one" in said.err
    assert "bisector resume begun" in said.err

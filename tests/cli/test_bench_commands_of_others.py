"""`bisector bench run` of any command, and `compare` of what any program saved, as a person types them."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

Say = Callable[..., tuple[object, str, str]]

RECIPE = """\
name: hunt
repo: .
good: v1
bad: v2
benchmark:
  test: both
  also: [push]
  cpu: housekeeping
  command:
    shell: ./work.sh; taskset -p $$ >&2
    files: [work.sh]
    parser: key-value
    metrics:
      - {name: both, sum: [push, pop], better: lower, unit: s}
      - {name: push, better: lower, unit: s}
machines:
  - kind: embedded
"""


def hyperfine(path: Path, factor: float) -> str:
    times = [factor * (1 + 0.001 * run) for run in range(5)]
    path.write_text(json.dumps({"results": [{"command": "sleep 1", "times": times, "exit_codes": [0] * 5}]}) + "\n")
    return str(path)


def test_a_command_is_run_here_and_its_metrics_shown_and_saved(say: Say, tmp_path: Path) -> None:
    line = "echo push: 1.5 s; echo pop: 2 s"
    typed = ("--command", line, "--parser", "key-value", "--metric", "push:lower:s", "--metric", "pop:lower:s")
    code, out, err = say("run", *typed, "--runs", "3")
    assert (code, err) == (0, "")
    rows = [line.split()[:3] for line in out.splitlines()[1:3]]
    assert rows == [["push", "1.500", "s"], ["pop", "2.000", "s"]]
    code, out, _ = say("run", *typed, "--runs", "2", "--json")
    first = json.loads(out.splitlines()[0])
    assert first == {"metric": "push", "value": 1.5, "unit": "s", "better": "lower"}
    saved = tmp_path / "saved.jsonl"
    saved.write_text(out)
    slower = tmp_path / "slower.jsonl"
    slower.write_text(out.replace("1.5", "1.8"))
    code, out, _ = say("compare", str(saved), str(slower))
    assert code == 1
    push, pop = out.splitlines()[1:3]
    assert ("+20.0 %" in push, push.endswith("worse"), pop.endswith("not seen")) == (True, True, True)


def test_a_recipes_benchmark_is_run_with_its_files_and_on_its_cpu(say: Say, tmp_path: Path) -> None:
    (tmp_path / "hunt.yaml").write_text(RECIPE)
    work = tmp_path / "work.sh"
    work.write_text("#!/bin/sh\necho push: 1.5\necho pop: 2\ntaskset -p $$ >>" + str(tmp_path / "masks") + "\n")
    work.chmod(0o755)
    code, out, err = say("run", str(tmp_path / "hunt.yaml"), "--runs", "2")
    assert (code, err) == (0, "")
    assert [line.split()[:3] for line in out.splitlines()[1:3]] == [["both", "3.500", "s"], ["push", "1.500", "s"]]
    masks = {line.split(":")[1].strip() for line in (tmp_path / "masks").read_text().splitlines()}
    # One CPU, and the same in both runs.
    [mask] = masks
    assert int(mask, 16).bit_count() == 1
    assert not list(Path("/tmp").glob("bisector-command-*"))


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((), "name either tests, or one recipe, or --command"),
        (("page_test", "--command", "true"), "name either tests"),
        (("a.yaml", "page_test"), "name either tests"),
        (("page_test", "--parser", "fio"), "belong to --command"),
        (("--command", "true", "--counters", "cycles"), "--sample-ms and --counters are of tests that are named"),
        (("--command", "true"), "--command needs --parser, and a --metric"),
        (("--command", "true", "--parser", "fio", "--metric", "reads"), "--metric reads: must say"),
        (("--command", "true", "--parser", "fio", "--metric", "reads:faster:s"), "--metric reads:faster:s: must say"),
        (("--command", "true", "--parser", "foi", "--metric", "reads:lower:s"), "Did you mean fio?"),
        (("page_test", "--cpu", "nohz"), "nohz is neither the number of a CPU nor housekeeping, isolated or nohz_full"),
    ],
)
def test_what_cannot_be_meant_is_refused(say: Say, arguments: tuple[str, ...], says: str) -> None:
    code, out, err = say("run", *arguments)
    assert (code, out) == (2, "")
    assert says in " ".join(err.split())


def test_a_command_that_fails_here_is_told_and_no_number(say: Say) -> None:
    code, out, err = say("run", "--command", "echo oops >&2; exit 3", "--parser", "time", "--metric", "user:lower:s")
    assert (code, out) == (3, "")
    assert "ended with exit code 3: oops" in err


def test_two_outputs_of_hyperfine_are_compared_by_their_repetitions(say: Say, tmp_path: Path) -> None:
    base, new = hyperfine(tmp_path / "base.json", 1.0), hyperfine(tmp_path / "new.json", 1.1)
    code, out, _ = say("compare", base, new, "--parser", "hyperfine")
    assert code == 1
    row = next(line for line in out.splitlines() if line.startswith("sleep 1"))
    assert "+10.0 %" in row
    assert row.endswith("worse")
    assert "from 5 and 5 runs" in out
    code, out, _ = say("compare", base, base, "--parser", "hyperfine", "--json")
    assert (code, [row["higher_is_better"] for row in json.loads(out)]) == (0, [False])


def test_a_folder_holds_a_file_for_each_run(say: Say, tmp_path: Path) -> None:
    for side, seconds in (("base", 10.0), ("new", 8.0)):
        (tmp_path / side).mkdir()
        for run in range(3):
            (tmp_path / side / f"{run}.txt").write_text(f"Time: {seconds + 0.01 * run:.3f}\n")
    code, out, _ = say("compare", str(tmp_path / "base"), str(tmp_path / "new"), "--parser", "hackbench")
    assert code == 1
    assert next(line for line in out.splitlines() if line.startswith("Time")).endswith("better")
    one = str(tmp_path / "base" / "0.txt")
    code, _, err = say("compare", one, one, "--parser", "hackbench")
    assert (code, "has one value of Time" in err) == (2, True)
    (tmp_path / "new" / "2.txt").write_text("Time: 8,03\n")
    code, _, err = say("compare", str(tmp_path / "base"), str(tmp_path / "new"), "--parser", "hackbench")
    assert (code, f"{tmp_path / 'new' / '2.txt'}:1: Time is '8,03'" in err) == (2, True)


def test_a_direction_that_the_format_does_not_say_is_asked_for_and_never_guessed(say: Say, tmp_path: Path) -> None:
    paths = []
    for name, level in (("base", 100), ("new", 120)):
        (tmp_path / name).mkdir()
        for run in range(3):
            (tmp_path / name / str(run)).write_text(f"rate: {level + run / 10} items\n")
        paths.append(str(tmp_path / name))
    code, out, err = say("compare", *paths, "--parser", "key-value")
    assert (code, out) == (2, "")
    assert "does not say of any metric in both results its unit and which direction is better" in err
    assert "--metric NAME:lower:UNIT" in err
    code, out, _ = say("compare", *paths, "--parser", "key-value", "--metric", "rate:higher:items")
    assert (code, out.splitlines()[1].endswith("better")) == (1, True)
    code, _, err = say("compare", *paths, "--parser", "key-value", "--metric", "rate:higher:s")
    assert (code, "rate is in items, but the recipe says s" in err) == (2, True)

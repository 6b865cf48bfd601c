"""`bisector bench`, as a person types it: real runs of the suite here and on a box with a real sshd."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml
from lab.fakebox import USABLE, WHY_NOT, FakeBox, running_box

QUICK = ("--runs", "3", "--sample-ms", "5")

Say = Callable[..., tuple[object, str, str]]


@pytest.fixture
def saved(say: Say, tmp_path: Path) -> Path:
    path = tmp_path / "saved.jsonl"
    path.write_text(say("run", "page_test", "fork_test", *QUICK, "--json")[1])
    return path


def at(path: Path, factor: float, boots: str = "") -> Path:
    """The same result with every sample's time multiplied; `boots` names the boot of each run in turn."""
    lines, run = [], -1
    for text in path.read_text().splitlines():
        line = json.loads(text)
        if line["type"] == "env":
            run += 1
            line["boot_id"] = boots[run] if boots else line["boot_id"]
        if line["type"] == "sample":
            # Equal but for a little, whatever this computer did at the time.
            line["wall_ns"] = int(1e6 * line["ops"] * factor * (1 + 0.001 * run))
        lines.append(json.dumps(line, separators=(",", ":")))
    changed = path.with_name(f"at-{factor}{boots}.jsonl")
    changed.write_text("\n".join(lines) + "\n")
    return changed


def test_the_tests_are_listed_with_their_direction_and_aim9s_name(say: Say) -> None:
    code, out, _ = say("list")
    assert code == 0
    row = next(line for line in out.splitlines() if line.startswith("page_test"))
    assert "ops/s" in row
    assert "higher" in row
    assert "System Allocations & Pages" in row
    told = json.loads(say("list", "--json")[1])
    assert {"page_test", "fork_test"} <= {test["name"] for test in told}


def test_runs_here_are_shown_on_one_scale(say: Say) -> None:
    code, out, err = say("run", "page_test", "fork_test", *QUICK)
    assert (code, err) == (0, "")
    head, first, second = out.splitlines()[:3]
    assert head.split()[:4] == ["test", "median", "run", "sd"]
    assert (first.split()[0], second.split()[0]) == ("page_test", "fork_test")
    assert sum("..:#".count(mark) > 0 for mark in first[-31:]) >= 1
    assert "3 runs of each" in out


def test_counters_are_shown_by_operation_and_missing_ones_are_said_once(say: Say) -> None:
    code, out, err = say("run", "page_test", *QUICK, "--counters", "page-faults,cpu-migrations,cycles:k")
    assert (code, err) == (0, "")
    row = next(line for line in out.splitlines() if line.startswith("page_test page-faults"))
    assert "per op" in row
    assert float(row.split()[2]) == pytest.approx(16 / 17, rel=0.01)
    assert "page_test cpu-migrations" in out
    assert out.count("cycles:k") == 1 or not any("not supported" in line for line in out.splitlines())
    code, out, err = say("run", "page_test", "--counters", "page-fault")
    assert (code, out, "did you mean page-faults?" in err) == (2, "", True)


def test_json_is_the_suites_lines_as_they_came(saved: Path) -> None:
    kinds = [json.loads(line)["type"] for line in saved.read_text().splitlines()]
    assert kinds == ["env", "sample", "sample", "end"] * 3


def test_a_slower_result_is_seen_with_its_interval_and_direction(say: Say, saved: Path) -> None:
    code, out, _ = say("compare", str(at(saved, 1.0)), str(at(saved, 1.25)))
    assert code == 1
    row = next(line for line in out.splitlines() if line.startswith("page_test"))
    assert "-20.0 %" in row
    assert row.endswith("worse")
    code, out, _ = say("compare", str(at(saved, 1.25)), str(at(saved, 1.0)), "--json")
    told = json.loads(out)[0]
    assert (code, told["test"], told["repeated"]) == (1, "page_test", "runs")
    assert told["difference_percent"] == pytest.approx(25, abs=0.01)


def test_phases_are_shown_and_compared_beside_their_sum(say: Say, tmp_path: Path) -> None:
    once = tmp_path / "once.jsonl"
    once.write_text(say("run", "patch_series.pop", "--runs", "1", "--sample-ms", "5", "--json")[1])
    base, new = tmp_path / "base.jsonl", tmp_path / "new.jsonl"
    for path, push_ns in ((base, 400_000_000), (new, 500_000_000)):
        env, sample, end = (json.loads(line) for line in once.read_text().splitlines())
        runs = []
        for run in range(3):
            phases = {"push": push_ns + run, "pop": 600_000_000 + run}
            sample |= {"ops": 99, "phases": phases, "wall_ns": sum(phases.values())}
            runs += [json.dumps(line, separators=(",", ":")) for line in (env, sample, end)]
        path.write_text("\n".join(runs) + "\n")
    code, out, _ = say("compare", str(base), str(new))
    assert code == 1
    rows = {line.split()[0]: line for line in out.splitlines() if line.startswith("patch_series")}
    assert list(rows) == ["patch_series", "patch_series.push", "patch_series.pop"]
    assert ("-9.1 %" in rows["patch_series"], "-20.0 %" in rows["patch_series.push"]) == (True, True)
    assert rows["patch_series.pop"].endswith("not seen")


def test_the_same_result_is_not_seen_to_differ(say: Say, saved: Path) -> None:
    code, out, _ = say("compare", str(saved), str(saved))
    assert code == 0
    assert "not seen" in out
    assert "What differs from boot to boot is not in the intervals" in out.replace("\n", " ")


def test_results_of_several_boots_are_compared_by_boot(say: Say, saved: Path) -> None:
    base, new = at(saved, 1.0, "abc"), at(saved, 1.1, "def")
    code, out, _ = say("compare", str(base), str(new))
    assert code == 1
    assert "from 3 and 3 boots" in out


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ("", "there is no output"),
        ("nonsense\n", "not JSON"),
        ('{"type":"end"}\n', "end"),
    ],
)
def test_a_file_that_is_no_result_is_refused_with_the_line(
    say: Say, saved: Path, tmp_path: Path, content: str, complaint: str
) -> None:
    (tmp_path / "other").write_text(content)
    code, out, err = say("compare", str(saved), str(tmp_path / "other"))
    assert (code, out) == (2, "")
    assert f"{tmp_path / 'other'}:1: " in err
    assert complaint in err


def test_a_result_that_was_cut_off_is_refused_with_the_line(say: Say, saved: Path, tmp_path: Path) -> None:
    lines = saved.read_text().splitlines(keepends=True)
    (tmp_path / "cut").write_text("".join(lines[:-1]))
    code, _, err = say("compare", str(saved), str(tmp_path / "cut"))
    assert code == 2
    assert f"cut:{len(lines)}: incomplete: the end line is missing" in err


def test_results_with_different_counters_are_not_compared(say: Say, saved: Path, tmp_path: Path) -> None:
    counted = tmp_path / "counted.jsonl"
    counted.write_text(say("run", "page_test", *QUICK, "--counters", "page-faults", "--json")[1])
    code, out, err = say("compare", str(saved), str(counted))
    assert (code, out, "different counters" in err, f"{counted}: page-faults" in err) == (2, "", True, True)
    assert say("compare", str(counted), str(counted))[0] == 0


def test_one_run_and_no_test_in_common_cannot_be_compared(say: Say, saved: Path, tmp_path: Path) -> None:
    one = tmp_path / "one.jsonl"
    one.write_text(say("run", "page_test", "--runs", "1", "--sample-ms", "5", "--json")[1])
    code, _, err = say("compare", str(saved), str(one))
    assert (code, "has one run of page_test" in err, "bisector bench run page_test --runs 5" in err) == (2, True, True)
    other = tmp_path / "other.jsonl"
    other.write_text(say("run", "creat-clo", *QUICK, "--json")[1])
    code, _, err = say("compare", str(saved), str(other))
    assert (code, "no test in common" in err) == (2, True)


def test_a_test_that_there_is_not_and_two_places_at_once_are_refused(say: Say) -> None:
    code, _, err = say("run", "page_tset")
    assert (code, "Did you mean page_test?" in err) == (2, True)
    code, _, err = say("run", "page_test", "--local", "--machine", "box1")
    assert (code, "which of the two" in err) == (2, True)


@pytest.fixture(scope="module")
def box(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FakeBox]:
    with running_box(tmp_path_factory.mktemp("bench") / "box") as box:
        yield box


@pytest.fixture
def there(box: FakeBox, tmp_path: Path) -> tuple[str, ...]:
    path = tmp_path / "lab.yaml"
    entries = [box.config().model_dump(mode="json"), {"kind": "embedded", "name": "guest"}]
    path.write_text(yaml.safe_dump({"machines": entries}))
    return ("--file", str(path))


@pytest.mark.skipif(not USABLE, reason=WHY_NOT)
def test_a_leased_machine_measures_under_the_kernel_it_runs_and_is_given_back(
    say: Say, box: FakeBox, there: tuple[str, ...]
) -> None:
    code, out, err = say("run", "page_test", "--machine", "box1", *there, *QUICK)
    assert (code, err) == (0, "")
    assert out.splitlines()[1].startswith("page_test")
    assert not box.leased


@pytest.mark.skipif(not USABLE, reason=WHY_NOT)
def test_no_kernel_is_booted_on_it(say: Say, there: tuple[str, ...]) -> None:
    code, _, err = say("run", "page_test", "--machine", "box1", "--kernel", "abcdef12", *there)
    assert (code, "under the kernel that it runs now" in err) == (2, True)


@pytest.mark.skipif(not USABLE, reason=WHY_NOT)
def test_an_embedded_machine_needs_a_kernel_that_was_built(say: Say, there: tuple[str, ...]) -> None:
    code, _, err = say("run", "page_test", "--machine", "guest", *there)
    assert (code, "no kernel has been built yet" in err) == (2, True)

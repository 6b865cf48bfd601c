"""`bisector bench formats | read | profile`, as a person types it."""

import io
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from formatdata import SAMPLES

from bisector.cli.main import main

DATA = SAMPLES.parent
Say = Callable[..., tuple[object, str, str]]


@pytest.fixture
def say(capsys: pytest.CaptureFixture[str]) -> Say:
    def run(*arguments: object) -> tuple[object, str, str]:
        with pytest.raises(SystemExit) as ended:
            main(["bench", *map(str, arguments)])
        out, err = capsys.readouterr()
        return ended.value.code, out, err

    return run


def test_every_parser_is_listed(say: Say) -> None:
    code, out, _ = say("formats")
    assert code == 0
    assert [line.split()[0] for line in out.splitlines()] == sorted(line.split()[0] for line in out.splitlines())
    assert {"aim9", "perf-stat", "regex"} <= {line.split()[0] for line in out.splitlines()}


def test_what_a_parser_finds_is_shown_with_what_the_recipe_has_to_say(say: Say) -> None:
    code, out, _ = say("read", "perf-stat", SAMPLES / "perf-stat-hybrid.csv")
    assert (code, out) == (
        0,
        "metric                                 value  unit          better   line\n"
        "task-clock                             26.75  msec          lower    1\n"
        "cpu_core/cycles/                    70123456  events        ?        2  counted 70 % of the time\n"
        "cpu_core/instructions/              95123456  events        ?        4\n"
        "cpu/event=0x3c,umask=0x1/k           8200145  events        ?        5\n"
        "line 3: cpu_atom/cycles/ does not count: perf says <not counted>\n",
    )
    document = json.loads(say("read", "hackbench", SAMPLES / "hackbench.txt", "--json")[1])
    assert document["readings"][0]["metric"] == "Time"
    assert document["missing"] == []


def test_a_pattern_is_tried_on_standard_input(say: Say, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"took 3 ms\ntook 4 ms\n")))
    code, out, _ = say("read", "regex", "-", "--regex", r"took (?P<value>\S+) (?P<unit>\S+)")
    assert code == 0
    assert out.splitlines()[1].split() == ["value", "3", "ms", "?", "1", "and", "1", "repetition"]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("read", "perf-stat", SAMPLES / "perf-stat-de.csv"), "perf-stat-de.csv:1: the unit is '61'"),
        (("read", "perfstat", SAMPLES / "perf-stat.csv"), "Did you mean perf-stat?"),
        (("read", "hackbench", "/nowhere"), "/nowhere cannot be read"),
        (("read", "hackbench", SAMPLES / "hackbench.txt", "--regex", "x"), "--regex belongs to the parser `regex`"),
        (("read", "regex", SAMPLES / "hackbench.txt"), "--regex belongs"),
        (("profile", "folded", SAMPLES / "fio.json", SAMPLES / "folded.txt"), "fio.json:1: not a folded stack"),
    ],
)
def test_what_cannot_be_read_is_told_with_its_line(say: Say, arguments: tuple[object, ...], says: str) -> None:
    code, out, err = say(*arguments)
    assert (code, out) == (2, "")
    assert says in err


def test_ticks_are_compared_as_seconds_if_the_frequencies_are_given_and_as_shares_if_not(
    say: Say, tmp_path: Path
) -> None:
    files = (DATA / "readprofile_2.4.21-pre2_pushpatch.txt", DATA / "readprofile_2.5.52-mm3_pushpatch.txt")
    seconds = say("profile", "readprofile", *files, "--hz", 100, 1000, "--top", 1)[1]
    assert seconds.splitlines()[1].split() == ["page_remove_rmap", "<0.10", "0.93", "≥", "+0.83"]
    shares = say("profile", "readprofile", *files, "--top", 1)[1]
    # 275 of 1062 ticks against 2594 of 15261.
    assert shares.splitlines()[1].split() == ["do_wp_page", "25.89", "17.00", "-8.90"]

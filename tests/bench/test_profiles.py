"""Profiles: read from each format, normalised, compared; broken ones are errors with a line."""

import struct
from pathlib import Path

import pytest
from formatdata import SAMPLES, sample
from hypothesis import given, settings
from hypothesis import strategies as st

from bisector.bench.formats.profiles import PROFILES
from bisector.bench.formats.reading import FormatError
from bisector.bench.formats.ticks import ticks_text
from bisector.bench.profile import Profile, movers, plain_symbol

TICKS = sorted(SAMPLES.parent.glob("readprofile_*.txt"))
FILES = {"perf-report": "perf-report.txt", "perf-script": "perf-script.txt", "folded": "folded.txt"}


def test_readprofile_is_read_with_and_without_addresses() -> None:
    found = PROFILES["readprofile"]((SAMPLES.parent / "readprofile_2.4.21-pre2_pushpatch.txt").read_bytes())
    assert (found.weights["do_wp_page"], found.total, found.unlisted_below, found.per_s) == (275, 1062, 10, None)
    short = PROFILES["readprofile"](b"    10 system_call   0.1786\n     3 cond_resched  0.01\n    13 total  0.0008\n")
    assert (dict(short.weights), short.total) == ({"system_call": 10, "cond_resched": 3}, 13)
    assert short.unlisted_below == 0, "the list is complete"


def test_a_report_of_perf_gives_seconds_where_a_clock_was_sampled() -> None:
    found = PROFILES["perf-report"](sample("perf-report.txt"))
    assert found.weights["iowrite16"] == 9.09
    assert found.per_s is not None
    assert found.total / found.per_s == pytest.approx(0.187187187)


def test_of_children_and_self_only_self_counts() -> None:
    found = PROFILES["perf-report"](sample("perf-report-children.txt"))
    assert found.weights["do_syscall_64"] == 2.14
    assert found.weights["iowrite16"] == 9.09
    assert found.unlisted_below == 0.0 < found.total - sum(found.weights.values()), "a row of 0.00 % is listed"


def test_a_script_of_perf_counts_each_sample_for_its_innermost_function() -> None:
    found = PROFILES["perf-script"](sample("perf-script.txt"))
    samples = sample("perf-script.txt").count(b"cpu-clock:")
    assert found.total == samples * 1001001
    assert found.per_s == 1e9
    assert found.weights["iowrite16"] % 1001001 == 0
    assert "entry_SYSCALL_64_after_hwframe" not in found.weights


def test_folded_stacks_count_for_their_last_function() -> None:
    found = PROFILES["folded"](sample("folded.txt"))
    assert dict(found.weights) == {"filldir64": 8, "iterate_dir": 3, "link_path_walk.isra.0": 3, "do_syscall_64": 4}


def test_copies_that_a_compiler_made_are_one_function() -> None:
    names = ["a.isra.0", "a.constprop.0.isra.0", "a.part.12", "a.cold", "a.isra.0.cold", "a", ".isra.0", "a.b"]
    assert [plain_symbol(name) for name in names] == ["a", "a", "a", "a", "a", "a", ".isra.0", "a.b"]
    found = movers(
        Profile(weights={"f.isra.0": 2, "f": 1}, total=3), Profile(weights={"f.constprop.0": 4, "g": 0}, total=4)
    )
    assert [(row.symbol, row.change) for row in found.rows] == [("f", 0.0), ("g", 0.0)]


def test_ticks_that_say_their_frequency_are_seconds() -> None:
    found = PROFILES["readprofile"](b"# CONFIG_HZ=250\n 500 f 1.0\n 500 total 0.1\n")
    assert found.per_s == 250
    assert movers(found, found).base_total == 2.0
    with pytest.raises(FormatError):
        PROFILES["readprofile"](b"# CONFIG_HZ=0\n 500 f 1.0\n 500 total 0.1\n")


def test_waiting_is_no_work() -> None:
    waiting = {"amd_e400_idle": 970.0, "default_idle_call": 5.0, "pv_native_safe_halt": 5.0, "intel_idle.cold": 1.0}
    profile = Profile(weights={**waiting, "idle_cpu": 2.0, "f": 8.0}, total=1000.0, unlisted_below=1.0)
    busy = profile.without_idle()
    assert (dict(busy.weights), busy.total, busy.unlisted_below) == ({"idle_cpu": 2.0, "f": 8.0}, 19.0, 1.0)
    assert Profile(weights=waiting, total=981.0).without_idle().total == 981.0


def test_without_a_frequency_on_both_sides_shares_are_compared() -> None:
    one = Profile(weights={"f": 30, "g": 70}, total=100)
    other = Profile(weights={"f": 600, "g": 400}, total=1000).with_hz(1000)
    found = movers(one, other)
    assert found.unit == "% of total"
    assert [(row.symbol, row.change) for row in found.rows] == [("f", 30.0), ("g", -30.0)]
    assert movers(one.with_hz(100), other).unit == "s"


def test_a_function_below_the_end_of_a_list_is_no_zero() -> None:
    old = Profile(weights={"f": 50, "small": 9}, total=100, unlisted_below=9)
    new = Profile(weights={"f": 50, "new": 30}, total=100, unlisted_below=12)
    rows = {row.symbol: row for row in movers(old, new).rows}
    assert (rows["new"].base, rows["new"].change) == (None, 21.0)
    assert (rows["small"].new, rows["small"].change) == (None, 0.0), "it may still be there, below 12"


@pytest.mark.parametrize(
    ("kind", "data", "line", "says"),
    [
        ("readprofile", b"f 1\n", 1, "not a row of readprofile"),
        ("readprofile", b"c0106d60 f 10 0.1\n", 1, "the row `total` is missing"),
        ("readprofile", b"c0106d60 f ten 0.1\n", 1, "the ticks of f must be a number"),
        ("readprofile", b"c0106d60 f 10 0.1\n00000000 total 9 0.1\n", 2, "took 10 of a total of 9"),
        ("readprofile", b"00000000 total 0 0.1\n", 1, "there is no function"),
        ("readprofile", b"c0106d60 f 10 0.1\n00000000 tot", 2, "cut off"),
        ("perf-report", b"# Overhead  Symbol\n 9.0%  iowrite\n", 2, "not a row of perf report"),
        ("perf-report", b"# Overhead  Symbol\n 9,0%  [k] iowrite\n", 2, "LC_ALL=C"),
        ("perf-report", b"Error: no data\n", 1, "no line with the columns"),
        ("perf-script", b"ls 1 1.0: 5 cycles: \n\nls 1 2.0: 5 cycles: \n\t f f (x)\n", 1, "no function follows"),
        ("perf-script", b"hello\n", 1, "not a line of perf script"),
        ("folded", b"a;b\n", 1, "not a folded stack"),
    ],
)
def test_a_broken_profile_is_an_error_on_its_line(kind: str, data: bytes, line: int, says: str) -> None:
    with pytest.raises(FormatError) as raised:
        PROFILES[kind](data)
    assert says in raised.value.reason
    assert raised.value.line == line


def content_of(kind: str) -> list[bytes]:
    files: list[Path] = TICKS[:2] if kind == "readprofile" else [SAMPLES / FILES[kind]]
    return [file.read_bytes()[:3000] for file in files]


@pytest.mark.parametrize("kind", sorted(PROFILES))
@settings(max_examples=50)
@given(st.data())
def test_no_input_makes_a_profile_reader_raise_anything_but_its_own_error(kind: str, data: st.DataObject) -> None:
    content = bytearray(data.draw(st.sampled_from([b"", *content_of(kind)])))
    for _ in range(data.draw(st.integers(0, 3))):
        begin, end = (data.draw(st.integers(0, len(content))) for _ in range(2))
        token = data.draw(st.sampled_from([b"nan", b"%", b"\n", b" ", b"-9", b";", b"9" * 400]) | st.binary(max_size=8))
        content[min(begin, end) : min(max(begin, end), begin + 60)] = token
    try:
        found = PROFILES[kind](bytes(content))
    except FormatError:
        return
    assert 0 < found.total < float("inf")
    assert all(0 <= weight < float("inf") for weight in found.weights.values())
    assert movers(found, found).rows[0].change == 0


SYMBOLS = b"0 A x\nff10 T _stext\nff20 t f\nff30 T g\nff30 t again\nff40 D data\n"


def test_the_kernels_own_counts_become_the_rows_of_readprofile() -> None:
    # One tick in _stext, two and three in f, four in g, of a step of eight bytes.
    text = ticks_text(struct.pack("<7I", 8, 1, 0, 2, 3, 4, 0), SYMBOLS)
    found = PROFILES["readprofile"](text)
    assert dict(found.weights) == {"_stext": 1, "g": 4, "f": 5}
    assert (found.total, found.unlisted_below) == (10, 0)
    assert [line.split()[1] for line in text.decode().splitlines()] == ["_stext", "g", "f", "total"]
    assert float(text.split()[11]) == pytest.approx(5 / 16, abs=1e-4), "ticks a byte"


@pytest.mark.parametrize(
    ("profile", "symbols", "says"),
    [
        (b"", SYMBOLS, "has 0 bytes"),
        (struct.pack("<2I", 4, 0)[:-1], SYMBOLS, "has 7 bytes"),
        (struct.pack("<2I", 3, 0), SYMBOLS, "is 3, which is no step"),
        (struct.pack("<2I", 0, 0), SYMBOLS, "is 0, which is no step"),
        (struct.pack("<2I", 4, 1), b"", "there is no output"),
        (struct.pack("<2I", 4, 1), b"ff10 T f\n", "does not tell where _stext is"),
        (struct.pack("<2I", 4, 1), b"0 T _stext\n0 T f\n", "are addresses hidden there"),
        (struct.pack("<2I", 4, 1), b"zz T _stext\n", "not an address"),
        (struct.pack("<2I", 4, 1), b"hello\n", "not a line of /proc/kallsyms"),
    ],
)
def test_counts_that_cannot_be_told_apart_are_an_error(profile: bytes, symbols: bytes, says: str) -> None:
    with pytest.raises(FormatError) as raised:
        ticks_text(profile, symbols)
    assert says in raised.value.reason

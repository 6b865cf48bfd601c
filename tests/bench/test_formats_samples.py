"""Every importer on a sample of its format: the numbers that stand in it, with unit, direction and line."""

import re
from fnmatch import fnmatch
from pathlib import Path

import pytest
from formatdata import FILES, SAMPLES, sample

from bisector.bench.formats import plain
from bisector.bench.formats.reading import FormatError, Reading
from bisector.bench.formats.registry import FORMATS, reader
from bisector.bench.local import LocalMachine
from bisector.bench.runner import SuiteRunner
from bisector.model.errors import UsageError
from bisector.recipe.schema import BenchmarkPart


def readings(parser: str, file: str) -> dict[str, list[Reading]]:
    found: dict[str, list[Reading]] = {}
    for reading in reader(parser)(sample(file)).readings:
        found.setdefault(reading.metric, []).append(reading)
    return found


def one(parser: str, file: str, metric: str) -> tuple[float, str | None, bool | None, int]:
    [reading] = readings(parser, file)[metric]
    return reading.value, reading.unit, reading.higher_is_better, reading.line


def missing(parser: str, file: str) -> dict[str, str]:
    return {item.metric: item.reason for item in reader(parser)(sample(file)).missing}


def test_every_parser_has_a_sample_and_every_sample_says_how_it_was_made() -> None:
    assert set(FORMATS) - set(FILES) == {"json-lines", "suite"}
    told = [word.strip(",;:()").removesuffix(".") for word in (SAMPLES / "made.txt").read_text().split()]
    for path in SAMPLES.iterdir():
        assert path.name == "made.txt" or any(fnmatch(path.name, word) for word in told), path.name


@pytest.mark.parametrize(("parser", "file"), [(parser, file) for parser, files in FILES.items() for file in files])
def test_every_number_stands_on_the_line_that_its_reading_names(parser: str, file: str) -> None:
    lines = sample(file).decode().split("\n")
    found = reader(parser)(sample(file)).readings
    assert found
    for reading in found:
        numbers = re.findall(r"\d+\.?\d*(?:[eE][+-]?\d+)?", lines[reading.line - 1])
        # A time in minutes is the one number that is not printed as it is read.
        minutes = reading.unit == "s" and re.search(r"\d(:|m ?)\d", lines[reading.line - 1])
        assert minutes or reading.value in map(float, numbers), (reading, lines[reading.line - 1])


@pytest.mark.parametrize(
    ("parser", "file", "metric", "value", "unit", "higher", "line"),
    [
        ("aim9", "aim9.txt", "page_test", 192751.67, "ops/s", True, 12),
        ("aim9", "aim9.txt", "page_test loops", 113.38333, "loops/s", True, 12),
        ("aim9", "aim9.txt", "creat-clo", 152474.59, "ops/s", True, 11),
        ("aim9-ss", "suite9.ss", "page_test", 192751, "ops/s", True, 7),
        ("aim9-log", "logfile.suite9", "creat-clo loops", 152.475, "loops/s", True, 1),
        ("mmtests", "mmtests.tsv", "latency-read-4k", 12.5, None, None, 3),
        ("mmtests", "mmtests.tsv", "aim9 elapsed", 613.03, "s", False, 4),
        ("mmtests-table", "mmtests-table.txt", "Hmean page_test B-test", 37895.08, None, None, 4),
        ("mmtests-table", "mmtests-table.txt", "Duration Elapsed A-base", 613.03, "s", False, 11),
        ("lkp-stats", "lkp-stats.json", "aim9.page_test.ops_per_sec", 336518.33, None, None, 2),
        ("perf-stat", "perf-stat.csv", "task-clock", 0.59, "msec", False, 1),
        ("perf-stat", "perf-stat-r3.csv", "page-faults", 47, "events", None, 2),
        ("perf-stat", "perf-stat-o.csv", "page-faults", 50, "events", None, 4),
        ("perf-stat", "perf-stat-percpu.csv", "page-faults [CPU1]", 1020, "events", None, 4),
        ("perf-stat", "perf-stat-persocket.csv", "cpu-clock [S0]", 208.46, "msec", False, 1),
        ("perf-stat", "perf-stat-hybrid.csv", "cpu_core/instructions/", 95123456, "events", None, 4),
        ("perf-stat", "perf-stat-hybrid.csv", "cpu/event=0x3c,umask=0x1/k", 8200145, "events", None, 5),
        ("perf-stat-json", "perf-stat-r3.json", "page-faults", 49, "events", None, 4),
        ("perf-stat-json", "perf-stat-persocket.json", "cpu-clock [S0]", 212.271627, "msec", False, 1),
        ("perf-bench", "perf-bench.txt", "syscall/basic usecs/op", 1.6459, "usecs/op", False, 5),
        ("perf-bench", "perf-bench.txt", "syscall/basic ops/sec", 607570, "ops/sec", True, 6),
        ("perf-bench", "perf-bench-simple.txt", "total time", 0.001, "s", False, 1),
        ("time", "gnu-time-v.txt", "elapsed", 0.1, "s", False, 5),
        ("time", "gnu-time-v.txt", "minor_faults", 81, "events", None, 13),
        ("time", "gnu-time.txt", "elapsed", 0.05, "s", False, 1),
        ("time", "busybox-time.txt", "elapsed", 7.89, "s", False, 1),
        ("time", "posix-time.txt", "elapsed", 0.05, "s", False, 1),
        ("hackbench", "hackbench.txt", "Time", 0.068, "s", False, 3),
        ("stress-ng", "stress-ng.txt", "fault bogo-ops-per-second-real-time", 1690.72, "bogo ops/s", True, 6),
        ("stress-ng", "stress-ng.txt", "fault nanosecs-per-page-fault", 4458.91, "ns", False, 12),
        ("stress-ng-yaml", "stress-ng.yaml", "fault nanosecs-per-page-fault", 4458.912501, "ns", False, 50),
        ("will-it-scale", "will-it-scale.csv", "threads 4", 1526831, "ops/s", True, 6),
        ("will-it-scale", "will-it-scale.txt", "average", 311702, "ops/s", True, 8),
        ("lmbench", "lmbench.txt", "Process fork+/bin/sh -c", 920010.2, "microseconds", False, 10),
        ("lmbench", "lmbench.txt", "Pipe bandwidth", 127.244, "MB/sec", True, 15),
        ("sysbench", "sysbench-threads.txt", "latency avg", 1.72, "ms", False, 19),
        ("sysbench", "sysbench-memory.txt", "transferred", 2227.24, "MiB/s", True, 20),
        ("sysbench", "sysbench-cpu.txt", "events", 1978.81, "events/s", True, None),
        ("sysbench", "sysbench-fileio.txt", "reads/s", 475989.49, "ops/s", True, None),
        ("phoronix", "phoronix.xml", "pts/hackbench-1.0.0 Count: 1 - Type: Process", 9.12, "Seconds", False, 23),
        ("key-value", "phases.txt", "kernel", None, None, None, None),
    ],
)  # fmt: skip
def test_a_reading_has_value_unit_direction_and_line(
    parser: str, file: str, metric: str, value: float | None, unit: str | None, higher: bool | None, line: int | None
) -> None:
    if value is None:
        assert metric in missing(parser, file)
        return
    found = one(parser, file, metric)
    assert found[:3] == (value, unit, higher)
    assert line is None or found[3] == line


def test_both_outputs_of_stress_ng_call_a_metric_the_same() -> None:
    console = readings("stress-ng", "stress-ng.txt")
    file = readings("stress-ng-yaml", "stress-ng.yaml")
    assert set(console) <= set(file)
    for metric, [reading] in console.items():
        assert reading.value == pytest.approx(file[metric][0].value, abs=0.006)


def test_repetitions_are_separate_readings_and_aggregates_none() -> None:
    assert [reading.value for reading in readings("hyperfine", "hyperfine.json")["sleep 0.02"]] == [
        0.022913775, 0.034250789000000004, 0.021092353, 0.021623845000000003, 0.027355045,
    ]  # fmt: skip
    assert len(readings("pyperf", "pyperf.json")["getppid"]) == 6
    google = readings("google-benchmark", "google-benchmark.json")
    assert sorted(google) == ["getppid_loop cpu_time", "getppid_loop items_per_second", "getppid_loop real_time"]
    assert all(len(found) == 3 for found in google.values())
    phoronix = readings("phoronix", "phoronix.xml")["pts/osbench-1.0.2 Test: Create Processes @ 6.1"]
    assert [reading.value for reading in phoronix] == [25.3, 25.0, 25.0]


def test_a_note_before_the_brace_moves_the_lines_of_fio() -> None:
    text = sample("fio-note.json").decode()
    assert text.startswith("note:")
    value, _, _, line = one("fio", "fio-note.json", "r read bw")
    assert f'"bw" : {value:.0f}' in text.split("\n")[line - 1]
    assert "r write bw" in readings("fio", "fio-note.json")
    assert "r write bw" not in readings("fio", "fio.json")


def test_what_was_not_counted_is_missing_and_never_zero() -> None:
    for file in ("perf-stat.csv", "perf-stat-r3.csv"):
        assert missing("perf-stat", file) == {"cycles": "perf says <not supported>"}
    assert missing("perf-stat-json", "perf-stat.json") == {"cycles": "perf says <not supported>"}
    assert missing("perf-stat", "perf-stat-hybrid.csv") == {"cpu_atom/cycles/": "perf says <not counted>"}
    assert missing("will-it-scale", "will-it-scale.csv") == {"processes 4": "processes were not run (0)"}
    assert set(missing("lkp-matrix", "lkp-matrix.json")) == {"aim9.time.elapsed_time", "kmsg.timestamp:last"}
    assert "nan" in missing("key-value", "phases.txt")["broken"]


def test_a_multiplexed_counter_says_for_how_long_it_was_counted() -> None:
    found = readings("perf-stat", "perf-stat-hybrid.csv")
    assert found["cpu_core/cycles/"][0].counted_percent == 70.0
    assert found["cpu_core/instructions/"][0].counted_percent == 100.0


def test_memcpy_by_each_of_its_functions_is_a_metric_of_its_own() -> None:
    rates = {name: found[0] for name, found in readings("perf-bench", "perf-bench.txt").items() if "GB/sec" in name}
    assert set(rates) == {
        f"mem/memcpy {f} GB/sec" for f in ("default", "x86-64-unrolled", "x86-64-movsq", "x86-64-movsb")
    }
    assert all(reading.higher_is_better for reading in rates.values())


def test_the_table_of_2011_is_read_without_its_percentages() -> None:
    table = (Path(__file__).parent.parent / "data" / "aim9_2.6.txt").read_bytes()
    found = {reading.metric: reading for reading in reader("mmtests-table")(table).readings}
    assert len(found) == 5 * 7 + 7
    assert found["page_test vmr-aim9-2.6.38-vanilla"].value == 38.10
    assert found["page_test aim9-2.6.39-rc3-noway"].value == 44.25
    assert found["Total Elapsed Time (seconds) vmr-aim9-2.6.32-vanilla"].value == 613.03


def test_a_pattern_finds_what_no_parser_knows() -> None:
    read = reader("regex", regex=r"(?P<metric>\w+) took (?P<value>\S+) (?P<unit>m?s)")
    output = read(b"warming up\npush took 27.7 s, pop took 19.9 s\npush took never ms\n")
    assert [(r.metric, r.value, r.unit, r.line) for r in output.readings] == [
        ("push", 27.7, "s", 2),
        ("pop", 19.9, "s", 2),
    ]
    assert [(m.metric, m.line) for m in output.missing] == [("push", 3)]
    with pytest.raises(FormatError, match="no line matches"):
        read(b"nothing\n")


@pytest.mark.parametrize(
    ("pattern", "says"),
    [
        ("(", "not a regular expression"),
        ("(?P<v>.)", "must have a named group"),
        ("(?P<value>.)(?P<x>.)", "unknown groups x"),
    ],
)
def test_a_pattern_without_use_is_refused_before_anything_runs(pattern: str, says: str) -> None:
    with pytest.raises(UsageError, match=says) as raised:
        reader("regex", regex=pattern)
    assert "(?P<value>" in raised.value.resolution


def test_a_mistyped_parser_is_answered_with_the_nearest() -> None:
    with pytest.raises(UsageError, match="there is no parser perfstat") as raised:
        reader("perfstat")
    assert raised.value.resolution == "Did you mean perf-stat?"


def test_the_json_lines_of_a_script_may_bring_unit_and_direction() -> None:
    output = plain.read_json_lines(
        b'{"metric": "a", "value": 3, "unit": "s", "better": "lower"}\n\n{"metric":"b","value":2}\n'
    )
    assert [(r.metric, r.value, r.unit, r.higher_is_better, r.line) for r in output.readings] == [
        ("a", 3.0, "s", False, 1),
        ("b", 2.0, None, None, 3),
    ]


def test_our_own_suite_reads_as_it_measures(suite: Path, tmp_path: Path) -> None:
    with LocalMachine() as machine:
        runner = SuiteRunner(BenchmarkPart(test="page_test", also=("brk_test",), cpu=None), suite)
        runner.install(machine)
        record = runner.run(machine, (("page_test", 1700), ("brk_test", 17000)), tmp_path / "log")
    printed = b"".join(line for line in (tmp_path / "log").read_bytes().splitlines(keepends=True) if line[:1] != b"#")
    output = reader("suite")(printed)
    assert [(r.metric, r.value) for r in output.readings] == [(s.test, pytest.approx(s.value)) for s in record.samples]
    with pytest.raises(FormatError, match="the end line is missing"):
        reader("suite")(printed[: printed.rindex(b"\n", 0, -1) + 1])


@pytest.mark.parametrize(
    ("printed", "seconds"),
    [
        ("real\t1m30.500s", 90.5),
        ("real\t2m 03.25s", 123.25),
        ("real\t1h 2m 03s", 3723.0),
        ("real 0.07", 0.07),
        ("0.00user 0.01system 1:02:03elapsed 99%CPU (0avgtext+0avgdata 1k)k", 3723.0),
    ],
)
def test_a_time_is_read_in_every_shells_way_of_writing_it(printed: str, seconds: float) -> None:
    found = {reading.metric: reading.value for reading in reader("time")(f"{printed}\n".encode()).readings}
    assert found["elapsed"] == seconds

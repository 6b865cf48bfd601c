"""Broken outputs: each is a clear error with its line, or says of the metric asked for why it does not count."""

import pytest
from formatdata import FILES, sample
from hypothesis import given, settings
from hypothesis import strategies as st

from bisector.bench.formats.reading import FormatError
from bisector.bench.formats.registry import FORMATS, measure, reader
from bisector.recipe.command import Metric

ALL = [(parser, file) for parser, files in FILES.items() for file in files]


def refusal(parser: str, data: bytes) -> FormatError:
    with pytest.raises(FormatError) as raised:
        reader(parser)(data)
    return raised.value


@pytest.mark.parametrize("parser", sorted(FORMATS))
def test_no_output_is_an_error(parser: str) -> None:
    for nothing in (b"", b"\n", b" \n\n"):
        assert refusal(parser, nothing).reason == "there is no output"


@pytest.mark.parametrize("parser", sorted(FORMATS))
def test_output_without_any_result_is_an_error(parser: str) -> None:
    refusal(parser, b"Segmentation fault\n")


@pytest.mark.parametrize(("parser", "file"), ALL)
def test_output_cut_off_within_its_last_line_is_an_error(parser: str, file: str) -> None:
    error = refusal(parser, sample(file).rstrip()[:-1])
    assert error.line >= 1


@pytest.mark.parametrize(
    ("parser", "file"),
    [pair for pair in ALL if pair[1].endswith((".json", ".yaml", ".xml")) and not pair[0].startswith("perf-stat")]
    + [("aim9", "aim9.txt"), ("stress-ng", "stress-ng.txt"), ("time", "gnu-time-v.txt")]
    + [("sysbench", "sysbench-cpu.txt")],
)  # fmt: skip
def test_output_that_ends_with_a_whole_line_too_early_is_an_error(parser: str, file: str) -> None:
    lines = sample(file).splitlines(keepends=True)
    if len(lines) > 1:
        refusal(parser, b"".join(lines[: len(lines) * 2 // 3]))


@pytest.mark.parametrize(
    ("parser", "file", "line", "says"),
    [
        ("perf-stat", "perf-stat-de.csv", 1, "LC_ALL=C"),
        ("perf-stat", "perf-stat-de-semicolon.csv", 1, "LC_ALL=C"),
        ("perf-stat", "perf-stat-interval.csv", 1, "each interval"),
        ("perf-stat-json", "perf-stat-de.json", 1, "LC_ALL=C"),
        ("time", "bash-time-de.txt", 2, "LC_ALL=C"),
        ("time", "gnu-time-v-failed.txt", 1, "the command failed: Command exited with non-zero status 1"),
    ],
)
def test_a_foreign_locale_or_a_failed_command_is_named(parser: str, file: str, line: int, says: str) -> None:
    error = refusal(parser, sample(file))
    assert (error.line, says in error.reason) == (line, True), error


@pytest.mark.parametrize(
    ("parser", "file", "old", "new", "says"),
    [
        ("aim9", "aim9.txt", "6803", "8603", "page_test: 8603 calls in 60 s are not 113.383 loops/s"),
        ("aim9", "aim9.txt", "192751.67", "nan", "must be a number, got 'nan'"),
        ("aim9", "aim9.txt", "113.38333", "113,38333", "LC_ALL=C"),
        ("aim9-ss", "suite9.ss", "192751", "1e999", "beyond any number"),
        ("mmtests", "mmtests.tsv", "43029.00", "inf", "must be a number, got 'inf'"),
        ("mmtests", "mmtests.tsv", "\t_\t_\t1", "  1", "not 6 fields with tabs between"),
        ("mmtests-table", "mmtests-table.txt", "          37801.00 ( -12.15%)", "", "1 values for 2 kernels"),
        ("lkp-stats", "lkp-stats.json", "336518.33", "NaN", "'NaN' is no JSON value"),
        ("lkp-stats", "lkp-stats.json", "336518.33", "336518,33", "LC_ALL=C"),
        ("lkp-matrix", "lkp-matrix.json", "335987.0", "Infinity", "'Infinity' is no JSON value"),
        ("perf-stat", "perf-stat.csv", "0.59", "", "task-clock is missing"),
        ("perf-stat", "perf-stat.csv", ",587685,100.00", "", "no running time and percentage"),
        ("perf-bench", "perf-bench.txt", "1.645900", "-nan", "must be a number, got '-nan'"),
        ("perf-bench", "perf-bench.txt", "0.016 [sec]", "0.016", "not a result of perf bench"),
        ("time", "gnu-time-v.txt", "0:00.10", "0:00,10", "LC_ALL=C"),
        ("time", "gnu-time-v.txt", "Exit status: 0", "Exit status: 3", "the command failed"),
        ("hackbench", "hackbench.txt", "0.068", "0,068", "LC_ALL=C"),
        ("hackbench", "hackbench.txt", "0.068", "", "Time is missing"),
        ("stress-ng", "stress-ng.txt", "successful run", "unsuccessful run", "stress-ng failed"),
        ("stress-ng-yaml", "stress-ng.yaml", "1690.715672", "1690,715672", "LC_ALL=C"),
        ("will-it-scale", "will-it-scale.csv", "1006964,87.47", "1006964", "a row must have 6 columns, got 5"),
        ("will-it-scale", "will-it-scale.csv", "1006964", "oops", "must be a number, got 'oops'"),
        ("lmbench", "lmbench.txt", "425.2565 microseconds", "425.2565", "no number and unit behind the label"),
        ("lmbench", "lmbench.txt", "425.2565", "425,2565", "LC_ALL=C"),
        ("sysbench", "sysbench-threads.txt", "1.0012s", "1.0012", "the unit is missing"),
        ("sysbench", "sysbench-threads.txt", "1.72", "1,72", "LC_ALL=C"),
        ("fio", "fio.json", '"error" : 0', '"error" : 5', "job r ended with error 5"),
        ("hyperfine", "hyperfine.json", "        0,", "        1,", "sleep 0.02 ended with exit code 1"),
        ("pyperf", "pyperf.json", '"unit":"second"', '"unit":"parsec"', "the unit of getppid is 'parsec'"),
        ("google-benchmark", "google-benchmark.json", '"time_unit": "ns"', '"time_unit": ""', "time unit of getppid"),
        ("google-benchmark", "google-benchmark.json", '"threads": 1,', '"error_occurred": true,', "getppid_loop fail"),
        ("phoronix", "phoronix.xml", "LIB", "BIGGER", "Proportion must be HIB or LIB, got 'BIGGER'"),
        ("phoronix", "phoronix.xml", "<PhoronixTestSuite>", "<!DOCTYPE x [<!ENTITY a 'b'>]><x>", "DOCTYPE"),
    ],
)  # fmt: skip
def test_damage_is_an_error_on_its_line(parser: str, file: str, old: str, new: str, says: str) -> None:
    text = sample(file).decode()
    assert old in text
    line = text[: text.index(old)].count("\n") + 1
    error = refusal(parser, text.replace(old, new, 1).encode())
    assert says in error.reason
    assert error.line == line, error


def wanted(name: str, better: str = "lower", unit: str = "s", **changes: object) -> Metric:
    return Metric.model_validate({"name": name, "better": better, "unit": unit, **changes})


@pytest.mark.parametrize(
    ("data", "metric", "line", "says"),
    [
        ("a: 1 s\nb: 0 s\n", wanted("b"), 2, "b is 0: a measurement must be more than zero"),
        ("a: 1 s\nb: -3 s\n", wanted("b"), 2, "b is -3"),
        ("b: nan s\n", wanted("b"), 1, "b was not measured: b must be a number, got 'nan'"),
        ("b: inf s\n", wanted("b"), 1, "b was not measured: b must be a number, got 'inf'"),
        ("b: 1,5 s\n", wanted("b"), 1, "LC_ALL=C"),
        ("b: 1 ms\n", wanted("b"), 1, "b is in ms, but the recipe says s"),
        ("pash: 1 s\n", wanted("push"), 1, "there is no push in the output; did you mean pash?"),
        ("x: 1\n", wanted("push"), 1, "there is no push in the output; it holds x"),
        ("b: 1 s\nb: lost\n", wanted("b"), 2, "b was not measured"),
    ],
)
def test_a_metric_that_does_not_count_says_why(data: str, metric: Metric, line: int, says: str) -> None:
    with pytest.raises(FormatError) as raised:
        measure(reader("key-value")(data.encode()), [metric])
    assert says in raised.value.reason
    assert raised.value.line == line


def test_what_the_parser_knows_and_what_the_recipe_says_must_agree() -> None:
    output = reader("hackbench")(sample("hackbench.txt"))
    with pytest.raises(FormatError, match="Time is better lower, but the recipe says higher"):
        measure(output, [wanted("Time", "higher")])
    with pytest.raises(FormatError, match="Time is in s, but the recipe says ms"):
        measure(output, [wanted("Time", unit="ms")])


def test_an_extrapolated_counter_is_no_measurement() -> None:
    output = reader("perf-stat")(sample("perf-stat-hybrid.csv"))
    with pytest.raises(FormatError, match="line 2: cpu_core/cycles/ was counted 70 % of the time"):
        measure(output, [wanted("cpu_core/cycles/", unit="events")])
    with pytest.raises(FormatError, match="line 3: cpu_atom/cycles/ was not measured: perf says <not counted>"):
        measure(output, [wanted("cycles", unit="events", sum=("cpu_core/instructions/", "cpu_atom/cycles/"))])


def test_phases_are_summed_and_repetitions_give_their_median() -> None:
    output = reader("key-value")(sample("phases.txt"))
    both, push = measure(output, [wanted("both", sum=("push", "pop")), wanted("push")])
    assert both.value == pytest.approx((27.768 + 26.913) / 2 + (19.926 + 19.290) / 2)
    assert (both.metric, both.unit, both.higher_is_better, both.lines) == ("both", "s", False, (2, 4, 3, 5))
    assert push.value == pytest.approx((27.768 + 26.913) / 2)


TOKENS = ["nan", "inf", "-", ",", ".", "0", "1e999", "9" * 400, "\n", "\t", " ", "{", "}", "[", "]", '"', ":", "%", "é"]
TOKENS += [
    "<a>",
    "</a>",
    "&x;",
    "&a *a",
    "<not counted>",
    "\x00",
    "\u2028",
    "²",
    "٣",
    "--- ",
    "!!python/object:x",
    "# ",
]


@pytest.mark.parametrize("parser", sorted(FORMATS))
@settings(max_examples=40)
@given(st.data())
def test_no_input_makes_an_importer_raise_anything_but_its_own_error(parser: str, data: st.DataObject) -> None:
    start = data.draw(st.sampled_from([b"", *(sample(file)[:6000] for file in FILES.get(parser, ()))]))
    content = bytearray(start)
    for _ in range(data.draw(st.integers(0, 3))):
        begin, end = (data.draw(st.integers(0, len(content))) for _ in range(2))
        token = data.draw(st.sampled_from(TOKENS).map(str.encode) | st.binary(max_size=8))
        content[min(begin, end) : min(max(begin, end), begin + 40)] = token
    try:
        output = reader(parser)(bytes(content))
    except FormatError as error:
        seen = [error.line]
    else:
        seen = [reading.line for reading in output.readings] + [item.line for item in output.missing]
        assert all(abs(reading.value) < float("inf") for reading in output.readings)
    assert all(1 <= line <= content.count(b"\n") + 1 for line in seen)


@pytest.mark.parametrize("parser", ["fio", "lkp-stats", "stress-ng-yaml", "phoronix", "hyperfine"])
def test_deep_nesting_is_an_error_not_a_crash(parser: str) -> None:
    for text in ("[" * 100_000, '{"a":' * 100_000, "<a>" * 100_000, "metrics: " + "[" * 5000 + "]" * 5000 + "\n...\n"):
        refusal(parser, text.encode())


@settings(max_examples=100)
@given(st.floats(min_value=1e-300, max_value=1e300))
def test_every_positive_number_comes_back_as_it_was_printed(value: float) -> None:
    [measured] = measure(reader("key-value")(f"a: {value!r} s\n".encode()), [wanted("a")])
    assert measured.value == value

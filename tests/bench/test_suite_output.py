"""The reader of the suite's lines: a whole run, or an error with its line."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bisector.bench.parse import SuiteOutputError, failure_reason, parse_calibrations, parse_samples
from bisector.bench.tests import Test
from bisector.model.sample import Sample

ENV = (
    '{"v":1,"type":"env","suite":"1","digest":"d1","compiler":"12.2.0","tag":"t1","release":"6.1.0-bisector-0123456789ab",'
    '"version":"#1","arch":"x86_64","boot_id":"05048ec7-e225-49e5-b276-5bc102066911","clocksource":"tsc","thp":null,'
    '"thp_disabled":true,"aslr":"2","cpus":1,"cpu":0,"clock":"CLOCK_MONOTONIC_RAW","clock_step_ns":4,"clock_read_ns":280}'
)
PAGE = (
    '{"v":1,"type":"sample","test":"page_test","sample":0,"ops":10200,"warmup_ops":1700,"wall_ns":338605202,'
    '"user_ns":3981000,"sys_ns":333648000,"minflt":9600,"majflt":0,"nvcsw":0,"nivcsw":84,"cpu_start":0,"cpu_end":0,'
    '"checks":{"ok":true,"faults_per_op":0.9412}}'
)
FORK = (
    '{"v":1,"type":"sample","test":"fork_test","sample":0,"ops":300,"warmup_ops":30,"wall_ns":186110865,'
    '"user_ns":69257000,"sys_ns":114514000,"minflt":2701,"majflt":0,"nvcsw":600,"nivcsw":27,"cpu_start":0,"cpu_end":0,'
    '"checks":{"ok":true,"faults_per_op":9.0033}}'
)
END = '{"v":1,"type":"end","samples":2,"ok":true}'
LINES = (ENV, PAGE, FORK, END)


def _test(name: str, *, higher_is_better: bool = True) -> Test:
    return Test(
        name=name,
        unit="ops/s",
        higher_is_better=higher_is_better,
        aim=name,
        aim_units="",
        aim_factor=1,
        op="",
        grain=1,
        faults_per_op=None,
    )


KNOWN = (_test("page_test"), _test("fork_test"))


def _output(*lines: str) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode()


def _with(line: str, **changes: Any) -> str:
    return json.dumps(json.loads(line) | changes)


def test_a_whole_run_gives_its_environment_and_its_samples_in_order() -> None:
    env, samples = parse_samples(_output(*LINES), KNOWN)
    assert env["release"] == "6.1.0-bisector-0123456789ab"
    assert env["clock_read_ns"] == 280
    page, fork = samples
    assert (page.test, page.unit, page.higher_is_better) == ("page_test", "ops/s", True)
    assert page.value == pytest.approx(10200 / 0.338605202)
    assert (page.ops, page.wall_ns, page.user_ns, page.sys_ns) == (10200, 338605202, 3981000, 333648000)
    assert (page.minor_faults, page.cpu) == (9600, 0)
    assert fork.test == "fork_test"


def test_the_direction_is_the_tables_and_not_guessed() -> None:
    known = (_test("page_test", higher_is_better=False), _test("fork_test"))
    page, fork = parse_samples(_output(*LINES), known)[1]
    assert (page.higher_is_better, fork.higher_is_better) == (False, True)


@given(st.integers(0, len(_output(*LINES)) - 1))
def test_output_cut_off_anywhere_is_refused_and_never_a_shorter_result(length: int) -> None:
    with pytest.raises(SuiteOutputError):
        parse_samples(_output(*LINES)[:length], KNOWN)


@given(st.permutations([0, 1, 2, 3]).filter(lambda order: order[0] != 0 or order[3] != 3))
def test_lines_in_another_order_are_refused(order: list[int]) -> None:
    with pytest.raises(SuiteOutputError):
        parse_samples(_output(*(LINES[index] for index in order)), KNOWN)


@given(st.sets(st.sampled_from(range(4)), max_size=3))
def test_a_run_that_lost_lines_is_refused(kept: set[int]) -> None:
    with pytest.raises(SuiteOutputError):
        parse_samples(_output(*(LINES[index] for index in sorted(kept))), KNOWN)


@given(st.integers(0, 3), st.integers(0, 4))
def test_a_line_that_stands_twice_is_refused(doubled: int, at: int) -> None:
    lines = [*LINES[:at], LINES[doubled], *LINES[at:]]
    for end in (END, _with(END, samples=3)):
        with pytest.raises(SuiteOutputError):
            parse_samples(_output(*(end if line == END else line for line in lines)), KNOWN)


@given(st.binary(max_size=60), st.integers(0, 4))
def test_foreign_bytes_between_the_lines_are_refused(noise: bytes, at: int) -> None:
    output = b"".join(
        [*(f"{line}\n".encode() for line in LINES[:at]), noise + b"\n", *(f"{line}\n".encode() for line in LINES[at:])]
    )
    with pytest.raises(SuiteOutputError):
        parse_samples(output, KNOWN)


NO_DURATIONS = ["NaN", "Infinity", "-Infinity", "1e309", "0", "-1", "1.5", '"338605202"', "null", "true", "1,5", "0x10"]


@pytest.mark.parametrize("number", [*NO_DURATIONS, "1.234.567", "980ns", "1 234", ""])
def test_a_duration_that_is_no_positive_whole_number_is_refused_with_its_line(number: str) -> None:
    broken = PAGE.replace("338605202", number)
    with pytest.raises(SuiteOutputError) as caught:
        parse_samples(_output(ENV, broken, FORK, END), KNOWN)
    assert caught.value.line == 2
    assert str(caught.value).startswith("line 2: ")


@pytest.mark.parametrize("faults", ["NaN", "1e999", "-0.5", '"0.9"'])
def test_a_fault_count_that_is_no_number_is_refused(faults: str) -> None:
    with pytest.raises(SuiteOutputError):
        parse_samples(_output(ENV, PAGE.replace("0.9412", faults), FORK, END), KNOWN)


@pytest.mark.parametrize(
    ("lines", "line", "reason"),
    [
        ((), 1, "there is no output"),
        ((PAGE, FORK, END), 1, "expected"),
        ((ENV, PAGE, FORK), 4, "the end line is missing"),
        ((ENV, PAGE, END), 3, "1 lines, but the end counts 2 samples"),
        ((ENV, _with(END, samples=0)), 2, "0 lines"),
        ((ENV, PAGE, FORK, _with(END, ok=False)), 4, "ok"),
        ((ENV, PAGE, FORK, '{"v":1,"type":"end","calibrations":2,"ok":true}'), 4, "counts None samples"),
        ((ENV, _with(PAGE, test="page_tests"), FORK, END), 2, 'unknown test "page_tests"'),
        ((ENV, PAGE, PAGE, END), 3, "stands twice"),
        ((ENV, PAGE.replace('"ok":true', '"ok":false'), FORK, END), 2, "a check of page_test failed"),
        ((ENV, PAGE.replace('"ops":10200', '"ops":10200,"ops":20400'), FORK, END), 2, "twice in one object"),
        ((ENV, _with(PAGE, surprise=1), FORK, END), 2, "surprise"),
        ((ENV, _with(PAGE, v=2), FORK, END), 2, "v"),
        ((ENV, _with(PAGE, type="banana"), FORK, END), 2, "banana"),
        ((ENV, "[1, 2]", FORK, END), 2, "not a JSON object"),
        ((ENV, "[" * 100_000, FORK, END), 2, "not JSON"),
        ((ENV, "", PAGE, FORK, END), 2, "not JSON"),
        ((ENV, '{"v":1,"type":"calibration","test":"page_test","ops":1,"sample_ms":1}', FORK, END), 2, "calibration"),
        ((_with(ENV, boot_id=7), PAGE, FORK, END), 1, "boot_id"),
    ],
)
def test_every_kind_of_broken_output_is_named(lines: tuple[str, ...], line: int, reason: str) -> None:
    with pytest.raises(SuiteOutputError) as caught:
        parse_samples(_output(*lines), KNOWN)
    assert (caught.value.line, reason in caught.value.reason) == (line, True), caught.value


def test_two_samples_of_one_test_are_two_when_they_are_numbered() -> None:
    _, samples = parse_samples(_output(ENV, PAGE, _with(PAGE, sample=1), END), KNOWN)
    assert [sample.test for sample in samples] == ["page_test", "page_test"]


CALIBRATION = '{"v":1,"type":"calibration","test":"page_test","ops":11900,"sample_ms":400}'
CALIBRATED = (
    ENV,
    CALIBRATION,
    _with(CALIBRATION, test="fork_test", ops=647),
    '{"v":1,"type":"end","calibrations":2,"ok":true}',
)


def test_calibrations_are_read_in_order() -> None:
    assert parse_calibrations(_output(*CALIBRATED))[1] == (("page_test", 11900), ("fork_test", 647))


@given(st.integers(0, len(_output(*CALIBRATED)) - 1))
def test_a_calibration_cut_off_anywhere_is_refused(length: int) -> None:
    with pytest.raises(SuiteOutputError):
        parse_calibrations(_output(*CALIBRATED)[:length])


def test_a_test_calibrated_twice_is_refused() -> None:
    with pytest.raises(SuiteOutputError, match="page_test is calibrated twice"):
        parse_calibrations(_output(ENV, CALIBRATION, CALIBRATION, CALIBRATED[-1]))


def test_the_suites_own_reason_is_found_among_anything() -> None:
    failure = '{"v":1,"type":"error","exit":3,"test":"page_test","reason":"0.0000 minor faults"}'
    assert failure_reason(_output(ENV, PAGE, failure)) == "page_test: 0.0000 minor faults"
    assert failure_reason(b"\xff\xfe\n" + _output(failure, "{")) == "page_test: 0.0000 minor faults"
    assert failure_reason(_output(*LINES)) is None
    assert failure_reason(b"") is None


COUNTED = _with(
    PAGE,
    counters={"page-faults": {"value": 9600, "enabled_ns": 7, "running_ns": 7}},
    missing_counters={"cycles:k": "not supported"},
)
ASKED = ("page-faults", "cycles:k")


def _parse(line: str, asked: tuple[str, ...] | None = ASKED) -> Sample:
    return parse_samples(_output(ENV, line, _with(END, samples=1)), KNOWN, None, asked)[1][0]


def test_counters_are_kept_by_operation_and_missing_ones_with_the_reason() -> None:
    sample = _parse(COUNTED)
    assert sample.per_op("page-faults") == pytest.approx(9600 / 10200)
    assert sample.per_op("cycles:k") is None
    assert [(missing.name, missing.reason) for missing in sample.missing_counters] == [("cycles:k", "not supported")]


def test_a_zero_that_was_counted_is_a_zero() -> None:
    counters = {"page-faults": {"value": 0, "enabled_ns": 7, "running_ns": 7}}
    assert _parse(_with(COUNTED, counters=counters)).per_op("page-faults") == 0


def test_samples_without_counters_have_none() -> None:
    assert (_parse(PAGE, ()).counters, _parse(PAGE, None).missing_counters) == ((), ())


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"counters": {"page-faults": {"value": 9600, "enabled_ns": 8, "running_ns": 7}}}, "for 7 of 8 ns"),
        ({"counters": {"page-faults": {"value": 0, "enabled_ns": 7, "running_ns": 0}}}, "running_ns"),
        ({"counters": {"page-faults": {"value": -1, "enabled_ns": 7, "running_ns": 7}}}, "value"),
        ({"counters": {"page-faults": 9600}}, "counters"),
        ({"counters": {}}, "tells of the counters cycles:k; asked for page-faults, cycles:k"),
        ({"missing_counters": {"page-faults": "?"}}, "both counted and missing"),
        ({"missing_counters": {}}, "tells of the counters page-faults; asked for"),
    ],
)
def test_a_counter_that_does_not_count_is_an_error_and_no_zero(changes: dict[str, Any], reason: str) -> None:
    with pytest.raises(SuiteOutputError) as caught:
        _parse(_with(COUNTED, **changes))
    assert (caught.value.line, reason in caught.value.reason) == (2, True), caught.value

"""The suite's JSON lines, read without mercy: a line that is not exactly as expected is an error, never skipped.

An "env" line first, then lines of one kind, an "end" line that counts them last. Output without its end is
incomplete and gives nothing. Values are recomputed here from operations and nanoseconds.
"""

import json
import math
from collections.abc import Collection, Iterator, Mapping
from typing import Annotated, Any, Literal, NoReturn

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from bisector.bench.tests import Test
from bisector.model.sample import CounterValue, MissingCounter, Sample

NS_PER_S = 1_000_000_000

Count = Annotated[int, Field(ge=0)]
Positive = Annotated[int, Field(gt=0)]


class SuiteOutputError(ValueError):
    """This is not the complete output of a run that counts; `line` (from 1) is where that shows."""

    def __init__(self, reason: str, *, line: int) -> None:
        super().__init__(f"line {line}: {reason}")
        self.reason = reason
        self.line = line


class _Line(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)
    v: Literal[1]


class _Env(BaseModel):
    # The one line that may say more than we know: facts are only kept.
    model_config = ConfigDict(extra="allow", strict=True, frozen=True)
    v: Literal[1]
    type: Literal["env"]
    suite: str
    digest: str
    tag: str
    release: str
    boot_id: str | None
    clocksource: str | None
    thp_disabled: bool
    cpu: int | None


class _Checks(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)
    ok: bool
    faults_per_op: Annotated[float, Field(ge=0, allow_inf_nan=False)]


class _Counter(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)
    value: Count
    enabled_ns: Positive
    running_ns: Positive


class _Sample(_Line):
    type: Literal["sample"]
    test: str
    params: dict[str, int | str] = Field(default_factory=dict)
    sample: Count
    ops: Positive
    warmup_ops: Positive
    wall_ns: Positive
    user_ns: Count
    sys_ns: Count
    phases: dict[str, Positive] = Field(default_factory=dict)
    minflt: Count
    majflt: Count
    nvcsw: Count
    nivcsw: Count
    cpu_start: Count
    cpu_end: Count
    counters: dict[str, _Counter] = Field(default_factory=dict)
    missing_counters: dict[str, str] = Field(default_factory=dict)
    checks: _Checks


class _Calibration(_Line):
    type: Literal["calibration"]
    test: str
    ops: Positive
    sample_ms: Positive


class _Failure(_Line):
    type: Literal["error"]
    exit: int
    test: str
    reason: str


class _End(_Line):
    type: Literal["end"]
    samples: Count | None = None
    calibrations: Count | None = None
    ok: Literal[True]


_AnyLine = Annotated[_Env | _Sample | _Calibration | _Failure | _End, Field(discriminator="type")]
_LINE: TypeAdapter[_AnyLine] = TypeAdapter(_AnyLine)


def parse_samples(
    output: bytes,
    tests: Collection[Test],
    params: Mapping[str, Mapping[str, int | str]] | None = None,
    counters: Collection[str] | None = None,
) -> tuple[dict[str, Any], tuple[Sample, ...]]:
    """The environment a run tells of, and its samples in order; `tests` are the ones the suite is known to have.

    `params`, if given, are the parameters by test that its samples must tell, and `counters` those of which each must
    be counted or missing. Values are operations per second of wall time. A sample with phases is followed by one for
    each of them, under the names of `Test.metrics`: as many operations in that phase's time; CPU time, faults and
    counters are told of the whole alone.

    Raises SuiteOutputError if the output is incomplete, holds something else than one env line, samples and an end,
    an unknown test, a sample twice, one with other parameters, phases or counters, or one whose check failed.
    """
    known = {test.name: test for test in tests}
    env, body = _frame(output, counted="samples")
    samples: list[Sample] = []
    seen: set[tuple[str, int]] = set()
    for number, line in body:
        if not isinstance(line, _Sample):
            raise SuiteOutputError(f'a line of type "{line.type}" among samples', line=number)
        if line.test not in known:
            raise SuiteOutputError(f'unknown test "{line.test}"', line=number)
        if (line.test, line.sample) in seen:
            raise SuiteOutputError(f"sample {line.sample} of {line.test} stands twice", line=number)
        if not line.checks.ok:
            raise SuiteOutputError(f"a check of {line.test} failed", line=number)
        asked = (params or {}).get(line.test, line.params)
        if line.params != asked:
            raise SuiteOutputError(f"{line.test} ran with {line.params}, asked for {dict(asked)}", line=number)
        _check_counters(line, counters, number)
        seen.add((line.test, line.sample))
        test = known[line.test]
        if tuple(line.phases) != test.phases:
            raise SuiteOutputError(f"{line.test} has the phases {test.phases}, got {tuple(line.phases)}", line=number)
        if line.phases and sum(line.phases.values()) != line.wall_ns:
            raise SuiteOutputError(f"the phases of {line.test} do not add up to its time", line=number)
        samples += [_to_sample(line, test), *_phase_samples(line, test)]
    return env, tuple(samples)


def _check_counters(line: _Sample, asked: Collection[str] | None, number: int) -> None:
    for name, counter in line.counters.items():
        # It would be an estimate (value * enabled / running); the suite calls such a counter missing.
        if counter.running_ns != counter.enabled_ns:
            raise SuiteOutputError(
                f"{name} of {line.test} was counted for {counter.running_ns} of {counter.enabled_ns} ns", line=number
            )
    told = [*line.counters, *line.missing_counters]
    if len(set(told)) != len(told):
        raise SuiteOutputError(f"a counter of {line.test} is both counted and missing", line=number)
    if asked is not None and set(told) != set(asked):
        raise SuiteOutputError(
            f"{line.test} tells of the counters {', '.join(told) or 'none'}; asked for {', '.join(asked) or 'none'}",
            line=number,
        )


def parse_calibrations(output: bytes) -> tuple[dict[str, Any], tuple[tuple[str, int], ...]]:
    """The environment, and (test, operations per sample) in order. Raises SuiteOutputError as `parse_samples`."""
    env, body = _frame(output, counted="calibrations")
    batches: dict[str, int] = {}
    for number, line in body:
        if not isinstance(line, _Calibration):
            raise SuiteOutputError(f'a line of type "{line.type}" among calibrations', line=number)
        if line.test in batches:
            raise SuiteOutputError(f"{line.test} is calibrated twice", line=number)
        batches[line.test] = line.ops
    return env, tuple(batches.items())


def failure_reason(output: bytes) -> str | None:
    """What the suite's own "error" line says ("page_test: ..."), None if there is none. Never raises."""
    for text in reversed(output.splitlines()):
        try:
            line = _LINE.validate_python(_object(text, number=0))
        except (ValidationError, SuiteOutputError):
            continue
        if isinstance(line, _Failure):
            return f"{line.test}: {line.reason}" if line.test else line.reason
    return None


def _frame(
    output: bytes, *, counted: Literal["samples", "calibrations"]
) -> tuple[dict[str, Any], list[tuple[int, Any]]]:
    lines = list(_lines(output))
    if not lines:
        raise SuiteOutputError("there is no output", line=1)
    _, first = lines[0]
    if not isinstance(first, _Env):
        raise SuiteOutputError(f'the first line is of type "{first.type}", expected "env"', line=1)
    last_number, last = lines[-1]
    if not isinstance(last, _End):
        raise SuiteOutputError("incomplete: the end line is missing", line=last_number + 1)
    body = lines[1:-1]
    if getattr(last, counted) != len(body) or len(body) == 0:
        raise SuiteOutputError(
            f"{len(body)} lines, but the end counts {getattr(last, counted)} {counted}", line=last_number
        )
    return first.model_dump(), body


def _lines(output: bytes) -> Iterator[tuple[int, Any]]:
    texts = output.split(b"\n")
    if texts[-1]:
        raise SuiteOutputError("incomplete: cut off in the middle of a line", line=len(texts))
    for number, text in enumerate(texts[:-1], start=1):
        try:
            yield number, _LINE.validate_python(_object(text, number=number))
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            place = ".".join(str(part) for part in first["loc"])
            raise SuiteOutputError(f"{place}: {first['msg']}", line=number) from None


def _object(text: bytes, *, number: int) -> dict[str, Any]:
    def refuse_constant(name: str) -> NoReturn:
        raise SuiteOutputError(f"{name} is not a number", line=number)

    def finite(digits: str) -> float:
        value = float(digits)
        if not math.isfinite(value):
            raise SuiteOutputError(f"{digits} is beyond any number", line=number)
        return value

    def without_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) != len(pairs):
            raise SuiteOutputError("a key stands twice in one object", line=number)
        return found

    try:
        value = json.loads(
            text.decode(), parse_constant=refuse_constant, parse_float=finite, object_pairs_hook=without_doubles
        )
    except SuiteOutputError:
        raise
    except (ValueError, RecursionError) as error:
        raise SuiteOutputError(f"not JSON: {error}", line=number) from None
    if not isinstance(value, dict):
        raise SuiteOutputError("not a JSON object", line=number)
    return value


def _to_sample(line: _Sample, test: Test) -> Sample:
    return Sample(
        test=line.test,
        value=line.ops * NS_PER_S / line.wall_ns,
        unit=test.unit,
        higher_is_better=test.higher_is_better,
        ops=line.ops,
        wall_ns=line.wall_ns,
        user_ns=line.user_ns,
        sys_ns=line.sys_ns,
        minor_faults=line.minflt,
        cpu=line.cpu_end,
        counters=tuple(CounterValue(name=name, value=found.value) for name, found in line.counters.items()),
        missing_counters=tuple(MissingCounter(name=name, reason=why) for name, why in line.missing_counters.items()),
    )


def _phase_samples(line: _Sample, test: Test) -> list[Sample]:
    return [
        Sample(
            test=metric,
            value=line.ops * NS_PER_S / wall_ns,
            unit=test.unit,
            higher_is_better=test.higher_is_better,
            ops=line.ops,
            wall_ns=wall_ns,
            user_ns=None,
            sys_ns=None,
            minor_faults=None,
            cpu=line.cpu_end,
        )
        for metric, wall_ns in zip(test.metrics[1:], line.phases.values(), strict=True)
    ]

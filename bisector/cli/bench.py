"""`bisector bench`: the suite by hand, here, on a lab machine or an embedded one; and two results compared."""

import json
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import ValidationError

from bisector.bench.command import CommandRunner
from bisector.bench.compile import build_suite
from bisector.bench.runner import RemoteMachine, SuiteRunner
from bisector.bench.saved import SavedRun, read_saved
from bisector.bench.tests import Test, known_tests
from bisector.cli.imported import HOW, compared, metric_of
from bisector.cli.pinning import cpu_for, cpus_told_by
from bisector.model.cpus import Role
from bisector.model.errors import UsageError
from bisector.model.kernel import KernelImage
from bisector.model.progress import OnProgress, Progress
from bisector.model.sample import RunRecord
from bisector.recipe.command import CommandPart
from bisector.recipe.load import load_recipe
from bisector.recipe.machines import EmbeddedMachine as EmbeddedPart
from bisector.recipe.machines import SshMachine
from bisector.recipe.schema import BenchmarkPart, check_counters
from bisector.report.as_json import to_json
from bisector.report.benched import SEEN_P, Compared, compared_document, compared_text, tests_text
from bisector.report.words import wrap
from bisector.search.contrast import FEWEST, contrast
from bisector.session.home import Home

if TYPE_CHECKING:
    from bisector.lab.jobs import Jobs
    from bisector.lab.terminal import Visit

JSON_LINES = "json-lines"
DEFAULT_SAMPLE_MS = 500

LEASE_S = 1800.0
"""Of a lab machine: longer than one run may take."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What was typed: tests, or `part`, a whole benchmark. Without a machine it is this computer.

    `clock` and `kernel` are for an embedded machine.
    """

    tests: tuple[str, ...] = ()
    part: BenchmarkPart | None = None
    machine: str | None = None
    file: Path | None = None
    kernel: str | None = None
    clock: str | None = None
    runs: int = 5
    sample_ms: int | None = None
    cpu: int | Role | None = None
    counters: tuple[str, ...] = ()


def listed(home: Home, *, as_json: bool) -> str:
    """The tests of the suite. Raises MissingPackageError without a compiler."""
    tests = known_tests(build_suite(home.suite))
    if as_json:
        return to_json([asdict(test) for test in tests])
    return tests_text([_row(test) for test in tests], [test.op for test in tests])


def _row(test: Test) -> dict[str, str]:
    return {
        "test": test.name,
        "unit": test.unit,
        "better": "higher" if test.higher_is_better else "lower",
        "like AIM9's": f"{test.aim} ({test.aim_units})" if test.aim else "",
    }


def run(home: Home, asked: Asked, on_progress: OnProgress) -> tuple[list[RunRecord], bytes]:
    """Measure; the runs, and the suite's lines as they came (a command's metrics in the format `json-lines`).

    Raises UsageError, MachineError or KernelError.
    """
    part = _part(asked)
    runner = CommandRunner(part) if part.command is not None else SuiteRunner(part, build_suite(home.suite))
    records, lines = [], []
    with tempfile.TemporaryDirectory(prefix="bisector-bench-") as scratch, _machine(home, asked, on_progress) as remote:
        log = Path(scratch) / "log"
        if isinstance(part.cpu, str):
            where = asked.machine or "This computer"
            runner = runner.pinned(cpu_for(where, part.cpu, cpus_told_by(remote)).number)
        runner.install(remote)
        batches = runner.calibrate(remote, log, on_progress=on_progress)
        for number in range(1, asked.runs + 1):

            def numbered(progress: Progress, number: int = number) -> None:
                on_progress(Progress(fraction=None, text=f"run {number} of {asked.runs}: {progress.text}"))

            record = runner.run(remote, batches, log, on_progress=numbered)
            records.append(record)
            lines.append(_as_it_came(log) if part.command is None else _as_json_lines(record))
    return records, b"".join(lines)


def _part(asked: Asked) -> BenchmarkPart:
    if asked.part is not None:
        return asked.part if asked.cpu is None else asked.part.model_copy(update={"cpu": asked.cpu})
    first, *others = asked.tests
    try:
        check_counters(asked.counters)
    except ValueError as error:
        raise UsageError(f"--counters: {error}") from error
    length_ms = DEFAULT_SAMPLE_MS if asked.sample_ms is None else asked.sample_ms
    return BenchmarkPart(test=first, also=tuple(others), sample_ms=length_ms, cpu=asked.cpu, counters=asked.counters)


def part_of(recipe: Path) -> BenchmarkPart:
    """The benchmark of a recipe. Raises RecipeError or UsageError."""
    return load_recipe(recipe).recipe.benchmark


def part_typed(shell: str, parser: str | None, regex: str | None, metrics: Sequence[str]) -> BenchmarkPart:
    """The benchmark of a command that was typed. Raises UsageError."""
    if parser is None or not metrics:
        raise UsageError(
            "--command needs --parser, and a --metric to read",
            resolution="For example: bisector bench run --command 'hackbench -l 100' --parser hackbench "
            "--metric Time:lower:s",
        )
    written = {"shell": shell, "parser": parser, "regex": regex, "metrics": tuple(map(metric_of, metrics))}
    try:
        command = CommandPart.model_validate(written)
    except ValidationError as error:
        raise UsageError(f"--command: {error.errors()[0]['msg']}") from None
    first, *others = (metric.name for metric in command.metrics)
    return BenchmarkPart(test=first, also=tuple(others), cpu=None, command=command)


def _as_json_lines(record: RunRecord) -> bytes:
    """A command's run in the format `json-lines` of `bench formats`."""
    return b"".join(
        json.dumps(
            {
                "metric": sample.test,
                "value": sample.value,
                "unit": sample.unit,
                "better": "higher" if sample.higher_is_better else "lower",
            }
        ).encode()
        + b"\n"
        for sample in record.samples
    )


def _as_it_came(log: Path) -> bytes:
    return b"".join(line for line in log.read_bytes().splitlines(keepends=True) if not line.startswith(b"# "))


@contextmanager
def _machine(home: Home, asked: Asked, on_progress: OnProgress) -> Iterator[RemoteMachine]:
    """Where to measure: this computer, a lab machine under the kernel it runs, or an embedded one that is booted."""
    if asked.machine is None:
        from bisector.bench.local import LocalMachine

        with LocalMachine() as here:
            yield here
        return
    from bisector.cli import qualify

    # What is asked of a machine's name, its clock and its kernel is the same as for an A/A test there.
    target = qualify.Asked(target=asked.machine, file=asked.file, kernel=asked.kernel, clock=asked.clock)
    machine = qualify.machine_of(target)
    if isinstance(machine, SshMachine):
        if asked.kernel is not None:
            raise UsageError(f"--kernel {asked.kernel}: {machine.name} is measured under the kernel that it runs now")
        with _visited(machine) as there:
            yield there
    else:
        image = qualify.cached_kernel(home, asked.kernel)
        if image is None:
            raise qualify.no_kernel(home, target)
        with _booted(machine, image, on_progress) as guest:
            yield guest


@contextmanager
def _visited(machine: SshMachine) -> Iterator[RemoteMachine]:
    from bisector.lab.lease import this_controller
    from bisector.lab.terminal import Visit

    visit = Visit(machine, holder=this_controller(), purpose="bisector bench run", lease_s=LEASE_S)
    with visit.leased():
        yield _Renewed(visit)


class _Renewed:
    """A visited machine whose lease is renewed before each job, so never while one measures."""

    def __init__(self, visit: "Visit") -> None:
        self._visit = visit
        self.put = visit.put

    @property
    def jobs(self) -> "Jobs":
        """Its jobs."""
        self._visit.renew()
        return self._visit.jobs


@contextmanager
def _booted(machine: EmbeddedPart, image: KernelImage, on_progress: OnProgress) -> Iterator[RemoteMachine]:
    from bisector.lab.qemu import EmbeddedMachine

    with tempfile.TemporaryDirectory(prefix="bisector-guest-") as folder:
        guest = EmbeddedMachine(machine, Path(folder))
        try:
            guest.boot(image, console=Path(folder) / "console.log", on_progress=on_progress)
            yield guest
        finally:
            guest.release()


def compare(home: Home, base: Path, new: Path, *, as_json: bool) -> tuple[str, bool]:
    """Two saved results, metric by metric, and whether any differ.

    Raises UsageError if they share none, or were measured with different counters.

    They are outputs of the suite, or of `bench run --command --json`.
    """
    if all(path.is_file() and path.read_bytes().lstrip().startswith(b'{"metric"') for path in (base, new)):
        return compare_imported(base, new, JSON_LINES, as_json=as_json)
    tests = known_tests(build_suite(home.suite))
    sides = [read_saved(path, tests) for path in (base, new)]
    _check_counters_of(sides, (base, new))
    names = [list(dict.fromkeys(sample.test for run in side for sample in run.samples)) for side in sides]
    shared = [name for name in names[0] if name in names[1]]
    if not shared:
        raise UsageError(
            f"{base} and {new} have no test in common",
            details=f"{base}: {', '.join(names[0])}\n{new}: {', '.join(names[1])}",
        )
    metrics = {metric: test for test in tests for metric in test.metrics}
    rows = [_compared(metric, test, sides, (base, new)) for metric, test in metrics.items() if metric in shared]
    if as_json:
        return to_json(compared_document(rows)), _differ(rows)
    return compared_text(rows, (base.stem, new.stem)), _differ(rows)


def compare_imported(
    base: Path, new: Path, parser: str, *, regex: str | None = None, metrics: Sequence[str] = (), as_json: bool
) -> tuple[str, bool]:
    """The same for outputs of any program that a parser reads. Raises UsageError."""
    rows, unknown = compared((base, new), parser, regex=regex, metrics=[metric_of(text) for text in metrics])
    if as_json:
        return to_json(compared_document(rows)), _differ(rows)
    text = compared_text(rows, (base.stem, new.stem))
    if unknown:
        left = f"Not compared, for want of a unit or a direction ({HOW}): {', '.join(unknown)}"
        text += "\n" + "\n".join(wrap(left, indent="    ", first=""))
    return text, _differ(rows)


def _check_counters_of(sides: Sequence[Sequence[SavedRun]], paths: tuple[Path, Path]) -> None:
    # Counting takes time: three software counters made a fork 12 % dearer (6.18, 12 pairs).
    asked = [{name for run in side for sample in run.samples for name in sample.asked_counters} for side in sides]
    if asked[0] != asked[1]:
        told = [f"{path}: {', '.join(sorted(names)) or 'none'}" for path, names in zip(paths, asked, strict=True)]
        raise UsageError(
            f"{paths[0]} and {paths[1]} were measured with different counters",
            details="\n".join([*told, "Counting takes time itself: a difference would be the counters'."]),
            resolution="Measure both with the same --counters.",
        )


def _differ(rows: Sequence[Compared]) -> bool:
    return any(row.contrast.p_value < SEEN_P for row in rows)


def _compared(metric: str, test: Test, sides: Sequence[Sequence[SavedRun]], paths: tuple[Path, Path]) -> Compared:
    boots = [_by_boot(side, metric) for side in sides]
    for path, runs in zip(paths, boots, strict=True):
        if sum(map(len, runs.values())) < FEWEST:
            raise UsageError(
                f"{path} has one run of {metric}: how runs scatter cannot be told from one",
                resolution=f"Measure more: bisector bench run {test.name} --runs 5 --json >{path.name}",
            )
    same = len(boots[0]) == 1 and boots[0].keys() == boots[1].keys() != {None}
    values = [list(runs.values()) for runs in boots]
    return Compared(
        test=metric,
        unit=test.unit,
        higher_is_better=test.higher_is_better,
        contrast=contrast(values[0], values[1], same_boot=same),
    )


def _by_boot(runs: Sequence[SavedRun], test: str) -> dict[str | None, list[float]]:
    found: dict[str | None, list[float]] = {}
    for run in runs:
        found.setdefault(run.boot_id, []).extend(sample.value for sample in run.samples if sample.test == test)
    return found

"""Profiles at the end of a hunt: real perf on a box over SSH, for the accused kernel and for its parent."""

import gzip
import struct
import subprocess
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import story
from lab.controllers import proven_in
from lab.fakebox import USABLE, WHY_NOT, FakeBox, fake_kernel
from lab.machines import QUICK

from bisector.bench.command import CommandRunner
from bisector.bench.local import LocalJobs
from bisector.bench.profiler import profile_run
from bisector.bench.runner import JobResult
from bisector.cli.profiling import ACCUSED, PARENT, collect, complete, missing, section, wanted
from bisector.cli.wiring import MeasuringMachine
from bisector.lab.physical import PhysicalMachine
from bisector.model.errors import MachineError
from bisector.model.events import BatchesCalibrated, Event, KernelBuilt, MachineLeft, SessionStarted
from bisector.model.machine import NotGivenBack
from bisector.model.outcome import AnswerKind
from bisector.model.progress import Progress
from bisector.recipe.load import canonical_text, parse_recipe
from bisector.recipe.schema import BenchmarkPart
from bisector.report.events import EventLines
from bisector.session.controller import StopRequest
from bisector.session.journal import Journal, create_journal
from bisector.session.state import SessionState, fold


def perf_works() -> bool:
    try:
        recorded = ["perf", "record", "-q", "-o", "/dev/null", "--", "true"]
        return subprocess.run(recorded, capture_output=True, check=False, timeout=60).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


needs_perf = pytest.mark.skipif(not perf_works(), reason="perf cannot record here")


def none_left(left: MachineLeft) -> None:
    raise AssertionError(left)


# Faults on the way, so that the kernel shows up in the profile.
WORK = "dd if=/dev/zero of=/dev/null bs=1M count=2000 2>/dev/null; echo push: 1 s"


def benchmark(line: str = WORK, profile: str | None = "perf") -> BenchmarkPart:
    command = {"shell": line, "parser": "key-value", "metrics": ({"name": "push", "better": "lower", "unit": "s"},)}
    return BenchmarkPart.model_validate({"test": "push", "cpu": None, "command": command, "profile": profile})


def finished(kernels: Path) -> SessionState:
    """A hunt whose answer is commit 4, whose parent is 3, with kernels that a box understands."""
    state = story.found().state
    for index in (3, 4):
        state.builds[index].image = fake_kernel(kernels, index)
    return replace(state, machines=("box1",), batches={"box1": (("push", 1),)})


@needs_perf
@pytest.mark.skipif(not USABLE, reason=WHY_NOT)
def test_parent_and_accused_are_booted_once_more_and_compared(box: FakeBox, tmp_path: Path) -> None:
    state, said = finished(tmp_path), list[str]()
    physical = PhysicalMachine(box.config(), proven_in(tmp_path / "machine"), session="hunt", limits=QUICK)
    machine = MeasuringMachine(physical, CommandRunner(benchmark()), cpu=None)
    assert section(state, tmp_path / "session") == ""
    collect(
        state,
        {"box1": machine},
        tmp_path / "session",
        profiler="perf",
        on_progress=lambda told: said.append(told.text),
        on_left=none_left,
    )
    kept = tmp_path / "session" / "artefacts"
    assert b"Overhead" in (kept / PARENT).read_bytes()
    assert (kept / "profile-accused.log").read_text().startswith("push: 1 s\n")
    assert not box.leased
    text = section(state, tmp_path / "session")
    assert f"{'03' * 6} {'04' * 6}" in text
    assert [line for line in text.splitlines() if line.startswith("total")]
    assert not list(Path("/tmp").glob("bisector-profile-*"))


@needs_perf
def test_a_run_under_perf_leaves_a_readable_report_and_nothing_else(tmp_path: Path) -> None:
    runner, here = CommandRunner(benchmark()), Here()
    runner.install(here)
    profile_run(runner, here, (), tmp_path / "log", tmp_path / "profile")
    assert b"# Overhead" in (tmp_path / "profile").read_bytes()
    here.jobs.run(["rm", "-rf", runner._folder], timeout_s=10, on_poll=lambda: None)


class Here:
    def __init__(self) -> None:
        self.jobs = LocalJobs()

    def put(self, local: Path, remote: str, *, mode: int) -> None:
        raise AssertionError("nothing is uploaded")


class WithoutPerf:
    """A machine on which nothing is found."""

    @property
    def jobs(self) -> "WithoutPerf":
        return self

    def run(self, *_: object, **__: object) -> JobResult:
        return JobResult(exit_code=1, stdout=b"", stderr=b"")


def test_a_machine_without_perf_is_told_so(tmp_path: Path) -> None:
    with pytest.raises(MachineError, match="perf is not on the machine"):
        profile_run(CommandRunner(benchmark()), WithoutPerf(), (), tmp_path / "log", tmp_path / "profile")  # type: ignore[arg-type]


class Refusing:
    """A machine that does not boot any more; it remembers what was done with it, and may not be given back."""

    def __init__(self, left: NotGivenBack | None = None) -> None:
        self.left = left
        self.done: list[str] = []

    def recover(self) -> None:
        self.done.append("recovered")

    def boot(self, *_: object, **__: object) -> None:
        raise MachineError("box1 does not answer")

    def release(self) -> NotGivenBack | None:
        self.done.append("released")
        return self.left


class Watching:
    """A display that is told; it also has somebody press Ctrl-C when asked to."""

    def __init__(self, stop: StopRequest | None = None) -> None:
        self.stop = stop
        self.said: list[tuple[str, str]] = []
        self.lines: list[str] = []

    def happened(self, seq: int, at: float, event: Event) -> None:
        del seq
        self.lines.append(EventLines().line(at, event))

    def progressed(self, worker: str, progress: Progress) -> None:
        self.said.append((worker, progress.text))
        if self.stop is not None:
            self.stop.reason = "interrupted from the terminal (SIGINT)"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "hunt"
    made.mkdir()
    return made


@pytest.fixture
def hunt(tmp_path: Path, folder: Path) -> Iterator[Journal]:
    """The journal of a hunt that ended with one commit, and whose recipe asks for ticks."""
    recipe = story.recipe().model_copy(update={"benchmark": benchmark(profile="readprofile")})
    journal = create_journal(folder)
    for entry in story.found().entries:
        event = entry.event
        match event:
            case SessionStarted():
                event = replace(event, recipe=canonical_text(recipe))
            case KernelBuilt(commit=commit) if story.IDS.index(commit) in (3, 4):
                event = replace(event, image=fake_kernel(tmp_path, story.IDS.index(commit)))
        journal.append(event)
    journal.append(BatchesCalibrated(machine="lab-01", batches=(("push", 1),)))
    yield journal
    journal.close()


def completed(
    hunt: Journal, folder: Path, machine: Refusing, watching: Watching, stop: StopRequest | None = None
) -> str:
    recipe = parse_recipe(fold(hunt.entries).recipe_text)
    machines: Any = {"lab-01": machine}
    return complete(hunt, recipe, machines, folder, watching=watching, stop=stop or StopRequest())


def test_a_profile_that_cannot_be_had_is_told_and_changes_nothing(hunt: Journal, folder: Path) -> None:
    machine, before = Refusing(), list(hunt.entries)
    said = completed(hunt, folder, machine, Watching())
    assert said == "No profiles: box1 does not answer\nTry again: bisector resume page-test-hunt"
    assert machine.done == ["recovered", "released"]
    assert list(hunt.entries) == before
    state = fold(hunt.entries)
    assert section(state, folder).endswith("were not collected. Try again: bisector resume page-test-hunt")


def test_a_machine_that_is_lost_while_it_profiles_is_told_as_at_the_end_of_a_hunt(hunt: Journal, folder: Path) -> None:
    watching = Watching()
    left = NotGivenBack(reason="box1 does not answer", resolution="Reset it by hand")
    completed(hunt, folder, Refusing(left), watching)
    [line] = watching.lines
    assert line.endswith(" lab-01 was not given back: box1 does not answer; Reset it by hand")
    kept = fold(hunt.entries).not_given_back
    assert [(name, told.resolution) for name, told in kept.items()] == [("lab-01", "Reset it by hand")]


def test_profiles_that_were_not_collected_are_tried_again_until_they_are_there(hunt: Journal, folder: Path) -> None:
    recipe = parse_recipe(fold(hunt.entries).recipe_text)
    assert missing(fold(hunt.entries), recipe, folder)
    assert completed(hunt, folder, Refusing(), Watching()).startswith("No profiles")
    (folder / "artefacts" / PARENT).write_text("of a controller that was killed between the two")
    machine = Profiling()
    assert completed(hunt, folder, machine, Watching()) == ""
    assert machine.done == ["recovered", "released"]
    assert not missing(fold(hunt.entries), recipe, folder)
    assert " 500 f 1.0" in (folder / "artefacts" / PARENT).read_text()
    assert section(fold(hunt.entries), folder).startswith("What moved between its parent and the accused")
    again = Profiling()
    assert completed(hunt, folder, again, Watching()) == ""
    assert again.done == []


def test_kernels_that_the_cache_has_dropped_since_are_told(hunt: Journal, folder: Path) -> None:
    image = fold(hunt.entries).builds[4].image
    assert image is not None
    Path(image.path).unlink()
    machine = Profiling()
    said = completed(hunt, folder, machine, Watching())
    assert said.startswith(f"No profiles: the kernel of {image.commit[:12]} is not in the cache")
    assert machine.done == []


def test_profiles_are_made_for_one_commit_and_only_where_the_recipe_asks(tmp_path: Path) -> None:
    recipe = story.recipe()
    asking = recipe.model_copy(update={"benchmark": benchmark()})
    one = finished(tmp_path)
    several = story.running().finish(AnswerKind.SET, [3, 4], 0.99, "both").state
    assert wanted(one, asking)
    assert not wanted(one, recipe)
    assert not wanted(several, asking)


class Booting(Refusing):
    """A machine that tells twice how far it is."""

    def boot(self, image: object, *, on_progress: Callable[[Progress], None], **_: object) -> None:
        for text in ("waiting", "waiting still"):
            on_progress(Progress(fraction=None, text=text))


def test_the_end_of_a_hunt_can_be_interrupted_while_it_profiles(hunt: Journal, folder: Path) -> None:
    stop, machine = StopRequest(), Booting()
    watching = Watching(stop)
    said = completed(hunt, folder, machine, watching, stop)
    assert said.startswith("No profiles: interrupted from the terminal (SIGINT)\nTry again: ")
    assert watching.said == [("lab-01", "for a profile: waiting")]
    assert machine.done == ["recovered", "released"]


def test_a_damaged_profile_is_told_in_the_report(tmp_path: Path) -> None:
    state = finished(tmp_path)
    (tmp_path / "artefacts").mkdir()
    for name in (PARENT, ACCUSED):
        (tmp_path / "artefacts" / name).write_text("# Overhead  Symbol\n 9,0% [k] f\n")
    assert section(state, tmp_path).startswith("The profiles cannot be read: line 2:")


SYMBOLS = b"""0000000000000000 A fixed_percpu_data
ffffffff81000000 T _text
ffffffff81000000 T _stext
ffffffff81000010 t do_wp_page
ffffffff81000040 T clear_page
ffffffff81000040 t clear_page_alias
ffffffff81000080 D no_text
ffffffffa0000000 t of_a_module [ext4]
"""
TABLE = struct.pack("<34I", 4, *([0] * 4), 7, 2, *([0] * 10), 4, *([0] * 16))


class Ticking:
    """A machine whose kernel counts ticks, or does not."""

    def __init__(self, *, counts: bool = True, profile: bytes = TABLE, symbols: bytes = SYMBOLS) -> None:
        self.counts = counts
        self.files = {"/proc/profile": gzip.compress(profile), "/proc/kallsyms": gzip.compress(symbols)}
        self.asked: list[str] = []

    @property
    def jobs(self) -> "Ticking":
        return self

    def run(self, argv: Sequence[str], **_: object) -> JobResult:
        self.asked.append(argv[2])
        if argv[2].startswith("[ -e"):
            return JobResult(exit_code=int(not self.counts), stdout=b"", stderr=b"")
        return JobResult(exit_code=0, stdout=self.files.get(argv[-1], b"push: 1 s\n"), stderr=b"")


def test_ticks_are_set_to_zero_before_the_run_and_read_after_it(tmp_path: Path) -> None:
    machine = Ticking()
    runner = CommandRunner(benchmark(profile="readprofile"))
    profile_run(runner, machine, (), tmp_path / "log", tmp_path / "profile", profiler="readprofile")  # type: ignore[arg-type]
    assert (tmp_path / "profile").read_text().splitlines()[-1].split()[:3] == ["0" * 16, "total", "13"]
    asked = [script.split()[0] for script in machine.asked]
    assert asked == ["[", "echo", "cd", "gzip", "gzip"]


class Profiling(Refusing):
    """A machine that boots anything and tells the same ticks of it."""

    def boot(self, *_: object, **__: object) -> None:
        return

    def profile(self, _: object, *, profile: Path, **__: object) -> None:
        profile.write_text(" 500 f 1.0\n 500 total 0.1\n")


def test_ticks_are_kept_with_the_frequency_of_their_kernel(tmp_path: Path) -> None:
    state, machine = finished(tmp_path), Profiling()
    (tmp_path / "config").write_text("CONFIG_HZ_250=y\nCONFIG_HZ=250\n")
    collect(
        state,
        {"box1": machine},  # type: ignore[dict-item]
        tmp_path,
        profiler="readprofile",
        on_progress=lambda _: None,
        on_left=none_left,
    )
    for kept in (PARENT, ACCUSED):
        text = (tmp_path / "artefacts" / kept).read_text()
        assert text == "# CONFIG_HZ=250\n 500 f 1.0\n 500 total 0.1\n"
    assert machine.done == ["recovered", "released"]


def test_ticks_that_arrive_damaged_are_the_labs_trouble(tmp_path: Path) -> None:
    runner, log, kept = CommandRunner(benchmark()), tmp_path / "log", tmp_path / "profile"
    odd, cut = Ticking(profile=b"\x03\0\0\0\0\0\0\0"), Ticking()
    cut.files["/proc/profile"] = cut.files["/proc/profile"][:-9]
    for broken, says in ((odd, "is 3, which is no step"), (cut, "arrived damaged")):
        with pytest.raises(MachineError, match=says):
            profile_run(runner, broken, (), log, kept, profiler="readprofile")  # type: ignore[arg-type]
        assert not kept.exists()


def test_a_kernel_that_counts_no_ticks_is_told_with_what_it_needs(tmp_path: Path) -> None:
    with pytest.raises(MachineError, match="this kernel counts no ticks") as raised:
        profile_run(
            CommandRunner(benchmark()),
            Ticking(counts=False),  # type: ignore[arg-type]
            (),
            tmp_path / "log",
            tmp_path / "profile",
            profiler="readprofile",
        )
    assert "profile=2" in raised.value.resolution

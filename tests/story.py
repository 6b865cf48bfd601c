"""A hunt told as events, for whoever reports on hunts: fixed ids, times and values, so that texts can be compared."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from fakes import FACTS, kernel_image

from bisector.model.answer import Answer
from bisector.model.commit import Commit, CommitRange
from bisector.model.events import (
    Booted,
    BootEnded,
    BootFailed,
    BootStarted,
    BuildFailed,
    BuildStarted,
    Event,
    KernelBuilt,
    RunFinished,
    RunStarted,
    SessionFinished,
    SessionStarted,
)
from bisector.model.kernel import KernelImage
from bisector.model.machine import BootRecord, MachineFacts
from bisector.model.outcome import AnswerKind, Outcome, Purpose, Verdict
from bisector.model.sample import CounterValue, MissingCounter, RunRecord, Sample
from bisector.recipe.load import canonical_text
from bisector.recipe.schema import Recipe
from bisector.search.types import Assessment, CommitVerdict
from bisector.session.state import Entry, SessionState, fold

BEGIN = 1_700_000_000.0

SUBJECTS = (
    "Linux 2.6.37",
    "mm: fix a comment in memory.c",
    "thp: config_transparent_hugepage",
    "thp: split_huge_page paging",
    "thp: transparent hugepage core",
    "fs: rename a helper [red]not markup[/red]",
    "mm: break the build",
    "lib: panic before the network is up",
    "Merge branch 'akpm'",
    "Linux 2.6.38",
)

IDS = (
    "3c0eee3fe6a3a1c745379547c7e7c904aa64f6d5",
    "1000000000000000000000000000000000000001",
    "32dba98e085f8b2b4345887df9abf5e0e93bfc12",
    "4e6af67e9cafa3b4d7d7e1b6f2f6b6a1a0b0c0d0",
    "71e3aac0724ffe8918992d76acfe3aad7d8724a5",
    "5000000000000000000000000000000000000005",
    "6000000000000000000000000000000000000006",
    "7000000000000000000000000000000000000007",
    "8000000000000000000000000000000000000008",
    "521cb40b0c44418a4fd36dc633f575813d59a43d",
)

RANGE = CommitRange(
    commits=tuple(
        Commit(
            id=IDS[index],
            parents=(index - 1,) if index else (),
            subject=subject,
            author_date=f"2011-01-{13 + index:02d}T15:46:52-08:00",
        )
        for index, subject in enumerate(SUBJECTS)
    )
)


def recipe(**search: object) -> Recipe:
    return Recipe.model_validate(
        {
            "name": "page-test-hunt",
            "repo": "/srv/linux",
            "good": "v2.6.37",
            "bad": "v2.6.38",
            "benchmark": {"test": "page_test", "also": ("brk_test", "fork_test", "exec_test"), "cpu": 3},
            "machines": ({"kind": "embedded", "name": "lab-01", "clock": "wall"},),
            "search": search,
        }
    )


def image(commit: int, *, from_cache: bool = False, signature: str = "") -> KernelImage:
    return kernel_image(
        IDS[commit],
        release=f"2.6.37-bisector-{IDS[commit][:12]}",
        signature=signature or IDS[commit],
        compiler="gcc 12.2.0",
        duration_s=40.0,
        from_cache=from_cache,
    )


def counting(run: RunRecord, missing: Mapping[str, str] | None = None, **counts: int) -> RunRecord:
    """The run with these counted (page_faults: page-faults) in each sample, and others missing for a reason."""
    counters = tuple(CounterValue(name=name.replace("_", "-"), value=value) for name, value in counts.items())
    absent = tuple(MissingCounter(name=name, reason=reason) for name, reason in (missing or {}).items())
    samples = [replace(sample, counters=counters, missing_counters=absent) for sample in run.samples]
    return replace(run, samples=tuple(samples))


def run_of(**values: float) -> RunRecord:
    return RunRecord(
        samples=tuple(
            Sample(
                test=test,
                value=value,
                unit="ops/s",
                higher_is_better=True,
                ops=1700,
                wall_ns=10**9,
                user_ns=10**8,
                sys_ns=9 * 10**8,
                minor_faults=1600,
                cpu=3,
            )
            for test, value in values.items()
        ),
        artefact="boot-run.jsonl",
        duration_s=10.0,
    )


class Story:
    """Tells a hunt step by step; every step takes its usual time."""

    def __init__(self, *, commits: CommitRange = RANGE, text: str | None = None, begin: float = BEGIN) -> None:
        self.entries: list[Entry] = []
        self.at = begin
        self.boots = 0
        self.tell(
            SessionStarted(
                session="page-test-hunt",
                recipe=canonical_text(recipe()) if text is None else text,
                recipe_digest="d",
                repo="/srv/linux",
                range=commits,
                machines=("lab-01",),
                seed=1,
                program="bisector 0.1.0",
            )
        )

    def tell(self, event: Event, after_s: float = 0.0) -> "Story":
        self.at += after_s
        self.entries.append(Entry(seq=len(self.entries) + 1, at=self.at, event=event))
        return self

    @property
    def state(self) -> SessionState:
        return fold(self.entries)

    def build(self, commit: int, *, ahead: bool = False, seconds: float = 40.0, **kind: object) -> "Story":
        self.tell(BuildStarted(commit=IDS[commit], ahead=ahead, reason="needed next"))
        return self.tell(KernelBuilt(commit=IDS[commit], image=image(commit, **kind)), seconds)  # type: ignore[arg-type]

    def fail_build(self, commit: int) -> "Story":
        self.tell(BuildStarted(commit=IDS[commit], ahead=True, reason="needed soon"))
        return self.tell(
            BuildFailed(
                commit=IDS[commit],
                outcome=Outcome.BUILD_FAILED,
                reason="mm/memory.c:3201:2: error: 'pmdp' undeclared",
                artefact=f"build-{IDS[commit][:12]}-1.log",
                duration_s=12.0,
            ),
            12.0,
        )

    def start_boot(self, commit: int, *, runs: int = 4, why: str = "", purpose: Purpose = Purpose.SEARCH) -> "Story":
        self.boots += 1
        reason = why or f"{IDS[commit][:12]} splits the belief 50/50: 0.82 bit for 96 s"
        return self.tell(
            BootStarted(
                boot=self.boots, machine="lab-01", commit=IDS[commit], runs=runs, purpose=purpose, reason=reason
            )
        )

    def booted(self, commit: int, *, facts: MachineFacts = FACTS) -> "Story":
        record = BootRecord(
            boot_id=f"boot-{self.boots}",
            release=f"2.6.37-bisector-{IDS[commit][:12]}",
            build_id=IDS[commit],
            facts=facts,
            duration_s=9.0,
            artefact="",
        )
        return self.tell(Booted(boot=self.boots, machine="lab-01", commit=IDS[commit], record=record), 9.0)

    def run(self, commit: int, number: int, record: RunRecord) -> "Story":
        self.tell(RunStarted(boot=self.boots, run=number, machine="lab-01", commit=IDS[commit]))
        return self.tell(
            RunFinished(boot=self.boots, run=number, machine="lab-01", commit=IDS[commit], record=record), 10.0
        )

    def look(self, commit: int, runs: Iterable[RunRecord], *, why: str = "", **rest: object) -> "Story":
        records = list(runs)
        self.start_boot(commit, runs=len(records), why=why, **rest).booted(commit)  # type: ignore[arg-type]
        for number, record in enumerate(records, start=1):
            self.run(commit, number, record)
        return self.end_look(commit)

    def end_look(self, commit: int, reason: str = "all runs are in") -> "Story":
        return self.tell(BootEnded(boot=self.boots, machine="lab-01", commit=IDS[commit], reason=reason))

    def crash(self, commit: int) -> "Story":
        self.start_boot(commit)
        return self.tell(
            BootFailed(
                boot=self.boots,
                machine="lab-01",
                commit=IDS[commit],
                outcome=Outcome.CRASHED,
                reason="Kernel panic - not syncing: \x1b[31mAttempted to kill init!",
                artefact=f"boot-{self.boots:04d}-console.log",
                duration_s=6.0,
            ),
            6.0,
        )

    def finish(self, kind: AnswerKind, commits: Sequence[int], probability: float, reason: str, share=None) -> "Story":
        answer = Answer(
            kind=kind, commits=tuple(IDS[i] for i in commits), probability=probability, reason=reason, share=share
        )
        return self.tell(SessionFinished(answer=answer))


def good_runs(shift: float = 0.0) -> Iterator[RunRecord]:
    for step in (0.1, -0.1, 0.2, -0.2):
        yield run_of(
            page_test=43.7 + step + shift, brk_test=900.0 + step, fork_test=120.0 + step, exec_test=55.0 + step
        )


def bad_runs(shift: float = 0.0) -> Iterator[RunRecord]:
    for step in (0.1, -0.1, 0.2, -0.2):
        yield run_of(
            page_test=38.1 + step + shift,
            brk_test=900.1 + step,
            fork_test=107.0 + step,
            exec_test=54.6 + step + 4 * shift,
        )


def running() -> Story:
    """The ends, three commits in between, one that does not compile; a boot goes on, a build goes on."""
    story = Story()
    story.build(0, seconds=300.0).build(9, from_cache=True, seconds=1.0)
    for shift in (0.0, 0.1):
        story.look(0, good_runs(shift), why="gate: the two ends first", purpose=Purpose.GATE)
        story.look(9, bad_runs(shift), why="gate: the two ends first", purpose=Purpose.GATE)
    story.build(2).look(2, good_runs(0.05)).fail_build(6).build(4)
    story.look(4, bad_runs(-0.05)).look(4, bad_runs(0.05))
    story.build(7, ahead=True).crash(7).crash(7).build(3)
    story.start_boot(3, why="4e6af67e9caf splits the belief 71/29 and its kernel is ready: 0.82 bit for 96 s").booted(3)
    story.run(3, 1, run_of(page_test=43.5, brk_test=900.0, fork_test=120.0, exec_test=55.0))
    story.tell(BuildStarted(commit=IDS[5], ahead=True, reason="most likely needed next"))
    return story


def found() -> Story:
    """The same hunt at its end."""
    story = running()
    for number in (2, 3, 4):
        story.run(3, number, run_of(page_test=43.5 + number / 10, brk_test=900.0, fork_test=120.2, exec_test=55.0))
    story.end_look(3)
    return story.finish(
        AnswerKind.COMMIT, (4,), 0.9941, "4 fresh pairs of it and its parent show -12.7 %, the ends -12.8 %.", share=1.0
    )


GOOD_OR_BAD = {0: Verdict.GOOD, 2: Verdict.GOOD, 3: Verdict.GOOD, 4: Verdict.BAD, 9: Verdict.BAD}


def assessment(state: SessionState, probability: Sequence[float] | None = None, **changes: object) -> Assessment:
    """What a search would say of the story; the effects are the values' own."""
    boots: dict[int, list[list[float]]] = {}
    for look in state.looks:
        if look.runs and look.ended_at is not None:
            boots.setdefault(look.commit, []).append([run.value_of("page_test") for run in look.runs])
    verdicts = []
    for commit, values in sorted(boots.items()):
        flat = [value for boot in values for value in boot]
        effect = 100 * (sum(flat) / len(flat) / 43.75 - 1)
        verdict = GOOD_OR_BAD.get(commit, Verdict.UNDECIDED)
        verdicts.append(
            CommitVerdict(
                commit=commit,
                verdict=verdict,
                bad_probability=0.999 if verdict is Verdict.BAD else 0.001,
                effect_percent=effect,
                interval_percent=(effect - 0.7, effect + 0.8),
                boots=len(values),
                runs=len(flat),
            )
        )
    values = {
        "probability": (0.0, 0.0, 0.0003, 0.189, 0.712, 0.06, 0.03, 0.0, 0.008, 0.0007)
        if probability is None
        else probability,
        "verdicts": tuple(verdicts),
        "good_level": 43.70,
        "bad_level": 38.12,
        "effect_percent": -12.8,
        "effect_interval_percent": (-13.5, -12.1),
        "run_sd_percent": 2.7,
        "boot_sd_percent": 0.9,
        "detectable_percent": 1.6,
        "entropy_bits": 1.21,
        "remaining_boots": 6.4,
        "threshold": 40.91,
        "audit": "not begun",
    }
    return Assessment(**{**values, **changes})  # type: ignore[arg-type]

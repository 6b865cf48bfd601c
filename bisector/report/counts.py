"""What a session cost, and how it measured: counts, seconds, and the answers to the three questions.

The questions people ask of every benchmark: was the machine rebooted between measurements, were they repeated, and
how large is the noise that the effect stands out of?
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from bisector.model.cpus import PINNED, PinnedCpu, Role, pinned_of
from bisector.model.outcome import Outcome
from bisector.recipe.schema import Recipe
from bisector.session.evidence import measured_looks
from bisector.session.machines import first_facts
from bisector.session.state import Build, SessionState

BUILD_FAILURES = (Outcome.BUILD_FAILED, Outcome.CONFIG_FAILED)
_FAILED_LOOKS = (Outcome.BOOT_FAILED, Outcome.CRASHED, Outcome.WRONG_KERNEL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """What was done. `kernels` are distinct commits that were booted, or failed to build.

    `waited_s` is how long machines stood idle while a build ran, summed over machines.
    """

    kernels: int
    built: int
    from_cache: int
    build_failures: int
    boots: int
    failed_boots: int
    runs: int
    machine_s: float
    builder_s: float
    waited_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where on a machine the benchmark ran, as its proven boots told.

    `pinned` says it in words, "CPU 1 (isolated)"; `cpu` and `role` are None where it was not pinned or no role was
    asked for. `cmdline` is the command line of the kernel.
    """

    machine: str
    pinned: str
    cpu: int | None
    role: Role | None
    cmdline: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Method:
    """How it was measured; the pairs are (fewest, most), None before anything was.

    `cpu` is what was asked for, `places` what came of it on each machine that has booted.

    `counts_instructions`: the guests' clock advances with executed instructions, so time and cache misses are not
    in the figures.
    """

    boots_per_commit: tuple[int, int] | None
    runs_per_boot: tuple[int, int] | None
    cpu: int | Role | None
    pinning: str
    places: tuple[Place, ...]
    counts_instructions: bool


def count_up(state: SessionState) -> Counts:
    """Return what a session did so far."""
    failed = {commit for commit, build in state.builds.items() if build.outcome in BUILD_FAILURES}
    images = [build.image for build in state.builds.values() if build.image is not None]
    return Counts(
        kernels=len({look.commit for look in state.looks} | failed),
        built=sum(not image.from_cache for image in images),
        from_cache=sum(image.from_cache for image in images),
        build_failures=len(failed),
        boots=sum(look.booted_at is not None for look in state.looks),
        failed_boots=sum(look.outcome in _FAILED_LOOKS for look in state.looks),
        runs=sum(len(look.runs) for look in state.looks),
        machine_s=sum(look.machine_s for look in state.looks),
        builder_s=sum(end - begin for begin, end in _builds(state)),
        waited_s=sum(_waited_s(state, machine) for machine in state.machines),
    )


def method_of(state: SessionState, recipe: Recipe) -> Method:
    """Return how a session measures."""
    looks = measured_looks(state)
    boots = Counter(look.commit for look in looks).values()
    runs = [len(look.runs) for look in looks]
    return Method(
        boots_per_commit=(min(boots), max(boots)) if boots else None,
        runs_per_boot=(min(runs), max(runs)) if runs else None,
        cpu=recipe.benchmark.cpu,
        pinning=pinning(state, recipe),
        places=places_of(state, recipe),
        counts_instructions=all(machine.clock == "instructions" for machine in recipe.machines),
    )


def places_of(state: SessionState, recipe: Recipe) -> tuple[Place, ...]:
    """Where the benchmark runs on each machine that has booted; for sessions of older programs, what was asked for."""
    found = []
    for machine in recipe.machines:
        facts = first_facts(look for look in state.looks if look.machine == machine.name)
        if facts is None:
            continue
        told = dict(facts.pairs)
        asked = recipe.cpu_on(machine)
        if PINNED not in told and isinstance(asked, str):
            continue
        pinned = pinned_of(told[PINNED]) if PINNED in told else PinnedCpu(number=None if asked is None else int(asked))
        found.append(
            Place(
                machine=machine.name,
                pinned=str(pinned),
                cpu=pinned.number,
                role=pinned.role,
                cmdline=told.get("cmdline", ""),
            )
        )
    return tuple(found)


def pinning(state: SessionState, recipe: Recipe) -> str:
    """On which CPU the benchmark runs, in words; of machines that have not booted yet, as it was asked for."""
    told = {place.machine: place.pinned for place in places_of(state, recipe)}
    words = {machine.name: told.get(machine.name) or _asked(recipe.cpu_on(machine)) for machine in recipe.machines}
    if set(words.values()) == {str(PinnedCpu(number=None))}:
        return "not pinned to a CPU"
    if len(set(words.values())) == 1:
        return f"pinned to {next(iter(words.values()))}"
    return ", ".join(f"{_verb(word)} on {name}" for name, word in words.items())


def _verb(word: str) -> str:
    return word if word == str(PinnedCpu(number=None)) else f"pinned to {word}"


def _asked(cpu: int | Role | None) -> str:
    return f"a CPU that is {cpu}" if isinstance(cpu, str) else str(PinnedCpu(number=cpu))


def _builds(state: SessionState) -> list[tuple[float, float]]:
    return sorted(interval for build in state.builds.values() if (interval := _interval(build, state.last_at)))


def _interval(build: Build, now: float) -> tuple[float, float] | None:
    """When the builder really worked: a controller may have been dead for hours between the two events."""
    end = now if build.ended_at is None else build.ended_at
    length = end - build.started_at
    if build.duration_s > 0 and not (build.image is not None and build.image.from_cache):
        length = min(length, build.duration_s)
    return (end - length, end) if length > 0 else None


def _waited_s(state: SessionState, machine: str) -> float:
    looks = [
        (look.started_at, state.last_at if look.ended_at is None else look.ended_at)
        for look in state.looks
        if look.machine == machine
    ]
    return _measure(_builds(state)) - _overlap(_union(_builds(state)), _union(looks))


def _union(intervals: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
    joined: list[tuple[float, float]] = []
    for begin, end in sorted(intervals):
        if joined and begin <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(joined[-1][1], end))
        else:
            joined.append((begin, end))
    return joined


def _measure(intervals: Iterable[tuple[float, float]]) -> float:
    return sum(end - begin for begin, end in _union(intervals))


def _overlap(first: list[tuple[float, float]], second: list[tuple[float, float]]) -> float:
    return sum(max(0.0, min(a[1], b[1]) - max(a[0], b[0])) for a in first for b in second)

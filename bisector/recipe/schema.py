"""A recipe, checked: what is hunted, where, with which kernel configuration, on which machines.

Strict: an unknown key, a number where text belongs, or NaN is an error with its place (`recipe/load.py`).
"""

import difflib
from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import Field, StrictInt, field_validator, model_validator

from bisector.model.cpus import Role
from bisector.model.sample import COUNTERS
from bisector.recipe.command import CommandPart
from bisector.recipe.fixups import FixupPart
from bisector.recipe.machines import Cpu, Machine, Name, Part, PositiveFloat, PositiveInt, Prepare, Text
from bisector.recipe.machines import EmbeddedMachine as EmbeddedMachine
from bisector.recipe.machines import SshMachine as SshMachine


class KernelPart(Part):
    """How kernels are made. Paths are relative to the recipe's folder.

    `base` is `allnoconfig`, `defconfig`, or the path of a complete configuration; `fragments` are laid over it;
    `required` lines ("CONFIG_NET=y", "CONFIG_IPV6=n") must hold after olddefconfig, and every line of a fragment
    must as well. `fixups` are applied in their order to the commits that meet their conditions.
    """

    arch: Text = "x86_64"
    base: Text = "defconfig"
    fragments: tuple[Text, ...] = ()
    required: tuple[Text, ...] = ()
    compiler: Text = "gcc"
    jobs: PositiveInt | None = None
    timeout_s: PositiveFloat = 7200.0
    fixups: tuple[FixupPart, ...] = ()

    @model_validator(mode="after")
    def _fixups_are_distinct(self) -> "KernelPart":
        names = [fixup.name for fixup in self.fixups]
        if len(set(names)) != len(names):
            raise ValueError(f"fixups: a name stands twice in {', '.join(names)}")
        return self


class BenchmarkPart(Part):
    """What is measured: `test` decides, `also` are siblings measured in the same runs and reported.

    They are tests of the suite (or phases of one: "patch_series.push") or, with `command`, metrics of that command;
    `sample_ms` is the suite's alone.
    """

    test: Text = "page_test"
    also: tuple[Text, ...] = ()
    params: dict[Text, dict[Text, StrictInt | Text]] = Field(default_factory=dict)
    """Of tests of the suite, by test and name: {page_test: {variant: wide}}; `bench list --json` knows them all."""
    counters: tuple[Text, ...] = ()
    """Of `model.sample.COUNTERS`, for every test of the suite: reported for one operation, and never what decides."""
    sample_ms: PositiveInt = 500
    cpu: Cpu | None = 0
    """Where it runs: a number, null for anywhere, or `housekeeping`, `isolated` or `nohz_full`: one of the CPUs that
    the booted kernel has in that role, not CPU 0 where there is another, and the same one in all boots of a session.
    """
    timeout_s: PositiveFloat = 600.0
    command: CommandPart | None = None
    profile: Literal["perf", "readprofile"] | None = None
    """At the end of a hunt that found one commit: one more boot of it and of its parent, under this profiler."""

    @field_validator("counters")
    @classmethod
    def _are_counters(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        check_counters(names)
        return names

    @model_validator(mode="after")
    def _names_metrics_of_the_command(self) -> "BenchmarkPart":
        if self.command is not None:
            if self.params:
                raise ValueError("params are of the suite's tests; a command takes its own in its words")
            if self.counters:
                raise ValueError("counters are of the suite's tests; a command can run perf stat itself")
            known = [metric.name for metric in self.command.metrics]
            unknown = [name for name in (self.test, *self.also) if name not in known]
            if unknown:
                raise ValueError(f"{', '.join(unknown)} is no metric of the command; its metrics: {', '.join(known)}")
        return self


def check_counters(names: Sequence[str]) -> None:
    """Raises ValueError, with close matches, for a counter that there is not, or that stands twice."""
    for name in names:
        if name not in COUNTERS:
            close = difflib.get_close_matches(name, COUNTERS, n=2)
            meant = f"did you mean {' or '.join(close)}?" if close else f"there are {', '.join(COUNTERS)}"
            raise ValueError(f"there is no counter {name}: {meant}")
    if len(set(names)) != len(names):
        raise ValueError(f"a counter is named twice in {', '.join(names)}")


class SearchPart(Part):
    """When to believe, and what to spend."""

    confidence: Annotated[float, Field(gt=0.5, lt=1)] = 0.99
    smallest_effect_percent: PositiveFloat = 1.0
    find: Literal["regression", "improvement"] = "regression"
    audit: bool = True
    max_boots: PositiveInt = 400
    time_budget_h: PositiveFloat | None = None
    seed: Annotated[int, Field(ge=0)] = 1


class LimitsPart(Part):
    """What may fail in a row in one way before the session pauses, or a machine is set aside; a resume counts anew.

    Ten commits are as many as a plain bisection of a thousand has steps: a row of that length is no bad luck. A wrong
    kernel is seldom the commit's doing, so three of them are enough. Errors are a machine's own, or the builder's, and
    say nothing of a commit: a hiccup is tried again, a dead machine is not hammered.
    """

    failed_builds: PositiveInt = 10
    failed_boots: PositiveInt = 10
    wrong_kernels: PositiveInt = 3
    machine_errors: PositiveInt = 3
    builder_errors: PositiveInt = 3


class Recipe(Part):
    """The whole of it. `good` and `bad` are revisions of `repo` (a path relative to the recipe's folder).

    `first_parent` walks only bad, its first parent, that one's and so on: what merges brought in is one step each.
    `prepare` is for all machines that are reached over SSH; what a machine's own says goes before it.
    """

    name: Name
    repo: Text
    good: Text
    bad: Text
    first_parent: bool = False
    kernel: KernelPart = KernelPart()
    benchmark: BenchmarkPart = BenchmarkPart()
    machines: Annotated[tuple[Machine, ...], Field(min_length=1)]
    prepare: Prepare = Prepare()
    search: SearchPart = SearchPart()
    limits: LimitsPart = LimitsPart()

    def with_fixups(self, fixups: Sequence[FixupPart]) -> "Recipe":
        """The same with these fix-ups."""
        return self.model_copy(update={"kernel": self.kernel.model_copy(update={"fixups": tuple(fixups)})})

    def cpu_on(self, machine: Machine) -> int | Role | None:
        """Where the benchmark runs on a machine of it: as its preparation says, or the benchmark for all."""
        own = machine.prepare.over(self.prepare).cpu if isinstance(machine, SshMachine) else None
        return self.benchmark.cpu if own is None else own

    @model_validator(mode="after")
    def _tests_and_names_are_distinct(self) -> "Recipe":
        tests = (self.benchmark.test, *self.benchmark.also)
        if len(set(tests)) != len(tests):
            raise ValueError(f"benchmark: a test is named twice in {', '.join(tests)}")
        names = [machine.name for machine in self.machines]
        if len(set(names)) != len(names):
            raise ValueError(f"machines: a name stands twice in {', '.join(names)}")
        return self

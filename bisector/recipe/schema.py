"""A recipe, checked: what is hunted, where, with which kernel configuration, on which machines.

Strict: an unknown key, a number where text belongs, or NaN is an error with its place (`recipe/load.py`).
"""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator

Text = Annotated[str, StringConstraints(min_length=1, strip_whitespace=True)]
PositiveInt = Annotated[int, Field(gt=0)]
PositiveFloat = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class KernelPart(_Part):
    """How kernels are made. Paths are relative to the recipe's folder.

    `base` is `allnoconfig`, `defconfig`, or the path of a complete configuration; `fragments` are laid over it;
    `required` lines ("CONFIG_NET=y", "CONFIG_IPV6=n") must hold after olddefconfig, and every line of a fragment
    must as well.
    """

    arch: Text = "x86_64"
    base: Text = "defconfig"
    fragments: tuple[Text, ...] = ()
    required: tuple[Text, ...] = ()
    compiler: Text = "gcc"
    jobs: PositiveInt | None = None
    timeout_s: PositiveFloat = 7200.0


class BenchmarkPart(_Part):
    """What is measured: `test` decides, `also` are siblings measured in the same runs and reported."""

    test: Text = "page_test"
    also: tuple[Text, ...] = ()
    sample_ms: PositiveInt = 500
    cpu: Annotated[int, Field(ge=0)] | None = 0
    timeout_s: PositiveFloat = 600.0


class EmbeddedMachine(_Part):
    """The QEMU machine that the tool brings along. `clock: instructions` is icount: nearly no noise."""

    kind: Literal["embedded"]
    name: Text = "embedded"
    clock: Literal["wall", "instructions"] = "instructions"
    icount_shift: Annotated[int, Field(ge=0, le=10)] = 2
    memory_mib: PositiveInt = 512
    accelerator: Literal["try", "kvm", "tcg"] = "try"
    cmdline: str = ""
    boot_timeout_s: PositiveFloat = 180.0
    build_beside_runs: bool | None = None
    """May the builder, on the same host, work during a run? Default: yes with `instructions`, no with `wall`."""


class SearchPart(_Part):
    """When to believe, and what to spend."""

    confidence: Annotated[float, Field(gt=0.5, lt=1)] = 0.99
    smallest_effect_percent: PositiveFloat = 1.0
    find: Literal["regression", "improvement"] = "regression"
    audit: bool = True
    max_boots: PositiveInt = 400
    time_budget_h: PositiveFloat | None = None
    seed: Annotated[int, Field(ge=0)] = 1


class Recipe(_Part):
    """The whole of it. `good` and `bad` are revisions of `repo` (a path relative to the recipe's folder)."""

    name: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]
    repo: Text
    good: Text
    bad: Text
    kernel: KernelPart = KernelPart()
    benchmark: BenchmarkPart = BenchmarkPart()
    machines: Annotated[tuple[EmbeddedMachine, ...], Field(min_length=1)]
    search: SearchPart = SearchPart()

    @model_validator(mode="after")
    def _tests_and_names_are_distinct(self) -> "Recipe":
        tests = (self.benchmark.test, *self.benchmark.also)
        if len(set(tests)) != len(tests):
            raise ValueError(f"benchmark: a test is named twice in {', '.join(tests)}")
        names = [machine.name for machine in self.machines]
        if len(set(names)) != len(names):
            raise ValueError(f"machines: a name stands twice in {', '.join(names)}")
        return self

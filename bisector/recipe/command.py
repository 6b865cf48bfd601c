"""A benchmark of the user's own in a recipe: any command, how its output is read, and which of its numbers count."""

from pathlib import PurePath
from typing import Annotated, Literal

from pydantic import Field, model_validator

from bisector.recipe.machines import Part, PositiveFloat, Text

SKIP_EXIT_CODE = 125
"""A command that ends with this says "this commit cannot be tested". Source: git-bisect(1), "bisect run"."""


class Metric(Part):
    """One number of each run: a name of the user's, which direction is better, and its unit.

    `reads` is what the parser calls it (its name again if left out), `sum` several such names whose sum it is: the
    phases of a workload. `unit` and `better` are never guessed: where the parser knows them as well, they must agree.
    Where one run prints a metric several times (repetitions), the run's value is their median.
    """

    name: Text
    better: Literal["higher", "lower"]
    unit: Text
    reads: Text | None = None
    sum: tuple[Text, ...] = ()

    @model_validator(mode="after")
    def _has_one_source(self) -> "Metric":
        if self.sum and self.reads is not None:
            raise ValueError("must have either reads (one name) or sum (several), not both")
        if len(self.sum) == 1 or len(set(self.sum)) != len(self.sum):
            raise ValueError("sum must name at least two different metrics")
        return self

    @property
    def sources(self) -> tuple[str, ...]:
        """The parser's names whose sum this metric is."""
        return self.sum or (self.reads or self.name,)


class CommandPart(Part):
    """What is run on the machine instead of the suite, once for each run.

    Either `argv` (program and arguments, no shell) or `shell` (a line for the machine's `sh -c`). It runs with
    LC_ALL=C, pinned to the benchmark's `cpu` by taskset unless that is null, in a folder of its own, first in PATH,
    that holds the uploaded `files` (paths relative to the recipe's folder). `setup` is a line for `sh -c` there, once
    after each boot. `output` is the stream that `parser` reads; `regex`, for the parser of that name, is a Python
    pattern with the named groups metric, value and unit.
    """

    argv: tuple[str, ...] = ()
    shell: Text | None = None
    files: tuple[Text, ...] = ()
    setup: Text | None = None
    setup_timeout_s: PositiveFloat = 600.0
    output: Literal["stdout", "stderr"] = "stdout"
    parser: Text
    regex: Text | None = None
    metrics: Annotated[tuple[Metric, ...], Field(min_length=1)]

    @model_validator(mode="after")
    def _is_one_command(self) -> "CommandPart":
        if bool(self.argv) == (self.shell is not None):
            raise ValueError("must have either argv (a list: program and arguments) or shell (a line for sh -c)")
        if self.argv and not self.argv[0]:
            raise ValueError("argv must begin with a program")
        if (self.parser == "regex") != (self.regex is not None):
            raise ValueError("regex (a pattern with named groups) belongs to parser: regex, and to no other")
        uploads = [PurePath(file).name for file in self.files]
        if len(set(uploads)) != len(uploads):
            raise ValueError(f"two files would have one name on the machine: {', '.join(uploads)}")
        names = [metric.name for metric in self.metrics]
        if len(set(names)) != len(names):
            raise ValueError(f"a metric is named twice in {', '.join(names)}")
        return self

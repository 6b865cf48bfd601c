"""What a recipe may say of each part but not of several together: keys without effect, CPUs that no boot will have.

Only a recipe that is written is held to this: journals of older sessions have every key written out.
"""

from collections.abc import Iterator

from bisector.model.cpus import parse_cpus
from bisector.recipe.errors import dotted
from bisector.recipe.schema import EmbeddedMachine, Recipe
from bisector.recipe.tree import Problem, Tree

_WORDS = {"isolated": "isolcpus=", "nohz_full": "nohz_full="}
_OPTIONS = {"isolated": ("CONFIG_SMP", "CONFIG_CPU_ISOLATION"), "nohz_full": ("CONFIG_SMP", "CONFIG_NO_HZ_FULL")}


def pointless(recipe: Recipe, tree: Tree) -> list[Problem]:
    """What is wrong in a recipe of which every part is right by itself."""
    return [*_ignored_length(recipe, tree), *_missing_cpus(recipe, tree)]


def _ignored_length(recipe: Recipe, tree: Tree) -> Iterator[Problem]:
    benchmark = tree.child("benchmark")
    written = benchmark.child("sample_ms") if benchmark is not None else None
    if recipe.benchmark.command is not None and written is not None:
        message = "is of the suite's tests; a command decides itself how long it runs: leave it out"
        yield Problem(written.key_place, f"benchmark.sample_ms: {message}")


def _missing_cpus(recipe: Recipe, tree: Tree) -> Iterator[Problem]:
    """CPUs that cannot be there, as far as the recipe alone tells: the rest is seen when a kernel has booted."""
    for index, machine in enumerate(recipe.machines):
        wanted = recipe.cpu_on(machine)
        if wanted is None:
            continue
        own = ("machines", index, "prepare", "cpu")
        places = [own, ("prepare", "cpu"), ("benchmark", "cpu")]
        found = [(place, at) for place in places for at, whole in [tree.find(place)] if whole]
        place, at = found[0] if found else (places[-1], tree)
        lacks = _lacking(recipe, str(wanted))
        if not lacks and isinstance(machine, EmbeddedMachine):
            lacks = _lacking_here(machine, wanted)
        if lacks:
            yield Problem(at.place, f"{dotted(place)}: {wanted}, but {lacks}")


def _lacking(recipe: Recipe, wanted: str) -> str:
    without = [f"{option}=n" for option in _OPTIONS.get(wanted, ()) if f"{option}=n" in recipe.kernel.required]
    return f"kernels with {without[0]} (kernel.required) keep no CPU apart" if without else ""


def _lacking_here(machine: EmbeddedMachine, wanted: int | str) -> str:
    """Of a machine whose whole command line we write, and whose CPUs we count."""
    if isinstance(wanted, int):
        more = f"{machine.name} has {machine.cpus} (from CPU 0 on): give it more, cpus: {wanted + 1}, clock: wall"
        return more if wanted >= machine.cpus else ""
    if wanted not in _WORDS:
        return ""
    lists = list(_lists(machine.cmdline, wanted))
    if not lists:
        word = f"{_WORDS[wanted]}1"
        return f"the kernels of {machine.name} are not told which: give it cmdline: {word}, cpus: 2, clock: wall"
    try:
        kept = {cpu for listed in lists for cpu in parse_cpus(listed)}
    except ValueError:
        return ""  # the kernel reads more than we do: N, all, 1-9:1/2
    if kept & set(range(machine.cpus)):
        return ""
    return f"{machine.name} has {machine.cpus} (from CPU 0 on) and none of those in its cmdline"


def _lists(cmdline: str, role: str) -> Iterator[str]:
    """The lists of CPUs in a command line that make CPUs ones of that role.

    Source: the kernel's Documentation, admin-guide/kernel-parameters: isolcpus=[flags,]list, whose flags are nohz,
    domain and managed_irq, domain if there is none; and kernel/sched/isolation.c.
    """
    for word in cmdline.split():
        if role == "nohz_full" and word.startswith("nohz_full="):
            yield word.removeprefix("nohz_full=")
        if word.startswith("isolcpus="):
            parts = word.removeprefix("isolcpus=").split(",")
            flags = [part for part in parts if part in ("nohz", "domain", "managed_irq")]
            if ("nohz" if role == "nohz_full" else "domain") in (flags or ["domain"]):
                yield ",".join(part for part in parts if part not in flags)

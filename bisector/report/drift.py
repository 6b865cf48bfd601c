"""Which options and fix-ups differ between the kernels an answer rests on: `make olddefconfig` answers by itself.

A slowdown whose commit also switches an option may be the option's; some options change numbers by themselves.
"""

import re
from dataclasses import dataclass

from bisector.model.answer import Answer
from bisector.model.outcome import AnswerKind
from bisector.session.state import SessionState

_CONFOUNDING = re.compile(
    r"CONFIG_(HZ(_\w+)?|NO_HZ\w*|PREEMPT\w*|SMP|NUMA\w*|TRANSPARENT_HUGEPAGE\w*|CC_OPTIMIZE\w*|LTO\w*|CFI\w*|AUTOFDO\w*"
    r"|PROPELLER\w*|RETPOLINE|RETHUNK|\w*MITIGATION\w*|PAGE_TABLE_ISOLATION|STACKPROTECTOR\w*|INIT_ON_\w+|INIT_STACK\w*"
    r"|HARDENED_USERCOPY|SLAB_FREELIST\w*|SHUFFLE_PAGE\w*|DEBUG_(?!INFO)\w+|\w*_DEBUG|KASAN\w*|KCSAN\w*|KMSAN\w*|KFENCE\w*"
    r"|UBSAN\w*|LOCKDEP|PROVE_\w+|LOCK_STAT|FUNCTION_TRACER|FTRACE|GCOV\w*|KCOV|CONTEXT_TRACKING\w*|VIRT_CPU_ACCOUNTING\w*"
    r"|PARAVIRT\w*|SECURITY|AUDIT\w*)"
)
"""Options known to move kernel benchmarks. Sources: HZ 100 to 1000 costs about 3 % (linux-kernel, 2002), SECURITY 0.9 %
and PARAVIRT 1 % (mmap-perf, 2009), context tracking doubles a system call (2015); the rest by what they are for.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """How one kernel's final configuration differs from another's. `changes` are lines "CONFIG_X: y -> n", sorted;
    `confounding` those among them that are known to change numbers by themselves.
    """

    commit: str
    against: str
    role: str
    changes: tuple[str, ...]
    confounding: tuple[str, ...]


def drifts(state: SessionState, answer: Answer | None) -> tuple[Drift, ...]:
    """The bad end against the good one, and an accused commit against each parent that was built; empty ones left out.

    An image tells its differences from the good end, so two images are compared by way of it.
    """
    found = []
    for new, base, role in _pairs(state, answer):
        ours, theirs = _from_good(state, new), _from_good(state, base)
        if ours is None or theirs is None:
            continue
        changes = tuple(
            f"{name}: {before} -> {after}"
            for name in sorted(ours.keys() | theirs.keys())
            if (before := _value(name, theirs, ours)) != (after := _value(name, ours, theirs))
        )
        if changes:
            commits = state.range.commits
            found.append(
                Drift(
                    commit=commits[new].id,
                    against=commits[base].id,
                    role=role,
                    changes=changes,
                    confounding=tuple(line for line in changes if _CONFOUNDING.fullmatch(line.partition(":")[0])),
                )
            )
    return tuple(found)


@dataclass(frozen=True, slots=True, kw_only=True)
class FixupDrift:
    """Two kernels that were built with different fix-ups of the recipe: their names, in the order of applying."""

    commit: str
    against: str
    role: str
    fixups: tuple[str, ...]
    fixups_against: tuple[str, ...]


def fixup_drifts(state: SessionState, answer: Answer | None) -> tuple[FixupDrift, ...]:
    """As `drifts`, of the fix-ups; pairs with the same ones left out."""
    images = {index: build.image for index, build in state.builds.items() if build.image is not None}
    commits = state.range.commits
    return tuple(
        FixupDrift(
            commit=commits[new].id,
            against=commits[base].id,
            role=role,
            fixups=images[new].fixups,
            fixups_against=images[base].fixups,
        )
        for new, base, role in _pairs(state, answer)
        if new in images and base in images and images[new].fixups != images[base].fixups
    )


def _pairs(state: SessionState, answer: Answer | None) -> list[tuple[int, int, str]]:
    """(commit, what it is held against, its role), by index in the range."""
    pairs = [(len(state.range) - 1, 0, "the bad end")]
    if answer is not None and answer.kind is AnswerKind.COMMIT:
        accused = state.range.index_of(answer.commits[0])
        pairs += [(accused, parent, "the first bad commit") for parent in state.range.commits[accused].parents]
    return pairs


def _from_good(state: SessionState, index: int) -> dict[str, tuple[str, str]] | None:
    """Name to (the good end's value, this kernel's), for the options that differ; None if it was not built."""
    build = state.builds.get(index)
    if build is None or build.image is None:
        return None
    found = {}
    for line in build.image.config_changes:
        name, _, values = line.partition(": ")
        good, _, here = values.rpartition(" -> ")
        found[name] = (good, here)
    return found


def _value(name: str, here: dict[str, tuple[str, str]], there: dict[str, tuple[str, str]]) -> str:
    return here[name][1] if name in here else there[name][0]

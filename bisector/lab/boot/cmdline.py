"""A kernel's command line: the running one's words for another boot, and what only test kernels are told. Pure."""

import re
from collections.abc import Iterable

from bisector.lab.boot.method import MARK
from bisector.recipe.machines import Installed, SshMachine

_WORD = re.compile(r'(?:[^\s"]|"[^"]*")+')
# What the bootloader adds by itself, and what our entries set their own way.
_DROPPED = ("BOOT_IMAGE=", "initrd=", "panic=", f"{MARK}=")


def cmdline_words(cmdline: str) -> list[str]:
    """The words, as the kernel parts them: quotes protect blanks. The quotes still stand in them."""
    return _WORD.findall(cmdline)


def kernel_words(cmdline: str) -> tuple[str, ...]:
    """A running kernel's command line as words for another boot: without what belongs to this one alone."""
    words = [word.replace('"', "") for word in cmdline_words(cmdline)]
    return tuple(word for word in words if not word.startswith(_DROPPED))


def joined(words: Iterable[str]) -> str:
    """One line again: a blank inside a word is protected by quotes around it."""
    return " ".join(f'"{word}"' if re.search(r"\s", word) else word for word in words)


def fallback_words(part: Installed, machine: SshMachine, release: str) -> tuple[str, ...]:
    """What test kernels are told and no other: one that dies must fall back by itself."""
    return (
        f"panic={part.panic_s}",
        "oops=panic",
        "softlockup_panic=1",
        "hung_task_panic=1",
        *([] if machine.watchdog_s is None else [f"systemd.watchdog_sec={machine.watchdog_s}"]),
        *machine.cmdline.split(),
        f"{MARK}={release}",
    )

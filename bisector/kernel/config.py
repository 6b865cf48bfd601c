"""Kernel configurations as values: parse, merge, assert, compare, digest. Reads text, runs nothing.

A configuration is a dict from "CONFIG_X" to its text ("y", "m", "42", '"text"'). What is not set has no entry, so
"CONFIG_X=n", "# CONFIG_X is not set" and no line at all are one thing. In what is *wanted*, "n" stands for not set.
"""

import hashlib
import re
from collections.abc import Iterable, Mapping

from bisector.model.errors import RecipeError

_SET = re.compile(r"(CONFIG_[A-Za-z0-9_]+)=(.*)")
_UNSET = re.compile(r"# (CONFIG_[A-Za-z0-9_]+) is not set")


def parse_config(text: str) -> dict[str, str]:
    """A whole .config; lines that are neither set nor unset an option are comments."""
    config: dict[str, str] = {}
    for line in text.splitlines():
        if found := _SET.fullmatch(line.strip()):
            config[found[1]] = found[2]
        elif found := _UNSET.fullmatch(line.strip()):
            config.pop(found[1], None)
    return {name: value for name, value in config.items() if value != "n"}


def parse_wanted(text: str, *, where: str) -> dict[str, str]:
    """A fragment: later lines win, as in the kernel's merge_config.sh. Raises RecipeError with every bad line."""
    wanted: dict[str, str] = {}
    wrong = []
    for number, line in enumerate(text.splitlines(), start=1):
        stripped = line.strip()
        if found := _SET.fullmatch(stripped):
            wanted[found[1]] = found[2] or "n"
        elif found := _UNSET.fullmatch(stripped):
            wanted[found[1]] = "n"
        elif stripped and not stripped.startswith("#"):
            wrong.append(f"{where}:{number}:1: not a configuration line: {stripped!r}")
    if wrong:
        raise RecipeError(
            wrong[0], details="\n".join(wrong[1:]), resolution='Write "CONFIG_X=y" or "# CONFIG_X is not set"'
        )
    return wanted


def merge(base: str, wanted: Mapping[str, str]) -> str:
    """The text of a configuration with `wanted` laid over it: the old lines of those options are gone."""
    kept = []
    for line in base.splitlines():
        found = _SET.fullmatch(line.strip()) or _UNSET.fullmatch(line.strip())
        if not (found and found[1] in wanted):
            kept.append(line)
    return "\n".join([*kept, *wanted_lines(wanted)]) + "\n"


def wanted_lines(wanted: Mapping[str, str]) -> list[str]:
    """Lines as kconfig reads and writes them, sorted by name."""
    return [f"# {name} is not set" if value == "n" else f"{name}={value}" for name, value in sorted(wanted.items())]


def shortfalls(wanted: Mapping[str, str], config: Mapping[str, str]) -> tuple[str, ...]:
    """What did not come out as wanted: "CONFIG_X: wanted y, got n" for each, sorted."""
    return tuple(
        f"{name}: wanted {value}, got {config.get(name, 'n')}"
        for name, value in sorted(wanted.items())
        if config.get(name, "n") != value
    )


def config_changes(before: Mapping[str, str], after: Mapping[str, str]) -> tuple[str, ...]:
    """What differs: "CONFIG_X: y -> n" for each, sorted."""
    return tuple(
        f"{name}: {before.get(name, 'n')} -> {after.get(name, 'n')}"
        for name in sorted(before.keys() | after.keys())
        if before.get(name, "n") != after.get(name, "n")
    )


def config_digest(config: Mapping[str, str]) -> str:
    """SHA-256 in hex of the options alone: comments (they state the kernel's version) and order do not count."""
    return digest_of(f"{name}={value}" for name, value in sorted(config.items()))


def digest_of(parts: Iterable[str]) -> str:
    """SHA-256 in hex of a list of texts, unambiguous."""
    digest = hashlib.sha256()
    for part in parts:
        encoded = part.encode("utf-8", errors="surrogateescape")
        digest.update(f"{len(encoded)}:".encode() + encoded)
    return digest.hexdigest()

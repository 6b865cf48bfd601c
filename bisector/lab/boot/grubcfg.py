"""The text of GRUB's custom.cfg: our entries in it, everybody else's lines untouched. Pure."""

import re
from collections.abc import Collection
from dataclasses import dataclass

from bisector.lab.boot.cmdline import cmdline_words

ID_PREFIX = "bisector-"
"""How the ids of our menu entries begin, and nobody else's should."""

_OURS = re.compile(r"^# bisector begin (\S+)\n.*?^# bisector end \1\n", re.MULTILINE | re.DOTALL)
_PLAIN = re.compile(r"[A-Za-z0-9_@%+=:,./-]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A menu entry: `name` is unique among ours; paths as GRUB sees them on the filesystem with that UUID."""

    name: str
    filesystem: str
    kernel: str
    initrd: str | None
    cmdline: tuple[str, ...]

    @property
    def id(self) -> str:
        """What `next_entry` is set to."""
        return ID_PREFIX + self.name


def entry_names(text: str) -> tuple[str, ...]:
    """The names of our entries in a custom.cfg, in order."""
    return tuple(match[1] for match in _OURS.finditer(text))


def with_entries(text: str, *, add: Collection[Entry] = (), drop: Collection[str] = ()) -> str:
    """A custom.cfg with our entries of these names dropped, and others added (in place of those of the same name)."""
    gone = {*drop, *(entry.name for entry in add)}
    kept = _OURS.sub(lambda match: "" if match[1] in gone else match[0], text)
    if kept and not kept.endswith("\n"):
        kept += "\n"
    return kept + "".join(map(_block, add))


def boot_image(cmdline: str) -> str | None:
    """The kernel's path as GRUB told it (BOOT_IMAGE=), without the device."""
    for word in cmdline_words(cmdline):
        if word.startswith("BOOT_IMAGE="):
            return re.sub(r"^\([^)]*\)", "", word.removeprefix("BOOT_IMAGE=")) or None
    return None


def quoted(word: str) -> str:
    """A word of GRUB's script language. Source: GRUB manual, "Quoting": nothing is special between single quotes."""
    return word if _PLAIN.fullmatch(word) else "'" + word.replace("'", "'\\''") + "'"


def _block(entry: Entry) -> str:
    words = " ".join(map(quoted, (entry.kernel, *entry.cmdline)))
    lines = [
        f"# bisector begin {entry.name}",
        # Without --unrestricted a machine with a GRUB password waits at its menu for ever.
        f"menuentry {quoted('bisector ' + entry.name)} --unrestricted --id {quoted(entry.id)} {{",
        f"\tsearch --no-floppy --fs-uuid --set=root {quoted(entry.filesystem)}",
        f"\tlinux {words}",
        *([f"\tinitrd {quoted(entry.initrd)}"] if entry.initrd else []),
        "}",
        f"# bisector end {entry.name}",
    ]
    return "\n".join(lines) + "\n"

"""What systemd-boot reads and tells: entry files, loader.conf's default, EFI variables as efivarfs shows them. Pure.

Sources: UAPI.1 Boot Loader Specification (entry files), loader.conf(5), and systemd's "Boot Loader Interface" (the
variables LoaderEntry*, LoaderFeatures).
"""

import re
from collections.abc import Collection
from dataclasses import dataclass
from fnmatch import fnmatchcase

ID_PREFIX = "bisector-"
"""How the ids of our entries begin, and nobody else's should."""

_ONE_SHOT = 1 << 3
"""Of LoaderFeatures: the loader honours LoaderEntryOneShot, and removes it before it boots what it names."""

_SORT_KEY = 1 << 8
"""Of LoaderFeatures: entries with a sort-key come before those without."""

_ATTRIBUTES = 4
"""Bytes before a variable's value in efivarfs (the kernel's Documentation/filesystems/efivarfs.rst)."""

_TRIES = re.compile(r"\+\d+(?:-\d+)?(?=\.(?:conf|efi)$)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """An entry file's keys that matter here; paths from the root of the filesystem that the file lies on."""

    title: str
    kernel: str
    initrds: tuple[str, ...] = ()
    options: str = ""
    is_program: bool = False
    """The kernel is a unified image, which is started as an EFI program."""
    sort_key: str = ""

    def text(self) -> str:
        """The file. Without a sort-key it stands behind every entry that has one."""
        lines = [
            f"title {self.title}",
            f"{'efi' if self.is_program else 'linux'} {self.kernel}",
            *(f"initrd {initrd}" for initrd in self.initrds),
            f"options {self.options}",
        ]
        return "\n".join(lines) + "\n"


def parse_entry(text: str) -> Entry:
    """What an entry file says; keys may stand more than once, and those that it lacks are empty."""
    said: dict[str, list[str]] = {}
    for line in text.splitlines():
        words = line.strip().split(None, 1)
        if len(words) == 2 and not words[0].startswith("#"):
            said.setdefault(words[0].lower(), []).append(words[1])
    kernel, program = ((said.get(key) or [""])[-1] for key in ("linux", "efi"))
    return Entry(
        title=(said.get("title") or [""])[-1],
        kernel=kernel or program,
        initrds=tuple(said.get("initrd", ())),
        options=" ".join(said.get("options", ())),
        is_program=not kernel,
        sort_key=(said.get("sort-key") or [""])[-1],
    )


def entry_id(name: str) -> str:
    """The id of our entry of that name, which is its file's name: systemd-boot turns ids into small letters."""
    return ID_PREFIX + re.sub(r"[^a-z0-9._-]", "_", name.lower()) + ".conf"


def plain_id(file_name: str) -> str:
    """An entry's id by its file's name, without the counter of boot assessment ("debian+2-1.conf")."""
    return _TRIES.sub("", file_name.lower())


def variable_text(raw: bytes) -> str:
    """A variable's text: UTF-16, ended by a null character."""
    return raw[_ATTRIBUTES:].decode("utf-16-le", errors="replace").partition("\0")[0]


def does_one_shot(features: bytes) -> bool:
    """Does LoaderFeatures say that the loader boots an entry once?"""
    return bool(int.from_bytes(features[_ATTRIBUTES:], "little") & _ONE_SHOT)


def sorts_by_key(features: bytes) -> bool:
    """Does LoaderFeatures say that entries with a sort-key come before ours, which have none?"""
    return bool(int.from_bytes(features[_ATTRIBUTES:], "little") & _SORT_KEY)


def has_tries_left(file_name: str) -> bool:
    """Is an entry not counted down to nothing by boot assessment? Such ones come last, behind ours."""
    found = _TRIES.search(file_name.lower())
    return found is None or not re.match(r"\+0+(?!\d)", found[0])


def is_on(secure_boot: bytes) -> bool:
    """Does the firmware's variable SecureBoot say that only signed programs are started?"""
    return secure_boot[_ATTRIBUTES : _ATTRIBUTES + 1] == b"\1"


def conf_default(loader_conf: str) -> str:
    """What loader.conf sets as default; a later line wins."""
    found = re.findall(r"^[ \t]*default[ \t]+(\S+)", loader_conf, re.MULTILINE)
    return found[-1] if found else ""


def takes_default(wanted: str, last_booted: str, others: Collection[str], *, sorted_first: bool) -> bool:
    """Could an entry of ours become what the machine boots by default?

    `wanted` is the pattern that is set as default, `others` are the ids that are not ours, and `sorted_first` says that
    the first entry in the loader's own order has a sort-key, or is sure to stay first for another reason.
    """
    # One-shot boots are not saved by "@saved". Source: save_selected_entry() in systemd's src/boot/efi/boot.c
    pattern = (last_booted if wanted == "@saved" else wanted).lower()
    matches = [name for name in others if fnmatchcase(name, pattern)] if pattern else []
    if matches:
        return fnmatchcase(entry_id("6.1"), pattern)
    return not sorted_first

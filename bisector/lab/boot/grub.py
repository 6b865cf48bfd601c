"""One-shot boots by GRUB's `next_entry`, which GRUB itself clears before it boots the entry.

Our entries stand in custom.cfg, which a generated grub.cfg reads last: no entry's number changes, nothing has to be
generated anew, and the default is as it was. Source: GRUB manual, "Booting once-only" and "Environment block".
Where the distribution's entries are BLS files (Fedora, RHEL), the same grub.cfg reads custom.cfg after them.
"""

import base64
import tempfile
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from bisector.lab.boot import grubcfg
from bisector.lab.boot.cmdline import fallback_words, kernel_words
from bisector.lab.boot.grubcfg import Entry
from bisector.lab.boot.kernels import KernelFolder
from bisector.lab.boot.method import MARK, OneShotError
from bisector.lab.root import Root
from bisector.model.kernel import KernelImage
from bisector.recipe.machines import GrubBoot, SshMachine

FOLDER = "/boot/bisector"
"""Where our kernels lie. Nothing else is ever removed from /boot."""

_WRITABLE = frozenset({"ext2", "xfs", "fat", "exfat", "jfs", "reiserfs"})
"""Filesystems, in grub-probe's words, whose data GRUB can overwrite in place. Btrfs and ZFS checksum and copy."""

_PROBE = "probe"

_INSPECT = """
for d in /boot/grub /boot/grub2 /boot/efi/EFI/*; do [ -s "$d/grub.cfg" ] && break; done
[ -s "$d/grub.cfg" ] || { echo "there is no grub.cfg in /boot/grub, /boot/grub2 or /boot/efi/EFI/*" >&2; exit 1; }
for t in grub grub2; do command -v "$t-editenv" >/dev/null && break; done
command -v "$t-editenv" >/dev/null || { echo "there is neither grub-editenv nor grub2-editenv" >&2; exit 1; }
say folder echo "$d"
say tool echo "$t"
say filesystem "$t-probe" --target=fs "$d"
say abstraction "$t-probe" --target=abstraction "$d"
say uuid "$t-probe" --target=fs_uuid /boot
say path "$t-mkrelpath" /boot
say environment "$t-editenv" "$d/grubenv" list
say clears grep -c "save_env next_entry" "$d/grub.cfg"
say reads grep -c "custom\\.cfg" "$d/grub.cfg"
say cmdline cat /proc/cmdline
say release uname -r
say initrd sh -c 'cd /boot && ls "initrd.img-$(uname -r)" "initramfs-$(uname -r).img"'
"""

_CUSTOM = '[ -e "$1" ] || exit 0; stat -L -c %a "$1"; base64 "$1"'


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    """What `_INSPECT` found."""

    said: dict[str, str]

    @property
    def environment(self) -> dict[str, str]:
        return _pairs(self.said["environment"])

    @property
    def grubenv(self) -> tuple[str, str]:
        """The tool, and the file it edits."""
        return f"{self.said['tool']}-editenv", f"{self.said['folder']}/grubenv"

    def seen_by_grub(self, path: str) -> str:
        """A path below /boot as GRUB sees it, whose root is the filesystem that /boot lies on."""
        return self.said["path"].rstrip("/") + path.removeprefix("/boot")


class GrubMethod:
    """See `method.BootMethod`; GRUB 2.00 or newer, BIOS or EFI, with or without BLS entries of the distribution."""

    def __init__(self, part: GrubBoot, machine: SshMachine, root: Root) -> None:
        self._part = part
        self._machine = machine
        self._root = root
        self._kernels = KernelFolder(root, FOLDER, machine=machine, part=part, forget=self._forget)
        self._found: _Place | None = None
        self._default: _Place | None = None

    def inspect(self) -> None:
        """Raises OneShotError unless GRUB here reads custom.cfg, knows `next_entry`, and can clear it."""
        self._require_one_shot(self._inspect())

    def preflight(self) -> None:
        """As `inspect`; what the default entry and its command line are is remembered."""
        place = self._inspect()
        self._require_one_shot(place)
        self._root.script('[ -e "$2" ] || "$1" "$2" create', *place.grubenv)
        self._default = place
        self.disarm()

    def _require_one_shot(self, place: _Place) -> None:
        said, where = place.said, place.said["folder"]
        filesystem, abstraction = said["filesystem"], " ".join(said["abstraction"].split())
        saved, armed = (place.environment.get(name, "") for name in ("saved_entry", "next_entry"))
        reasons = [
            reason
            for wrong, reason in (
                (
                    not (filesystem and said["uuid"]),
                    f"{said['tool']}-probe cannot tell on which filesystem {where} lies",
                ),
                (
                    bool(filesystem) and filesystem not in _WRITABLE,
                    f"GRUB cannot write its environment on {filesystem}, where {where} lies",
                ),
                (bool(abstraction), f"GRUB cannot write its environment through {abstraction}, where {where} lies"),
                (said["clears"] in ("", "0"), f"{where}/grub.cfg does not clear next_entry (save_env next_entry)"),
                (said["reads"] in ("", "0"), f"{where}/grub.cfg does not read custom.cfg"),
                (saved.startswith(grubcfg.ID_PREFIX), f"the saved default is {saved}, one of our own entries"),
                (
                    bool(armed) and not armed.startswith(grubcfg.ID_PREFIX),
                    f"somebody has set the next boot to {armed!r} already",
                ),
            )
            if wrong
        ]
        if reasons:
            raise OneShotError(
                f"{self._machine.name}: one-shot boots by GRUB cannot be trusted here: {reasons[0]}",
                details="\n".join(reasons),
                resolution="An entry that is not cleared would be booted again and again. Put /boot on a plain "
                "partition, run grub-mkconfig, or use another boot method.",
            )

    def arm_probe(self, token: str) -> bool:
        """Boot the default's kernel and initramfs once by an entry of ours."""
        place = self._require_default_place()
        kernel = grubcfg.boot_image(place.said["cmdline"]) or place.seen_by_grub(
            f"/boot/vmlinuz-{place.said['release']}"
        )
        beside = place.said["initrd"].split()
        initrd = place.seen_by_grub(f"/boot/{beside[0]}") if beside else None
        words = (*kernel_words(place.said["cmdline"]), f"{MARK}={token}")
        self._write(add=[self._entry(_PROBE, kernel, initrd, words)])
        self._set_next(grubcfg.ID_PREFIX + _PROBE)
        return True

    def install(self, image: KernelImage, *, running: str, anew: bool) -> None:
        """Put `vmlinuz-RELEASE` and its initramfs into /boot/bisector, and its entry into custom.cfg."""
        place = self._require_default_place()
        self._kernels.install(image, running=running, anew=anew)
        words = (*kernel_words(place.said["cmdline"]), *fallback_words(self._part, self._machine, image.release))
        kernel = place.seen_by_grub(self._kernels.path(image.release))
        initrd = self._kernels.initrd(image)
        seen = None if initrd is None else place.seen_by_grub(initrd)
        self._write(add=[self._entry(image.release, kernel, seen, words)])

    def boot_once(self, image: KernelImage) -> None:
        """Set `next_entry`."""
        self._set_next(grubcfg.ID_PREFIX + image.release)

    def armed(self) -> str:
        """GRUB's `next_entry`."""
        return self._environment().get("next_entry", "")

    def disarm(self) -> None:
        """Unset `next_entry` if it is an entry of ours; somebody else's is left to them."""
        if self._environment().get("next_entry", "").startswith(grubcfg.ID_PREFIX):
            self._root.script('"$1" "$2" unset next_entry && sync', *self._place().grubenv)

    def require_default(self) -> None:
        """Raises OneShotError if the saved default changed since `preflight`."""
        before = self._require_default_place().environment.get("saved_entry", "")
        now = self._environment().get("saved_entry", "")
        if now != before:
            raise OneShotError(
                f"{self._machine.name}: the default entry was changed during the session",
                details=f"saved_entry is {now or 'not set'}, was {before or 'not set'}",
                resolution=f"Set it back: grub-set-default {before}" if before else "Unset it: grub-editenv - unset",
            )

    @property
    def reboot_order(self) -> None:
        """A plain reboot."""

    @property
    def starts_from_default(self) -> bool:
        """Any kernel will do."""
        return False

    def _inspect(self) -> _Place:
        self._found = _Place(said=self._root.told(_INSPECT))
        return self._found

    def _place(self) -> _Place:
        """Where things are, which does not change: looked up once."""
        return self._found or self._inspect()

    def _environment(self) -> dict[str, str]:
        return _pairs(self._root.script('"$1" "$2" list', *self._place().grubenv))

    def _require_default_place(self) -> _Place:
        if self._default is None:
            self.preflight()
        assert self._default is not None
        return self._default

    def _entry(self, name: str, kernel: str, initrd: str | None, words: tuple[str, ...]) -> Entry:
        uuid = self._require_default_place().said["uuid"]
        return Entry(name=name, filesystem=uuid, kernel=kernel, initrd=initrd, cmdline=words)

    def _forget(self, releases: Collection[str]) -> None:
        self._write(drop=releases)

    def _write(self, *, add: Collection[Entry] = (), drop: Collection[str] = ()) -> None:
        remote = f"{self._place().said['folder']}/custom.cfg"
        mode, _, encoded = self._root.script(_CUSTOM, remote).partition("\n")
        # Whatever bytes others wrote into it come back as they were.
        before = base64.b64decode(encoded).decode("latin-1")
        after = grubcfg.with_entries(before, add=add, drop=drop)
        if after == before:
            return
        with tempfile.NamedTemporaryFile(prefix="custom.cfg-") as file:
            file.write(after.encode("latin-1"))
            file.flush()
            self._root.put(Path(file.name), remote, int(mode or "644", 8))

    def _set_next(self, entry_id: str) -> None:
        tool, grubenv = self._place().grubenv
        said = self._root.script('"$1" "$2" set "next_entry=$3" && sync && "$1" "$2" list', tool, grubenv, entry_id)
        if f"next_entry={entry_id}" not in said.splitlines():
            raise OneShotError(
                f"{self._machine.name}: {tool} says it has set next_entry, but it has not", details=said.strip()
            )


def _pairs(listed: str) -> dict[str, str]:
    pairs = (line.partition("=") for line in listed.splitlines())
    return {key: value for key, equals, value in pairs if equals}

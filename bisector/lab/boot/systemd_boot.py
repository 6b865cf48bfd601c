"""One-shot boots by systemd-boot: the EFI variable LoaderEntryOneShot, which the loader removes before it boots.

A kernel and its entry lie on the partition that holds the machine's own entries ($BOOT: the extended boot loader
partition if there is one, else the EFI system partition). The default entry is never changed, and no entry of ours may
become it by its place in the loader's order. Sources: bootctl(1), systemd-boot(7), "Boot Loader Interface".
"""

import base64
import binascii
import tempfile
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from bisector.lab.boot import loaderentry
from bisector.lab.boot.cmdline import fallback_words, joined, kernel_words
from bisector.lab.boot.kernels import KernelFolder
from bisector.lab.boot.loaderentry import ID_PREFIX, Entry, entry_id, plain_id, variable_text
from bisector.lab.boot.method import MARK, OneShotError
from bisector.lab.root import Root
from bisector.model.kernel import KernelImage
from bisector.recipe.machines import SshMachine, SystemdBoot

FOLDER = "bisector"
"""Where our kernels lie on that partition. Nothing else is ever removed from it."""

_PROBE = "probe"
_EFIVARS = "/sys/firmware/efi/efivars"
_LOADER = "4a67b082-0a4c-41cf-b6c7-440b29bb8c4f"
"""The vendor of the loader's variables ("Boot Loader Interface")."""

_VARIABLES = ("Info", "Features", "EntrySelected", "EntryDefault", "EntryOneShot", "EntryLastBooted")

_LOOK = f"""
if cd {_EFIVARS} 2>/dev/null; then
  for name in {" ".join(_VARIABLES)}; do say "Loader$name" base64 "Loader$name-{_LOADER}"; done
fi
"""

# $1 is where the entry says that the partition is, if it does.
_INSPECT = f"""{_LOOK}
say SecureBoot base64 SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c
say firmware ls -d /sys/firmware/efi
say tool sh -c "command -v bootctl"
boot=$1
[ "$boot" ] || boot=$(bootctl --print-boot-path 2>/dev/null)
[ "$boot" ] || say complaint sh -c "bootctl --print-boot-path 2>&1 || true"
esp=$(bootctl --print-esp-path 2>/dev/null) || esp=$boot
say boot echo "$boot"
say conf cat "$esp/loader/loader.conf"
say cmdline cat /proc/cmdline
for folder in "$boot" "$esp"; do
  [ "$folder" ] && cd "$folder" || continue
  for file in loader/entries/*.conf; do [ -e "$file" ] && say "file $folder/$file" cat "$file"; done
  for file in EFI/Linux/*.efi; do [ -e "$file" ] && say "file $folder/$file" true; done
done
exit 0
"""

# $1 the partition, then ids. A probe has done its work; what an upload cut short left goes as well.
_REMOVE = """
cd "$1/loader/entries" || exit 1
shift
rm -f -- bisector-probe.conf bisector-*.part-* "$@"
sync
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    """What `_INSPECT` or `_LOOK` found; what the latter does not look at is empty."""

    said: dict[str, str]

    def raw(self, variable: str) -> bytes:
        """An EFI variable, with its attributes; empty if it is not there."""
        try:
            return base64.b64decode(self.said.get(variable, ""))
        except binascii.Error:
            return b""

    def text(self, variable: str) -> str:
        return variable_text(self.raw(variable))

    @property
    def sees_variables(self) -> bool:
        return bool(self.raw("LoaderInfo"))

    @property
    def boot(self) -> str:
        return self.said["boot"].rstrip("/")

    @property
    def default(self) -> str:
        """What is set as default: by the variable, which wins, or by the file."""
        return self.text("LoaderEntryDefault") or loaderentry.conf_default(self.said["conf"])

    @property
    def files(self) -> dict[str, str]:
        """Entry files and unified images, by their paths."""
        return {name.removeprefix("file "): text for name, text in self.said.items() if name.startswith("file ")}

    @property
    def running(self) -> tuple[str, str]:
        """The file of the entry that the loader booted, and the partition it lies on; "" if there is none."""
        selected = plain_id(self.text("LoaderEntrySelected"))
        for path in self.files:
            if selected and plain_id(Path(path).name) == selected:
                return path, str(Path(path).parents[2])
        return "", ""


class SystemdBootMethod:
    """See `method.BootMethod`; systemd-boot 240 or newer, or a loader that does what it does, entries by file."""

    def __init__(self, part: SystemdBoot, machine: SshMachine, root: Root) -> None:
        self._part = part
        self._machine = machine
        self._root = root
        self._default: _Place | None = None

    def inspect(self) -> None:
        """Raises OneShotError unless the loader says that it boots an entry once, and no default of ours can come."""
        self._require_one_shot(self._look(_INSPECT, self._part.boot_path or ""))

    def preflight(self) -> None:
        """As `inspect`; what the default is, and which entry and command line run, is remembered."""
        place = self._look(_INSPECT, self._part.boot_path or "")
        self._require_one_shot(place)
        self._default = place
        self.disarm()

    def _require_one_shot(self, place: _Place) -> None:
        reason, mend = self._objection(place)
        if reason:
            raise OneShotError(
                f"{self._machine.name}: one-shot boots by systemd-boot cannot be trusted here: {reason}",
                details=place.said.get("complaint", ""),
                resolution=mend,
            )

    def _objection(self, place: _Place) -> tuple[str, str]:
        """What speaks against it, and what to do; the first of what depends on each other."""
        said, loader = place.said, place.text("LoaderInfo") or "a loader that does not tell its name"
        if not said["firmware"]:
            return "it was not booted by UEFI", "Set its firmware to UEFI, or use another boot method."
        if not place.sees_variables:
            mend = f"On the machine: mount -t efivarfs efivarfs {_EFIVARS}; if it is: bootctl status"
            return "no variable of a boot loader is to be seen: no systemd-boot, or no efivarfs", mend
        if not loaderentry.does_one_shot(place.raw("LoaderFeatures")):
            return f"{loader} does not say that it boots an entry once", "On the machine: bootctl update; then reboot."
        if loaderentry.is_on(place.raw("SecureBoot")):
            return "Secure Boot is on, and nobody signs the test kernels", "Turn Secure Boot off in its firmware."
        if not said["tool"]:
            return "there is no bootctl", "Install systemd-boot's tools on it (Debian: systemd-boot)."
        if not place.boot:
            return "bootctl finds no partition for entries", "Mount it, or say boot.boot_path in its entry."
        return self._objection_to_entries(place)

    def _objection_to_entries(self, place: _Place) -> tuple[str, str]:
        running, _ = place.running
        selected, armed, initrd = place.text("LoaderEntrySelected"), place.text("LoaderEntryOneShot"), self._part.initrd
        names = {plain_id(Path(path).name) for path in place.files}
        others = {name for name in names if not name.startswith(ID_PREFIX)}
        if not running:
            mend = "Mount the partition that the loader reads, say boot.boot_path, or boot an entry that has a file."
            return f"the running entry {selected or '(unknown)'} has no file below {place.boot}", mend
        if initrd not in ("auto", "none") and not initrd.startswith(f"{place.boot}/"):
            return f"boot.initrd {initrd} does not lie on {place.boot}", f"Put it there: {place.boot}/{FOLDER}.img"
        if place.default.lower().startswith(ID_PREFIX):
            return f"the default is {place.default}, one of our own entries", "bootctl set-default with one of its own"
        sorted_first = loaderentry.sorts_by_key(place.raw("LoaderFeatures")) and any(
            loaderentry.parse_entry(text).sort_key and loaderentry.has_tries_left(Path(path).name)
            for path, text in place.files.items()
        )
        saved = place.text("LoaderEntryLastBooted")
        if loaderentry.takes_default(place.default, saved, others, sorted_first=sorted_first):
            what = f"the default {place.default!r}" if place.default else "no default is set, and the entries' order"
            return f"{what} could mean an entry of ours", f"On the machine: bootctl set-default {selected}"
        if armed and not armed.startswith(ID_PREFIX):
            return f"somebody has set the next boot to {armed!r} already", 'If it may go: bootctl set-oneshot ""'
        return "", ""

    def arm_probe(self, token: str) -> bool:
        """Boot the default's kernel and initramfs once by an entry of ours."""
        place = self._require_default_place()
        path, partition = place.running
        if path.endswith(".efi"):
            entry = Entry(title="", kernel=path.removeprefix(partition), is_program=True)
        else:
            entry = loaderentry.parse_entry(place.files[path])
        self._write(_PROBE, entry.kernel, entry.initrds, (f"{MARK}={token}",), partition, is_program=entry.is_program)
        self._set_next(entry_id(_PROBE))
        return True

    def install(self, image: KernelImage, *, running: str, anew: bool) -> None:
        """Put `vmlinuz-RELEASE` and its initramfs into the partition's folder, its entry beside the machine's own."""
        boot = self._require_default_place().boot
        self._require_partition()
        folder = f"{boot}/{FOLDER}"
        kernels = KernelFolder(self._root, folder, machine=self._machine, part=self._part, forget=self._forget)
        initrd = kernels.initrd(image)
        kernels.install(image, running=running, anew=anew)
        self._write(
            image.release,
            kernels.path(image.release).removeprefix(boot),
            () if initrd is None else (initrd.removeprefix(boot),),
            fallback_words(self._part, self._machine, image.release),
            boot,
        )

    def boot_once(self, image: KernelImage) -> None:
        """Set LoaderEntryOneShot."""
        self._set_next(entry_id(image.release))

    def armed(self) -> str | None:
        """LoaderEntryOneShot; None under a kernel that shows no EFI variables."""
        place = self._look(_LOOK)
        return place.text("LoaderEntryOneShot") if place.sees_variables else None

    def disarm(self) -> None:
        """Remove LoaderEntryOneShot if it names an entry of ours; somebody else's is left to them."""
        if (self.armed() or "").startswith(ID_PREFIX):
            self._root.script('bootctl set-oneshot ""')

    def require_default(self) -> None:
        """Raises OneShotError if LoaderEntryDefault changed since `preflight`."""
        before, now = self._require_default_place(), self._look(_LOOK)
        was, is_now = (place.text("LoaderEntryDefault") for place in (before, now))
        if now.sees_variables and is_now != was:
            before_it = was or '""'
            raise OneShotError(
                f"{self._machine.name}: the default entry was changed during the session",
                details=f"LoaderEntryDefault is {is_now or 'not set'}, was {was or 'not set'}",
                resolution=f"Set it back: bootctl set-default {before_it}",
            )

    @property
    def reboot_order(self) -> None:
        """A plain reboot."""

    @property
    def starts_from_default(self) -> bool:
        """Any kernel will do."""
        return False

    def _look(self, script: str, *arguments: str) -> _Place:
        return _Place(said=self._root.told(script, *arguments))

    def _require_default_place(self) -> _Place:
        if self._default is None:
            self.preflight()
        assert self._default is not None
        return self._default

    def _require_partition(self) -> None:
        """Under a test kernel too the partition must be there: else we would fill the folder it is mounted on."""
        path, _ = self._require_default_place().running
        if self._root.run(("test", "-e", path), timeout_s=30).exit_code != 0:
            raise OneShotError(
                f"{self._machine.name}: {path} is not to be seen: the partition with the entries is not mounted",
                resolution="Test kernels need what mounts it built in: CONFIG_VFAT_FS, CONFIG_NLS_CODEPAGE_437 and "
                "CONFIG_NLS_ISO8859_1, and its disk's driver.",
            )

    def _forget(self, releases: Collection[str]) -> None:
        self._root.script(_REMOVE, self._require_default_place().boot, *map(entry_id, releases))

    def _write(
        self,
        name: str,
        kernel: str,
        initrds: tuple[str, ...],
        words: tuple[str, ...],
        partition: str,
        *,
        is_program: bool = False,
    ) -> None:
        """An entry that boots with the default's words and these."""
        cmdline = (*kernel_words(self._require_default_place().said["cmdline"]), *words)
        entry = Entry(
            title=f"bisector {name}",
            kernel=kernel,
            initrds=initrds,
            options=joined(cmdline),
            is_program=is_program,
        )
        with tempfile.NamedTemporaryFile(prefix="entry-") as file:
            file.write(entry.text().encode())
            file.flush()
            self._root.put(Path(file.name), f"{partition}/loader/entries/{entry_id(name)}", 0o644)

    def _set_next(self, name: str) -> None:
        self._root.script('bootctl set-oneshot "$1" && sync', name)
        if (now := self.armed()) != name:
            raise OneShotError(
                f"{self._machine.name}: bootctl says it has set the next boot, but it has not",
                details=f"LoaderEntryOneShot is {now or 'not set'}, wanted {name}",
            )

"""Our kernels on a machine's boot filesystem: room made first, never torn, and removed only when nothing names them.

With a kernel come and go its modules (`modules`), and the initramfs that the machine's own tool makes of them
(`initrd`).
"""

import hashlib
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path

from bisector.lab.boot.initrd import InitrdMaker
from bisector.lab.boot.modules import ModuleFolder
from bisector.lab.root import Root
from bisector.model.errors import MachineError
from bisector.model.kernel import KernelImage, KernelModules
from bisector.recipe.machines import Installed, SshMachine

_SPARE_BYTES = 4 << 20
"""Left free beside a new kernel: for the bootloader's own files, and a block's rounding for each of ours."""

# Remains of uploads cut short go at once; ours only.
_LOOK = """
mkdir -p "$1" && cd "$1" || exit 1
rm -f -- *.part-*
df -P -k . | awk 'NR == 2 { print $4 }'
[ ! -s "initrd-$2" ] || echo initrd
sha256sum "vmlinuz-$2" 2>/dev/null | cut -c 1-64 || true
echo "@@"
ls -1t | sed -n "s/^vmlinuz-//p"
"""

# Modules that do not carry our mark are somebody else's. The configuration is left by a tool that was killed.
_REMOVE = f"""
cd "$1" || exit 1
shift
for release in "$@"; do
  rm -f -- "vmlinuz-$release" "initrd-$release"
  case $release in *-bisector-*) rm -f -- "/boot/config-$release";; esac
  [ ! -e "{ModuleFolder.PATH}/$release/{ModuleFolder.MARK}" ] || rm -rf -- "{ModuleFolder.PATH}/$release"
done
sync
df -P -k . | awk "NR == 2 {{ print \\$4 }}"
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Seen:
    """What lies in the folder: is this kernel's initramfs there, the digest of its image, our kernels, newest first."""

    free_bytes: int
    has_initrd: bool
    sha256: str
    releases: list[str]


class KernelFolder:
    """`vmlinuz-RELEASE` files in `folder` on a machine, and what belongs to them. Nothing else is ever removed.

    `forget` removes the bootloader's entries of these releases; it is called before their kernels go.
    """

    def __init__(
        self,
        root: Root,
        folder: str,
        *,
        machine: SshMachine,
        part: Installed,
        forget: Callable[[Collection[str]], None] | None = None,
    ) -> None:
        self._root = root
        self._folder = folder
        self._part = part
        self._forget = forget
        self._modules = ModuleFolder(root)
        self._maker = InitrdMaker(root, machine.state_folder, timeout_s=part.initrd_timeout_s)

    def path(self, release: str) -> str:
        """Where, on the machine, the kernel of that release lies or would lie."""
        return f"{self._folder}/vmlinuz-{release}"

    def initrd(self, image: KernelImage) -> str | None:
        """The initramfs that this kernel is booted with: the entry's own, the one that `install` made, or none."""
        match self._part.initrd:
            case "auto":
                return f"{self._folder}/initrd-{image.release}" if image.modules is not None else None
            case "none":
                return None
            case path:
                return path

    def install(self, image: KernelImage, *, running: str, anew: bool) -> None:
        """Put the image, its modules and its initramfs there unless they are there; `anew` puts them in any case.

        Raises MachineError if there is no room, or the machine's tool makes no initramfs.
        """
        path, kept = Path(image.path), {running, image.release}
        with path.open("rb") as file:
            wanted = hashlib.file_digest(file, "sha256").hexdigest()
        seen = self._look(image.release)
        is_there = seen.sha256 == wanted and not anew
        others = [release for release in seen.releases if release not in kept]
        old = others[max(0, self._part.keep - 1) :]
        free_bytes = self._remove(old) if old else seen.free_bytes
        others = others[: max(0, self._part.keep - 1)]
        needed = 0 if is_there else path.stat().st_size + _SPARE_BYTES
        others = self._make_room(others, self._folder, free_bytes, needed)
        if not is_there:
            self._root.put(path, self.path(image.release), 0o644)
        if image.modules is None:
            return
        is_new = self._install_modules(image.release, image.modules, others, anew=anew)
        if self._part.initrd == "auto" and (is_new or not seen.has_initrd):
            self._install_initrd(image.release, others)

    def _look(self, release: str) -> _Seen:
        head, _, listed = self._root.script(_LOOK, self._folder, release).partition("@@\n")
        free_kib, *there = head.split()
        has_initrd = there[:1] == ["initrd"]
        return _Seen(
            free_bytes=int(free_kib) * 1024,
            has_initrd=has_initrd,
            sha256="".join(there[1:] if has_initrd else there),
            releases=listed.split(),
        )

    def _install_modules(self, release: str, modules: KernelModules, others: list[str], *, anew: bool) -> bool:
        """True if they were not there, whole, before."""
        seen = self._modules.look(release, keep=(release, *others))
        if seen.sha256 == modules.sha256 and not anew:
            return False
        needed = modules.unpacked_bytes + Path(modules.path).stat().st_size + _SPARE_BYTES
        others[:] = self._make_room(others, ModuleFolder.PATH, seen.free_bytes, needed)
        self._modules.install(release, modules)
        return True

    def _install_initrd(self, release: str, others: list[str]) -> None:
        size = self._maker.make(release)
        others[:] = self._make_room(others, self._folder, self._free(self._folder), size + _SPARE_BYTES)
        self._maker.move(release, f"{self._folder}/initrd-{release}")

    def _free(self, place: str) -> int:
        said = self._root.script("""df -P -k "$1" | awk 'NR == 2 { print $4 }'""", place)
        return int(said) * 1024

    def _make_room(self, others: list[str], place: str, free_bytes: int, needed_bytes: int) -> list[str]:
        """Our other kernels that are left. Raises MachineError if the place is too full without them as well."""
        if free_bytes < needed_bytes and others:
            self._remove(others)
            others, free_bytes = [], self._free(place)
        if free_bytes < needed_bytes:
            where = place if place == ModuleFolder.PATH else place.rpartition("/")[0]
            raise MachineError(
                f"{self._root.name}: {where} is full: {needed_bytes >> 20} MiB are needed, {free_bytes >> 20} free",
                details=f"Of the kernels in {self._folder} only the running one and the one to be booted are left.",
                resolution="Remove kernels that the machine no longer needs, then resume.",
            )
        return others

    def _remove(self, releases: list[str]) -> int:
        """Remove our kernels, what belongs to them, and their entries, entries first: none may point to nothing.

        The bytes that are free in the folder then.
        """
        if self._forget is not None:
            self._forget(releases)
        return int(self._root.script(_REMOVE, self._folder, *releases, timeout_s=120)) * 1024

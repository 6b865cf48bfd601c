"""Our kernels on a machine's boot filesystem: room made first, never torn, and removed only when nothing names them."""

import hashlib
from collections.abc import Callable, Collection
from pathlib import Path

from bisector.lab.root import Root
from bisector.model.errors import MachineError
from bisector.model.kernel import KernelImage

_SPARE_BYTES = 4 << 20
"""Left free beside a new kernel: for the bootloader's own files, and a block's rounding for each of ours."""

# Remains of uploads cut short go at once; ours only.
_LOOK = """
mkdir -p "$1" && cd "$1" || exit 1
rm -f -- *.part-*
df -P -k . | awk 'NR == 2 { print $4 }'
sha256sum "vmlinuz-$2" 2>/dev/null | cut -c 1-64 || true
echo "@@"
ls -1t | sed -n "s/^vmlinuz-//p"
"""

_REMOVE = 'cd "$1" || exit 1; shift; rm -f -- "$@"; sync; df -P -k . | awk "NR == 2 { print \\$4 }"'


class KernelFolder:
    """`vmlinuz-RELEASE` files in `folder` on a machine. Nothing else on its filesystem is ever removed.

    `forget` removes the bootloader's entries of these releases; it is called before their kernels go.
    """

    def __init__(
        self, root: Root, folder: str, *, keep: int, forget: Callable[[Collection[str]], None] | None = None
    ) -> None:
        self._root = root
        self._folder = folder
        self._keep = keep
        self._forget = forget

    def path(self, release: str) -> str:
        """Where, on the machine, the kernel of that release lies or would lie."""
        return f"{self._folder}/vmlinuz-{release}"

    def install(self, image: KernelImage, *, running: str, anew: bool) -> None:
        """Put the image there unless it is there; `anew` puts it in any case. Raises MachineError if it has no room."""
        path = Path(image.path)
        with path.open("rb") as file:
            wanted = hashlib.file_digest(file, "sha256").hexdigest()
        head, _, listed = self._root.script(_LOOK, self._folder, image.release).partition("@@\n")
        free_kib, *there = head.split()
        is_there = there == [wanted] and not anew
        needed = 0 if is_there else path.stat().st_size + _SPARE_BYTES
        self._make_room(listed.split(), {running, image.release}, int(free_kib) * 1024, needed)
        if not is_there:
            self._root.put(path, self.path(image.release), 0o644)

    def _make_room(self, kernels: list[str], kept: set[str], free_bytes: int, needed_bytes: int) -> None:
        others = [release for release in kernels if release not in kept]
        old = others[max(0, self._keep - 1) :]
        if old:
            free_bytes = self._remove(old)
            others = [release for release in others if release not in old]
        if free_bytes < needed_bytes and others:
            free_bytes = self._remove(others)
        if free_bytes < needed_bytes:
            where = self._folder.rpartition("/")[0]
            raise MachineError(
                f"{self._root.name}: {where} is full: {needed_bytes >> 20} MiB are needed, {free_bytes >> 20} free",
                details=f"Of the kernels in {self._folder} only the running one and the one to be booted are left.",
                resolution="Remove kernels that the machine no longer needs, then resume.",
            )

    def _remove(self, releases: list[str]) -> int:
        """Remove our kernels and their entries, entries first: none may point to nothing. The bytes free then."""
        if self._forget is not None:
            self._forget(releases)
        said = self._root.script(_REMOVE, self._folder, *(f"vmlinuz-{release}" for release in releases))
        return int(said) * 1024

"""Test kernels' modules in /lib/modules on a machine: whole or not there, told from everybody else's by a mark."""

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from bisector.lab.root import Root
from bisector.model.kernel import KernelModules

# $1 the folder, $2 the mark, $3 the release; then releases whose modules may stay. What an installation cut short left
# goes, and so do modules of ours without a kernel of ours; the running kernel's stay in any case.
_LOOK = """
mkdir -p "$1" && cd "$1" || exit 1
mark=$2 wanted=$3
shift 3
rm -rf -- .bisector-*
for marked in */"$mark"; do
  release=${marked%/*}
  [ -e "$marked" ] && [ "$release" != "$(uname -r)" ] || continue
  for kept in "$@"; do [ "$kept" != "$release" ] || continue 2; done
  rm -rf -- "$release"
done
df -P -k . | awk 'NR == 2 { print $4 }'
cat "$wanted/$mark" 2>/dev/null || true
"""

# The mark says "pending" until everything is done: only the digest of what was unpacked means that it is whole.
_UNPACK = """
set -e
PATH=$PATH:/usr/sbin:/sbin
cd "$1"
mark=$2 release=$3 sha256=$4 part=.bisector-$3
trap 'rm -rf -- "$part" "$part.tar.gz"' EXIT
mkdir "$part"
tar -xzf "$part.tar.gz" -C "$part"
echo pending >"$part/$mark"
rm -rf -- "$release"
mv -- "$part" "$release"
if command -v depmod >/dev/null; then depmod "$release"; fi
[ -e "$release/modules.dep" ] || {
  echo "there is no modules.dep of $release: depmod is missing here, and was where it was built" >&2
  exit 1
}
sync
echo "$sha256" >"$release/$mark"
sync
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """`sha256` is that of the modules which lie there whole, "" if they do not."""

    free_bytes: int
    sha256: str


class ModuleFolder:
    """/lib/modules on one machine. Every call raises MachineError when the machine says no or is lost."""

    PATH: ClassVar = "/lib/modules"
    MARK: ClassVar = ".bisector"
    """A file in every folder of ours: the digest of what was unpacked there."""

    def __init__(self, root: Root) -> None:
        self._root = root

    def look(self, release: str, *, keep: Collection[str]) -> Seen:
        """What is there of that release; modules of ours that nobody keeps are removed."""
        said = self._root.script(_LOOK, self.PATH, self.MARK, release, *keep, timeout_s=120)
        free_kib, *mark = said.split()
        return Seen(free_bytes=int(free_kib) * 1024, sha256="".join(mark))

    def install(self, release: str, modules: KernelModules) -> None:
        """Upload, unpack beside its place, rename, and let depmod work there if the machine has it."""
        self._root.put(Path(modules.path), f"{self.PATH}/.bisector-{release}.tar.gz", 0o600)
        self._root.script(_UNPACK, self.PATH, self.MARK, release, modules.sha256, timeout_s=300)

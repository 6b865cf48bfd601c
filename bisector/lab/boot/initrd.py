"""An initramfs for a test kernel, made on the machine by the tool that makes those of its own kernels.

It is made in the machine's state folder, looked into, and only then moved beside the kernel: these tools are known to
end with 0 when the disk was full. Packed by gzip, whatever the distribution chose for its own: every kernel unpacks
that unless it was told not to (CONFIG_RD_GZIP).
"""

import time

from bisector.lab.root import Root
from bisector.model.errors import MachineError

TOOLS = ("mkinitramfs", "dracut", "mkinitcpio")
"""Debian's and Ubuntu's, that of Fedora and SUSE, Arch's; taken in this order.

Debian's update-initramfs would do more than make it: remember it, and tell the bootloader's hooks.
"""

FIND = 'PATH=$PATH:/usr/sbin:/sbin; for tool in "$@"; do ! command -v "$tool" || break; done'
"""A script that prints where the first of these programs is, if the machine has one."""

# $1 where to, $2 the release, then the tools. mkinitramfs refuses a kernel whose configuration it does not find in
# /boot; ours lies with its modules, as Fedora has it. Everything said goes where errors are shown from.
_MAKE = f"""
exec 3>&1 1>&2
out=$1 release=$2
shift 2
umask 077
tool=$({FIND})
mkdir -p "${{out%/*}}"
config=/boot/config-$release
trap '[ ! "$made" ] || rm -f "$config"' EXIT
case ${{tool##*/}} in
mkinitramfs)
  [ -e "$config" ] || {{ made=1; cp "/lib/modules/$release/config" "$config"; }}
  "$tool" -c gzip -o "$out" "$release" && list=lsinitramfs;;
dracut) "$tool" --force --gzip "$out" "$release" && list=lsinitrd;;
mkinitcpio) "$tool" -k "$release" -z gzip -g "$out" && list=lsinitcpio;;
*) echo "none of these is there: $*"; exit 4;;
esac
code=$?
if [ "$code" != 0 ]; then
  df -P -k /var/tmp "${{out%/*}}"
  echo "$tool ended with $code"
  exit 1
fi
[ -s "$out" ] || {{ echo "$tool ended well, but there is no initramfs"; exit 1; }}
if command -v "$list" && ! "$list" "$out" 2>&1 | grep -q "lib/modules/$release/"; then
  df -P -k /var/tmp "${{out%/*}}"
  echo "$tool ended well, but its initramfs is cut short, or holds no modules of $release"
  exit 1
fi
stat -c %s "$out" >&3
"""

_MOVE = """
set -e
part=$2.part-$$
trap 'rm -f -- "$part" "$1"' EXIT
cp -- "$1" "$part"
cmp -- "$1" "$part"
mv -f -- "$part" "$2"
sync "$2" "${2%/*}" 2>/dev/null || sync
"""


class InitrdMaker:
    """Makes them on one machine. Every call raises MachineError when the machine says no or is lost."""

    def __init__(self, root: Root, state_folder: str, *, timeout_s: float) -> None:
        self._root = root
        self._state_folder = state_folder
        self._timeout_s = timeout_s

    def make(self, release: str) -> int:
        """Make one of the modules of that release, which are installed; its size in bytes.

        A tool that fails says something of the machine, not of the kernel: MachineError with its last words.
        """
        started = time.monotonic()
        try:
            said = self._root.script(_MAKE, self._draft(release), release, *TOOLS, timeout_s=self._timeout_s)
        except MachineError as error:
            why = error.brief.removeprefix(f"{self._root.name}: ")
            if time.monotonic() - started >= self._timeout_s:
                why = f"the tool did not end within {self._timeout_s:.0f} s"
            raise MachineError(
                f"{self._root.name}: no initramfs could be made for {release}: {why}",
                details=error.details,
                resolution="Make it by hand there to see more; then resume. Or say in the machine's entry "
                "boot.initrd: none, if its kernels need none, boot.initrd: PATH, or more boot.initrd_timeout_s.",
            ) from error
        return int(said)

    def move(self, release: str, place: str) -> None:
        """Put what was made there, whole or not at all."""
        self._root.script(_MOVE, self._draft(release), place, timeout_s=120)

    def _draft(self, release: str) -> str:
        return f"{self._state_folder}/initrd-{release}"

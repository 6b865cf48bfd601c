"""Boots by kexec: the running kernel starts another one, and any reboot, panic or power cut leads back to the default.

No firmware and no bootloader takes part, so there is no default that could change. It is a condition of its own: what
the firmware sets up at a cold boot, and what the first kernel left behind, differ. Sources: kexec(8), and the kernel's
Documentation/ABI/testing/sysfs-kernel-kexec_* and admin-guide/sysctl/kernel.rst (kexec_load_disabled).
"""

from dataclasses import dataclass

from bisector.lab.boot.cmdline import fallback_words, joined, kernel_words
from bisector.lab.boot.kernels import KernelFolder
from bisector.lab.boot.method import MARK, OneShotError
from bisector.lab.root import Root
from bisector.model.kernel import KernelImage
from bisector.recipe.machines import KexecBoot, SshMachine

_NOTE = "/run/bisector-kexec"
"""Says what we loaded, so that nobody else's kernel is unloaded. Like what is loaded, it does not outlive a boot."""

_LOOK = f"""
say loaded cat /sys/kernel/kexec_loaded
say note cat {_NOTE}
"""

_INSPECT = f"""{_LOOK}
say tool sh -c "command -v kexec"
say disabled cat /proc/sys/kernel/kexec_load_disabled
say lockdown cat /sys/kernel/security/lockdown
say cmdline cat /proc/cmdline
say kernel sh -c 'ls "/boot/vmlinuz-$(uname -r)"'
say initrd sh -c 'cd /boot && ls "initrd.img-$(uname -r)" "initramfs-$(uname -r).img"'
"""

# $1 what it is called, $2 the kernel, $3 its command line, $4 an initramfs or nothing. There are two system calls, and
# a kernel may have either: -a tries both, but old kexec-tools do not know it.
_LOAD = f"""
name=$1 kernel=$2 words=$3
set -- --command-line="$words" ${{4:+--initrd="$4"}}
mkdir -p {_NOTE.rpartition("/")[0]}
echo "$name" >{_NOTE}
said=$(kexec -a -l "$kernel" "$@" 2>&1) || said=$(kexec -l "$kernel" "$@" 2>&1) || {{
  rm -f {_NOTE}
  echo "kexec does not load $kernel: $said" >&2
  exit 1
}}
[ "$(cat /sys/kernel/kexec_loaded)" = 1 ] || {{ echo "kexec says it has loaded $kernel, but it has not" >&2; exit 1; }}
"""

_UNLOAD = f'[ ! -e {_NOTE} ] || {{ rm -f {_NOTE}; [ "$(cat /sys/kernel/kexec_loaded)" != 1 ] || kexec -u; }}'

_EXECUTE = "sync; systemctl kexec || kexec -e"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    """What `_INSPECT` found on the default kernel."""

    said: dict[str, str]

    @property
    def words(self) -> tuple[str, ...]:
        return kernel_words(self.said["cmdline"])


class KexecMethod:
    """See `method.BootMethod`; kernels lie in the machine's state folder, as no bootloader has to find them."""

    def __init__(self, part: KexecBoot, machine: SshMachine, root: Root) -> None:
        self._part = part
        self._machine = machine
        self._root = root
        self._kernels = KernelFolder(root, f"{machine.state_folder}/kernels", machine=machine, part=part)
        self._default: _Place | None = None

    def inspect(self) -> None:
        """Raises OneShotError unless the running kernel can start another one."""
        self._require_kexec(self._look(_INSPECT))

    def preflight(self) -> None:
        """As `inspect`; the default kernel's command line is remembered."""
        place = self._look(_INSPECT)
        self._require_kexec(place)
        self._default = place
        self.disarm()

    def _require_kexec(self, place: _Place) -> None:
        said = place.said
        for wrong, reason, mend in (
            (not said["tool"], "there is no kexec", "Install it (Debian, Fedora: kexec-tools)."),
            (not said["loaded"], "the default kernel has no kexec", "It needs CONFIG_KEXEC."),
            (
                said["disabled"] not in ("", "0"),
                "kexec_load_disabled is set",
                "Only a reboot takes it back: remove it from sysctl.d, then reboot.",
            ),
            (
                "none]" not in (said["lockdown"] or "[none]"),
                f"the kernel is locked down: {said['lockdown']}",
                "Turn Secure Boot off in its firmware: nobody signs the test kernels.",
            ),
            (
                said["loaded"] == "1" and not said["note"],
                "somebody has loaded a kernel already",
                "If it may go: kexec -u",
            ),
        ):
            if wrong:
                raise OneShotError(f"{self._machine.name}: kexec cannot be used here: {reason}", resolution=mend)

    def arm_probe(self, token: str) -> bool:
        """Start the default's kernel and initramfs again by kexec, if they are found in /boot by their release."""
        place = self._require_default_place()
        if not place.said["kernel"]:
            return False
        beside = place.said["initrd"].split()
        initrd = f"/boot/{beside[0]}" if beside else ""
        self._load(token, place.said["kernel"], (*place.words, f"{MARK}={token}"), initrd)
        return True

    def install(self, image: KernelImage, *, running: str, anew: bool) -> None:
        """Put `vmlinuz-RELEASE` and its initramfs into the machine's state folder."""
        self._kernels.install(image, running=running, anew=anew)

    def boot_once(self, image: KernelImage) -> None:
        """Load it; `reboot_order` starts it."""
        words = (*self._require_default_place().words, *fallback_words(self._part, self._machine, image.release))
        self._load(image.release, self._kernels.path(image.release), words, self._kernels.initrd(image) or "")

    @property
    def reboot_order(self) -> str:
        """Stop services in order where systemd can, and start what is loaded."""
        return _EXECUTE

    @property
    def starts_from_default(self) -> bool:
        """Unless the entry says `chained`: a kernel inherits what the one that starts it left behind."""
        return not self._part.chained

    def armed(self) -> str | None:
        """What is loaded; None under a kernel without kexec."""
        said = self._look(_LOOK).said
        if not said["loaded"]:
            return None
        return (said["note"] or "a kernel of somebody else") if said["loaded"] == "1" else ""

    def disarm(self) -> None:
        """Unload what we loaded."""
        self._root.script(_UNLOAD)

    def require_default(self) -> None:
        """Nothing here could change it."""

    def _look(self, script: str) -> _Place:
        return _Place(said=self._root.told(script))

    def _require_default_place(self) -> _Place:
        if self._default is None:
            self.preflight()
        assert self._default is not None
        return self._default

    def _load(self, name: str, kernel: str, words: tuple[str, ...], initrd: str) -> None:
        self._root.script(_LOAD, name, kernel, joined(words), initrd, timeout_s=120)

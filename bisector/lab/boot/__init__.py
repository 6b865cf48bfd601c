"""Ways to boot a kernel once, each with the default entry left as it is."""

from typing import assert_never

from bisector.lab.boot.grub import GrubMethod
from bisector.lab.boot.hook import HookMethod
from bisector.lab.boot.kexec import KexecMethod
from bisector.lab.boot.method import BootMethod
from bisector.lab.boot.systemd_boot import SystemdBootMethod
from bisector.lab.root import Root
from bisector.recipe.machines import GrubBoot, HookBoot, KexecBoot, SshMachine, SystemdBoot


def boot_method(machine: SshMachine, root: Root) -> BootMethod:
    """The method that a machine's entry names."""
    match machine.boot:
        case GrubBoot() as part:
            return GrubMethod(part, machine, root)
        case SystemdBoot() as part:
            return SystemdBootMethod(part, machine, root)
        case KexecBoot() as part:
            return KexecMethod(part, machine, root)
        case HookBoot() as part:
            return HookMethod(part, machine, root)
        case never:
            assert_never(never)

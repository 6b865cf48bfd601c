"""Ways to boot a kernel once, each with the default entry left as it is."""

from bisector.lab.boot.grub import GrubMethod
from bisector.lab.boot.hook import HookMethod
from bisector.lab.boot.method import BootMethod
from bisector.lab.root import Root
from bisector.recipe.machines import GrubBoot, SshMachine


def boot_method(machine: SshMachine, root: Root) -> BootMethod:
    """The method that a machine's entry names."""
    if isinstance(machine.boot, GrubBoot):
        return GrubMethod(machine.boot, machine, root)
    return HookMethod(machine.boot, machine, root)

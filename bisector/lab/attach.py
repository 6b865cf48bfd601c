"""What can be found out about a new machine before it has an entry: are we root there, and how does it boot once."""

from collections.abc import Mapping, Sequence

from bisector.lab.boot import boot_method
from bisector.lab.root import Root
from bisector.lab.ssh import Shell
from bisector.lab.survey import Finding, Grade
from bisector.model.errors import MachineError
from bisector.recipe.machines import GrubBoot, KexecBoot, SshMachine, SystemdBoot

DETECTED = ("systemd-boot", "grub")
"""Methods that are looked for, in this order: of a machine with both, the one whose loader says that it started it.

kexec is none of them: it works nearly everywhere, but its numbers are not those of kernels that firmware started.
"""

_PARTS: Mapping[str, GrubBoot | SystemdBoot | KexecBoot] = {
    "systemd-boot": SystemdBoot(method="systemd-boot"),
    "grub": GrubBoot(method="grub"),
    "kexec": KexecBoot(method="kexec"),
}


def find_root(shell: Shell) -> tuple[bool, Finding]:
    """Whether sudo is needed, and what came of looking."""
    user = shell.target.user
    try:
        if shell.check(("id", "-u"), timeout_s=30).strip() == "0":
            return False, Finding(requirement="root", grade=Grade.PASS, seen=f"{user} is root")
        uid = Root(shell, sudo=True).script("id -u").strip()
    except MachineError as error:
        mend = error.resolution or f"{user} needs a login shell and sudo there; or attach it as root: --user root"
        return True, Finding(requirement="root", grade=Grade.FAIL, seen=error.brief, mend=mend)
    if uid != "0":
        return True, Finding(requirement="root", grade=Grade.FAIL, seen=f"sudo makes {user} user id {uid}, not root")
    return True, Finding(requirement="root", grade=Grade.PASS, seen=f"{user} by sudo, without a password")


def find_boot(machine: SshMachine, root: Root, *, methods: Sequence[str] = DETECTED) -> tuple[str | None, Finding]:
    """The first method that nothing speaks against, and what came of looking; `machine.boot` is not looked at."""
    against: list[str] = []
    mend = ""
    for method in methods:
        try:
            boot_method(machine.model_copy(update={"boot": _PARTS[method]}), root).inspect()
        except MachineError as error:
            against.append(error.brief.removeprefix(f"{machine.name}: "))
            mend = error.resolution
        else:
            return method, Finding(requirement="boot method", grade=Grade.PASS, seen=method)
    more = "Name another: --boot kexec; for hooks of your own write the entry by hand."
    return None, Finding(
        requirement="boot method", grade=Grade.FAIL, seen="; ".join(against), mend=" ".join(filter(None, (mend, more)))
    )

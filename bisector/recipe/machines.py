"""The kinds of lab machines that a recipe or the machines file can name, and how each is reached and booted."""

from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints, model_validator

from bisector.model.cpus import ROLES, Role

Text = Annotated[str, StringConstraints(min_length=1, strip_whitespace=True)]
PositiveInt = Annotated[int, Field(gt=0)]
PositiveFloat = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]
Port = Annotated[int, Field(ge=1, le=65535)]
Folder = Annotated[str, StringConstraints(pattern=r"^/[A-Za-z0-9._/-]+$")]
ShellCommand = Text
"""A line for `sh -c`. It runs on this computer, with $BISECTOR_MACHINE and $BISECTOR_HOST set."""


def _is_cpu(value: object) -> object:
    if (isinstance(value, int) and not isinstance(value, bool) and value >= 0) or value in ROLES:
        return value
    raise ValueError(f"must be the number of a CPU, {', '.join(ROLES[:-1])} or {ROLES[-1]}")


Cpu = Annotated[int | Role, BeforeValidator(_is_cpu)]
"""A CPU by its number, or one that the booted kernel has in that role."""


class Part(BaseModel):
    """Strict: an unknown key or a number where text belongs is an error."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


Knob = Literal["governor", "boost", "smt", "thp", "aslr", "irq_cpus", "drop_caches"]


class Prepare(Part):
    """What is set on a machine after each proven boot, before it measures; set back before the machine is given back.

    `governor` is of all CPUs, `thp` of transparent huge pages, `irq_cpus` a list of CPUs ("0-1") that take the
    interrupts that can be moved. `drop_caches` empties the page cache once a boot. A knob that a machine does not have
    is passed over, and that recorded, unless `required` names it. `cpu` is where the benchmark runs on this machine,
    whatever the recipe's benchmark says: a number, or a role as there.
    """

    governor: Text | None = None
    boost: bool | None = None
    smt: Literal["on", "off"] | None = None
    thp: Literal["always", "madvise", "never"] | None = None
    aslr: bool | None = None
    irq_cpus: Annotated[str, StringConstraints(pattern=r"^[0-9]+(-[0-9]+)?(,[0-9]+(-[0-9]+)?)*$")] | None = None
    drop_caches: bool = False
    cpu: Cpu | None = None
    required: tuple[Knob, ...] = ()

    def over(self, other: "Prepare") -> "Prepare":
        """This preparation, with the other's where this one says nothing."""
        said = {name: getattr(self, name) for name in self.model_fields_set if name != "required"}
        required = tuple(dict.fromkeys((*other.required, *self.required)))
        return other.model_copy(update={**said, "required": required})


class EmbeddedMachine(Part):
    """The QEMU machine that the tool brings along. `clock: instructions` is icount: nearly no noise."""

    kind: Literal["embedded"]
    name: Text = "embedded"
    clock: Literal["wall", "instructions"] = "instructions"
    icount_shift: Annotated[int, Field(ge=0, le=10)] = 2
    memory_mib: PositiveInt = 512
    cpus: Annotated[int, Field(ge=1, le=64)] = 1
    """More than one is for kernels that keep CPUs apart (isolcpus=, nohz_full=), on the wall clock."""
    accelerator: Literal["try", "kvm", "tcg"] = "try"
    cmdline: str = ""
    boot_timeout_s: PositiveFloat = 180.0
    build_beside_runs: bool | None = None
    """May the builder, on the same host, work during a run? Default: yes with `instructions`, no with `wall`."""

    @model_validator(mode="after")
    def _has_one_cpu_that_counts(self) -> "EmbeddedMachine":
        # Seen with QEMU 7.2 and Linux 6.1: the second CPU never comes up while the first one waits for it.
        if self.cpus > 1 and self.clock == "instructions":
            raise ValueError("cpus: more than one needs clock: wall; a guest whose clock counts instructions hangs")
        return self


class _Host(Part):
    host: Text
    port: Port = 22
    user: Text = "root"
    key: Text
    """The private key's file."""
    host_key: tuple[Text, ...] = ()
    """Pinned host keys, as ssh-keyscan prints them without the name: "ssh-ed25519 AAAA..."."""
    known_hosts: Text | None = None
    """A file in OpenSSH's format instead; only its lines for this host and port count."""

    @model_validator(mode="after")
    def _proves_its_identity(self) -> "_Host":
        if bool(self.host_key) == bool(self.known_hosts):
            raise ValueError("must have either host_key (a list of 'ssh-ed25519 AAAA...') or known_hosts (a file)")
        return self


class JumpHost(_Host):
    """The host that a machine is reached through."""


def _is_initrd(text: str) -> str:
    if text not in ("auto", "none") and not text.startswith("/"):
        raise ValueError("must be auto, none, or a path on the machine that begins with /")
    return text


Initrd = Annotated[str, AfterValidator(_is_initrd)]
"""`auto`, `none`, or the path of an initramfs on the machine."""


class Boot(Part):
    """How a machine boots test kernels."""

    method: str

    @property
    def condition(self) -> str:
        """What of it is a condition of the numbers, and so one of the machine's facts."""
        return self.method


class Installed(Boot):
    """What all methods that put kernels on the machine have in common.

    `initrd` is where test kernels get an initramfs from: `auto` has the machine's own tool (mkinitramfs, dracut or
    mkinitcpio) make one for every kernel that has modules, within `initrd_timeout_s`; `none` boots without; a path, on
    the machine, is of one that serves all. `keep` is how many of our own kernels stay there. `panic_s` is `panic=` of
    the test entries: how long a panicked kernel waits before it reboots.
    """

    initrd: Initrd = "auto"
    initrd_timeout_s: PositiveFloat = 300.0
    keep: PositiveInt = 3
    panic_s: PositiveInt = 10


class GrubBoot(Installed):
    """One-shot boots by GRUB's `next_entry`; our entries stand in custom.cfg and the default is never changed."""

    method: Literal["grub"]


class SystemdBoot(Installed):
    """One-shot boots by systemd-boot's LoaderEntryOneShot; our entries stand beside the machine's own.

    `boot_path` is where the partition with the entries is mounted, if `bootctl --print-boot-path` does not find it.
    """

    method: Literal["systemd-boot"]
    boot_path: Folder | None = None


class KexecBoot(Installed):
    """The running kernel starts the test kernel, past firmware and bootloader; any reboot leads back to the default.

    Numbers are not comparable with those of kernels that the firmware started. Each kernel is started from the default
    one, so that none inherits what another left behind; `chained` starts it from the kernel before, which saves a boot
    and asks for CONFIG_KEXEC in the test kernels.
    """

    method: Literal["kexec"]
    chained: bool = False

    @property
    def condition(self) -> str:
        """The firmware set nothing up anew, and whatever ran before left its traces."""
        return "kexec, from the kernel before" if self.chained else "kexec, from the default kernel"


class HookBoot(Boot):
    """The user's own commands, for whatever boots a kernel once: TFTP, PXE, a bootloader that we do not know.

    They get $BISECTOR_IMAGE, $BISECTOR_MODULES (what belongs into /lib/modules/RELEASE as a gzipped tar; nothing for a
    kernel without modules), $BISECTOR_RELEASE, $BISECTOR_COMMIT, $BISECTOR_CMDLINE besides the machine's name and
    address, and must end with 0. `where` is the side they run on: on the machine both files were uploaded before.
    `preflight` must prove that `boot_once` holds for one boot only, `armed` prints the release that the next boot would
    take (nothing: the default), `disarm` takes `boot_once` back, `prune` removes what `install` put there.
    """

    method: Literal["hook"]
    where: Literal["here", "machine"] = "here"
    preflight: Text | None = None
    install: Text
    boot_once: Text
    armed: Text | None = None
    disarm: Text | None = None
    prune: Text | None = None
    timeout_s: PositiveFloat = 300.0


class Power(Part):
    """How to cut a machine's power: `cycle`, or `off` and `on`. What a command says is not believed, a new boot is."""

    cycle: ShellCommand | None = None
    off: ShellCommand | None = None
    on: ShellCommand | None = None
    pause_s: PositiveFloat = 5.0
    timeout_s: PositiveFloat = 60.0

    @model_validator(mode="after")
    def _cuts_and_restores(self) -> "Power":
        if (self.cycle is None) == (self.off is None) or (self.off is None) != (self.on is None):
            raise ValueError("must have either cycle, or off and on")
        return self


class SshMachine(_Host):
    """A machine reached over SSH, that a bootloader boots into the kernel to be tested, once.

    `facts` are what proof of the kernel must find, by the names of `MachineFacts` ("governor: performance").
    `ignore_logins` are users whose being logged in does not spoil a sample. `console` is a command that prints the
    machine's serial console for as long as it runs. `lease_h` is how long after its last sign of life a controller
    still holds the machine. `watchdog_s` has the machine's hardware watchdog reset it, into its default kernel, when a
    test kernel that came as far as user space hangs for about that long.
    """

    kind: Literal["ssh"]
    name: Name
    tags: tuple[Text, ...] = ()
    jump: JumpHost | None = None
    sudo: bool = False
    boot: Annotated[GrubBoot | SystemdBoot | KexecBoot | HookBoot, Field(discriminator="method")]
    cmdline: str = ""
    power: Power | None = None
    console: ShellCommand | None = None
    boot_timeout_s: PositiveFloat = 600.0
    shutdown_timeout_s: PositiveFloat = 180.0
    """How long the old kernel may take to go down after a reboot was ordered."""
    watchdog_s: Annotated[int, Field(ge=10, le=600)] | None = None
    facts: dict[str, Text] = {}
    ignore_logins: tuple[Text, ...] = ()
    prepare: Prepare = Prepare()
    lease_h: PositiveFloat = 2.0
    state_folder: Folder = "/var/lib/bisector"
    """Where the machine keeps the lease and uploaded kernels: it must survive a reboot."""

    @property
    def lease_folder(self) -> str:
        """Where, on the machine, the lease lies."""
        return f"{self.state_folder}/lease"

    @property
    def clock(self) -> Literal["wall"]:
        """A real machine has real time."""
        return "wall"

    @property
    def build_beside_runs(self) -> Literal[True]:
        """The builder works on another computer."""
        return True


Machine = Annotated[EmbeddedMachine | SshMachine, Field(discriminator="kind")]


class LabReference(Part):
    """`kind: lab` in a recipe: machines of the machines file, by name or as many as wanted by tags."""

    kind: Literal["lab"]
    name: Name | None = None
    tags: tuple[Text, ...] = ()
    count: PositiveInt = 1
    file: Text | None = None
    """Another machines file than the user's; relative to the recipe's folder."""

    @model_validator(mode="after")
    def _names_or_describes(self) -> "LabReference":
        if (self.name is None) == (not self.tags):
            raise ValueError("must have either name, or tags")
        if self.name is not None and self.count != 1:
            raise ValueError("has a name and count: count is for tags")
        return self


class LabFile(Part):
    """The machines file: entries as a recipe's `machines` has them."""

    machines: Annotated[tuple[Machine, ...], Field(min_length=1)]

    @model_validator(mode="after")
    def _names_are_distinct(self) -> "LabFile":
        names = [machine.name for machine in self.machines]
        if len(set(names)) != len(names):
            raise ValueError(f"machines: a name stands twice in {', '.join(names)}")
        return self

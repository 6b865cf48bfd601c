"""Which kernel runs on a machine, proven: a new boot id, the exact release, the image's build id; and its facts."""

import base64
import binascii
import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from bisector.lab.ssh import Shell
from bisector.model.errors import KernelError, MachineError
from bisector.model.kernel import KernelImage
from bisector.model.outcome import Outcome

_BOOT_ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")

# One command, since each costs a second under emulation. A file that is not there gives an empty section.
_ASK = """
say() { echo "@@$1"; shift; "$@" 2>/dev/null; echo; }
say boot_id cat /proc/sys/kernel/random/boot_id
say release uname -r
say notes base64 /sys/kernel/notes
say cpuinfo sed /^$/q /proc/cpuinfo
say cmdline cat /proc/cmdline
say clocksource cat /sys/devices/system/clocksource/clocksource0/current_clocksource
say thp cat /sys/kernel/mm/transparent_hugepage/enabled
say thp_defrag cat /sys/kernel/mm/transparent_hugepage/defrag
say governor sh -c 'cat /sys/devices/system/cpu/cpu[0-9]*/cpufreq/scaling_governor | sort -u'
say boost cat /sys/devices/system/cpu/cpufreq/boost
say no_turbo cat /sys/devices/system/cpu/intel_pstate/no_turbo
say aslr cat /proc/sys/kernel/randomize_va_space
say cpus cat /sys/devices/system/cpu/online
say isolated cat /sys/devices/system/cpu/isolated
say nohz_full cat /sys/devices/system/cpu/nohz_full
say memmap sh -c 'cd /sys/firmware/memmap && for m in *; do echo $(cat "$m/start" "$m/end" "$m/type"); done'
say smt cat /sys/devices/system/cpu/smt/control
say mitigations grep -H . -r /sys/devices/system/cpu/vulnerabilities
say again cat /proc/sys/kernel/random/boot_id
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningKernel:
    """What a machine said of the kernel it runs. `build_id` is hex; `facts` are sorted (name, value) pairs."""

    boot_id: str
    release: str
    build_id: str
    facts: tuple[tuple[str, str], ...]


def ask(shell: Shell) -> RunningKernel:
    """Read it over the shell's connection. Raises MachineError unless every answer is well formed."""
    answers = _sections(shell.check(("sh", "-c", _ASK), timeout_s=60))
    boot_id, again = answers.get("boot_id", ""), answers.get("again", "")
    if not _BOOT_ID.fullmatch(boot_id) or boot_id != again:
        raise MachineError(
            f"{shell.target.name}: the boot id is not one, or changed while it was read",
            details=f"first {boot_id!r}, then {again!r}",
        )
    try:
        build_id = build_id_of(base64.b64decode(answers.get("notes", ""), validate=False))
    except (ValueError, binascii.Error) as error:
        raise MachineError(
            f"{shell.target.name}: the running kernel does not tell its build id: {error}",
            resolution="/sys/kernel/notes needs CONFIG_SYSFS, and a linker that writes build ids.",
        ) from error
    return RunningKernel(
        boot_id=boot_id, release=answers.get("release", ""), build_id=build_id, facts=tuple(_facts(answers))
    )


def require(running: RunningKernel, image: KernelImage, *, previous_boot_id: str | None) -> None:
    """Raises KernelError (wrong_kernel) unless this image runs, compared whole; MachineError if it never rebooted."""
    if running.boot_id == previous_boot_id:
        raise MachineError(f"The machine did not reboot: its boot id is still {running.boot_id}")
    for what, seen, wanted in (
        ("release", running.release, image.release),
        ("build id", running.build_id, image.build_id),
    ):
        if seen != wanted:
            raise KernelError(
                f"Another kernel than {image.commit[:12]}'s runs: {what} {seen}, built {wanted}",
                outcome=Outcome.WRONG_KERNEL,
                details=f"running: {running.release}, {running.build_id}; built: {image.release}, {image.build_id}",
            )


def build_id_of(notes: bytes, *, byte_order: Literal["<", ">"] = "<") -> str:
    """The GNU build id (type 3, owner "GNU") in hex from the bytes of an ELF note section.

    Source: elf(5): three 32-bit words (name size, content size, type), name and content each padded to 4 bytes.
    Raises ValueError if there is none or the section is cut.
    """
    for owner, kind, content in _notes(notes, byte_order):
        if owner == b"GNU" and kind == 3 and content:
            return content.hex()
    raise ValueError(f"no GNU build id in {len(notes)} bytes of notes")


def _notes(notes: bytes, byte_order: str) -> Iterator[tuple[bytes, int, bytes]]:
    at = 0
    while at + 12 <= len(notes):
        name_size, content_size, kind = struct.unpack_from(f"{byte_order}III", notes, at)
        name_at = at + 12
        content_at = name_at + name_size + -name_size % 4
        if content_at + content_size > len(notes):
            raise ValueError(f"a note at byte {at} reaches beyond the end of the section")
        name = notes[name_at : name_at + name_size].rstrip(b"\0")
        yield name, kind, notes[content_at : content_at + content_size]
        at = content_at + content_size + -content_size % 4


def _sections(said: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for part in ("\n" + said).split("\n@@")[1:]:
        name, _, content = part.partition("\n")
        found[name] = content.strip()
    return found


def _facts(answers: dict[str, str]) -> Iterator[tuple[str, str]]:
    cpu = {
        key.strip(): value.strip()
        for key, colon, value in (line.partition(":") for line in answers.get("cpuinfo", "").splitlines())
        if colon
    }
    mitigations = [
        path.rpartition("/")[2] + "=" + state.strip()
        for path, _, state in (line.partition(":") for line in answers.get("mitigations", "").splitlines())
    ]
    facts = {
        "aslr": answers.get("aslr", ""),
        "boost": answers.get("boost", "") or {"0": "1", "1": "0"}.get(answers.get("no_turbo", ""), ""),
        # For its first second a kernel calls the same counter "tsc-early".
        "clocksource": answers.get("clocksource", "").removesuffix("-early"),
        "cmdline": answers.get("cmdline", ""),
        "cpu": cpu.get("model name", ""),
        "cpus": answers.get("cpus", ""),
        "governor": " ".join(answers.get("governor", "").split()),
        "isolated": answers.get("isolated", ""),
        "memory_mib": _memory_mib(answers.get("memmap", "")),
        "microcode": cpu.get("microcode", ""),
        "mitigations": "; ".join(sorted(mitigations)),
        "nohz_full": answers.get("nohz_full", "").removeprefix("(null)"),
        "smt": answers.get("smt", ""),
        "thp": _chosen(answers.get("thp", "")),
        "thp_defrag": _chosen(answers.get("thp_defrag", "")),
    }
    yield from ((name, value) for name, value in sorted(facts.items()) if value)


def _chosen(choice: str) -> str:
    """Of "always [madvise] never" what stands in brackets."""
    found = re.search(r"\[(.+?)\]", choice)
    return found[1] if found else ""


def _memory_mib(memmap: str) -> str:
    """The memory that the firmware gave, which does not hang on the kernel as MemTotal does."""
    ranges = [line.split(maxsplit=2) for line in memmap.splitlines()]
    size = sum(int(r[1], 16) + 1 - int(r[0], 16) for r in ranges if len(r) == 3 and r[2] == "System RAM")
    return str(size >> 20) if size else ""

"""Does hardware virtualisation work here? Decided by running a guest, because /dev/kvm may exist and fail."""

import functools
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from bisector.lab.programs import QEMU
from bisector.model.errors import MachineError, UsageError

# The whole firmware of the trial's guest stands where an x86 begins, 16 bytes below the end of its ROM, and writes 0x10
# to QEMU's isa-debug-exit port: mov dx,0xf4; mov al,0x10; out dx,al; hlt; jmp back. QEMU then ends with
# (0x10 << 1) | 1. No other way of ending gives this code, so guest code did run.
_CODE = bytes.fromhex("baf400b010eef4ebfd")
_ROM = b"\xf4" * (0x10000 - 16) + _CODE.ljust(16, b"\xf4")
_RAN = 33


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """Whether a guest ran, and what QEMU said if it did not."""

    works: bool
    said: str


@functools.cache
def try_accelerator(name: Literal["kvm", "tcg"], *, limit_s: float = 20.0) -> Trial:
    """Run a guest of nine bytes with this accelerator; remembered for the life of the program."""
    with tempfile.TemporaryDirectory(prefix="bisector-trial-") as folder:
        rom = Path(folder) / "rom"
        rom.write_bytes(_ROM)
        argv = [str(QEMU.path()), "-machine", f"q35,accel={name}", "-cpu", "max", "-m", "64", "-nodefaults"]
        argv += ["-no-user-config", "-display", "none", "-no-reboot", "-device", "isa-debug-exit,iobase=0xf4,iosize=4"]
        argv += ["-bios", str(rom)]
        try:
            done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=limit_s, check=False)
        except subprocess.TimeoutExpired:
            return Trial(works=False, said=f"a guest started with {name} ran nothing for {limit_s:.0f} s")
    said = done.stderr.decode(errors="replace").strip()
    return Trial(works=done.returncode == _RAN, said=said or f"QEMU ended with {done.returncode}")


def choose_accelerator(wanted: Literal["try", "kvm", "tcg"], clock: Literal["wall", "instructions"]) -> str:
    """The accelerator to use, "kvm" or "tcg", for a recipe's wish.

    Only TCG can count instructions. Raises MachineError when KVM is demanded and does not work, UsageError when it
    is demanded together with the instruction clock.
    """
    if clock == "instructions":
        if wanted == "kvm":
            raise UsageError(
                "Hardware virtualisation cannot count instructions: accelerator: kvm contradicts clock: instructions",
                resolution="Say accelerator: tcg, or clock: wall.",
            )
        return "tcg"
    if wanted == "tcg":
        return "tcg"
    trial = try_accelerator("kvm")
    if trial.works:
        return "kvm"
    if wanted == "kvm":
        raise MachineError(
            "Hardware virtualisation does not work here, and the recipe demands it",
            details=trial.said,
            resolution="Say accelerator: try, or repair /dev/kvm (permissions, nested virtualisation).",
        )
    return "tcg"

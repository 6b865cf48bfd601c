"""On which CPU of a machine its benchmark runs: a number as it was asked for, a role by what the booted kernel says."""

from collections.abc import Mapping

from bisector.bench.runner import RemoteMachine, last_words
from bisector.model.cpus import PinnedCpu, Role, in_role, preferred
from bisector.model.errors import MachineError

_FILES = {"cpus": "online", "isolated": "isolated", "nohz_full": "nohz_full"}
# "(null)": a kernel that could, and has none.
_ASK = 'for name; do echo "$(cat /sys/devices/system/cpu/"$name" 2>/dev/null)"; done'

_OFFERS = {
    "housekeeping": "Leave a CPU out of isolcpus= and nohz_full=",
    "isolated": "Say which in the machine's entry, cmdline: isolcpus=1, for kernels with CONFIG_CPU_ISOLATION",
    "nohz_full": "Say which in the machine's entry, cmdline: nohz_full=1, for kernels with CONFIG_NO_HZ_FULL",
}


def cpu_for(machine: str, wanted: int | Role | None, facts: Mapping[str, str]) -> PinnedCpu:
    """Where the benchmark is to run on a machine that was just booted.

    Raises MachineError, never a verdict on the kernel, if it offers no CPU in that role.
    """
    if wanted is None or isinstance(wanted, int):
        return PinnedCpu(number=wanted)
    seen = "; ".join(f"{name}: {facts.get(name) or 'none'}" for name in ("cpus", "isolated", "nohz_full", "cmdline"))
    try:
        number = preferred(in_role(wanted, facts))
    except ValueError as error:
        raise MachineError(f"{machine} does not say which of its CPUs are {wanted}: {error}", details=seen) from None
    if number is None:
        raise MachineError(
            f"{machine}: the benchmark's cpu is {wanted}, but no CPU of the running kernel is",
            details=seen,
            resolution=f"{_OFFERS[wanted]}; then start a session with it.",
        )
    return PinnedCpu(number=number, role=wanted)


def cpus_told_by(remote: RemoteMachine) -> dict[str, str]:
    """The facts that a role hangs on, asked of a machine that was not booted for this. Raises MachineError."""
    job = remote.jobs.run(["sh", "-c", _ASK, "sh", *_FILES.values()], timeout_s=60, on_poll=lambda: None)
    lines = job.stdout.decode(errors="replace").splitlines()
    if job.exit_code or len(lines) != len(_FILES):
        raise MachineError(f"The machine does not list its CPUs: {last_words(job.stderr)}")
    return {name: line.strip().removeprefix("(null)") for name, line in zip(_FILES, lines, strict=True)}

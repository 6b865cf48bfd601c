"""Knobs of a machine that are set before it measures and set back before it is given back.

Set after each proven boot, because a boot resets most of them. Set back on the same kernel when the machine is given
back, before the reboot to its default kernel: some (the processor's boost) outlive a warm reboot or a kexec. What they
were is kept on the machine until then, in memory that a reboot clears, so that a later controller can set them back for
one that died.
"""

from collections.abc import Iterator

from bisector.lab.root import Root
from bisector.model.cpus import list_of, parse_cpus
from bisector.model.errors import MachineError
from bisector.recipe.machines import Prepare

_CPU = "/sys/devices/system/cpu"

# $1 the file that keeps what was, under the boot id that it holds for; then for each knob three words: its name, the
# value, and where it may be: the first pattern that matches anything is taken, "!" before one means that the value is
# the opposite there. What a file reads may be a choice ("always [madvise] never"): its value stands in brackets.
_APPLY = r"""
set -u
umask 077
kept=$1; shift
read -r boot </proc/sys/kernel/random/boot_id
value_of() {
  value=$(cat "$1" 2>/dev/null) || return 1
  case $value in *\[*\]*) value=${value#*\[}; value=${value%%\]*};; esac
}
keep() {
  grep -qs "^$boot\$" "$kept" || { mkdir -p "${kept%/*}" && echo "$boot" >"$kept" || exit 1; }
  grep -qs " $1\$" "$kept" || printf '%s %s\n' "$value" "$1" >>"$kept" || exit 1
}
while [ $# -gt 0 ]; do
  name=$1 wanted=$2 patterns=$3; shift 3
  there=0 right=0
  set -f
  for pattern in $patterns; do
    set +f
    to=$wanted
    case $pattern in !*) pattern=${pattern#!}; to=$((1 - wanted));; esac
    for file in $pattern; do
      value_of "$file" || continue
      there=$((there + 1))
      if [ "$value" != "$to" ]; then
        # Kept before it is changed, and only as it was at first.
        keep "$file"
        { printf '%s\n' "$to" >"$file"; } 2>/dev/null
        value_of "$file" || continue
      fi
      [ "$value" = "$to" ] && right=$((right + 1))
    done
    [ "$there" = 0 ] || break
  done
  set +f
  echo "$name $there $right"
done
"""

_RESTORE = r"""
[ -e "$1" ] || exit 0
read -r boot </proc/sys/kernel/random/boot_id
{
  read -r of
  # After a reboot there is nothing to set back.
  [ "$of" = "$boot" ] && while read -r value file; do
    { printf '%s\n' "$value" >"$file"; } 2>/dev/null || echo "$file"
  done
} <"$1"
rm -f "$1"
"""

_NOT_THERE, _REFUSED = "not there", "refused"

_DROP_CACHES = "sync; echo 3 >/proc/sys/vm/drop_caches"


class Preparation:
    """Applies one machine's `prepare`, and takes it back."""

    def __init__(self, root: Root, part: Prepare, *, state_folder: str) -> None:
        self._root = root
        self._part = part
        self._kept = f"{state_folder}/knobs"

    def apply(self) -> str:
        """Set the knobs; what came of each, in one line for the machine's facts ("" if nothing is to be set).

        Raises MachineError if a required one is not there or does not take its value.
        """
        wanted = dict(self._knobs())
        told = {}
        if wanted:
            arguments = [word for name, (value, files) in wanted.items() for word in (name, value, files)]
            for line in self._root.script(_APPLY, self._kept, *arguments, timeout_s=60).splitlines():
                name, there, right = line.split()
                told[name] = _outcome(name, wanted[name][0], int(there), int(right))
        if self._part.drop_caches:
            dropped = self._root.run(("sh", "-c", _DROP_CACHES), timeout_s=120).exit_code == 0
            told["drop_caches"] = "done" if dropped else _REFUSED
        self._require(told)
        return "; ".join(f"{name}: {outcome}" for name, outcome in told.items())

    def restore(self) -> list[str]:
        """Set everything back that was changed since the boot; the files that refused. Raises MachineError."""
        return self._root.script(_RESTORE, self._kept, timeout_s=60).splitlines()

    def _knobs(self) -> Iterator[tuple[str, tuple[str, str]]]:
        """Each wanted knob with its value and where it may be; "!" before a place where the value means the opposite.

        SMT first: CPUs that it takes away have no governor. Source: the kernel's Documentation, admin-guide/pm/cpufreq,
        admin-guide/pm/intel_pstate, admin-guide/mm/transhuge, admin-guide/sysctl/kernel, core-api/irq/irq-affinity.
        """
        part = self._part
        if part.smt is not None:
            yield "smt", (part.smt, f"{_CPU}/smt/control")
        if part.boost is not None:
            places = f"{_CPU}/cpufreq/boost !{_CPU}/intel_pstate/no_turbo {_CPU}/cpufreq/policy*/boost"
            yield "boost", (str(int(part.boost)), places)
        if part.governor is not None:
            yield "governor", (part.governor, f"{_CPU}/cpu[0-9]*/cpufreq/scaling_governor")
        if part.thp is not None:
            yield "thp", (part.thp, "/sys/kernel/mm/transparent_hugepage/enabled")
        if part.aslr is not None:
            yield "aslr", ("2" if part.aslr else "0", "/proc/sys/kernel/randomize_va_space")
        if part.irq_cpus is not None:
            yield "irq_cpus", (list_of(parse_cpus(part.irq_cpus)), "/proc/irq/[0-9]*/smp_affinity_list")

    def _require(self, told: dict[str, str]) -> None:
        asked = ((name, told.get(name, "not asked for")) for name in self._part.required)
        wrong = [f"{name}: {outcome}" for name, outcome in asked if not _is_set(outcome)]
        if wrong:
            raise MachineError(
                f"{self._root.name} cannot be prepared as required: {wrong[0]}",
                details="\n".join(wrong),
                resolution="Take it out of prepare.required, or use a machine and kernels that have it.",
            )


def _outcome(name: str, wanted: str, there: int, right: int) -> str:
    if there == 0:
        return _NOT_THERE
    # Interrupts of timers and of single CPUs cannot be moved.
    if right == there or (name == "irq_cpus" and right > 0):
        return wanted
    return _REFUSED if right == 0 else f"{wanted} on {right} of {there}"


def _is_set(outcome: str) -> bool:
    return outcome not in (_NOT_THERE, _REFUSED, "not asked for") and " of " not in outcome

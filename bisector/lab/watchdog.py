"""The machine's hardware watchdog, armed while a test kernel runs: one that hangs is reset, into the default kernel.

systemd arms it by a word on the test entry's command line, from the first moment of user space on; where it does not,
a shell of ours does once the kernel is proven. Either feeds it for as long as the kernel lives. A reset of the machine
disarms it, so the default kernel never runs under it. Sources: the kernel's Documentation/watchdog/watchdog-api.rst and
Documentation/ABI/testing/sysfs-class-watchdog; systemd's kernel-command-line(7); wdctl(8).
"""

from dataclasses import dataclass

from bisector.lab.root import Root
from bisector.lab.ssh import Shell
from bisector.model.errors import MachineError

# The software watchdog is a timer of the kernel that it is to watch. Without CONFIG_WATCHDOG_SYSFS nobody tells what a
# device is.
_FIND = """
PATH=$PATH:/usr/sbin:/sbin
device=
for place in /dev/watchdog[0-9]*; do
  about=/sys/class/watchdog/${place##*/}
  [ -e "$place" ] && [ -e "$about/identity" ] || continue
  [ "$(cat "$about/identity")" != "Software Watchdog" ] || continue
  device=$place
  break
done
tell() {
  [ "$device" ] || return 0
  cat "$about/identity"
  cat "$about/state" "$about/timeout" 2>/dev/null
}
"""

_LOOK = f"{_FIND}tell; :"

# Closed without the letter V, it counts on: so it also watches over a shutdown that ended this shell.
_KEEPER = 'exec 3>"$1" || exit 1; while echo . >&3; do sleep "$2"; done'

# Who opens it starts it. wdctl can only set the time while nobody else has it open.
_ARM = f"""{_FIND}
if [ "$device" ] && [ "$(cat "$about/state")" != active ]; then
  wdctl -s "$1" "$device" >/dev/null 2>&1
  setsid sh -c '{_KEEPER}' keeper "$device" "$2" </dev/null >/dev/null 2>&1 &
  for try in 1 2 3 4 5; do
    [ "$(cat "$about/state")" != active ] || break
    sleep 1
  done
fi
tell
:
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenWatchdog:
    """A hardware watchdog under the running kernel. `timeout_s` is its own, "" if it does not tell."""

    identity: str
    is_active: bool
    timeout_s: str

    def __str__(self) -> str:
        after = f", {self.timeout_s} s" if self.timeout_s else ""
        return f"{self.identity}{after}"


def look(shell: Shell) -> SeenWatchdog | None:
    """What the running kernel knows; None if it has no hardware watchdog. Raises MachineError."""
    return _seen(shell.check(("sh", "-c", _LOOK), timeout_s=30))


def arm(root: Root, seconds: int) -> SeenWatchdog:
    """See to it that the running kernel is reset when it hangs for about this long.

    Raises MachineError if it has no hardware watchdog, or that does not start.
    """
    seen = _seen(root.script(_ARM, str(seconds), str(max(1, seconds // 4)), timeout_s=60))
    if seen is None or not seen.is_active:
        what = "there is no hardware watchdog" if seen is None else f"the watchdog {seen.identity} does not start"
        raise MachineError(
            f"{root.name}: {what} under its test kernel, but its entry says watchdog_s: {seconds}",
            details="looked for: a /dev/watchdogN whose /sys/class/watchdog/watchdogN tells what it is",
            resolution="Test kernels need its driver and CONFIG_WATCHDOG_SYSFS; or take watchdog_s out of its entry.",
        )
    return seen


def _seen(said: str) -> SeenWatchdog | None:
    if not said.strip():
        return None
    identity, state, timeout_s = [*said.splitlines(), "", ""][:3]
    return SeenWatchdog(identity=identity, is_active=state == "active", timeout_s=timeout_s)

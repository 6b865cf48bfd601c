"""Work on a machine that outlives the connection: detached jobs, started, awaited, collected, killed.

A job is a folder on the machine. Its keeper (a small shell, leader of its own session) runs the command in a session
of its own, ends it when its time is up, and writes `rc` by renaming. While a benchmark runs nothing of ours wakes up
on the machine: the controller waits in a read of the fifo `alive`, which ends when the keeper does.
"""

import secrets
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal

from bisector.lab.ssh import ConnectError, Shell
from bisector.model.errors import KernelError, LabError, MachineError

# Each statement stands alone: in `cd x && setsid y &` the shell puts the whole list, its own copy included, into the
# background, and that copy holds the SSH channel open. mkdir is the lock that makes a repeated start harmless.
_START = """
mkdir -p "$1"
if mkdir "$1/$2" 2>/dev/null; then
  cd "$1/$2" || exit 1
  mkfifo alive || exit 1
  BISECTOR_JOB=$2; export BISECTOR_JOB
  keeper=$3; shift 3
  setsid sh -c "$keeper" keeper "$@" </dev/null >/dev/null 2>&1 &
  echo $! >keeper
else
  cd "$1/$2" || exit 1
fi
echo started
"""

# In one command: had the waiting to be asked for as well, that would happen during the benchmark.
_START_AND_AWAIT = f"{_START}[ -e rc ] || exec cat alive"

# The watch is killed as a process first and as a group then: before its setsid it has no group, afterwards it has a
# child. `rc` appears before `alive` goes, so whoever finds no `rc` finds a fifo with a living writer, or neither.
_KEEPER = """
limit=$1; shift
exec 9<>alive
setsid "$@" </dev/null >stdout 2>stderr 9>&- &
command=$!
setsid sh -c 'sleep "$0"; : >timed_out; kill -s KILL -- "-$1"' "$limit" "$command" </dev/null >/dev/null 2>&1 9>&- &
watch=$!
wait "$command"; code=$?
kill -s KILL "$watch"; kill -s KILL -- "-$watch"
kill -s KILL -- "-$command"
[ -e timed_out ] && code=timeout
echo "$code" >rc.part
mv rc.part rc
rm -f alive
"""

_STATE = """
cd "$1" 2>/dev/null || { echo gone; exit; }
if [ -e rc ]; then echo "ended $(cat rc)"; exit; fi
read -r keeper <keeper
if kill -0 "$keeper" 2>/dev/null && ! grep -q "^State:.Z" "/proc/$keeper/status"; then echo running; exit; fi
if [ -e rc ]; then echo "ended $(cat rc)"; else echo lost; fi
"""

# Found by the mark in their environment, wherever they went; a group alone would miss a child with its own session.
# Through tr, because busybox's grep sees nothing behind a NUL. A zombie's environment is empty.
_KILL = """
n=0
while [ "$n" -lt 40 ]; do
  left=
  for p in /proc/[0-9]*; do
    if tr "\\0" "\\n" 2>/dev/null <"$p/environ" | grep -qxF "BISECTOR_JOB=$1"; then
      left="$left ${p#/proc/}"; kill -s KILL "${p#/proc/}"
    fi
  done 2>/dev/null
  [ -n "$left" ] || exit 0
  n=$((n+1)); sleep 0.1 2>/dev/null || sleep 1
done
echo $left; exit 1
"""

TICK_S = 0.25
"""How often the controller looks at its own side (console, cancel) while a job runs; costs the machine nothing."""

PAUSE_S = 0.5
"""Between two attempts to reach a machine again."""

LOOK_S = 60.0
"""How often it asks the machine whether the keeper lives, which only matters if somebody killed it."""


_TRIES_TO_COLLECT = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class JobResult:
    """A job that ended by itself: exit code 0 to 255 (128 + n for signal n), raw output, seconds on our clock."""

    exit_code: int
    stdout: bytes
    stderr: bytes
    duration_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A started job: enough to find it again, also for another controller."""

    id: str
    folder: str
    limit_s: int


@dataclass(frozen=True, slots=True, kw_only=True)
class JobState:
    """`ended` carries the exit code; `lost` means that the keeper vanished without leaving one."""

    kind: Literal["running", "ended", "timed_out", "lost", "gone"]
    exit_code: int | None = None


class Jobs:
    """Detached jobs on one machine. `check` is called at every poll and may raise (the console shows a panic)."""

    def __init__(
        self,
        shell: Shell,
        *,
        root: str = "/tmp/bisector-jobs",
        check: Callable[[], None] = lambda: None,
        reconnect_s: float = 60.0,
    ) -> None:
        self._shell = shell
        self._root = root
        self._check = check
        self._reconnect_s = reconnect_s

    def run(self, argv: Sequence[str], *, timeout_s: float, on_poll: Callable[[], None] | None = None) -> JobResult:
        """Run a command as a job and return what it left; a lost connection in between does not matter.

        `timeout_s` holds on the machine's clock and on ours. Raises MachineError when the machine stays lost or the
        time is up (then nothing of the job is left running), and whatever `check` or `on_poll` raise.
        """
        started = time.monotonic()
        job = self._new_job(None, timeout_s)
        try:
            state = self._run_to_end(job, argv, started + timeout_s, on_poll or (lambda: None))
        except (LabError, KernelError):
            raise
        except BaseException:
            with suppress(LabError):
                self.kill(job)
            raise
        duration_s = time.monotonic() - started
        if state.kind == "ended":
            return self._collect_surely(job, duration_s)
        said = self._last_words(job)
        self.kill(job)
        if state.kind in ("timed_out", "running"):
            raise MachineError(
                f"{self._shell.target.name}: {argv[0]} did not end within {timeout_s:.0f} s and was killed",
                details=said,
                resolution="Give it more time (timeout_s in the recipe), or look at what it waits for.",
            )
        raise MachineError(
            f"{self._shell.target.name}: the job running {argv[0]} vanished without a result",
            details=said or "its keeper was killed or its folder removed; was the machine out of memory?",
        )

    def start(self, argv: Sequence[str], *, timeout_s: float, job_id: str | None = None) -> Job:
        """Start a command, detached. With the id of a job that was started before, nothing happens twice."""
        job = self._new_job(job_id, timeout_s)
        script = ("sh", "-c", _START, *self._start_arguments(job, argv))
        if self._shell.check(script, timeout_s=30).strip() != "started":
            raise MachineError(f"{self._shell.target.name}: the job running {argv[0]} could not be started")
        return job

    def poll(self, job: Job) -> JobState:
        """Ask the machine how the job is. Raises MachineError if the machine is lost."""
        said = self._shell.check(("sh", "-c", _STATE, "state", job.folder), timeout_s=30).split()
        match said:
            case ["ended", "timeout"]:
                return JobState(kind="timed_out")
            case ["ended", code] if code.isdigit():
                return JobState(kind="ended", exit_code=int(code))
            case ["running"]:
                return JobState(kind="running")
            case ["gone"]:
                return JobState(kind="gone")
            case _:
                return JobState(kind="lost")

    def collect(self, job: Job, *, duration_s: float = 0.0) -> JobResult:
        """Take what an ended job left, and remove its folder. Raises MachineError if it has not ended."""
        state = self.poll(job)
        if state.exit_code is None:
            raise MachineError(f"{self._shell.target.name}: job {job.id} has no result: {state.kind}")
        stdout = self._shell.read_bytes(f"{job.folder}/stdout")
        stderr = self._shell.read_bytes(f"{job.folder}/stderr")
        self._shell.check(("rm", "-rf", job.folder), timeout_s=30)
        return JobResult(exit_code=state.exit_code, stdout=stdout, stderr=stderr, duration_s=duration_s)

    def _collect_surely(self, job: Job, duration_s: float) -> JobResult:
        """A connection that is lost only now must not cost the whole run: its result lies there."""
        for _ in range(_TRIES_TO_COLLECT - 1):
            try:
                return self.collect(job, duration_s=duration_s)
            except MachineError:
                self._check()
                self._shell.close()
                time.sleep(PAUSE_S)
        return self.collect(job, duration_s=duration_s)

    def kill(self, job: Job) -> None:
        """End the job and everything it started, and remove its folder. Raises MachineError if something survives."""
        result = self._shell.run(("sh", "-c", _KILL, "kill", job.id), timeout_s=30)
        if result.exit_code != 0:
            raise MachineError(
                f"{self._shell.target.name}: processes of job {job.id} survive SIGKILL",
                details=result.stdout,
                resolution="Reboot the machine before it measures anything.",
            )
        self._shell.check(("rm", "-rf", job.folder), timeout_s=30)

    def _new_job(self, job_id: str | None, timeout_s: float) -> Job:
        job_id = job_id or secrets.token_hex(8)
        return Job(id=job_id, folder=f"{self._root}/{job_id}", limit_s=max(1, round(timeout_s)))

    def _start_arguments(self, job: Job, argv: Sequence[str]) -> tuple[str, ...]:
        return ("start", self._root, job.id, _KEEPER, str(job.limit_s), *argv)

    def _run_to_end(self, job: Job, argv: Sequence[str], until: float, on_poll: Callable[[], None]) -> JobState:
        # After a lost connection the same command again: it starts nothing twice, and waits.
        command = ("sh", "-c", _START_AND_AWAIT, *self._start_arguments(job, argv))

        def tick() -> None:
            self._check()
            on_poll()

        while True:
            try:
                left_s = until - time.monotonic()
                if left_s > 0:
                    self._shell.follow(command, timeout_s=min(left_s, LOOK_S), tick=tick, tick_s=TICK_S)
                state = self.poll(job)
            except MachineError:
                tick()
                if time.monotonic() > until + self._reconnect_s:
                    raise
                time.sleep(PAUSE_S)
                self._reconnect(time.monotonic() + self._reconnect_s)
                continue
            if state.kind != "running" or left_s <= 0:
                return state

    def _reconnect(self, until: float) -> None:
        while True:
            self._check()
            try:
                self._shell.connect()
            except ConnectError as error:
                if error.stage == "host_key" or time.monotonic() >= until:
                    raise
                time.sleep(PAUSE_S)
            else:
                return

    def _last_words(self, job: Job) -> str:
        with suppress(MachineError):
            return self._shell.run(("tail", "-c", "2000", f"{job.folder}/stderr"), timeout_s=30).stdout
        return ""

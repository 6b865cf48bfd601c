"""Fault storms: a whole hunt on a fake box where every tenth operation fails in a random way, and how it is judged.

An operation is a boot, or a run, as the journal begins it. What strikes is drawn from the seed; when exactly it does
within the operation is the scheduler's. The judge knows what is true of every commit.
"""

import random
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from lab.boxhunt import BoxHunt
from lab.fakebox import DEFAULT_RELEASE, PANIC, FakeBox, running_box
from lab.machines import QUICK
from lab.proxy import Proxy, proxy_to

from bisector.model.events import BootStarted, Event, RunStarted
from bisector.model.outcome import AnswerKind
from bisector.session.evidence import measured_looks, skips
from bisector.session.state import SessionState, Status

COMMITS = 6
LIMITS = replace(QUICK, connect_s=4, banner_s=4, silence_s=6, pulse_s=6, transfer_s=15)
TRUE_LEVELS = {False: 40150.0, True: 30150.0}
"""What the told suite says of good and bad kernels, in the middle of its noise of 0.5 %."""

NETWORK = ("reset", "freeze", "long freeze", "swallow", "refuse", "slow")
BOOTS = ("deaf", "deafer", "lying power", "stale", "other panic", "default", "lingers", "login refused", "sticky")
ANY_TIME = ("power cut", "sshd dies", "full disk", "somebody logs in", "dead lease")
FAULTS = (*NETWORK, *BOOTS, *ANY_TIME)


@dataclass
class Verdict:
    """How one seed ended. `wrong` is what must never happen, `note` how it came to its end."""

    seed: int
    wrong: list[str] = field(default_factory=list)
    struck: list[str] = field(default_factory=list)
    lives: int = 0
    paused: list[str] = field(default_factory=list)
    ended: str = ""
    boots: int = 0
    duration_s: float = 0.0

    def __str__(self) -> str:
        what = "WRONG: " + "; ".join(self.wrong) if self.wrong else "right"
        struck = ", ".join(self.struck) or "nothing"
        return (
            f"seed {self.seed:3}  {what}  {self.ended}  lives {self.lives}  boots {self.boots}  "
            f"{self.duration_s:.0f} s  struck by {struck}" + "".join(f"\n    paused: {why}" for why in self.paused)
        )


class Storm:
    """Strikes one box and the network before it, as the journal of a hunt goes on."""

    def __init__(self, seed: int, box: FakeBox, proxy: Proxy, folder: Path, *, share: float) -> None:
        self.chance = random.Random(seed)
        self.box = box
        self.proxy = proxy
        self.folder = folder
        self.share = share
        self.struck: list[str] = []
        self.calm = False
        self._timers: list[threading.Timer] = []

    def happened(self, event: Event) -> None:
        if self.calm or not isinstance(event, BootStarted | RunStarted):
            return
        if self.chance.random() < self.share:
            faults = FAULTS if isinstance(event, BootStarted) else (*NETWORK, *ANY_TIME)
            fault = self.chance.choice(faults)
            self.struck.append(f"{fault} ({event.kind.removesuffix('_started')})")
            self._strike(fault, event)

    def _strike(self, fault: str, event: Event) -> None:
        if fault in NETWORK:
            self._strike_network(fault)
        elif fault in ANY_TIME:
            self._strike_any_time(fault)
        else:
            self._strike_boot(fault, event)

    def _strike_network(self, fault: str) -> None:
        proxy, soon_s = self.proxy, self.chance.uniform(0.0, 2.0)
        match fault:
            case "reset":
                self._later(soon_s, proxy.reset)
            case "slow":
                proxy.delay_s = 0.05
                self._later(4.0, setattr, proxy, "delay_s", 0.0)
            case _:
                self._later(soon_s, getattr(proxy, fault.split()[-1]))
                self._later(soon_s + (20.0 if fault == "long freeze" else 3.0), proxy.thaw)

    def _strike_any_time(self, fault: str) -> None:
        box, soon_s = self.box, self.chance.uniform(0.0, 2.0)
        match fault:
            case "power cut":
                self._later(soon_s, box.order, "cut")
            case "sshd dies":
                self._later(soon_s, box.drop_connections)
            case "full disk":
                self._fill()
                self._later(6.0, self._ballast.unlink, True)
            case "somebody logs in":
                (box.root / "who").write_text("alice    pts/0        2026-11-30 10:00 (192.0.2.1)\n")
                self._later(5.0, (box.root / "who").unlink, True)
            case "dead lease":
                for record in (box.root / "var/bisector/lease").glob("lease.*"):
                    record.write_text("feed 1\nbob@elsewhere\nhis hunt\n")

    def _strike_boot(self, fault: str, event: Event) -> None:
        box = self.box
        match fault:
            case "deaf" | "deafer" | "lying power":
                rungs = ("reboot", "forced", "cut")
                box.deaf_to = set(rungs[: 1 + ("deaf", "deafer", "lying power").index(fault)])
                self._later(12.0, box.deaf_to.clear)
            case "stale" | "other panic":
                box.stale = [self._other_image(event, panics=fault == "other panic")]
            case "default":
                box.ignored_entries = 1
            case "lingers":
                box.linger_s = 1.0
                self._later(5.0, setattr, box, "linger_s", 0.0)
            case "login refused":
                box.refuses_login_s = 1.0
                self._later(5.0, setattr, box, "refuses_login_s", 0.0)
            case "sticky":
                box.sticky = True
                self._later(5.0, setattr, box, "sticky", False)

    def end(self) -> None:
        """No more faults, and what there are of them is mended."""
        self.calm = True
        for timer in self._timers:
            timer.cancel()
            timer.join()
        self.proxy.thaw()
        self.proxy.delay_s = 0.0
        box = self.box
        box.deaf_to, box.stale, box.sticky, box.ignored_entries = set(), [], False, 0
        box.linger_s = box.refuses_login_s = 0.0
        for file in (self._ballast, box.root / "who"):
            file.unlink(missing_ok=True)
        if not box.answers():
            # Somebody walks over and pushes the button.
            box.order("cut")

    @property
    def _ballast(self) -> Path:
        return self.box.root / "boot" / "ballast"

    def _fill(self) -> None:
        with self._ballast.open("wb") as file:
            try:
                while True:
                    file.write(b"x" * 65536)
                    file.flush()
            except OSError:
                return

    def _other_image(self, event: Event, *, panics: bool) -> Path:
        """What boots in place of the right image: one of the same release but an older build, or a broken one."""
        assert isinstance(event, BootStarted)
        index = int(event.commit[:2], 16)
        text = (self.folder / "kernels" / f"bzImage-{index}").read_text()
        other = self.folder / f"other-{len(self.struck)}"
        build_id = f"{index + 100:02x}" * 20
        other.write_text(text.replace('"run"', '"panic"') if panics else text.replace(build_id, "ab" * 20))
        return other

    def _later(self, after_s: float, do: object, *arguments: object) -> None:
        timer = threading.Timer(after_s, do, arguments)  # type: ignore[arg-type]
        timer.daemon = True
        self._timers.append(timer)
        timer.start()


@contextmanager
def small_disk(folder: Path) -> Iterator[None]:
    """A filesystem of its own, so that a full one is really full."""
    folder.mkdir(parents=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=12m", "bisector-test", str(folder)], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def ride_out(seed: int, folder: Path, *, share: float = 0.1, life_limit_s: float = 600.0) -> Verdict:
    """One hunt through one storm; once it pauses it is resumed in calm weather. What is planted hangs on the seed."""
    chance = random.Random(f"truth {seed}")
    first_bad = chance.randrange(1, COMMITS)
    candidates = [index for index in range(1, COMMITS - 1) if index != first_bad]
    dead = {chance.choice(candidates): chance.choice(["panic", "hang"])} if chance.random() < 0.5 else {}
    verdict = Verdict(seed)
    started = time.monotonic()
    with small_disk(folder / "box" / "boot"), running_box(folder / "box") as box, proxy_to(box.port) as proxy:
        storm = Storm(seed, box, proxy, folder / "hunt", share=share)
        console = f"exec tail -n 0 -F {box.console}" if chance.random() < 0.5 else None
        changes = {"shutdown_timeout_s": 3.0, "boot_timeout_s": 12.0, "console": console, "port": proxy.listens_at}
        hunt = BoxHunt(
            folder / "hunt",
            [box],
            count=COMMITS,
            first_bad=first_bad,
            dead=dead,
            takes_s=0.1,
            retry_pause_s=1.5,
            limits=LIMITS,
            changes=changes,
            on_event=storm.happened,
        )
        state = _live(hunt, verdict, life_limit_s)
        storm.end()
        while state.status is Status.PAUSED and verdict.lives < 4:
            verdict.paused.append(state.pause_reason)
            _judge(hunt, state, dead, verdict)
            state = _live(hunt, verdict, life_limit_s)
        _judge(hunt, state, dead, verdict)
        _judge_end(hunt, state, verdict)
        _judge_machine(box, state, verdict)
        verdict.struck, verdict.boots = storm.struck, len(box.boots)
        if PANIC in box.console.read_text():
            verdict.ended += ", a panic was seen"
    verdict.duration_s = time.monotonic() - started
    shutil.rmtree(folder)
    return verdict


def _judge_machine(box: FakeBox, state: SessionState, verdict: Verdict) -> None:
    """It is given back, or people are told that it is not: it may be somebody else's by then."""
    if box.release == DEFAULT_RELEASE and not box.environment.get("next_entry") and not box.leased:
        return
    left = f"the machine was left with {box.release}, {box.environment}, leased: {box.leased}"
    if not state.not_given_back:
        verdict.wrong.append(f"{left}, and nobody was told")
    else:
        verdict.ended += "".join(
            f", not given back and said so ({told.reason})" for told in state.not_given_back.values()
        )


def _live(hunt: BoxHunt, verdict: Verdict, limit_s: float) -> SessionState:
    started = time.monotonic()
    verdict.lives += 1
    state = hunt.go()
    if time.monotonic() - started > limit_s:
        verdict.wrong.append(f"life {verdict.lives} took {time.monotonic() - started:.0f} s")
    return state


def _judge(hunt: BoxHunt, state: SessionState, dead: dict[int, str], verdict: Verdict) -> None:
    """No figure of another kernel, no commit skipped that is well."""
    for look in measured_looks(state):
        true = TRUE_LEVELS[look.commit >= hunt.first_bad]
        values = [run.value_of("page_test") for run in look.runs]
        if any(abs(value / true - 1) > 0.01 for value in values):
            verdict.wrong.append(f"boot {look.number} of commit {look.commit} was told {values}, the truth is {true}")
    for commit, (outcome, reason) in skips(state).items():
        if commit not in dead:
            verdict.wrong.append(f"commit {commit} is well and was skipped: {outcome}, {reason}")


def _judge_end(hunt: BoxHunt, state: SessionState, verdict: Verdict) -> None:
    if state.status is not Status.FINISHED or state.answer is None:
        verdict.wrong.append(f"it did not finish in calm weather: {state.status}, {state.pause_reason}")
        return
    answer = state.answer
    verdict.ended = f"{answer.kind} {','.join(commit[:2] for commit in answer.commits)} of {hunt.first_bad:02x}"
    if not hunt.holds_the_first_bad(state) or answer.kind not in (AnswerKind.COMMIT, AnswerKind.SET):
        verdict.wrong.append(f"the answer is {verdict.ended}: {answer.reason}")

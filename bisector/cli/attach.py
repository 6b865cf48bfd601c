"""`bisector lab attach`: walk a new machine through everything, a line for each requirement, and write its entry."""

import contextlib
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import click
from pydantic import ValidationError

from bisector.cli.lab import documents
from bisector.cli.overwritten import Line
from bisector.lab.attach import find_boot, find_root
from bisector.lab.hostkey import HostKey, known_to, offered_key
from bisector.lab.physical import PhysicalMachine
from bisector.lab.root import Root
from bisector.lab.ssh import Limits, Shell, Target
from bisector.lab.survey import Finding, Grade, Survey
from bisector.lab.target import target_of
from bisector.model.errors import BisectorError, UsageError
from bisector.recipe.edit import add_machine, as_read, entry_text, refuse_taken_name
from bisector.recipe.lab import lab_path
from bisector.recipe.machines import SshMachine
from bisector.report.as_json import to_json
from bisector.report.words import duration

T = TypeVar("T")

_KEYS = ("id_ed25519", "id_ecdsa", "id_rsa")
_TOLD_BEFORE = ("SSH", "root")
"""Requirements of the survey that were looked at, one by one, before the entry could be made."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What was typed."""

    name: str
    address: str
    port: int = 22
    user: str = "root"
    key: Path | None = None
    fingerprint: str | None = None
    jump: str | None = None
    jump_key: Path | None = None
    jump_fingerprint: str | None = None
    boot: str | None = None
    initrd: str | None = None
    power_cycle: str | None = None
    power_off: str | None = None
    power_on: str | None = None
    console: str | None = None
    tags: tuple[str, ...] = ()
    prove: bool = False
    prove_power: bool = False
    yes: bool = False
    dry_run: bool = False
    file: Path | None = None


@dataclass(slots=True, kw_only=True)
class Asking:
    """Questions to whoever sits there; nobody does without a terminal, or with --yes."""

    interactive: bool = field(default_factory=lambda: sys.stdin.isatty())

    def confirm(self, question: str) -> bool:
        """Yes or no; no if nobody is there."""
        return self.interactive and click.confirm(question, default=False, err=True)

    def text(self, question: str) -> str:
        """A line, "" if nobody is there."""
        return str(click.prompt(question, default="", show_default=False, err=True)) if self.interactive else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attached:
    """What came of it: `entry` is None if a requirement failed, `written` the file unless that, or a dry run."""

    findings: tuple[Finding, ...]
    entry: Mapping[str, Any] | None
    written: Path | None


class _FailedError(Exception):
    """A requirement failed, and was told."""


class Attach:
    """One walk. `say` is told each finding as it is made."""

    def __init__(
        self, wanted: Wanted, say: Callable[[Finding], None], asking: Asking, *, limits: Limits | None = None
    ) -> None:
        self._wanted = wanted
        self._say = say
        self._asking = asking
        self._limits = limits
        self._findings: list[Finding] = []
        self._entry: dict[str, Any] = {}

    def run(self) -> Attached:
        """Walk through. Raises UsageError for what was typed wrong, before anything is contacted or written."""
        path = self._wanted.file or lab_path()
        refuse_taken_name(path, self._wanted.name)
        self._entry = self._first_entry()
        _checked({**self._entry, "host_key": ["ssh-ed25519 AAAA"], "boot": {"method": "grub"}})
        try:
            self._walk()
        except _FailedError:
            return Attached(findings=tuple(self._findings), entry=None, written=None)
        if not self._wanted.dry_run:
            add_machine(path, self._entry)
        written = None if self._wanted.dry_run else path
        return Attached(findings=tuple(self._findings), entry=self._entry, written=written)

    def _walk(self) -> None:
        through = self._through_jump()
        key = self._trusted("host key", self._wanted.address, self._wanted.port, self._wanted.fingerprint, through)
        self._entry["host_key"] = [key.line]
        with contextlib.closing(Shell(target_of(self._machine("grub")), limits=self._limits)) as shell:
            self._connect(shell)
            sudo, found = self._look("root", lambda: find_root(shell))
            self._tell(found)
            if sudo:
                self._entry["sudo"] = True
            methods = {} if self._wanted.boot is None else {"methods": (self._wanted.boot,)}
            root = Root(shell, sudo=sudo)
            method, found = self._look("boot method", lambda: find_boot(self._machine("grub"), root, **methods))
            self._tell(found)
        assert method is not None, "a method that was not found is a failure"
        initrd = {} if self._wanted.initrd is None else {"initrd": self._wanted.initrd}
        self._entry["boot"] = {"method": method, **initrd}
        self._ask_for_power()
        machine = _checked(self._entry)
        self._survey(machine)
        self._prove(machine)

    def _first_entry(self) -> dict[str, Any]:
        wanted = self._wanted
        entry: dict[str, Any] = {"kind": "ssh", "name": wanted.name, "host": wanted.address}
        if wanted.port != 22:
            entry["port"] = wanted.port
        if wanted.user != "root":
            entry["user"] = wanted.user
        entry["key"] = str(_key_file(wanted.key))
        power = {"cycle": wanted.power_cycle, "off": wanted.power_off, "on": wanted.power_on}
        for name, value in (
            ("jump", self._jump_entry()),
            ("power", {name: command for name, command in power.items() if command is not None}),
            ("console", wanted.console),
            ("tags", list(wanted.tags)),
        ):
            if value:
                entry[name] = value
        return entry

    def _jump_entry(self) -> dict[str, Any] | None:
        if self._wanted.jump is None:
            return None
        user, at, place = self._wanted.jump.rpartition("@")
        host, colon, port = place.partition(":")
        if not host or (at and not user) or (colon and not port.isdecimal()):
            raise UsageError(f"--jump {self._wanted.jump}: must be USER@HOST or USER@HOST:PORT")
        ports = {"port": int(port)} if colon and port != "22" else {}
        key = str(_key_file(self._wanted.jump_key or self._wanted.key))
        return {"host": host, **ports, **({"user": user} if user else {}), "key": key, "host_key": ["ssh-ed25519 AAAA"]}

    def _machine(self, method: str) -> SshMachine:
        return _checked({**self._entry, "boot": {"method": method}})

    def _through_jump(self) -> Target | None:
        jump = self._entry.get("jump")
        if jump is None:
            return None
        key = self._trusted("jump host key", jump["host"], jump.get("port", 22), self._wanted.jump_fingerprint, None)
        jump["host_key"] = [key.line]
        # Its part of a machine that has no key of its own yet.
        whole = {**self._entry, "host_key": ["ssh-ed25519 AAAA"], "boot": {"method": "grub"}}
        return target_of(_checked(whole)).jump

    def _trusted(self, what: str, host: str, port: int, fingerprint: str | None, through: Target | None) -> HostKey:
        """The key that is offered there, once somebody vouches for it."""
        key = self._look(what, lambda: offered_key(host, port, through=through, limits=self._limits))
        known = known_to(Path("~/.ssh/known_hosts").expanduser(), host, port, key)
        if fingerprint is not None:
            if fingerprint.removeprefix("SHA256:") != key.fingerprint.removeprefix("SHA256:"):
                mend = "Find out who answers there. On the machine: ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub"
                self._fail(what, f"{key}, not {fingerprint} as expected", mend)
            self._pass(what, f"{key}, as expected")
        elif known:
            self._pass(what, f"{key}, as in ~/.ssh/known_hosts")
        elif known is False:
            mend = "Find out who answers there; if the machine was reinstalled, say so with --fingerprint."
            self._fail(what, f"{key}, but ~/.ssh/known_hosts has another one for {host}", mend)
        elif self._wanted.yes or self._asking.confirm(f"{host}:{port} offers {key}. Is that its key?"):
            how = "believed at first sight (--yes)" if self._wanted.yes else "believed on your word"
            self._pass(what, f"{key}, {how}")
        else:
            mend = "On the machine: ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub; then --fingerprint, or --yes"
            self._fail(what, f"{key}, which nobody vouches for", mend)
        return key

    def _connect(self, shell: Shell) -> None:
        user, key = self._entry.get("user", "root"), self._entry["key"]
        with self._failures(
            "login", mend=f"Let it in: ssh-copy-id -i {key} -p {self._wanted.port} {user}@{self._wanted.address}"
        ):
            shell.connect()
        self._pass("login", f"{user} with {key}")

    def _ask_for_power(self) -> None:
        if "power" in self._entry or self._wanted.yes:
            return
        command = self._asking.text("A command that cuts its power and restores it (empty: there is none)").strip()
        if command:
            self._entry["power"] = {"cycle": command}

    def _survey(self, machine: SshMachine) -> None:
        failed = False
        with contextlib.closing(Survey(machine, limits=self._limits)) as survey:
            for finding in survey.findings():
                if finding.requirement in _TOLD_BEFORE and finding.grade is Grade.PASS:
                    continue
                self._findings.append(finding)
                self._say(finding)
                failed = failed or finding.grade is Grade.FAIL
            if failed:
                raise _FailedError
            with self._failures("facts"):
                cpu = dict(survey.facts().facts).get("cpu")
        if cpu is not None:
            # Somebody may put another machine behind this address.
            self._entry["facts"] = {"cpu": cpu}
            self._pass("facts", f"cpu: {cpu}; it must be this one from now on")

    def _prove(self, machine: SshMachine) -> None:
        """What only a reboot can show, if it is wanted."""
        wanted = self._wanted
        if wanted.dry_run:
            return
        one_shot = wanted.prove or self._asking.confirm(f"Reboot {machine.name} now, twice, to prove one-shot boots?")
        has_power = machine.power is not None
        power = has_power and (
            wanted.prove_power or self._asking.confirm(f"Cut the power of {machine.name} now, to prove the command?")
        )
        if not one_shot and not power:
            return
        with tempfile.TemporaryDirectory(prefix="bisector-attach-") as folder:
            proving = PhysicalMachine(machine, Path(folder), session="attach", limits=self._limits)
            try:
                if one_shot:
                    started = time.monotonic()
                    with self._failures("one-shot boot"), Line() as line:
                        proving.prove_one_shot(line.show)
                    self._pass(
                        "one-shot boot", f"proven: set, booted, cleared ({duration(time.monotonic() - started)})"
                    )
                if power:
                    started = time.monotonic()
                    with self._failures("power"), Line() as line:
                        proving.prove_power(line.show)
                    self._pass("power", f"proven: cut, and booted anew ({duration(time.monotonic() - started)})")
            finally:
                left = proving.release()
                if left is not None:
                    self._note("given back", f"{machine.name} was not given back: {left.reason}", left.resolution)

    def _look(self, requirement: str, step: Callable[[], T]) -> T:
        try:
            return step()
        except BisectorError as error:
            self._fail_by(requirement, error)

    @contextlib.contextmanager
    def _failures(self, requirement: str, *, mend: str = "") -> Iterator[None]:
        """What goes wrong inside is a requirement that fails."""
        try:
            yield
        except BisectorError as error:
            self._fail_by(requirement, error, mend)

    def _fail_by(self, requirement: str, error: BisectorError, mend: str = "") -> NoReturn:
        seen = ": ".join([error.brief.rstrip("."), *error.details.strip().splitlines()[:1]])
        self._fail(requirement, seen, mend or error.resolution)

    def _pass(self, requirement: str, seen: str) -> None:
        self._tell(Finding(requirement=requirement, grade=Grade.PASS, seen=seen))

    def _note(self, requirement: str, seen: str, mend: str) -> None:
        self._tell(Finding(requirement=requirement, grade=Grade.NOTE, seen=seen, mend=mend))

    def _fail(self, requirement: str, seen: str, mend: str) -> NoReturn:
        self._tell(Finding(requirement=requirement, grade=Grade.FAIL, seen=seen, mend=mend))
        raise AssertionError("a failure ends the walk")

    def _tell(self, finding: Finding) -> None:
        self._findings.append(finding)
        self._say(finding)
        if finding.grade is Grade.FAIL:
            raise _FailedError


def _checked(entry: Mapping[str, Any]) -> SshMachine:
    """The machine of an entry. Raises UsageError for what was typed wrong."""
    try:
        return SshMachine.model_validate(as_read(entry))
    except ValidationError as invalid:
        first = invalid.errors(include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"]) or "the options"
        raise UsageError(f"{where}: {first['msg']}, got {str(first['input'])[:100]!r}") from None


def _key_file(named: Path | None) -> Path:
    """The private key that was named, or the user's own. Raises UsageError if there is none."""
    if named is not None:
        path = named.expanduser().absolute()
        if not path.is_file():
            raise UsageError(f"--key {named}: there is no such file")
        return path
    folder = Path("~/.ssh").expanduser()
    for name in _KEYS:
        if (folder / name).is_file():
            return folder / name
    raise UsageError(
        f"There is no key in {folder} to log in with",
        resolution="Name one: --key FILE, or make one: ssh-keygen -t ed25519",
    )


def ending(attached: Attached, name: str) -> str:
    """The last words."""
    if attached.entry is None:
        return f"{name} was not attached, nothing was written: mend what failed, and type it again."
    text = "".join(f"    {line}\n" for line in entry_text(attached.entry).splitlines())
    if attached.written is None:
        return f"Nothing was written. The entry would be:\n{text}"
    more = f"Next:  bisector lab check {name}      bisector lab qualify {name}"
    return f"{name} is attached, in {attached.written}:\n{text}\n{more}"


def as_document(attached: Attached) -> str:
    """The same for scripts."""
    written = None if attached.written is None else str(attached.written)
    return to_json({"findings": documents(attached.findings), "entry": attached.entry, "written": written})

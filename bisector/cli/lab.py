"""`bisector lab`: the machines of the machines file, looked at one by one."""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from bisector.lab.lease import Holding, force_release, look, this_controller
from bisector.lab.survey import Finding, Grade, Survey
from bisector.lab.terminal import Visit
from bisector.model.errors import UsageError
from bisector.recipe.lab import lab_path, load_lab
from bisector.recipe.machines import EmbeddedMachine, SshMachine

EXIT_UNFIT = 3


def listed(file: Path | None, *, as_json: bool) -> str:
    """The machines of the file, a line each. No machine is asked."""
    lab = load_lab(file or lab_path())
    if as_json:
        return json.dumps([_described(machine) for machine in lab.machines])
    rows = [(m["name"], m["where"], m["boot"], ", ".join(m["tags"])) for m in map(_described, lab.machines)]
    widths = [max(len(str(row[column])) for row in rows) for column in range(3)]
    return "\n".join(
        "  ".join([*(str(cell).ljust(width) for cell, width in zip(row, widths, strict=False)), str(row[3])]).rstrip()
        for row in rows
    )


def check(name: str, file: Path | None, *, as_json: bool) -> Iterator[tuple[str, bool]]:
    """A line for each requirement as it is looked at, and whether it is met; with `as_json` one line in all."""
    survey = Survey(_machine(name, file))
    try:
        if not as_json:
            for finding in survey.findings():
                yield line(finding), finding.grade is not Grade.FAIL
            return
        findings = list(survey.findings())
        yield json.dumps(documents(findings)), all(finding.grade is not Grade.FAIL for finding in findings)
    finally:
        survey.close()


def facts(name: str, file: Path | None, *, as_json: bool) -> str:
    """What a machine says of itself, by the names that `facts:` in its entry takes; and, as "now: ...", what changes.

    Raises MachineError.
    """
    survey = Survey(_machine(name, file))
    try:
        running, now = survey.facts(), survey.conditions()
    finally:
        survey.close()
    told = {"release": running.release, "build id": running.build_id, "boot id": running.boot_id, **dict(running.facts)}
    told |= {f"now: {name}": value for name, value in now.items()}
    if as_json:
        return json.dumps(told)
    width = max(map(len, told))
    return "\n".join(f"{key.ljust(width)}  {value}" for key, value in told.items())


def visit(name: str, file: Path | None, command: Sequence[str], say: Callable[[str], None]) -> int:
    """A person's session on a machine, or a command's, under the lease; its exit code. Raises MachineError."""
    session = Visit(_machine(name, file), holder=this_controller())
    with session.leased() as taken_over:
        if taken_over is not None:
            say(f"{name} was left by {taken_over.holder}, session {taken_over.session}: it may run a test kernel")
        return session.interact(command)


def release(name: str, file: Path | None, *, force: bool) -> str:
    """Remove a dead lease, or with `force` any, and say whose it was. Raises UsageError if it is alive."""
    machine = _machine(name, file)
    survey = Survey(machine)
    try:
        root = survey.root
        holding = look(root, machine.lease_folder)
        if holding.state == "free":
            return f"{name} is free"
        if holding.state == "held" and not force:
            raise UsageError(
                f"{name} is {holding}",
                details="Its controller would stop at its next step, and its session pause.",
                resolution=f"If that is what you want: bisector lab release {name} --force",
            )
        was = force_release(root, machine.lease_folder)
    finally:
        survey.close()
    return f"{name} is free; it was {_whose(was)}"


def _whose(was: Holding) -> str:
    how = "held" if was.state == "held" else "left"
    return f"{how} by {was.holder}, session {was.session}"


def _machine(name: str, file: Path | None) -> SshMachine:
    path = file or lab_path()
    lab = load_lab(path)
    for machine in lab.machines:
        if machine.name == name and isinstance(machine, SshMachine):
            return machine
        if machine.name == name:
            raise UsageError(
                f"{name} is an embedded machine: it exists only while it runs, there is nothing to look at"
            )
    raise UsageError(
        f"No machine is called {name!r} in {path}",
        details=f"There are: {', '.join(machine.name for machine in lab.machines)}.",
        resolution="See: bisector lab list",
    )


def _described(machine: SshMachine | EmbeddedMachine) -> dict[str, str | list[str]]:
    if isinstance(machine, EmbeddedMachine):
        return {"name": machine.name, "kind": machine.kind, "where": "on this computer", "boot": "direct", "tags": []}
    via = f" via {machine.jump.host}" if machine.jump is not None else ""
    where = f"{machine.user}@{machine.host}:{machine.port}{via}"
    return {
        "name": machine.name,
        "kind": machine.kind,
        "where": where,
        "boot": machine.boot.method,
        "tags": list(machine.tags),
    }


def line(finding: Finding) -> str:
    """A finding for people: the grade, the requirement, what was seen, and below it the mend."""
    first = f"{finding.grade.value}  {finding.requirement.ljust(14)}  {finding.seen}"
    return f"{first}\n{' ' * 22}{finding.mend}" if finding.mend else first


def documents(findings: Iterable[Finding]) -> list[dict[str, str]]:
    """Findings for scripts."""
    return [{"requirement": f.requirement, "grade": f.grade.value, "seen": f.seen, "mend": f.mend} for f in findings]


def say_nothing(finding: Finding) -> None:
    """For those who print everything at the end."""
    del finding

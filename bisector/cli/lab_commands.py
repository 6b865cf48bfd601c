"""The commands of `bisector lab`. As in `main`, nothing heavy is imported at the top."""

from pathlib import Path

import click

_HELP = {"help_option_names": ["-h", "--help"]}


@click.group(
    name="lab", context_settings={"help_option_names": ["-h", "--help"]}, short_help="Look after lab machines."
)
def lab() -> None:
    """Look after the machines of the machines file (~/.config/bisector/lab.yaml)."""


_FILE = click.option("--file", type=click.Path(path_type=Path), help="Another machines file.")
_JSON = click.option("--json", "as_json", is_flag=True, help="JSON for scripts.")


@lab.command(name="list")
@_FILE
@_JSON
def list_machines(file: Path | None, as_json: bool) -> None:
    """List the machines: where they answer, how they boot, their tags.

    \b
    Example:  bisector lab list
    """
    from bisector.cli import lab as labs

    click.echo(labs.listed(file, as_json=as_json))


@lab.command(short_help="Say whether a machine is fit for hunts.")
@click.argument("machine")
@_FILE
@_JSON
def check(machine: str, file: Path | None, as_json: bool) -> int:
    """Say whether a machine is fit for hunts, a line for each requirement, with the mend.

    Nothing is rebooted and nothing is changed. Ends with 3 if a requirement fails.

    \b
    Example:  bisector lab check box1
    """
    from bisector.cli import lab as labs

    fit = True
    for line, met in labs.check(machine, file, as_json=as_json):
        click.echo(line)
        fit = fit and met
    return 0 if fit else labs.EXIT_UNFIT


@lab.command(short_help="Print what a machine says of itself.")
@click.argument("machine")
@_FILE
@_JSON
def facts(machine: str, file: Path | None, as_json: bool) -> None:
    """Print what a machine says of itself, by the names that `facts:` in its entry takes.

    \b
    Example:  bisector lab facts box1
    """
    from bisector.cli import lab as labs

    click.echo(labs.facts(machine, file, as_json=as_json))


@lab.command(short_help="Remove the lease that a dead controller left.")
@click.argument("machine")
@click.option("--force", is_flag=True, help="Also if its controller may be alive: it stops at its next step.")
@_FILE
def release(machine: str, force: bool, file: Path | None) -> None:
    """Remove the lease that a dead controller left on a machine, and say whose it was.

    \b
    Example:  bisector lab release box1 --force
    """
    from bisector.cli import lab as labs

    click.echo(labs.release(machine, file, force=force))

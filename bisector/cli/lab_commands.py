"""The commands of `bisector lab`. As in `main`, nothing heavy is imported at the top."""

from pathlib import Path
from typing import Any

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


@lab.command(short_help="Find out how small an effect a machine can show.")
@click.argument("target", metavar="MACHINE|RECIPE")
@click.option("--boots", type=click.IntRange(4, 1000), default=8, show_default=True, help="Boots of the one kernel.")
@click.option("--runs", type=click.IntRange(2, 100), default=4, show_default=True, help="Runs a boot.")
@click.option("--kernel", metavar="COMMIT", help="A built kernel, by commit or release; with a recipe any revision.")
@click.option("--machine", metavar="M", help="Which machine of the recipe, if it has several.")
@click.option("--clock", type=click.Choice(["instructions", "wall"]), help="Of an embedded machine.")
@click.option("--set", "overrides", multiple=True, metavar="KEY=VALUE", help="Change one value of the recipe.")
@click.option("--anew", is_flag=True, help="Do not go on with an unfinished test of the same kind.")
@click.option("--dry-run", is_flag=True, help="Check everything and say what would be done; write nothing.")
@click.option("-q", "--quiet", is_flag=True, help="Print only the figures.")
@_FILE
@_JSON
def qualify(as_json: bool, dry_run: bool, quiet: bool, **asked: Any) -> int:
    """Boot one kernel again and again, and tell what noise a hunt would meet (an A/A test).

    Tells how far runs and boots scatter, drift, whether boots fall into two groups, and the smallest effect that a
    hunt could see there. Run it again after an interruption and it goes on. The kernel is the recipe's good end; with
    a machine's name it is the built kernel that was last used. `embedded` needs no entry in the machines file.

    \b
    Example:  bisector lab qualify box1 --boots 10
              bisector lab qualify page-test.yaml --machine box1 --json
              bisector lab qualify embedded --clock wall
    """
    from bisector.cli import qualify as tests
    from bisector.session.home import Home

    home, wanted = Home.of_this_user(), tests.Asked(**asked)
    prepared = tests.prepare(home, wanted)
    if dry_run:
        click.echo(tests.dry_run(home, prepared, wanted))
        return 0
    report, code = tests.qualify(home, wanted, prepared, quiet=quiet)
    click.echo(tests.told(report, as_json=as_json))
    return code

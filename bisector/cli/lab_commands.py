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


@lab.command(short_help="Check a new machine and write its entry.")
@click.argument("name")
@click.option("--address", required=True, metavar="HOST", help="Where it answers: a name or an address.")
@click.option("--port", type=click.IntRange(1, 65535), default=22, show_default=True)
@click.option("--user", default="root", show_default=True, help="Root, or whoever may use sudo without a password.")
@click.option("--key", type=click.Path(path_type=Path), help="The private key's file.  [default: the one in ~/.ssh]")
@click.option("--fingerprint", metavar="SHA256:...", help="The host key's; it must be the one that is offered.")
@click.option("--jump", metavar="USER@HOST[:PORT]", help="The host it is reached through.")
@click.option("--jump-key", type=click.Path(path_type=Path), help="The key for that host, if it is another.")
@click.option("--jump-fingerprint", metavar="SHA256:...", help="That host's fingerprint.")
@click.option("--boot", type=click.Choice(["grub", "systemd-boot", "kexec"]), help="[default: found out]")
@click.option("--initrd", metavar="auto|none|PATH", help="For the test kernels: made there, none, or one of its files.")
@click.option("--power-cycle", metavar="COMMAND", help="Cuts its power and restores it.")
@click.option("--power-off", metavar="COMMAND", help="Or two commands: this one,")
@click.option("--power-on", metavar="COMMAND", help="and this one.")
@click.option("--console", metavar="COMMAND", help="Prints its serial console for as long as it runs.")
@click.option("--tag", "tags", multiple=True, help="For recipes that ask for tags.")
@click.option("--prove", is_flag=True, help="Reboot it twice, to see that a one-shot boot holds and clears itself.")
@click.option("--prove-power", is_flag=True, help="Cut its power, to see that the command does that.")
@click.option("--yes", is_flag=True, help="Ask nothing; believe the host key that is offered.")
@click.option("--dry-run", is_flag=True, help="Look, print the entry, write nothing, reboot nothing.")
@_FILE
@_JSON
def attach(as_json: bool, **typed: Any) -> int:
    """Walk a new machine through everything that a hunt needs, and write its entry into the machines file.

    A line for each requirement, with the mend where one fails; then nothing is written, and it ends with 3. Whatever
    else stands in the file stays as it is.

    \b
    Example:  bisector lab attach box1 --address 192.0.2.7 --power-cycle 'ipmitool ... chassis power cycle'
              bisector lab attach box2 --address box2 --user lab --jump lab@gate --fingerprint SHA256:... --yes --prove
    """
    from bisector.cli import attach as attaching
    from bisector.cli import lab as labs

    wanted = attaching.Wanted(**typed)
    asking = attaching.Asking() if not (wanted.yes or as_json) else attaching.Asking(interactive=False)
    say = labs.say_nothing if as_json else lambda finding: click.echo(labs.line(finding))
    done = attaching.Attach(wanted, say, asking).run()
    click.echo(attaching.as_document(done) if as_json else attaching.ending(done, wanted.name))
    return labs.EXIT_UNFIT if done.entry is None else 0


@lab.command(
    short_help="Open a session on a machine that no hunt disturbs.", context_settings={"ignore_unknown_options": True}
)
@click.argument("machine")
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
@_FILE
def shell(machine: str, command: tuple[str, ...], file: Path | None) -> int:
    """Open a session on a machine, or run a command there, under the lease: no hunt takes the machine meanwhile.

    Ends with the exit code of the session. The lease is given back at its end.

    \b
    Example:  bisector lab shell box1
              bisector lab shell box1 -- dmesg | less
    """
    from bisector.cli import lab as labs

    return labs.visit(machine, file, command, lambda text: click.echo(text, err=True))


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

"""The commands. No logic here: each gathers what it needs, calls one function of another room, and prints.

Nothing heavy is imported at the top: `bisector --help` and `bisector status` must answer at once.
"""

import sys
from collections.abc import Callable, Sequence
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NoReturn

import click

from bisector import __version__
from bisector.cli.bench_commands import bench
from bisector.cli.lab_commands import lab
from bisector.model.errors import BisectorError
from bisector.session.home import Home

if TYPE_CHECKING:
    from bisector.cli.show import Watching

SETTINGS = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


class Commands(click.Group):
    """Commands in the order a hunt meets them, not by the alphabet."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names in the order they were defined."""
        del ctx
        return list(self.commands)


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line and exit: 0 found, 1 no single commit, 2 usage, 3 paused, 4 session, 130 interrupted."""
    try:
        code = command_line.main(args=arguments, prog_name="bisector", standalone_mode=False)
    except BisectorError as error:
        tell(error)
        sys.exit(error.exit_code)
    except click.exceptions.Abort:
        sys.exit(130)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except BrokenPipeError:
        # The reader (`head`) had enough.
        sys.stderr.close()
        sys.exit(0)
    sys.exit(code if isinstance(code, int) else 0)


def tell(error: BisectorError) -> None:
    """Print an error for people: what happened, where, what to type next."""
    lines = [f"bisector: {error.brief}"]
    lines += [f"    {line}" for line in error.details.splitlines()]
    lines += [f"  {line}" for line in error.resolution.splitlines()]
    click.echo("\n".join(lines), err=True)


@click.group(cls=Commands, context_settings=SETTINGS)
@click.version_option(__version__, prog_name="bisector")
def command_line() -> None:
    """Find the commit that made a Linux kernel slower, with a stated probability.

    \b
    See it work, nothing needed but this machine:  bisector demo
    Your own hunt:                                 bisector start RECIPE.yaml --dry-run
    """


def _watching(function: Callable[..., Any]) -> Callable[..., Any]:
    """Options that every command which drives a hunt takes; they arrive as one value `how`."""

    @click.option("-q", "--quiet", is_flag=True, help="Print only the answer.")
    @click.option("--plain", is_flag=True, help="A line an event instead of the live view.")
    @click.option("-v", "--verbose", is_flag=True, help="Lines, with each run's beginning and every test's value.")
    @wraps(function)
    def command(*arguments: Any, quiet: bool, plain: bool, verbose: bool, **named: Any) -> Any:
        from bisector.cli.show import Watching

        return function(*arguments, how=Watching(plain=plain, verbose=verbose, quiet=quiet), **named)

    return command


def _json(function: Callable[..., Any]) -> Callable[..., Any]:
    return click.option("--json", "as_json", is_flag=True, help="JSON for scripts.")(function)


@command_line.command(short_help="Hunt a planted slowdown in a real kernel.")
@click.option(
    "--clock",
    type=click.Choice(["instructions", "wall"]),
    default="instructions",
    show_default=True,
    help="What the embedded machine's time is: executed instructions (nearly no noise) or real time (much).",
)
@click.option("--history", type=click.Path(path_type=Path), help="Where to make the kernel history.")
@click.option("--name", help="The session's name.")
@click.option("--set", "overrides", multiple=True, metavar="KEY=VALUE", help="Change one value of the recipe.")
@click.option("--dry-run", is_flag=True, help="Make the history, check everything, say what would be done.")
@_watching
def demo(
    clock: str,
    history: Path | None,
    name: str | None,
    overrides: tuple[str, ...],
    dry_run: bool,
    how: "Watching",
) -> int:
    """Hunt a planted slowdown in a real kernel on an embedded QEMU machine.

    Makes a git history from the distribution's kernel source, then builds, boots and measures its way to the commit
    that makes page faults slow. Run it again after an interruption and it goes on.

    \b
    Example:  bisector demo --clock wall
    """
    from bisector.cli import demo as demonstration
    from bisector.recipe.load import text_override

    home = Home.of_this_user()
    repository = (history or home.folder / "demo" / "linux").absolute()
    demonstration.make_history(repository)
    recipe = demonstration.demo_folder() / demonstration.RECIPES[clock]
    wanted = name or recipe.stem.replace("demo", "page-test-demo")
    chosen, exists = demonstration.session_name(home, wanted)
    if exists:
        return _drive(home, chosen, how)
    named = (text_override("repo", str(repository)), text_override("name", chosen))
    return _start(home, recipe, (*overrides, *named), dry_run=dry_run, how=how)


@command_line.command()
@click.argument("recipe", type=click.Path(path_type=Path))
@click.option("--name", help="The session's name; the recipe's if not given.")
@click.option("--good", metavar="REV", help="A commit believed good; overrides the recipe.")
@click.option("--bad", metavar="REV", help="A commit believed bad; overrides the recipe.")
@click.option("--repo", metavar="DIR", help="The kernel repository; overrides the recipe.")
@click.option("--machine", "machines", multiple=True, metavar="M", help="Only these machines of the recipe.")
@click.option("--set", "overrides", multiple=True, metavar="KEY=VALUE", help="Change one value of the recipe.")
@click.option("--first-parent", is_flag=True, help="Walk only first parents: a merge is one step.")
@click.option(
    "--bisect-log", type=click.Path(path_type=Path), metavar="FILE", help="Go on where this `git bisect log` ends."
)
@click.option("--dry-run", is_flag=True, help="Check everything and say what would be done; write nothing.")
@_watching
def start(
    recipe: Path,
    name: str | None,
    good: str | None,
    bad: str | None,
    repo: str | None,
    machines: tuple[str, ...],
    overrides: tuple[str, ...],
    first_parent: bool,
    bisect_log: Path | None,
    dry_run: bool,
    how: "Watching",
) -> int:
    """Start a hunt from a recipe.

    \b
    Example:  bisector start page-test.yaml --good v2.6.37 --bad v2.6.38 --set search.confidence=0.995
              bisector start page-test.yaml --bisect-log bisect.log     # a hunt begun with git bisect
    """
    from bisector.recipe.load import text_override

    if bisect_log is not None and (good is not None or bad is not None):
        raise click.UsageError("--bisect-log names both ends: leave out --good and --bad")
    named = {"name": name, "good": good, "bad": bad, "repo": repo}
    changes = [text_override(key, value) for key, value in named.items() if value is not None]
    changes += ["first_parent=true"] if first_parent else []
    home = Home.of_this_user()
    return _start(
        home, recipe, (*overrides, *changes), machines=machines, bisect_log=bisect_log, dry_run=dry_run, how=how
    )


def _start(
    home: Home,
    recipe: Path,
    overrides: Sequence[str],
    *,
    machines: tuple[str, ...] = (),
    bisect_log: Path | None = None,
    dry_run: bool,
    how: "Watching",
) -> int:
    from bisector.cli import forecast, hunt

    prepared = hunt.prepare(home, recipe, overrides, machines=machines, bisect_log=bisect_log)
    if dry_run:
        click.echo(forecast.text(prepared))
        return 0
    home.create(prepared.started(), *prepared.marks)
    return _drive(home, prepared.name, how)


@command_line.command()
@click.argument("session", required=False)
@_watching
def resume(session: str | None, how: "Watching") -> int:
    """Go on with a hunt; the one last worked on if none is named.

    \b
    Example:  bisector resume page-test-demo
    """
    home = Home.of_this_user()
    return _drive(home, home.pick(session), how)


def _drive(home: Home, name: str, how: "Watching") -> int:
    from bisector.cli import hunt, show

    return hunt.drive(
        home,
        name,
        watch=lambda current: show.observer(current, how),
        tell=lambda state: click.echo(show.ending(state, quiet=how.quiet)),
    )


@command_line.command(name="list")
@_json
def list_sessions(as_json: bool) -> None:
    """List the sessions, the one last worked on first."""
    from bisector.cli import show

    click.echo(show.sessions(Home.of_this_user(), as_json=as_json))


@command_line.command(short_help="Say where a hunt stands.")
@click.argument("session", required=False)
@click.option("--why", is_flag=True, help="Explain the next step with its numbers.")
@_json
def status(session: str | None, why: bool, as_json: bool) -> None:
    """Say where a hunt stands; the one last worked on if none is named.

    \b
    Example:  bisector status page-test-demo --why
    """
    from bisector.cli import show

    home = Home.of_this_user()
    click.echo(show.status(home, home.pick(session), why=why, as_json=as_json))


@command_line.command()
@click.argument("session", required=False)
@click.option("--git", "as_git", is_flag=True, help="A log that `git bisect replay` accepts.")
@_json
def log(session: str | None, as_git: bool, as_json: bool) -> None:
    """Print what happened, a line an event.

    \b
    Example:  bisector log page-test-demo --git > bisect.log && git bisect replay bisect.log
    """
    from bisector.cli import show

    home = Home.of_this_user()
    name = home.pick(session)
    click.echo(show.git_log(home, name) if as_git else show.log(home, name, as_json=as_json), nl=not as_git)


@command_line.command()
@click.argument("session", required=False)
@click.option("--format", "form", type=click.Choice(["text", "mmtests", "json"]), default="text", show_default=True)
@click.option(
    "--percent-of",
    type=click.Choice(["base", "new"]),
    default="base",
    show_default=True,
    help="mmtests: what a percentage is of; `new` as in the tables of 2011.",
)
def report(session: str | None, form: str, percent_of: Literal["base", "new"]) -> None:
    """Print the report of a hunt.

    \b
    Example:  bisector report page-test-demo --format mmtests
    """
    from bisector.cli import show

    home = Home.of_this_user()
    click.echo(show.report(home, home.pick(session), form=form, percent_of=percent_of))


command_line.add_command(lab)
command_line.add_command(bench)


def _figure(name: str, help_text: str, low: float, high: float) -> Callable[..., Any]:
    return click.option(name, type=click.FloatRange(low, high), metavar="X", help=help_text)


@command_line.command(short_help="Say what a hunt would cost.")
@click.option("--commits", type=click.IntRange(2, 1_000_000), metavar="N", help="A line of so many.  [default: 1000]")
@click.option(
    "--repo", type=click.Path(path_type=Path), metavar="DIR", help="The real history instead, with --good, --bad."
)
@click.option("--good", metavar="REV", help="The good end of it.")
@click.option("--bad", metavar="REV", help="The bad end of it.")
@click.option("--from-session", "session", metavar="NAME", help="Commits, deviations and costs of a real session.")
@click.option("--from-qualify", "qualified", metavar="MACHINE", help="Deviations and costs of its last A/A test.")
@_figure("--effect", "The slowdown in percent; below zero an improvement.  [default: 5]", -1000, 1000)
@_figure("--boot-sd", "Deviation between boots, percent.  [default: 1]", 0, 100)
@_figure("--run-sd", "Deviation between runs of one boot, percent.  [default: 3]", 0, 100)
@_figure("--build-s", "Seconds a build.  [default: 300]", 0.01, 1_000_000)
@_figure("--boot-s", "Seconds a boot.  [default: 120]", 0.01, 1_000_000)
@_figure("--run-s", "Seconds a run.  [default: 20]", 0.01, 1_000_000)
@click.option("--machines", type=click.IntRange(1, 64), metavar="K", help="Lab machines.  [default: 1]")
@click.option(
    "--builders", type=click.IntRange(0, 64), metavar="B", help="Builders beside them.  [default: 0, machines build]"
)
@_figure("--outliers", "Fraction of wild runs.  [default: 0.02]", 0, 1)
@_figure("--drift", "Drift of the lab, percent an hour.  [default: 0]", -100, 100)
@_figure("--unbuildable", "Fraction of commits that do not build, in clusters of ten.  [default: 0]", 0, 1)
@click.option("--no-regression", is_flag=True, help="Both ends are equal.")
@click.option("--two-steps", is_flag=True, help="Two commits do half of it each.")
@_figure("--confidence", "How sure the answer must be.  [default: 0.99]", 0.5, 0.9999)
@_figure("--min-effect", "The smallest effect of interest, percent.  [default: 1]", 0.01, 1000)
@click.option(
    "--strategy",
    "strategies",
    multiple=True,
    type=click.Choice(["belief", "classic", "fixed", "sprt", "pinpoint", "pass-fail"]),
    help="This search (the default), git bisect with one run, 5 boots of 5 runs with a t-test, a sequential test a "
    "commit, Chromium's rule, git-bayesect's. Several are compared in the same labs.",
)
@click.option(
    "--trials", type=click.IntRange(1, 100_000), metavar="N", help="Hunts.  [default: 5 s of them, 10 to 200]"
)
@click.option("--seed", type=click.IntRange(min=0), default=1, show_default=True, help="Other labs.")
@click.option("--jobs", type=click.IntRange(1, 256), metavar="N", help="Processes.  [default: one a core]")
@_json
def simulate(**values: Any) -> None:
    """Say what a hunt would cost and how sure it would be, on invented labs.

    \b
    Example:  bisector simulate --commits 10000 --effect 2 --boot-sd 0.5 --run-sd 1
              bisector simulate --repo ~/linux --good v6.9 --bad v6.10 --unbuildable 0.02
              bisector simulate --from-session page-test --effect 2
              bisector simulate --from-qualify box1 --commits 10000 --effect 2
              bisector simulate --strategy belief --strategy classic --strategy pass-fail
    """
    from bisector.cli import simulation

    click.echo(simulation.simulate(**values))

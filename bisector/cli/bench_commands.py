"""The commands of `bisector bench`. As in `main`, nothing heavy is imported at the top."""

import sys
from pathlib import Path
from typing import Any

import click

from bisector.session.home import Home

_JSON = click.option("--json", "as_json", is_flag=True, help="JSON for scripts.")


@click.group(
    name="bench", context_settings={"help_option_names": ["-h", "--help"]}, short_help="Run benchmarks by hand."
)
def bench() -> None:
    """Run the benchmark suite by hand, and compare results."""


@bench.command(name="list")
@_JSON
def list_tests(as_json: bool) -> None:
    """List the tests: unit, direction, AIM9's test of the same operation, what one operation is.

    \b
    Example:  bisector bench list
    """
    from bisector.cli import bench as benches

    click.echo(benches.listed(Home.of_this_user(), as_json=as_json))


@bench.command(short_help="Run tests and show how they scatter.")
@click.argument("tests", nargs=-1, required=True, metavar="TEST...")
@click.option("--local", is_flag=True, help="On this computer; the default.")
@click.option("--machine", metavar="M", help="On a lab machine under the kernel that it runs, or on `embedded`.")
@click.option("--file", type=click.Path(path_type=Path), help="Another machines file.")
@click.option("--kernel", metavar="COMMIT", help="A built kernel for an embedded machine.  [default: last used]")
@click.option("--clock", type=click.Choice(["instructions", "wall"]), help="Of an embedded machine.")
@click.option("--runs", type=click.IntRange(1, 1000), default=5, show_default=True, help="Runs of each test.")
@click.option("--sample-ms", type=click.IntRange(1), default=500, show_default=True, help="About how long a run is.")
@click.option("--cpu", type=click.IntRange(0), help="The CPU to stay on.  [default: any]")
@_JSON
def run(tests: tuple[str, ...], local: bool, as_json: bool, **asked: Any) -> None:
    """Run tests of the suite several times and show their levels and how runs scatter.

    With --json: the suite's lines as they came, for `bisector bench compare`. A lab machine is leased meanwhile, and
    not rebooted; an embedded one boots a built kernel.

    \b
    Example:  bisector bench run page_test fork_test --cpu 1
              bisector bench run page_test --machine embedded --json >before.jsonl
    """
    if local and asked["machine"] is not None:
        raise click.UsageError(f"--local and --machine {asked['machine']}: which of the two?")
    from bisector.cli import bench as benches

    with benches.Line() as line:
        records, lines = benches.run(Home.of_this_user(), benches.Asked(tests=tests, **asked), line.show)
    if as_json:
        sys.stdout.buffer.write(lines)
    else:
        click.echo(benches.ran(records))


@bench.command(short_help="Compare two saved results.")
@click.argument("base", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.argument("new", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@_JSON
def compare(base: Path, new: Path, as_json: bool) -> int:
    """Compare two results saved by `bench run --json`, with intervals. Ends with 1 if a difference is seen.

    Runs of one file may come from several boots: then boots are what is compared.

    \b
    Example:  bisector bench compare before.jsonl after.jsonl
    """
    from bisector.cli import bench as benches

    text, differ = benches.compare(Home.of_this_user(), base, new, as_json=as_json)
    click.echo(text)
    return int(differ)

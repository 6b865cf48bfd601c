"""The commands of `bisector bench`. As in `main`, nothing heavy is imported at the top."""

import sys
from pathlib import Path
from typing import Any

import click

from bisector.model.cpus import ROLES
from bisector.session.home import Home


def _cpu(ctx: click.Context, param: click.Parameter, value: str | None) -> int | str | None:
    """A number or a role."""
    if value is None or value in ROLES:
        return value
    if not value.isdecimal():
        roles = f"{', '.join(ROLES[:-1])} or {ROLES[-1]}"
        raise click.BadParameter(f"{value} is neither the number of a CPU nor {roles}", ctx, param)
    return int(value)


_PARSER = click.option("--parser", metavar="NAME", help="What reads the output; see `bisector bench formats`.")
_REGEX = click.option("--regex", metavar="PATTERN", help="For the parser `regex`: named groups metric, value and unit.")
_METRIC = click.option(
    "--metric", "metrics", multiple=True, metavar="NAME:BETTER:UNIT", help="What is read: Time:lower:s. Again for more."
)
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
@click.argument("tests", nargs=-1, metavar="[TEST... | RECIPE.yaml]")
@click.option("--command", metavar="LINE", help="This command (a line for sh -c) instead of tests.")
@_PARSER
@_REGEX
@_METRIC
@click.option("--local", is_flag=True, help="On this computer; the default.")
@click.option("--machine", metavar="M", help="On a lab machine under the kernel that it runs, or on `embedded`.")
@click.option("--file", type=click.Path(path_type=Path), help="Another machines file.")
@click.option("--kernel", metavar="COMMIT", help="A built kernel for an embedded machine.  [default: last used]")
@click.option("--clock", type=click.Choice(["instructions", "wall"]), help="Of an embedded machine.")
@click.option("--runs", type=click.IntRange(1, 1000), default=5, show_default=True, help="Runs of each test.")
@click.option("--sample-ms", type=click.IntRange(1), help="About how long a run is.  [default: 500]")
@click.option("--cpu", metavar="N|ROLE", callback=_cpu, help="The CPU to stay on, or its role.  [default: any]")
@click.option("--counters", metavar="C,...", default="", help="Count as well: instructions:k, page-faults ...")
@_JSON
def run(
    tests: tuple[str, ...],
    command: str | None,
    parser: str | None,
    regex: str | None,
    metrics: tuple[str, ...],
    local: bool,
    as_json: bool,
    counters: str,
    **asked: Any,
) -> None:
    """Run tests of the suite several times and show their levels and how runs scatter.

    Instead of tests: a command, whose output a parser of `bisector bench formats` reads, or a recipe's benchmark. With
    --json: the suite's lines as they came (a command's metrics as json-lines), for `bisector bench compare`. A lab
    machine is leased meanwhile, and not rebooted; an embedded one boots a built kernel.

    \b
    Example:  bisector bench run page_test fork_test --cpu 1 --counters page-faults,instructions:k
              bisector bench run page_test --machine embedded --json >before.jsonl
              bisector bench run --command "hackbench -l 100" --parser hackbench --metric Time:lower:s
    """
    named = [test for test in tests if test.endswith((".yaml", ".yml"))]
    if (command is not None) == bool(tests) or (named and len(tests) > 1):
        raise click.UsageError("name either tests, or one recipe, or --command")
    if command is None and (parser or regex or metrics):
        raise click.UsageError("--parser, --regex and --metric belong to --command")
    if (named or command is not None) and (asked["sample_ms"] or counters):
        raise click.UsageError("--sample-ms and --counters are of tests that are named")
    if local and asked["machine"] is not None:
        raise click.UsageError(f"--local and --machine {asked['machine']}: which of the two?")
    from bisector.cli import bench as benches
    from bisector.cli.overwritten import Line
    from bisector.report.benched import runs_text

    part = benches.part_of(Path(named[0])) if named else None
    if command is not None:
        part = benches.part_typed(command, parser, regex, metrics)
    with Line() as line:
        records, lines = benches.run(
            Home.of_this_user(),
            benches.Asked(
                tests=tests,
                part=part,
                counters=tuple(filter(None, counters.split(","))),
                **asked,
            ),
            lambda progress: line.show(progress.text),
        )
    if as_json:
        sys.stdout.buffer.write(lines)
    else:
        click.echo(runs_text(records))


@bench.command(short_help="Compare two saved results.")
@click.argument("base", type=click.Path(path_type=Path, exists=True))
@click.argument("new", type=click.Path(path_type=Path, exists=True))
@_PARSER
@_REGEX
@_METRIC
@_JSON
def compare(
    base: Path, new: Path, parser: str | None, regex: str | None, metrics: tuple[str, ...], as_json: bool
) -> int:
    """Compare two results saved by `bench run --json`, with intervals. Ends with 1 if a difference is seen.

    Runs of one file may come from several boots: then boots are what is compared. With --parser: any other program's
    outputs; a file's repetitions are its runs, or a folder holds a file for each run. Where the format does not say a
    unit or a direction, --metric must.

    \b
    Example:  bisector bench compare before.jsonl after.jsonl
              bisector bench compare before.json after.json --parser hyperfine
              bisector bench compare before/ after/ --parser fio
    """
    from bisector.cli import bench as benches

    if parser is not None:
        text, differ = benches.compare_imported(base, new, parser, regex=regex, metrics=metrics, as_json=as_json)
    elif regex is not None or metrics:
        raise click.UsageError("--regex and --metric belong to --parser")
    elif base.is_dir() or new.is_dir():
        raise click.UsageError("a folder of outputs needs --parser")
    else:
        text, differ = benches.compare(Home.of_this_user(), base, new, as_json=as_json)
    click.echo(text)
    return int(differ)


@bench.command(short_help="List the parsers of other people's outputs.")
def formats() -> None:
    """List the parsers that a recipe's `benchmark: command:` and `bench read` can use.

    \b
    Example:  bisector bench formats
    """
    from bisector.cli import imports

    click.echo(imports.formats())


@bench.command(short_help="Show what a parser finds in an output.")
@click.argument("parser")
@click.argument("file", type=click.Path(path_type=Path, allow_dash=True))
@click.option("--regex", metavar="PATTERN", help="For the parser `regex`: named groups metric, value and unit.")
@_JSON
def read(parser: str, file: Path, regex: str | None, as_json: bool) -> None:
    """Show every metric that a parser finds in a file, or in standard input (-): what a recipe can ask for.

    A "?" stands where the format does not say the unit or which direction is better: then the recipe alone does.

    \b
    Example:  hackbench -l 100 | bisector bench read hackbench -
              bisector bench read perf-stat counters.csv
    """
    from bisector.cli import imports

    click.echo(imports.read(parser, file, regex=regex, as_json=as_json))


@bench.command(short_help="Compare two profiles of the kernel.")
@click.argument("kind", type=click.Choice(["readprofile", "perf-report", "perf-script", "folded"]))
@click.argument("base", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.argument("new", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.option("--hz", nargs=2, type=click.FloatRange(0, min_open=True), help="CONFIG_HZ of base and new, for ticks.")
@click.option("--top", type=click.IntRange(1), default=12, show_default=True, help="How many functions.")
def profile(kind: str, base: Path, new: Path, hz: tuple[float, float] | None, top: int) -> None:
    """Name the functions whose time moved most between two profiles.

    Seconds are compared where both profiles tell them (--hz, or a clock that was sampled), else shares of the total.

    \b
    Example:  bisector bench profile readprofile 2.4.txt 2.5.txt --hz 100 1000
    """
    from bisector.cli import imports

    click.echo(imports.compare_profiles(kind, base, new, hz=hz or None, top=top))

"""How the suite's program comes to be, and how a missing compiler or library is told."""

import json
import os
import shutil
import stat
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

from bisector.bench.compile import FLAGS, SOURCES, build_suite, source_digest
from bisector.bench.tests import known_tests, read_listing, wanted_tests
from bisector.model.errors import BuilderError, MissingPackageError, UsageError
from bisector.recipe.schema import BenchmarkPart
from tests.bench.conftest import RunSuite


def _compiler(folder: Path, script: str) -> str:
    folder.mkdir(exist_ok=True)
    path = folder / "cc"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return str(path)


def test_the_program_is_static_and_tells_the_digest_of_its_sources(suite: Path) -> None:
    assert read_listing(suite).digest == source_digest()
    header = suite.read_bytes()
    # No program interpreter: nothing of the guest's is loaded, and an initramfs without a libc can run it.
    assert b"/ld-linux" not in header[:4096]
    assert suite.stat().st_mode & stat.S_IXUSR


def _symbols(folder: Path) -> Iterator[tuple[str, str, str]]:
    """(file, kind as nm has it, symbol) of the suite's files, each compiled by itself."""
    sources = sorted(str(path) for path in SOURCES.glob("*.c"))
    subprocess.run(["gcc", *FLAGS, "-c", *sources], cwd=folder, check=True, timeout=60)
    told = subprocess.run(["nm", "-A", *(path.name for path in folder.glob("*.o"))], cwd=folder, capture_output=True)
    for line in told.stdout.decode().splitlines():
        file, _, rest = line.partition(":")
        *_, kind, symbol = rest.split()
        yield file, kind, symbol


def test_no_two_files_of_the_suite_need_each_other(tmp_path: Path) -> None:
    found = list(_symbols(tmp_path))
    home = {symbol: file for file, kind, symbol in found if kind in "TDRBVW"}
    needs: dict[str, set[str]] = {}
    for file, kind, symbol in found:
        if kind == "U" and symbol in home:
            needs.setdefault(file, set()).add(home[symbol])
    order = list(TopologicalSorter(needs).static_order())  # raises CycleError, with the circle
    assert order.index("failure.o") < order.index("measure.o") < order.index("main.o")


def test_a_finished_program_is_not_compiled_again(suite: Path) -> None:
    before = suite.stat()
    assert build_suite(suite.parent) == suite
    assert suite.stat().st_mtime_ns == before.st_mtime_ns


def test_other_sources_or_another_compiler_make_another_program(suite: Path, tmp_path: Path) -> None:
    sources = tmp_path / "sources"
    shutil.copytree(SOURCES, sources)
    with (sources / "files.c").open("a") as file:
        file.write("/* one more line */\n")
    changed = build_suite(tmp_path / "built", sources=sources)
    assert changed.name != suite.name
    assert read_listing(changed).digest != source_digest()
    renamed = _compiler(tmp_path / "other", '[ "$1" = --version ] && { echo "cc 99"; exit; }\nexec gcc "$@"')
    assert build_suite(tmp_path / "built", renamed).name not in {changed.name, suite.name}


def test_workers_that_compile_at_once_end_with_one_whole_program(tmp_path: Path) -> None:
    with ThreadPoolExecutor(3) as pool:
        programs = set(pool.map(lambda _: build_suite(tmp_path), range(3)))
    assert [*tmp_path.iterdir()] == [*programs]
    assert len(known_tests(programs.pop())) > 5


def test_a_program_that_is_there_meanwhile_is_kept_because_it_may_be_running(tmp_path: Path) -> None:
    # The compiler is so slow that another one finishes in the meantime.
    name = tmp_path / "name"
    cc = _compiler(
        tmp_path / "bin",
        'case "$1" in --version|-dumpmachine) exec gcc "$1";; esac\n'
        f'for last; do :; done\necho compiled > "$last"\ncp {SOURCES}/main.c "{tmp_path}/built/$(basename "$last")"\n'
        f'basename "$last" > {name}',
    )
    program = build_suite(tmp_path / "built", cc)
    assert program.name == name.read_text().strip()
    assert program.read_bytes() == (SOURCES / "main.c").read_bytes()


def test_a_missing_compiler_is_named_with_the_packages_to_install(tmp_path: Path) -> None:
    with pytest.raises(MissingPackageError, match="no-such-cc") as caught:
        build_suite(tmp_path, "no-such-cc")
    assert "apt-get install gcc libc6-dev" in caught.value.resolution


@pytest.mark.parametrize(
    "complaint",
    ["/usr/bin/ld: cannot find -lc: No such file or directory", "fatal error: stdio.h: No such file or directory"],
)
def test_a_missing_c_library_is_named_with_its_package(complaint: str, tmp_path: Path) -> None:
    cc = _compiler(
        tmp_path / "bin", f'case "$1" in --version|-dumpmachine) exec gcc "$1";; esac\necho "{complaint}" >&2; exit 1'
    )
    with pytest.raises(MissingPackageError) as caught:
        build_suite(tmp_path / "built", cc)
    assert "libc6-dev" in caught.value.resolution
    assert complaint in caught.value.details


def test_any_other_compiler_failure_is_the_builders_and_leaves_nothing(tmp_path: Path) -> None:
    cc = _compiler(
        tmp_path / "bin", 'case "$1" in --version|-dumpmachine) exec gcc "$1";; esac\necho broken >&2; exit 1'
    )
    with pytest.raises(BuilderError, match="does not compile") as caught:
        build_suite(tmp_path / "built", cc)
    assert caught.value.details == "broken"
    assert list((tmp_path / "built").iterdir()) == []


@pytest.mark.parametrize("level", ["-O0", "-O3"])
def test_at_every_level_of_optimisation_the_same_work_is_done_without_a_warning(
    level: str, tmp_path: Path, run_suite: RunSuite
) -> None:
    warnings = ["-Wall", "-Wextra", "-Wshadow", "-Wconversion", "-Werror"]
    sources = [str(path) for path in sorted(SOURCES.glob("*.c"))]
    program = tmp_path / "suite"
    command = ["gcc", "-std=c11", "-D_GNU_SOURCE", level, *warnings, "-static", *sources, "-o", str(program)]
    subprocess.run(command, check=True, env={**os.environ, "LC_ALL": "C"}, timeout=60)
    # Without entry.c's short way, as on other architectures: `true` is answered by main().
    # So is what patch_series starts.
    for arguments in (
        ("true",),
        ("run", "exec_test", "--ops", "5"),
        ("run", "page_test", "--ops", "17000"),
        ("run", "patch_series", "--ops", "99"),
    ):
        ended = run_suite(*arguments, program=program)
        assert ended.returncode == 0, ended.stderr


def test_the_table_in_c_is_the_one_source_of_names_units_and_directions(suite: Path) -> None:
    tests = {test.name: test for test in known_tests(suite)}
    assert list(tests)[:5] == ["page_test", "brk_test", "fork_test", "exec_test", "creat-clo"]
    assert {test.unit for test in tests.values()} == {"ops/s"}
    assert all(test.higher_is_better for test in tests.values())
    # What AIM9 credits for one call, by benchmark and factor (its singleuser prints calls/s and calls/s x factor).
    assert {name: test.aim_factor for name, test in tests.items() if test.aim} == {
        "page_test": 1700,
        "brk_test": 17000,
        "fork_test": 100,
        "exec_test": 5,
        "creat-clo": 1000,
        "link_test": 63,
        "dir_rtns_1": 10000,
        "disk_src": 75,
        "signal_test": 1000,
        "pipe_cpy": 100,
        "stream_pipe": 100,
        "dgram_pipe": 100,
        "tcp_test": 90,
        "udp_test": 100,
        "shared_memory": 100,
        "shell_rtns_1": 1,
    }
    assert tests["page_test"].faults_per_op == pytest.approx(16 / 17, abs=1e-6)
    assert tests["page_test"].grain == 1700


def test_an_unknown_test_is_refused_with_the_known_ones_and_a_guess(suite: Path) -> None:
    with pytest.raises(UsageError, match="there is no test page-test, zzz") as caught:
        wanted_tests(BenchmarkPart(test="page-test", also=("fork_test", "zzz")), known_tests(suite))
    assert "page_test, brk_test, fork_test, exec_test, creat-clo" in caught.value.details
    assert caught.value.resolution == "Did you mean page_test?"


def test_a_program_that_lists_nothing_is_the_builders_fault(tmp_path: Path) -> None:
    for script in ("exit 1", "echo '{}'", "echo nonsense", 'echo \'{"tests": [{"better": "sideways"}]}\''):
        with pytest.raises(BuilderError, match="does not list its tests"):
            known_tests(Path(_compiler(tmp_path / "bin", script)))


def test_a_suite_from_before_there_were_parameters_is_read_for_the_session_that_began_with_it(
    suite: Path, tmp_path: Path
) -> None:
    listed = json.loads(subprocess.run([suite, "--list", "--json"], capture_output=True, check=True).stdout)
    for test in listed["tests"]:
        del test["params"], test["calls_per_grain"]
    older = tmp_path / "older"
    older.write_text(f"#!/bin/sh\ncat <<'END'\n{json.dumps(listed)}\nEND\n")
    older.chmod(0o755)
    assert [test.name for test in known_tests(older)] == [test.name for test in known_tests(suite)]
    assert {test.params for test in known_tests(older)} == {()}

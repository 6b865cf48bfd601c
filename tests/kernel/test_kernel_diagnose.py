"""Whose fault a failed make is. The messages are as gcc 12, binutils 2.40, make 4.3, dash and kbuild 6.1 print them."""

from pathlib import Path

import pytest

from bisector.kernel.diagnose import explain_failure
from bisector.model.errors import BuilderError, KernelError
from bisector.model.outcome import Outcome

_SOURCE = Path("/var/lib/x/src")
_END = """make[2]: *** [scripts/Makefile.build:250: mm/foo.o] Error 1
make[1]: *** [/var/lib/x/src/Makefile:1867: mm] Error 2
make: *** [Makefile:231: __sub-make] Error 2
"""


def _explain(text: str, status: int = 2) -> BuilderError | KernelError:
    error = explain_failure(text, status=status, commit="ab" * 20, source=_SOURCE, outcome=Outcome.BUILD_FAILED)
    assert isinstance(error, BuilderError | KernelError)
    return error


@pytest.mark.parametrize(
    ("line", "package"),
    [
        ("/bin/sh: 1: flex: not found", "flex"),
        ("/bin/sh: line 1: bison: command not found", "bison"),
        ("/bin/sh: 1: bc: not found", "bc"),
        ("make[1]: flex: No such file or directory", "flex"),
        ("/x/tools/objtool/include/objtool/elf.h:10:10: fatal error: gelf.h: No such file or directory", "libelf-dev"),
        ("scripts/sign-file.c:25:10: fatal error: openssl/opensslv.h: No such file or directory", "libssl-dev"),
        ("certs/extract-cert.c:21:10: fatal error: 'openssl/bio.h' file not found", "libssl-dev"),
        ("/bin/sh: 1: lz4c: not found", "lz4"),
        ("/bin/sh: 1: zstd: not found", "zstd"),
        ("BTF: .tmp_vmlinux.btf: pahole (pahole) is not available", "pahole"),
        ("/bin/sh: 1: cpio: not found", "cpio"),
    ],
)
def test_a_missing_tool_is_named_with_its_package(line: str, package: str) -> None:
    error = _explain(f"  CC      mm/foo.o\n{line}\n{_END}")
    assert isinstance(error, BuilderError)
    assert f"apt-get install {package}" in error.resolution
    assert line.removeprefix("/x/") in error.brief or line in error.brief


@pytest.mark.parametrize(
    "line",
    [
        "mm/foo.c:99:1: fatal error: error writing to /tmp/ccX.s: No space left on device",
        "/usr/bin/ld: final link failed: No space left on device",
        "/tmp/ccK2.s: Assembler messages:\n/tmp/ccK2.s: Fatal error: can't write 12 bytes: No space left on device",
        "gcc: fatal error: Killed signal terminated program cc1\ncompilation terminated.",
        "gcc: internal compiler error: Killed (program cc1)",
        "make[2]: *** [scripts/Makefile.build:250: mm/foo.o] Killed",
        "cc1: out of memory allocating 65536 bytes after a total of 1234 bytes",
        "virtual memory exhausted: Cannot allocate memory",
        "/bin/sh: 1: cannot create mm/.foo.o.cmd: Read-only file system",
    ],
)
def test_trouble_of_this_machine_is_never_the_commits(line: str) -> None:
    # The error line that a full disk brings along names a file that is innocent.
    error = _explain(f"{line}\nmm/foo.c:1:1: error: expected declaration\n{_END}")
    assert isinstance(error, BuilderError)
    assert error.resolution


def test_make_killed_by_a_signal_is_our_trouble() -> None:
    assert isinstance(_explain("  CC      mm/foo.o\n", status=-9), BuilderError)


@pytest.mark.parametrize(
    ("text", "brief"),
    [
        (
            "/var/lib/x/src/mm/bar.c:7:3: warning: unused variable 'a' [-Wunused-variable]\n"
            "/var/lib/x/src/mm/foo.c: In function 'f':\n"
            "/var/lib/x/src/mm/foo.c:123:5: error: 'x' undeclared (first use in this function)\n"
            "  123 |     x = 1; /* Killed by the OOM killer: No space left on device */\n      |     ^\n",
            "mm/foo.c:123:5: error: 'x' undeclared (first use in this function)",
        ),
        (
            "../src/mm/foo.c:3:10: fatal error: linux/gone.h: No such file or directory\n",
            "mm/foo.c:3:10: fatal error: linux/gone.h: No such file or directory",
        ),
        (
            "ld: vmlinux.o: in function `start':\nmain.c:(.text+0x5): undefined reference to `fault'\n",
            "main.c:(.text+0x5): undefined reference to `fault'",
        ),
        (
            'ERROR: modpost: "foo" [drivers/x.ko] undefined!\n',
            'ERROR: modpost: "foo" [drivers/x.ko] undefined!',
        ),
        ('mm/Kconfig:12: syntax error\nmm/Kconfig:11: unknown statement "confg"\n', "mm/Kconfig:12: syntax error"),
    ],
)
def test_the_first_real_error_line_is_shown_with_the_trees_path(text: str, brief: str) -> None:
    error = _explain(text + _END)
    assert isinstance(error, KernelError)
    assert error.brief == brief
    assert error.outcome is Outcome.BUILD_FAILED
    assert "abababababab" in error.details
    assert "/var/lib/x" not in error.details


def test_the_innermost_stop_names_the_file_when_there_is_nothing_better() -> None:
    error = _explain("  GEN     x\n" + _END)
    assert error.brief == "make[2]: *** [scripts/Makefile.build:250: mm/foo.o] Error 1"


def test_a_make_that_says_nothing_is_told_by_its_last_line() -> None:
    assert _explain("  CC      mm/foo.o\n").brief == "make ended with status 2: CC      mm/foo.o"
    assert _explain("").brief == "make ended with status 2: no output"


def test_a_late_tool_comes_with_the_switch_that_avoids_it() -> None:
    line = (
        "mm/foo.c:1:2: error: unused variable 'x' [-Werror=unused-variable]\ncc1: {} warnings being treated as errors\n"
    )
    assert "CONFIG_WERROR=n" in _explain(line.format("all") + _END).resolution
    assert _explain(line.format("some") + _END).resolution == ""
    error = _explain("FAILED: load BTF from vmlinux: Invalid argument\n" + _END)
    assert isinstance(error, KernelError)
    assert error.brief == "FAILED: load BTF from vmlinux: Invalid argument"
    assert "CONFIG_DEBUG_INFO_BTF=n" in error.resolution

"""What a build log says: this machine's trouble, or the commit's own error. Reads text, runs nothing.

Our own trouble is looked for first: a full disk also makes gcc print an error line for a file that is innocent.
"""

import re
from dataclasses import dataclass
from pathlib import Path

from bisector.model.errors import BisectorError, BuilderError, KernelError
from bisector.model.outcome import Outcome

# Whole logs of full builds are some 100 kB; the errors stand at the end, warnings may fill megabytes before.
_TAIL_BYTES = 4 << 20
_SHOWN_LINES = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class _Trouble:
    pattern: re.Pattern[str]
    what: str
    resolution: str


def _trouble(pattern: str, what: str, resolution: str) -> _Trouble:
    return _Trouble(pattern=re.compile(pattern), what=what, resolution=resolution)


def _program(name: str, package: str) -> _Trouble:
    return _trouble(
        rf"\b{name}: (command )?not found|{name}: No such file or directory|exec: {name}: not found",
        f"{name} is not installed",
        f"apt-get install {package}; then resume the session",
    )


def _header(path: str, package: str) -> _Trouble:
    return _trouble(
        rf"fatal error: '?{path}'?(: No such file| file not found)",
        f"the header {path.replace(chr(92), '')} is not installed",
        f"apt-get install {package}; then resume the session",
    )


_OURS = (
    # dash, whose echo writes kbuild's small files, has a word of its own for a full disk.
    _trouble(
        r"No space left on device|Disk quota exceeded|echo: I/O error",
        "the disk is full or broken",
        "Free space, then resume the session",
    ),
    _trouble(
        r"Killed signal terminated program|internal compiler error: Killed|signal 9|\bKilled\b|"
        r"virtual memory exhausted|[Cc]annot allocate memory|out of memory allocating|memory exhausted",
        "the compiler was killed or found no memory",
        "Free memory or set `kernel: jobs:` lower, then resume the session",
    ),
    _trouble(
        r"Read-only file system|Input/output error|Too many open files|Stale file handle",
        "the builder's disk or limits failed",
        "Mend it, then resume the session",
    ),
    _program("flex", "flex"),
    _program("bison", "bison"),
    _program("bc", "bc"),
    _program("perl", "perl"),
    _program("python3", "python3"),
    _program("gcc", "gcc"),
    _program("g\\+\\+", "g++"),
    _program("ld", "binutils"),
    _program("cpio", "cpio"),
    _program("xz", "xz-utils"),
    _program("lz4", "lz4"),
    _program("lz4c", "lz4"),
    _program("zstd", "zstd"),
    _program("lzop", "lzop"),
    _program("openssl", "openssl"),
    _program("rsync", "rsync"),
    _trouble(
        r"pahole[^\n]*(not found|not available)",
        "pahole is not installed",
        "apt-get install pahole, or leave CONFIG_DEBUG_INFO_BTF out; then resume the session",
    ),
    _header(r"gelf\.h", "libelf-dev"),
    _header(r"libelf\.h", "libelf-dev"),
    _header(r"elfutils/[a-z]+\.h", "libdw-dev"),
    _header(r"openssl/[a-z0-9]+\.h", "libssl-dev"),
    _header(r"gmp\.h", "libgmp-dev"),
    _header(r"mpc\.h", "libmpc-dev"),
)

# The commit's own errors, the most telling first.
_COMMITS = (
    re.compile(r"^[^\s:]+:\d+(:\d+)?: (fatal )?error: .*", re.MULTILINE),
    re.compile(r"^[^\s:]*Kconfig[^\s:]*:\d+: .*", re.MULTILINE),
    re.compile(r"^.*undefined reference to .*", re.MULTILINE),
    re.compile(r"^.*multiple definition of .*", re.MULTILINE),
    re.compile(r"^ERROR: modpost: .*", re.MULTILINE),
    re.compile(r"^.*: (error|Error|ERROR): .*", re.MULTILINE),
    re.compile(r"^(error|ERROR|FAILED)\b.*", re.MULTILINE),
    re.compile(r"^.*\.ld[sS]?:\d+: .*", re.MULTILINE),
    re.compile(r"^.*internal compiler error: .*", re.MULTILINE),
    re.compile(r"^make(\[\d+\])?: \*\*\* (?!Waiting).*", re.MULTILINE),
)
_MAKE_STOP = _COMMITS[-1]

# A late tool stumbled over the toolchain, not over the commit's change: say what mends it for all commits.
_HINTS = (
    (re.compile(r"BTF|pahole"), "CONFIG_DEBUG_INFO_BTF=n in a fragment avoids this step"),
    (re.compile(r"objtool"), "an older compiler or CONFIG_UNWINDER_FRAME_POINTER=y may avoid objtool's complaint"),
)

# "some warnings" stands for -Werror=..., which the tree demands whatever the configuration says.
_ALL_WARNINGS = re.compile(r"^cc1: all warnings being treated as errors", re.MULTILINE)
_WERROR_HINT = "CONFIG_WERROR=n in a fragment lets warnings pass"

CLOCK_SKEW = re.compile(r"Clock skew detected|has modification time .* in the future")


def read_tail(log: Path, begin: int = 0) -> str:
    """A log from byte `begin` on as text, at most its last 4 MiB."""
    with log.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(max(begin, size - _TAIL_BYTES))
        return file.read().decode("utf-8", errors="replace")


def explain_failure(text: str, *, status: int, commit: str, source: Path, outcome: Outcome) -> BisectorError:
    """The error to raise for a make that failed: BuilderError if this machine is at fault, else KernelError.

    `brief` is the first real error line, `details` the first few; paths are shortened to those of the tree.
    """
    short = _shorten(text, source)
    ours = _our_trouble(short, status)
    if ours is not None:
        trouble, line = ours
        return BuilderError(f"{trouble.what}: {line}", resolution=trouble.resolution)
    lines = _error_lines(short)
    if not lines:
        lines = [line for line in short.splitlines() if line.strip()][-_SHOWN_LINES:]
        brief = f"make ended with status {status}: {lines[-1].strip() if lines else 'no output'}"
    else:
        brief = lines[0]
    hints = [hint for pattern, hint in _HINTS if any(pattern.search(line) for line in lines)]
    if _ALL_WARNINGS.search(short):
        hints.append(_WERROR_HINT)
    return KernelError(
        brief, outcome=outcome, details="\n".join([f"{commit[:12]}:", *lines]), resolution="; ".join(hints)
    )


def last_lines(text: str, count: int = _SHOWN_LINES) -> str:
    """The last lines that say anything: where a build stood when it was ended, or what it asked."""
    return "\n".join([line for line in text.splitlines() if line.strip()][-count:])


def _our_trouble(text: str, status: int) -> tuple[_Trouble, str] | None:
    if status < 0:
        return _OURS[1], f"make died by signal {-status}"
    for trouble in _OURS:
        for found in trouble.pattern.finditer(text):
            line = _line_around(text, found.start())
            # make prints the recipe's own text only with V=1; source lines quoted by gcc begin with a number or bar.
            if not re.match(r"\s*\d*\s*\|", line):
                return trouble, line.strip()
    return None


def _error_lines(text: str) -> list[str]:
    found: dict[str, None] = {}
    for pattern in _COMMITS:
        if pattern is _MAKE_STOP and found:
            # The innermost stop names the file; the rest is make climbing out.
            found.update(dict.fromkeys(match[0].strip() for match in list(pattern.finditer(text))[:1]))
            continue
        found.update(dict.fromkeys(match[0].strip() for match in pattern.finditer(text)))
        if len(found) >= _SHOWN_LINES:
            break
    return list(found)[:_SHOWN_LINES]


def _line_around(text: str, position: int) -> str:
    start = text.rfind("\n", 0, position) + 1
    end = text.find("\n", position)
    return text[start : end if end >= 0 else len(text)]


def _shorten(text: str, source: Path) -> str:
    return text.replace(f"{source}/", "").replace(f"../{source.name}/", "")

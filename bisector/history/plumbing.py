"""How git is called, everywhere: through GitPython, with an environment of our own and nothing of the user's left on.

Only plumbing commands and exit statuses are relied upon; the C locale holds for the two messages git has no status
for. GitPython is imported at the first call (half a second): `bisector --help` must not pay for it.
"""

import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bisector.model.errors import BuilderError, MissingPackageError

if TYPE_CHECKING:
    from git import Git

# Where configuration lives is the user's business (safe.directory stands there); which repository, index, object
# store or hook is meant is ours alone.
_KEPT = frozenset({"GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM", "GIT_EXEC_PATH"})

_ENVIRONMENT = {
    "LC_ALL": "C",
    "LANGUAGE": "C",
    "GIT_OPTIONAL_LOCKS": "0",
    # One history for everybody: replace refs and grafts would show another graph to some readers.
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_GRAFT_FILE": os.devnull,
    "GIT_TERMINAL_PROMPT": "0",
}

# core.fsmonitor is a hook under another name; a sparse checkout of the user's must not thin our work trees.
_SETTINGS = (
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.sparseCheckout=false",
    "core.autocrlf=false",
    "submodule.recurse=false",
    "gc.auto=0",
    "maintenance.auto=false",
    "log.showSignature=false",
    "advice.graftFileDeprecated=false",
    "protocol.ext.allow=never",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class GitAnswer:
    """What a git command said. `text` replaces bytes that are not UTF-8; `fields` splits at NUL."""

    status: int
    stdout: bytes
    stderr: str

    @property
    def text(self) -> str:
        """Standard output without the last line's end."""
        return self.stdout.decode("utf-8", errors="replace").rstrip("\n")

    @property
    def fields(self) -> list[str]:
        """Standard output of a command with `-z`."""
        text = self.stdout.decode("utf-8", errors="replace")
        return text.removesuffix("\0").split("\0") if text else []


def git_program() -> str:
    """Path of git. Raises MissingPackageError."""
    found = shutil.which("git")
    if found is None:
        raise MissingPackageError(
            f"git is not installed (PATH is {os.environ.get('PATH', '')!r})", resolution="apt-get install git"
        )
    return found


def _gitpython(folder: Path) -> "Git":
    try:
        from git import Git
    except ImportError as error:  # GitPython raises it when $GIT_PYTHON_GIT_EXECUTABLE names nothing that runs.
        raise MissingPackageError(
            "GitPython cannot run git", details=str(error).strip(), resolution="unset GIT_PYTHON_GIT_EXECUTABLE"
        ) from error
    return Git(folder)


def ask(folder: Path, *arguments: str) -> GitAnswer:
    """The answer of `git ARGUMENTS` in `folder`, whatever its status. Standard input is closed.

    Runs in a session of its own, so that Ctrl-C at the terminal does not stop a checkout half-way.
    """
    program = git_program()
    inherited = [name for name in os.environ if name.startswith("GIT_") and name not in _KEPT | _ENVIRONMENT.keys()]
    # GitPython hands os.environ on and can only add to it; env(1) takes away.
    command = ["env", *(part for name in sorted(inherited) for part in ("-u", name))] if inherited else []
    command += [program, "-C", str(folder)]
    command += [part for setting in _SETTINGS for part in ("-c", setting)]
    status, stdout, stderr = _gitpython(folder).execute(
        [*command, *arguments],
        with_extended_output=True,
        with_exceptions=False,
        stdout_as_string=False,
        strip_newline_in_stdout=False,
        env=_ENVIRONMENT,
        start_new_session=True,
    )
    return GitAnswer(status=int(status), stdout=bytes(stdout), stderr=str(stderr))


def demand(folder: Path, *arguments: str) -> GitAnswer:
    """As `ask`, but raises BuilderError unless git succeeds: our side failed, no commit is at fault."""
    answer = ask(folder, *arguments)
    if answer.status != 0:
        raise BuilderError(
            f"git {arguments[0]} failed with status {answer.status} in {folder}",
            details=answer.stderr.strip()[-2000:],
            resolution=f"Look at it with: git -C {folder} {' '.join(arguments)}",
        )
    return answer

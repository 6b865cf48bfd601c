"""Small real repositories for tests, made with git's plumbing: any graph, same ids every time."""

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path


class GitRepo:
    """A repository at `path`. Commits are made without a checkout, so that any DAG is quick to draw."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._clock = 1_600_000_000
        if not path.exists():
            path.mkdir(parents=True)
            self.git("init", "--quiet", "--initial-branch=main")

    def git(self, *arguments: str, given: bytes | None = None, env: Mapping[str, str] | None = None) -> str:
        """Output of git in the repository; fails the test unless git succeeds."""
        done = subprocess.run(
            ["git", "-C", str(self.path), *arguments], input=given, capture_output=True, check=False, env=self._env(env)
        )
        assert done.returncode == 0, f"git {arguments}: {done.stderr.decode(errors='replace')}"
        return done.stdout.decode(errors="replace").strip()

    def commit(
        self, subject: str, files: Mapping[str, str | bytes | None], *, parents: Sequence[str] = (), ref: str = "main"
    ) -> str:
        """Id of a new commit: the first parent's files with `files` changed (None removes one); `ref` moves to it."""
        self._clock += 60
        who = f"A U Thor <author@example.org> {self._clock} +0100"
        # Without the reset, a commit on a branch that exists would get that as its parent.
        stream = [f"reset refs/heads/{ref}\ncommit refs/heads/{ref}\nmark :1\nauthor {who}\ncommitter {who}\n"]
        stream += [f"data {len(subject.encode())}\n{subject}\n"]
        stream += [f"{'merge' if number else 'from'} {parent}\n" for number, parent in enumerate(parents)]
        importing = "".join(stream).encode()
        for name, content in files.items():
            if content is None:
                importing += f"D {name}\n".encode()
                continue
            data = content.encode() if isinstance(content, str) else content
            mode = "100755" if data.startswith(b"#!") else "100644"
            importing += f"M {mode} inline {name}\ndata {len(data)}\n".encode() + data + b"\n"
        return self.git("fast-import", "--quiet", "--force", given=importing + b"\nget-mark :1\n")

    def line(self, count: int, *, name: str = "c") -> list[str]:
        """`count` commits in a row, c0, c1 ..., each changing the file `f`."""
        ids: list[str] = []
        for number in range(count):
            ids.append(self.commit(f"{name}{number}", {"f": f"{number}\n"}, parents=ids[-1:]))
        return ids

    def merged(self, *, branches_at: int) -> tuple[list[str], str, str, str]:
        """c0 to c2 in a row, a side commit on one of them, the merge of both, one more: their ids."""
        ids = self.line(3)
        side = self.commit("s0", {"g": "0"}, parents=[ids[branches_at]], ref="side")
        merge = self.commit("merge", {"g": "0"}, parents=[ids[2], side])
        return ids, side, merge, self.commit("last", {"f": "9"}, parents=[merge])

    def _env(self, more: Mapping[str, str] | None) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
        person = {
            f"GIT_{role}_{what}": value
            for role in ("AUTHOR", "COMMITTER")
            for what, value in (("NAME", "A U Thor"), ("EMAIL", "author@example.org"))
        }
        return {**kept, **person, "GIT_CONFIG_NOSYSTEM": "1", "LC_ALL": "C", **(more or {})}

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
        index = {"GIT_INDEX_FILE": str(self.path / ".git" / "drawing-index")}
        self.git("read-tree", *([parents[0]] if parents else ["--empty"]), env=index)
        for name, content in files.items():
            if content is None:
                self.git("update-index", "--force-remove", name, env=index)
                continue
            data = content.encode() if isinstance(content, str) else content
            blob = self.git("hash-object", "-w", "--stdin", given=data)
            mode = "100755" if data.startswith(b"#!") else "100644"
            self.git("update-index", "--add", "--cacheinfo", f"{mode},{blob},{name}", env=index)
        tree = self.git("write-tree", env=index)
        self._clock += 60
        date = {"GIT_AUTHOR_DATE": f"{self._clock} +0100", "GIT_COMMITTER_DATE": f"{self._clock} +0100"}
        links = [part for parent in parents for part in ("-p", parent)]
        commit = self.git("commit-tree", tree, *links, "-m", subject, env=date)
        self.git("update-ref", f"refs/heads/{ref}", commit)
        return commit

    def line(self, count: int, *, name: str = "c") -> list[str]:
        """`count` commits in a row, c0, c1 ..., each changing the file `f`."""
        ids: list[str] = []
        for number in range(count):
            ids.append(self.commit(f"{name}{number}", {"f": f"{number}\n"}, parents=ids[-1:]))
        return ids

    def _env(self, more: Mapping[str, str] | None) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
        person = {
            f"GIT_{role}_{what}": value
            for role in ("AUTHOR", "COMMITTER")
            for what, value in (("NAME", "A U Thor"), ("EMAIL", "author@example.org"))
        }
        return {**kept, **person, "GIT_CONFIG_NOSYSTEM": "1", "LC_ALL": "C", **(more or {})}

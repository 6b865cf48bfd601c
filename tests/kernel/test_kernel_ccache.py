"""What ccache may answer: what another session compiled in another folder, and never another kernel's code."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from bisector.kernel.toolchain import build_environment


def compile_in(folder: Path, environment: dict[str, str]) -> bytes:
    (folder / "tree" / "include").mkdir(parents=True)
    (folder / "tree" / "include" / "answer.h").write_text("#define ANSWER 42\n")
    (folder / "tree" / "a.c").write_text('#include "answer.h"\nint a(void) { return ANSWER; }\n')
    (folder / "out").mkdir()
    command = ["ccache", "gcc", "-O2", f"-I{folder}/tree/include", "-c", "-o", "a.o", f"{folder}/tree/a.c"]
    subprocess.run(command, cwd=folder / "out", env=environment, check=True)
    return (folder / "out" / "a.o").read_bytes()


def take_in(folder: Path, content: bytes, environment: dict[str, str]) -> bytes:
    """An object with `content` by .incbin, as arch/x86/boot/compressed/piggy.S takes in the packed kernel."""
    (folder / "packed").write_bytes(content)
    (folder / "piggy.S").write_text('.section .rodata,"a"\n.incbin "packed"\n')
    command = ["ccache", "gcc", "-Wp,-MMD,.piggy.o.d", "-c", "-o", "piggy.o", "piggy.S"]
    subprocess.run(command, cwd=folder, env=environment, check=True)
    return (folder / "piggy.o").read_bytes()


@pytest.mark.skipif(shutil.which("ccache") is None, reason="ccache is optional and not installed")
def test_two_build_folders_share_their_objects(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CCACHE_DIR", str(tmp_path / "ccache"))
    objects = [compile_in(tmp_path / name, build_environment(tmp_path / name)) for name in ("one", "two")]
    assert objects[0] == objects[1]
    listed = subprocess.run(
        ["ccache", "--print-stats"],
        env={**os.environ, "CCACHE_DIR": str(tmp_path / "ccache")},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    figures = dict(line.split("\t") for line in listed.splitlines())
    assert int(figures["direct_cache_hit"]) + int(figures["preprocessed_cache_hit"]) == 1


@pytest.mark.skipif(shutil.which("ccache") is None, reason="ccache is optional and not installed")
def test_a_file_that_takes_in_another_is_never_answered_from_an_older_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CCACHE_DIR", str(tmp_path / "ccache"))
    # What somebody's own builds left in the cache in depend mode, which is wrong for such a file in every mode.
    monkeypatch.setenv("CCACHE_DEPEND", "1")
    take_in(tmp_path, b"kernel of the user", dict(os.environ))
    assert b"kernel of the user" in take_in(tmp_path, b"kernel of an other", dict(os.environ))
    for content in (b"kernel of commit 1", b"kernel of commit 2"):
        assert content in take_in(tmp_path, content, build_environment(tmp_path))

"""The packages that the scripts want, on distributions that call them otherwise: apt's answers are made up here."""

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

SETUP = Path(__file__).resolve().parents[2] / "recipes" / "demo" / "setup.sh"

# Files tell what is installed, what apt's lists hold, and what they will hold after an update.
PROGRAMS = {
    "dpkg-query": 'for name; do :; done; grep -qx "$name" "$APT/installed" && echo "install ok installed"',
    "apt-cache": """case $1 in
show) grep -qsx "$2" "$APT/listed" "$APT/installed" && echo "Package: $2";;
madison) cat "$APT/listed" 2>/dev/null;;
esac""",
    "apt-get": """echo "$*" >>"$APT/asked"
case $1 in
update) [ -e "$APT/archive" ] && cp "$APT/archive" "$APT/listed";;
install) shift; for name; do case $name in -*) ;; *)
    grep -qx "$name" "$APT/listed" || exit 100; echo "$name" >>"$APT/installed";; esac; done;;
esac""",
    "id": "cat $APT/uid",
}

Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def apt(tmp_path: Path) -> Path:
    """The folder of those files; nothing is installed or listed, and root asks."""
    folder, bin_folder = tmp_path / "apt", tmp_path / "bin"
    folder.mkdir()
    bin_folder.mkdir()
    for name, body in PROGRAMS.items():
        (bin_folder / name).write_text(f"#!/bin/sh\n{body}\n")
        (bin_folder / name).chmod(0o755)
    for name, content in (("installed", ""), ("uid", "0\n")):
        (folder / name).write_text(content)
    return folder


@pytest.fixture
def run(apt: Path) -> Run:
    def script(text: str) -> "subprocess.CompletedProcess[str]":
        env = {**os.environ, "PATH": f"{apt.parent / 'bin'}:{os.environ['PATH']}", "APT": str(apt)}
        command = ["sh", "-euc", f'. "$1"; {text}', "test", str(SETUP)]
        return subprocess.run(command, env=env, capture_output=True, text=True, check=False)

    return script


def asked(apt: Path) -> list[str]:
    return (apt / "asked").read_text().splitlines() if (apt / "asked").exists() else []


def test_the_first_name_that_a_distribution_has_is_installed(apt: Path, run: Run) -> None:
    (apt / "listed").write_text("linux-source\nmtools\nsystemd\n")
    done = run('ensure_packages "linux-source-6.1|linux-source mtools"')
    assert done.returncode == 0, done.stderr
    assert (apt / "installed").read_text().split() == ["linux-source", "mtools"]
    assert asked(apt) == ["install -y --no-install-recommends linux-source mtools"]


def test_the_better_name_is_installed_though_the_other_one_is_there(apt: Path, run: Run) -> None:
    (apt / "installed").write_text("systemd\n")
    (apt / "listed").write_text("systemd\nsystemd-boot-efi\n")
    assert run('ensure_packages "systemd-boot-efi|systemd"').returncode == 0
    assert (apt / "installed").read_text().split() == ["systemd", "systemd-boot-efi"]


def test_a_new_machine_without_lists_gets_them_before_a_second_name_is_believed(apt: Path, run: Run) -> None:
    (apt / "installed").write_text("systemd\n")
    (apt / "archive").write_text("systemd\nsystemd-boot-efi\n")
    assert run('ensure_packages "systemd-boot-efi|systemd"').returncode == 0
    assert asked(apt) == ["update -qq", "install -y --no-install-recommends systemd-boot-efi"]


def test_nothing_is_asked_where_everything_is_there(apt: Path, run: Run) -> None:
    (apt / "installed").write_text("mtools\nsystemd-boot-efi\n")
    assert run('ensure_packages "mtools systemd-boot-efi|systemd"').returncode == 0
    assert asked(apt) == []


@pytest.mark.parametrize("uid", ["0", "1000"])
def test_a_package_that_the_distribution_has_under_no_name_is_named(apt: Path, run: Run, uid: str) -> None:
    (apt / "uid").write_text(f"{uid}\n")
    (apt / "listed").write_text("mtools\n")
    done = run('ensure_packages "mtools ovmf|edk2-ovmf"')
    assert done.returncode == 2
    assert "has no package of this name:\n    ovmf, nor edk2-ovmf\n" in done.stderr
    assert "Ubuntu 22.04" in done.stderr
    assert (apt / "installed").read_text() == ""


def test_who_may_not_install_is_told_what_to_type(apt: Path, run: Run) -> None:
    (apt / "uid").write_text("1000\n")
    (apt / "listed").write_text("mtools\nlinux-source\n")
    done = run('ensure_packages "mtools linux-source-6.1|linux-source"')
    assert done.returncode == 2
    assert "sudo apt-get install mtools linux-source\n" in done.stderr
    assert asked(apt) == []


@pytest.mark.skipif(shutil.which("dpkg-deb") is None, reason="needs dpkg-deb (dpkg)")
def test_the_libraries_of_an_unpacked_package_are_read_from_it(tmp_path: Path, run: Run) -> None:
    control = tmp_path / "made" / "DEBIAN" / "control"
    control.parent.mkdir(parents=True)
    control.write_text(
        "Package: tool\nVersion: 1\nArchitecture: all\nMaintainer: nobody <nobody@example.org>\nDescription: none\n"
        "Pre-Depends: libc6 (>= 2.34)\nDepends: debconf (>= 0.5) | debconf-2.0, libxenmisc4.19 (>= 4.19), liba | libb\n"
    )
    subprocess.run(["dpkg-deb", "-b", str(tmp_path / "made"), str(tmp_path / "tool_1.deb")], check=True)
    done = run(f'libraries_of "{tmp_path}/tool_1.deb"')
    assert sorted(done.stdout.split()) == ["liba|libb", "libc6", "libxenmisc4.19"]

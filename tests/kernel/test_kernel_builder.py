"""The builder on a toy kernel: right images, small steps, nothing stale, and the right one blamed."""

import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from bisector.kernel import elf
from bisector.kernel.toolchain import check_host
from bisector.model.errors import BuilderError, KernelError, MissingPackageError, RecipeError, UsageError
from bisector.model.outcome import Outcome
from bisector.recipe.schema import KernelPart
from bisector.session.ports import Builder

if TYPE_CHECKING:
    from conftest import Toy

_MEMORY = "#include <linux/mm.h>\n\nint fault(int address)\n{\n\treturn address %s;\n}\n"


def test_a_kernel_is_built_named_and_proven(toy: "Toy") -> None:
    builder: Builder = toy.builder()
    image = builder.build(toy.good, log=toy.log, on_progress=toy.progress.append)
    assert image.release == f"6.1.0-bisector-{toy.good[:12]}"
    vmlinux = toy.folder / "builder/out/vmlinux"
    assert image.build_id == elf.build_id(vmlinux)
    assert Path(image.path).read_bytes() == (toy.folder / "builder/out/arch/x86/boot/bzImage").read_bytes()
    assert image.release.encode() in Path(image.path).read_bytes()
    assert image.config_changes == ()
    assert image.compiler.startswith("gcc ")
    assert (image.commit, image.from_cache) == (toy.good, False)
    assert "  CC      mm/memory.o" in toy.log.read_text()


def test_a_step_compiles_only_what_the_commit_changed(toy: "Toy") -> None:
    two = toy.commit("mm: shift", {"mm/memory.c": _MEMORY % "<< 3"})
    builder = toy.builder()
    first = toy.build(builder, toy.good)
    assert len(toy.compiled) == 5
    second = toy.build(builder, two)
    assert sorted(toy.compiled) == ["init/version.o", "mm/memory.o"]
    assert second.build_id != first.build_id
    assert second.signature != first.signature
    assert second.key != first.key


def test_a_commit_that_changes_no_code_has_its_parents_signature(toy: "Toy") -> None:
    two = toy.commit("docs", {"README": "words\n"})
    builder = toy.builder()
    first, second = toy.build(builder, toy.good), toy.build(builder, two)
    assert first.signature == second.signature
    assert first.build_id != second.build_id
    assert first.release != second.release


def test_going_back_gives_the_same_kernel_again(toy: "Toy") -> None:
    two = toy.commit("mm: shift", {"mm/memory.c": _MEMORY % "<< 3", "include/linux/mm.h": "#define PAGE_SHIFT 13\n"})
    builder = toy.builder()
    first = toy.build(builder, toy.good)
    toy.build(builder, two)
    shutil.rmtree(toy.folder / "cache/images")
    again = toy.build(builder, toy.good)
    assert not again.from_cache
    assert (again.build_id, again.signature, again.key) == (first.build_id, first.signature, first.key)


def test_progress_counts_targets_against_the_last_build_of_the_kind(
    toy: "Toy", monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bisector.kernel.make._REPORT_EVERY_S", 0.0)
    builder = toy.builder()
    toy.build(builder, toy.good)
    assert all(step.fraction is None for step in toy.progress)
    assert "CC      mm/memory.o" in [step.text for step in toy.progress]
    shutil.rmtree(toy.folder / "builder/out")
    (toy.folder / "cache").rename(toy.folder / "old-cache")
    toy.progress.clear()
    toy.build(builder, toy.good)
    counted = [step.fraction for step in toy.progress if step.fraction is not None]
    assert len(counted) == 8
    assert counted == sorted(counted)
    assert counted[0] == 1 / 8
    assert counted[-1] == 0.99


def test_configuration_files_are_laid_over_and_asserted(toy: "Toy") -> None:
    (toy.folder / "a.config").write_text("CONFIG_NET=y\nCONFIG_INET=y\nCONFIG_THP=y\n")
    (toy.folder / "b.config").write_text("# CONFIG_THP is not set\nCONFIG_NR_CPUS=2\n")
    part = KernelPart(base="allnoconfig", fragments=("a.config", "b.config"), required=("CONFIG_IPV6=n",))
    toy.build(toy.builder(part), toy.good)
    config = (toy.folder / "builder/out/.config").read_text()
    assert "CONFIG_NR_CPUS=2" in config
    assert "# CONFIG_THP is not set" in config
    assert "# CONFIG_IPV6 is not set" in config


def test_a_complete_configuration_can_be_the_base(toy: "Toy") -> None:
    (toy.folder / "my.config").write_text("CONFIG_NET=y\n# CONFIG_INET is not set\nCONFIG_NR_CPUS=16\n")
    (toy.folder / "more").write_text("CONFIG_NR_CPUS=4\n")
    toy.build(toy.builder(KernelPart(base="my.config", fragments=("more",))), toy.good)
    config = (toy.folder / "builder/out/.config").read_text()
    assert "# CONFIG_INET is not set" in config
    assert "CONFIG_NR_CPUS=4" in config
    assert "IPV6" not in config


def test_scenario_15_an_option_that_vanished_is_config_failed_with_both_values(toy: "Toy") -> None:
    gone = toy.commit("net: drop INET", {"Kconfig": "config NET\n\tdefault y\n"})
    (toy.folder / "f").write_text("CONFIG_INET=y\nCONFIG_NET=y\n")
    builder = toy.builder(KernelPart(base="defconfig", fragments=("f",), required=("CONFIG_IPV6=y",)))
    toy.build(builder, toy.good)
    with pytest.raises(KernelError, match="CONFIG_INET: wanted y, got n") as caught:
        toy.build(builder, gone)
    assert caught.value.outcome is Outcome.CONFIG_FAILED
    assert "CONFIG_IPV6: wanted y, got n" in caught.value.details


def test_what_the_configuration_became_is_told_against_the_good_end(toy: "Toy") -> None:
    kconfig = (Path(__file__).parent / "toykernel/Kconfig").read_text()
    drifted = toy.commit(
        "new", {"Kconfig": kconfig.replace("config IPV6", "config IPSIX") + "config NEW\n\tdefault y\n"}
    )
    builder = toy.builder()
    image = toy.build(builder, drifted)
    assert image.config_changes == ("CONFIG_IPSIX: n -> y", "CONFIG_IPV6: y -> n", "CONFIG_NEW: n -> y")
    assert toy.build(builder, toy.good).config_changes == ()


def test_every_commit_starts_from_the_same_base_whatever_was_built_before(toy: "Toy") -> None:
    kconfig = (Path(__file__).parent / "toykernel/Kconfig").read_text()
    drop = toy.commit("drop NR_CPUS", {"Kconfig": kconfig.replace("config NR_CPUS\n\tdefault 8\n", "")})
    back = toy.commit("back with another default", {"Kconfig": kconfig.replace("default 8", "default 64")}, parent=drop)
    builder = toy.builder()
    toy.build(builder, drop)
    toy.build(builder, back)
    assert "CONFIG_NR_CPUS=8\n" in (toy.folder / "builder/out/.config").read_text()


def test_a_question_of_the_configuration_finds_standard_input_closed(toy: "Toy") -> None:
    asks = toy.commit("asks", {"trouble-config": 'printf "New option (NEW) [N/y/?] "; read answer || exit 1\n'})
    begin = time.monotonic()
    with pytest.raises(KernelError) as caught:
        toy.build(toy.builder(), asks)
    assert caught.value.outcome is Outcome.CONFIG_FAILED
    assert "New option (NEW)" in toy.log.read_text()
    assert time.monotonic() - begin < 30


def test_scenario_01_a_commit_that_does_not_compile_is_build_failed_with_its_first_error(toy: "Toy") -> None:
    broken = toy.commit("broken", {"mm/mmap.c": "int map(int length)\n{\n\treturn size;\n}\n"})
    mended = toy.commit("mended", {"mm/mmap.c": "int map(int size)\n{\n\treturn size;\n}\n"}, parent=broken)
    builder = toy.builder()
    toy.build(builder, toy.good)
    with pytest.raises(KernelError) as caught:
        toy.build(builder, broken)
    assert caught.value.outcome is Outcome.BUILD_FAILED
    assert caught.value.brief == "mm/mmap.c:3:16: error: 'size' undeclared (first use in this function)"
    assert "mm/mmap.c:3:16: error" in toy.log.read_text()
    toy.build(builder, mended)
    assert sorted(toy.compiled) == ["init/version.o", "mm/mmap.o"]


def test_a_full_disk_is_the_builders_trouble(toy: "Toy") -> None:
    full = toy.commit(
        "x", {"trouble": 'echo "mm/a.c:1:1: fatal error: error writing to /tmp/c.s: No space left on device"; exit 1\n'}
    )
    with pytest.raises(BuilderError, match="the disk is full or broken"):
        toy.build(toy.builder(), full)


def test_scenario_02_a_really_full_disk_is_the_builders_trouble(toy: "Toy", monkeypatch: pytest.MonkeyPatch) -> None:
    # /dev/full answers every write with ENOSPC, as a full disk does to the linker and to make's own messages.
    full = toy.commit("x", {"trouble": "echo words > /dev/full || exit 1\n"})
    with pytest.raises(BuilderError, match="the disk is full or broken"):
        toy.build(toy.builder(), full)


def test_scenario_02_a_killed_compiler_is_the_builders_trouble(toy: "Toy") -> None:
    killed = toy.commit("x", {"trouble": "sh -c 'kill -9 $$'; echo Killed; exit 1\n"})
    with pytest.raises(BuilderError, match="killed"):
        toy.build(toy.builder(), killed)


def test_a_build_that_hangs_ends_with_all_its_processes_and_leaves_nothing_torn(
    toy: "Toy", marked_processes: Callable[[Path], list[int]]
) -> None:
    # One that no SIGTERM ends, and that was writing an object which the next commit does not need to compile.
    hangs = toy.commit(
        "hangs",
        {"trouble": "trap '' TERM\necho waiting in vain; printf torn > \"$O/kernel/sys.o\"\nsleep 300 & sleep 300\n"},
    )
    toy.build(toy.builder(), toy.good)
    toy.close()
    builder = toy.builder(KernelPart(base="defconfig", timeout_s=4.0))
    with pytest.raises(KernelError, match="did not end within the time limit") as caught:
        toy.build(builder, hangs)
    assert caught.value.outcome is Outcome.BUILD_FAILED
    assert "waiting in vain" in caught.value.details
    assert marked_processes(toy.folder / "builder") == []
    toy.close()
    two = toy.commit("mm: shift", {"mm/memory.c": _MEMORY % "<< 3"})
    assert toy.build(toy.builder(), two).signature == toy.built_alone(two)


def test_cancel_ends_the_build_and_the_next_one_is_right(
    toy: "Toy", wait_until: Callable[[Callable[[], bool]], None], marked_processes: Callable[[Path], list[int]]
) -> None:
    hangs = toy.commit("hangs", {"trouble": "echo waiting; sleep 300\n"})
    builder = toy.builder()
    toy.build(builder, toy.good)
    errors: list[BaseException] = []

    def build() -> None:
        try:
            toy.build(builder, hangs)
        except BuilderError as error:
            errors.append(error)

    thread = threading.Thread(target=build)
    thread.start()
    wait_until(lambda: "waiting" in toy.log.read_text())
    builder.cancel()
    thread.join(20)
    assert not thread.is_alive()
    assert "was cancelled" in str(errors[0])
    assert marked_processes(toy.folder / "builder") == []
    two = toy.commit("mm: shift", {"mm/memory.c": _MEMORY % "<< 3"})
    incremental = toy.build(builder, two)
    assert incremental.signature == toy.built_alone(two)


def test_a_build_killed_with_its_controller_leaves_nothing_running_and_nothing_torn(
    toy: "Toy", wait_until: Callable[[Callable[[], bool]], None], marked_processes: Callable[[Path], list[int]]
) -> None:
    two = toy.commit("mm: shift", {
        "mm/memory.c": _MEMORY % "<< 3",
        # What a compiler that is shot while it writes leaves: an object newer than its source, and not whole.
        "trouble": 'printf torn > "$O/mm/memory.o"; printf torn > "$O/kernel/sys.o"; echo waiting; sleep 300\n',
    })  # fmt: skip
    three = toy.commit("calm", {"mm/memory.c": _MEMORY % "<< 3"})
    toy.build(toy.builder(), toy.good)
    toy.close()
    script = (
        "import sys\nfrom pathlib import Path\n"
        "from bisector.history.repository import Repository\nfrom bisector.history.worktree import WorkTree\n"
        "from bisector.kernel.builder import KernelBuilder\nfrom bisector.kernel.store import ImageCache\n"
        "from bisector.recipe.schema import KernelPart\n"
        "folder, good, commit = Path(sys.argv[1]), sys.argv[2], sys.argv[3]\n"
        "source = WorkTree(Repository.open(folder / 'repo'), folder / 'builder/src')\n"
        "part = KernelPart(base='defconfig', jobs=2, timeout_s=60.0)\n"
        "builder = KernelBuilder(part, folder, source=source, good=good, folder=folder / 'builder',\n"
        "    cache=ImageCache(folder / 'cache', 1 << 26))\n"
        "builder.build(commit, log=folder / 'killed.log', on_progress=lambda step: None)\n"
    )
    controller = subprocess.Popen([sys.executable, "-c", script, str(toy.folder), toy.good, two])
    log = toy.folder / "killed.log"
    wait_until(lambda: log.exists() and "waiting" in log.read_text())
    controller.kill()
    controller.wait()
    assert marked_processes(toy.folder / "builder") != []
    resumed = toy.builder()
    image = toy.build(resumed, three)
    assert marked_processes(toy.folder / "builder") == []
    assert image.signature == toy.built_alone(three)


def test_the_users_environment_does_not_reach_make(toy: "Toy", monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {
        "MAKEFLAGS": "-n", "ARCH": "arm", "CROSS_COMPILE": "no-", "KBUILD_BUILD_USER": "me", "O": "/nowhere",
        "KCONFIG_CONFIG": "/nowhere", "LOCALVERSION": "-mine", "CC": "false", "C_INCLUDE_PATH": "/x", "GIT_DIR": "/x",
    }.items():  # fmt: skip
        monkeypatch.setenv(name, value)
    prints = toy.commit("env", {"trouble": "env | sort\n"})
    assert toy.build(toy.builder(), prints).release == f"6.1.0-bisector-{prints[:12]}"
    seen = toy.log.read_text()
    for there in ("KBUILD_BUILD_USER=bisector", "KBUILD_BUILD_TIMESTAMP=Thu Jan  1", "LC_ALL=C\n"):
        assert there in seen
    for absent in ("C_INCLUDE_PATH", "GIT_DIR", "CROSS_COMPILE", "=me\n", "-mine"):
        assert absent not in seen


def test_scenario_15_another_compiler_within_a_session_stops_the_builder(
    toy: "Toy", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    toy.build(toy.builder(), toy.good)
    toy.close()
    fake = tmp_path / "bin" / "gcc"
    fake.parent.mkdir()
    fake.write_text(
        f'#!/bin/sh\n[ "$1" = --version ] && {{ echo "gcc (Other) 99.1.0"; exit; }}\nexec {shutil.which("gcc")} "$@"\n'
    )
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{fake.parent}:{os.environ['PATH']}")
    with pytest.raises(BuilderError, match=r"compiler changed within the session: gcc \(Other\) 99\.1\.0.*, was gcc"):
        toy.build(toy.builder(), toy.good)
    other = toy.build(toy.builder(name="other"), toy.good)
    assert not other.from_cache


def test_two_processes_do_not_share_a_folder(toy: "Toy") -> None:
    first, second = toy.builder(), toy.builder()
    toy.build(first, toy.good)
    with pytest.raises(BuilderError, match="another process builds in"):
        toy.build(second, toy.good)
    first.close()


def test_the_users_repository_is_not_touched(toy: "Toy") -> None:
    toy.repo.git("checkout", "-q", "-f", "main")
    (toy.repo.path / "mm/memory.c").write_text("mine\n")
    before = (toy.repo.path / ".git/index").read_bytes(), toy.repo.git("--no-optional-locks", "status", "--porcelain")
    two = toy.repo.commit("side", {"README": "x\n"}, parents=[toy.good], ref="side")
    toy.build(toy.builder(), two)
    after = (toy.repo.path / ".git/index").read_bytes(), toy.repo.git("--no-optional-locks", "status", "--porcelain")
    assert after == before
    assert (toy.repo.path / "mm/memory.c").read_text() == "mine\n"


def test_missing_packages_are_named_all_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    check_host("gcc")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MissingPackageError) as caught:
        check_host("gcc-13")
    assert caught.value.resolution == "apt-get install bc binutils bison flex gcc-13 make"
    assert caught.value.exit_code == 2


def test_what_cannot_be_built_is_refused_before_anything_is_written(toy: "Toy", tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="'sparc' cannot be built"):
        toy.builder(KernelPart(arch="sparc"))
    with pytest.raises(UsageError, match=r"absent\.config: cannot be read"):
        toy.builder(KernelPart(fragments=("absent.config",)))
    (toy.folder / "f").write_text("CONFIG_A=y\nnonsense\n")
    with pytest.raises(RecipeError, match=r"f:2:1: not a configuration line: 'nonsense'"):
        toy.builder(KernelPart(fragments=("f",)))
    (toy.folder / "f").write_text("CONFIG_A=y\n")
    with pytest.raises(RecipeError, match="CONFIG_A: wanted n, got y"):
        toy.builder(KernelPart(fragments=("f",), required=("CONFIG_A=n",)))
    with pytest.raises(UsageError, match="no blank"):
        toy.builder(name="a b")
    assert not (toy.folder / "builder").exists()

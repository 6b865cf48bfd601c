"""A toy kernel with modules through the builder: built, packed, stored and handed on."""

import tarfile
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from bisector.kernel.store import ImageCache
from bisector.model.errors import KernelError
from bisector.model.kernel import KernelModules
from bisector.model.outcome import Outcome

if TYPE_CHECKING:
    from conftest import Toy

_DRIVER = """#include <generated/utsrelease.h>

const char vermagic[] __attribute__((used, section(".modinfo"))) = "vermagic=" UTS_RELEASE " SMP";
int %s(int minor);
int probe(int minor)
{
	return %s(minor);
}
"""


def driver(calls: str) -> str:
    return _DRIVER % (calls, calls)


@pytest.fixture
def first(toy: "Toy") -> str:
    """A commit of a kernel with two modules, which is the good end."""
    kconfig = "config MODULES\n\tdefault y\nconfig NET\n\tdefault y\n"
    files = {"Kconfig": kconfig, "drivers/disk.c": driver("printk"), "drivers/net.c": driver("kmalloc")}
    toy.good = toy.commit("modules: first", files)
    return toy.good


def members(modules: KernelModules | None) -> dict[str, tarfile.TarInfo]:
    assert modules is not None
    with tarfile.open(modules.path) as archive:
        return {member.name: member for member in archive}


def test_modules_are_built_packed_and_kept_beside_their_image(toy: "Toy", first: str) -> None:
    image = toy.build(toy.builder(), first)
    found = members(image.modules)
    assert sorted(found) == [
        "config", "kernel", "kernel/drivers", "kernel/drivers/disk.ko", "kernel/drivers/net.ko", "modules.order",
    ]  # fmt: skip
    assert {(member.mtime, member.uid, member.uname) for member in found.values()} == {(0, 0, "")}
    assert image.modules is not None
    # Four files of less than a page, two folders.
    assert image.modules.unpacked_bytes == 6 * 4096
    assert Path(image.modules.path).parent == Path(image.path).parent
    with tarfile.open(image.modules.path) as archive:
        module = archive.extractfile("kernel/drivers/net.ko")
        assert module is not None
        assert f"vermagic={image.release}".encode() in module.read()
    assert "  LD [M]  drivers/net.ko" in toy.log.read_text()


def test_the_same_modules_give_the_same_bytes(toy: "Toy", first: str) -> None:
    here = toy.build(toy.builder(), first).modules
    (toy.folder / "cache").rename(toy.folder / "cache-of-before")
    time.sleep(1.1)
    there = toy.build(toy.builder(name="other"), first).modules
    assert here is not None
    assert there is not None
    assert here == replace(there, path=here.path)


def test_modules_come_from_the_cache_with_their_image(toy: "Toy", first: str) -> None:
    built = toy.build(toy.builder(), first)
    again = toy.build(toy.builder(name="other"), first)
    assert again.from_cache
    assert again.modules == built.modules
    [entry] = ImageCache(toy.folder / "cache", 1 << 26).entries()
    assert entry.as_image().modules == built.modules


def test_an_image_whose_modules_are_torn_is_built_again(toy: "Toy", first: str) -> None:
    builder = toy.builder()
    built = toy.build(builder, first)
    assert built.modules is not None
    Path(built.modules.path).write_bytes(Path(built.modules.path).read_bytes()[:-9])
    again = toy.build(builder, first)
    assert not again.from_cache
    assert again.modules == built.modules


def test_a_commit_that_changes_one_call_in_one_module_is_another_kernel(toy: "Toy", first: str) -> None:
    """What a module calls stands in its relocations and symbols, and vmlinux is the same."""
    calls = toy.commit("net: call another", {"drivers/net.c": driver("kzalloc")})
    idle = toy.commit("net: a comment", {"drivers/net.c": driver("kmalloc") + "/* nothing */\n"})
    builder = toy.builder()
    signatures = [toy.build(builder, commit).signature for commit in (first, calls, idle)]
    assert signatures[0] == signatures[2]
    assert signatures[0] != signatures[1]


def test_a_module_that_a_commit_removed_is_not_handed_on(toy: "Toy", first: str) -> None:
    gone = toy.commit("net: remove", {"drivers/net.c": None})
    builder = toy.builder()
    toy.build(builder, first)
    assert "kernel/drivers/net.ko" not in members(toy.build(builder, gone).modules)


def test_a_module_of_another_release_is_not_believed(toy: "Toy", first: str) -> None:
    makefile = (Path(__file__).parent / "toykernel/Makefile").read_text()
    lazy = makefile.replace("@ld -r --build-id=sha1 -o $@ $<", "@test -e $@ || ld -r --build-id=sha1 -o $@ $<")
    one = toy.commit("lazy", {"Makefile": lazy})
    two = toy.commit("net: call another", {"drivers/net.c": driver("kzalloc")}, parent=one)
    builder = toy.builder()
    toy.build(builder, one)
    image = toy.build(builder, two)
    assert "built again from nothing: disk.ko is not a module of" in toy.log.read_text()
    assert image.modules is not None


def test_a_module_that_does_not_compile_is_a_build_that_failed(toy: "Toy", first: str) -> None:
    broken = toy.commit("net: break", {"drivers/net.c": "int x = ;\n"})
    with pytest.raises(KernelError, match=r"drivers/net\.c:1") as caught:
        toy.build(toy.builder(), broken)
    assert caught.value.outcome is Outcome.BUILD_FAILED


def test_a_kernel_without_modules_is_as_it_was(toy: "Toy") -> None:
    image = toy.build(toy.builder(), toy.good)
    assert image.modules is None
    assert not (toy.folder / "builder/modules").exists()
    assert [path.name for path in sorted(Path(image.path).parent.iterdir())] == ["bzImage", "config", "image.json"]

"""Images that must not be believed: clocks that lie, and kernels that are another commit's."""

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from bisector.model.errors import BuilderError, KernelError
from bisector.model.outcome import Outcome

if TYPE_CHECKING:
    from conftest import Toy

_MEMORY = "#include <linux/mm.h>\n\nint fault(int address)\n{\n\treturn address %s;\n}\n"


def test_an_object_from_the_future_is_not_kept(toy: "Toy") -> None:
    two = toy.commit("mm: shift", {"mm/memory.c": _MEMORY % "<< 3"})
    builder = toy.builder()
    toy.build(builder, two)
    ahead = time.time() + 3600
    os.utime(toy.folder / "builder/out/mm/memory.o", (ahead, ahead))
    image = toy.build(builder, toy.good)
    assert "mm/memory.o" in toy.compiled
    assert image.signature == toy.built_alone(toy.good)


def test_a_source_from_the_future_is_compiled_again(toy: "Toy") -> None:
    builder = toy.builder()
    toy.build(builder, toy.good)
    ahead = time.time() + 3600
    os.utime(toy.folder / "builder/src/mm/mmap.c", (ahead, ahead))
    two = toy.commit("mm: shift", {"mm/memory.c": _MEMORY % "<< 3"})
    toy.build(builder, two)
    assert (toy.folder / "builder/src/mm/mmap.c").stat().st_mtime < time.time() + 60
    assert "Clock skew" not in toy.log.read_text()


def test_makes_word_on_the_clock_leads_to_a_build_from_nothing(toy: "Toy") -> None:
    # The first make of this commit sees a time to come; after the folder was cleared it does not.
    warning = "make: warning:  Clock skew detected.  Your build may be incomplete."
    skewed = toy.commit("skew", {"trouble": f'test -e "$O/../seen" || {{ touch "$O/../seen"; echo "{warning}"; }}\n'})
    builder = toy.builder()
    toy.build(builder, toy.good)
    image = toy.build(builder, skewed)
    text = toy.log.read_text()
    assert "not believed, built again from nothing: make says 'Clock skew detected'" in text
    assert toy.compiled.count("mm/mmap.o") == 1
    assert image.signature == toy.built_alone(toy.good)


def test_a_clock_that_stays_wrong_is_the_builders_trouble(toy: "Toy") -> None:
    skewed = toy.commit("skew", {"trouble": 'echo "make: warning:  Clock skew detected."\n'})
    with pytest.raises(BuilderError, match="is not believed"):
        toy.build(toy.builder(), skewed)
    assert not list((toy.folder / "cache").rglob("bzImage"))


def test_a_release_with_something_behind_it_is_refused(toy: "Toy") -> None:
    dirty = toy.commit("suffix", {"suffix": "+\n"})
    with pytest.raises(KernelError, match=r"and does not end with -bisector-") as caught:
        toy.build(toy.builder(), dirty)
    assert caught.value.outcome is Outcome.CONFIG_FAILED


def test_an_image_of_another_commit_is_not_believed(toy: "Toy") -> None:
    # A make that forgets to link again: everything succeeds, and the old image stands there.
    makefile = (Path(__file__).parent / "toykernel/Makefile").read_text()
    lazy = toy.commit(
        "lazy",
        {
            "Makefile": makefile.replace(
                "bzImage: trouble $(IMAGE)",
                "bzImage: $(O)/include/config/kernel.release\n\t@test -e $(IMAGE) || $(MAKE) $(IMAGE)",
            )
        },
    )
    builder = toy.builder()
    toy.build(builder, toy.good)
    image = toy.build(builder, lazy)
    assert "make did not write it anew" in toy.log.read_text()
    assert image.release.encode() in Path(image.path).read_bytes()


def test_an_image_that_holds_the_kernel_of_another_commit_is_not_believed(toy: "Toy") -> None:
    # What a compiler cache can do that does not see what an .incbin takes in: a new header before an old kernel.
    makefile = (Path(__file__).parent / "toykernel/Makefile").read_text()
    stale = "@test -e $(O)/packed || cp $< $(O)/packed; cat $(O)/packed $(O)/include/config/kernel.release > $@"
    first = toy.commit("first", {"Makefile": makefile.replace("@cp $< $@", stale)})
    second = toy.commit("second", {"mm/memory.c": _MEMORY % "<< 3"}, parent=first)
    builder = toy.builder()
    toy.build(builder, first)
    image = toy.build(builder, second)
    assert "not believed, built again from nothing: the kernel packed in the image is not the vmlinux" in (
        toy.log.read_text()
    )
    assert bytes.fromhex(image.build_id) in Path(image.path).read_bytes()


def test_a_kernel_without_a_build_id_cannot_be_used(toy: "Toy") -> None:
    makefile = (Path(__file__).parent / "toykernel/Makefile").read_text()
    nameless = toy.commit("x", {"Makefile": makefile.replace("--build-id=sha1", "--build-id=none")})
    with pytest.raises(KernelError, match="no build id"):
        toy.build(toy.builder(), nameless)

"""Kernels of commits that needed a fix-up: built, told apart from what they would be without, and from each other."""

from typing import TYPE_CHECKING

import pytest

from bisector.history.fixups import FixedTree, keep_fixups, resolve_fixups
from bisector.kernel.builder import KernelBuilder
from bisector.model.errors import KernelError
from bisector.model.outcome import Outcome
from bisector.recipe.fixups import FixupPart

if TYPE_CHECKING:
    from conftest import Toy

_GOOD = "#include <linux/mm.h>\n\nint fault(int address)\n{\n\treturn address << 2;\n}\n"
_BROKEN = _GOOD.replace("<< 2", "<< nothing_declared")


def fixed(toy: "Toy", *parts: FixupPart, name: str = "builder") -> KernelBuilder:
    """A builder as the wiring makes it, with these fix-ups."""
    return toy.builder(
        name=name,
        wrap=lambda repository, tree: FixedTree(
            repository,
            tree,
            keep_fixups(repository, resolve_fixups(repository, parts), toy.folder / name / "fixups"),
        ),
    )


def test_a_stretch_that_does_not_compile_is_built_with_its_repair(toy: "Toy") -> None:
    broken = toy.commit("mm: broken", {"mm/memory.c": _BROKEN})
    between = toy.commit("between", {"README": "words\n"}, parent=broken)
    repaired = toy.commit("mm: repaired", {"mm/memory.c": _GOOD}, parent=between)
    with pytest.raises(KernelError, match="nothing_declared"):
        toy.build(toy.builder(name="without"), between)
    builder = fixed(toy, FixupPart(name="repair", cherry_pick=repaired, contains=broken))
    good, with_repair, after = (toy.build(builder, commit) for commit in (toy.good, between, repaired))
    assert (good.fixups, with_repair.fixups, after.fixups) == ((), ("repair",), ())
    # The repair makes the same code of it as the commit that brought it.
    assert with_repair.signature == after.signature
    assert with_repair.build_id != after.build_id


def test_another_fixup_makes_another_kernel_and_the_cache_knows_them_apart(toy: "Toy") -> None:
    broken = toy.commit("mm: broken", {"mm/memory.c": _BROKEN})
    images = []
    for shift in (3, 4, 3):
        toy.repo.path.with_name("fix.patch").write_text(
            "--- a/mm/memory.c\n+++ b/mm/memory.c\n@@ -4,3 +4,3 @@\n {\n-\treturn address << nothing_declared;\n"
            f"+\treturn address << {shift};\n }}\n"
        )
        part = FixupPart(name="fix", patch=str(toy.repo.path.with_name("fix.patch")), contains=broken)
        images.append(toy.build(fixed(toy, part, name=f"builder{len(images)}"), broken))
    first, other, again = images
    assert first.signature != other.signature
    assert first.key != other.key
    assert (again.key, again.from_cache, again.fixups) == (first.key, True, ("fix",))


def test_a_fixup_that_does_not_apply_is_a_build_failure_of_that_commit_only(toy: "Toy") -> None:
    changed = toy.commit("mm: changed", {"mm/memory.c": _GOOD.replace("int fault", "int pagefault")})
    fine = toy.commit("fine", {"README": "words\n"})
    (toy.folder / "fix.patch").write_text(
        "--- a/mm/memory.c\n+++ b/mm/memory.c\n@@ -2,3 +2,3 @@\n \n-int fault(int address)\n+int fault(int page)\n {\n"
    )
    builder = fixed(toy, FixupPart(name="fix", patch=str(toy.folder / "fix.patch"), lacks=fine, contains=changed))
    with pytest.raises(KernelError, match="fix-up fix does not apply") as caught:
        toy.build(builder, changed)
    assert caught.value.outcome is Outcome.BUILD_FAILED
    assert toy.build(builder, fine).fixups == ()

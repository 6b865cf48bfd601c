"""Fix-ups in a recipe: what may be said, what is refused, and where their files are."""

from pathlib import Path

import pytest

from bisector.model.errors import RecipeError
from bisector.recipe.fixups import FixupPart
from bisector.recipe.load import load_recipe, parse_recipe, with_fixups

HUNT = "name: hunt\nrepo: linux\ngood: v6.1\nbad: v6.2\nmachines:\n  - kind: embedded\nkernel:\n  fixups:\n"


def hunt(folder: Path, *fixups: str) -> Path:
    path = folder / "hunt.yaml"
    path.write_text(HUNT + "".join(f"    - {{{fixup}}}\n" for fixup in fixups))
    return path


def test_a_patch_lies_beside_the_recipe_and_its_content_is_in_the_digest(tmp_path: Path) -> None:
    (tmp_path / "fix.patch").write_text("first\n")
    path = hunt(tmp_path, "name: fix, patch: fix.patch, contains: v6.1-rc1, lacks: v6.2-rc3, path: mm/memory.c")
    loaded = load_recipe(path)
    [fixup] = loaded.recipe.kernel.fixups
    assert fixup.patch == str(tmp_path / "fix.patch")
    assert (fixup.must_contain, fixup.must_lack, fixup.path) == ("v6.1-rc1", "v6.2-rc3", "mm/memory.c")
    assert parse_recipe(loaded.text) == loaded.recipe
    (tmp_path / "fix.patch").write_text("second\n")
    assert load_recipe(path).digest != loaded.digest


def test_a_picked_or_reverted_commit_brings_its_own_condition(tmp_path: Path) -> None:
    path = hunt(tmp_path, "name: a, cherry_pick: v1", "name: b, revert: v2", "name: c, revert: v2, contains: v3")
    a, b, c = load_recipe(path).recipe.kernel.fixups
    assert [(part.must_contain, part.must_lack) for part in (a, b, c)] == [(None, "v1"), ("v2", None), ("v3", None)]


@pytest.mark.parametrize(
    ("fixup", "words"),
    [
        ("name: fix", "kernel.fixups.0: must have one of patch, cherry_pick and revert, has none"),
        ("name: fix, revert: v1, cherry_pick: v2", "has cherry_pick and revert"),
        ("name: fix, patch: no.patch", "kernel.fixups.0.patch: not a readable file"),
        ("name: 'a b', revert: v1", "kernel.fixups.0.name: must be letters"),
        ("name: fix, revert: 12345678", "quote it"),
        ("name: fix, revert: v1, lack: v2", "did you mean kernel.fixups.0.lacks?"),
        ("revert: v1", "kernel.fixups.0.name: this key is missing"),
    ],
)
def test_a_fixup_that_says_nothing_clear_is_refused_with_its_place(tmp_path: Path, fixup: str, words: str) -> None:
    path = hunt(tmp_path, fixup)
    with pytest.raises(RecipeError) as caught:
        load_recipe(path)
    assert caught.value.brief.startswith(f"{path}:9:")
    assert words in caught.value.brief


def test_two_fixups_of_one_name_are_refused(tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match="fixups: a name stands twice in fix, fix"):
        load_recipe(hunt(tmp_path, "name: fix, revert: v1", "name: fix, revert: v2"))


def test_resolved_revisions_take_the_place_of_names_in_the_sessions_text(tmp_path: Path) -> None:
    loaded = load_recipe(hunt(tmp_path, "name: fix, revert: v1"))
    resolved = FixupPart(name="fix", revert="1" * 40, contains="1" * 40)
    kept = with_fixups(loaded, [resolved])
    assert parse_recipe(kept.text).kernel.fixups == (resolved,)
    assert kept.digest == loaded.digest

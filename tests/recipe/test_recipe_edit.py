"""An entry put into the machines file: everything else stays, byte for byte."""

import os
import stat
from pathlib import Path

import pytest

from bisector.model.errors import RecipeError, UsageError
from bisector.recipe.edit import add_machine, with_entry
from bisector.recipe.lab import load_lab

ENTRY = {
    "kind": "ssh",
    "name": "new",
    "host": "192.0.2.9",
    "key": "/keys/id",
    "host_key": ["ssh-ed25519 AAAA"],
    "boot": {"method": "grub"},
    "power": {"cycle": "ipmitool -H 'new-bmc' # not a comment"},
    "tags": ["a", "b: c"],
}
OLD = """\
  - kind: ssh   # the old one
    name: old
    host: 192.0.2.1
    key: id
    host_key: [ssh-ed25519 AAAA]
    boot: {method: grub}
"""
FILES = {
    "comments around": f"# my lab\n\nmachines:   # all of them\n{OLD}\n# the end\n",
    "no newline at the end": f"machines:\n{OLD}".rstrip(),
    "items at the margin": "machines:\n" + "".join(f"{line[2:]}\n" for line in OLD.splitlines()),
    "a block of text last": f"machines:\n{OLD}    console: |\n      cat /dev/ttyS0\n      # theirs\n\n# after\n",
    "in brackets": "machines: [\n  {kind: embedded, name: guest},  # mine\n]\n# after\n",
    "in brackets in one line": "machines: [{kind: embedded, name: guest}]",
    "items in braces": "machines:\n- {kind: embedded}   # mine\n- {kind: embedded, name: other,\n   clock: wall}\n",
    "nested lists last": f"machines:\n{OLD}    tags:\n    - fast\n    - 'quiet # not a comment'\n",
    "windows line ends": f"machines:\n{OLD}".replace("\n", "\r\n"),
    "folded text last": f"machines:\n{OLD}    console: >-\n      ipmitool\n      sol activate\n\n\n# after\n",
    "comments only": "# nothing yet\n",
}


@pytest.mark.parametrize("name", FILES)
def test_the_new_entry_is_last_and_nothing_else_changes(tmp_path: Path, name: str) -> None:
    path = tmp_path / "lab.yaml"
    path.write_bytes(FILES[name].encode())
    before = list(load_lab(path).machines) if "machines" in FILES[name] else []
    add_machine(path, ENTRY)
    after = load_lab(path).machines
    assert list(after[:-1]) == before
    assert (after[-1].name, after[-1].tags, after[-1].power.cycle) == ("new", ("a", "b: c"), ENTRY["power"]["cycle"])
    text = path.read_bytes().decode()
    old = FILES[name]
    assert any(text.startswith(old[:at]) and text.endswith(old[at:]) for at in range(len(old) + 1))
    assert len(text) > len(old)
    add_machine(path, {**ENTRY, "name": "newer"})
    assert [machine.name for machine in load_lab(path).machines][-2:] == ["new", "newer"]


def test_only_lines_are_added_where_the_file_is_a_list_of_blocks() -> None:
    text = FILES["comments around"]
    after = with_entry(text, ENTRY)
    at = text.index("\n# the end")
    assert after.startswith(text[:at])
    assert after.endswith(text[at:])
    assert after[at:].startswith("  - kind: ssh\n    name: new\n")


def test_a_file_that_is_not_there_is_made_for_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "config" / "bisector" / "lab.yaml"
    add_machine(path, ENTRY)
    assert [machine.name for machine in load_lab(path).machines] == ["new"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_mode_and_link_of_the_file_stay(tmp_path: Path) -> None:
    real, link = tmp_path / "real.yaml", tmp_path / "lab.yaml"
    real.write_text(f"machines:\n{OLD}")
    real.chmod(0o644)
    link.symlink_to(real)
    add_machine(link, ENTRY)
    assert link.is_symlink()
    assert stat.S_IMODE(real.stat().st_mode) == 0o644
    assert len(load_lab(real).machines) == 2
    assert sorted(path.name for path in tmp_path.iterdir()) == ["lab.yaml", "real.yaml"]


ALIASED = f"machines:\n{OLD}    facts: &facts {{smt: 'on'}}\n" + OLD.replace("old", "older") + "    facts: *facts\n"


@pytest.mark.parametrize(
    ("text", "entry", "error", "words"),
    [
        (f"machines:\n{OLD}", {**ENTRY, "name": "old"}, UsageError, "lab.yaml:2:5: there is a machine called old"),
        ("machines: {}\n", ENTRY, RecipeError, "machines"),
        ("machines: [\n", ENTRY, RecipeError, "lab.yaml"),
        (ALIASED, ENTRY, UsageError, "nothing was changed"),
    ],
)
def test_what_cannot_be_added_leaves_the_file_as_it_was(
    tmp_path: Path, text: str, entry: dict[str, object], error: type[Exception], words: str
) -> None:
    path = tmp_path / "lab.yaml"
    path.write_text(text)
    with pytest.raises(error, match=words):
        add_machine(path, entry)
    assert path.read_text() == text
    assert [left.name for left in tmp_path.iterdir()] == ["lab.yaml"]


@pytest.mark.skipif(os.getuid() != 0, reason="needs root, for a folder that even root cannot write to")
def test_a_folder_that_cannot_be_written_to_is_told(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be written"):
        add_machine(Path("/proc/bisector/lab.yaml"), ENTRY)

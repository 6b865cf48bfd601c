"""Writing into the machines file without touching what others wrote there: comments, order, spelling.

A new entry is text put behind the last one. What comes out is read again before it is kept: all machines that were
there must mean the same, and the new one what was asked for.
"""

import json
import os
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import yaml

from bisector.model.errors import UsageError
from bisector.recipe.lab import load_lab
from bisector.recipe.machines import SshMachine
from bisector.recipe.tree import decode


def entry_text(entry: Mapping[str, Any]) -> str:
    """An entry as people write it: an item of `machines:`."""
    return str(yaml.safe_dump([dict(entry)], sort_keys=False, allow_unicode=True, width=110))


def refuse_taken_name(path: Path, name: str) -> None:
    """Raises UsageError if the file has a machine of that name, RecipeError if it is wrong. It need not be there."""
    if _is_empty(path):
        return
    lab = load_lab(path)
    for machine, tree in zip(lab.machines, lab.trees, strict=True):
        if machine.name == name:
            raise UsageError(
                f"{tree.place}: there is a machine called {name} already",
                resolution=f"Look at it: bisector lab check {name}; or remove its entry, or choose another name",
            )


def add_machine(path: Path, entry: Mapping[str, Any]) -> None:
    """Put an entry into the machines file, whole or not at all; the file is made if there is none.

    Raises UsageError if the name is taken or the file cannot be written, RecipeError if the file or the entry is wrong.
    """
    wanted = SshMachine.model_validate(as_read(entry))
    refuse_taken_name(path, wanted.name)
    before = decode(path.read_bytes(), str(path)) if path.exists() else ""
    after = with_entry(before, entry)
    target = path.resolve()
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.", suffix=".yaml")
    except OSError as error:
        raise _cannot_write(path, error) from None
    draft = Path(name)
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="") as file:
            file.write(after)
            file.flush()
            os.fsync(file.fileno())
        _check(path, draft, wanted)
        # Private keys are named in it, and maybe passwords in commands: nobody else's business unless it was before.
        draft.chmod(target.stat().st_mode & 0o777 if target.exists() else 0o600)
        draft.replace(target)
    except OSError as error:
        raise _cannot_write(path, error) from None
    finally:
        draft.unlink(missing_ok=True)


def with_entry(text: str, entry: Mapping[str, Any]) -> str:
    """The text of a machines file with one more entry. `text` is one that was read without an error, or empty."""
    root = yaml.compose(text, Loader=yaml.SafeLoader)
    if root is None:
        return text + ("" if not text or text.endswith("\n") else "\n") + "machines:\n" + _indented(entry, 2)
    machines = next(value for key, value in root.value if key.value == "machines")
    if machines.flow_style:
        # JSON is YAML in brackets. What stands between the last entry and the bracket, a comma or a comment, stays.
        at = machines.value[-1].end_mark.index
        return f"{text[:at]}, {json.dumps(dict(entry), ensure_ascii=False)}{text[at:]}"
    at = _end_of_content(machines)
    if text[at - 1] != "\n":
        line_end = text.find("\n", at)
        text, at = (text, line_end + 1) if line_end >= 0 else (f"{text}\n", len(text) + 1)
    return text[:at] + _indented(entry, machines.start_mark.column) + text[at:]


def _end_of_content(node: yaml.Node) -> int:
    """Where the last thing in a block ends. The block's own end mark stands behind the comments that follow it."""
    while isinstance(node, yaml.CollectionNode) and not node.flow_style:
        last = node.value[-1]
        node = last[1] if isinstance(last, tuple) else last
    index: int = node.end_mark.index
    return index


def _indented(entry: Mapping[str, Any], column: int) -> str:
    return "".join(f"{' ' * column}{line}\n" for line in entry_text(entry).splitlines())


def _check(path: Path, draft: Path, wanted: SshMachine) -> None:
    """Raises UsageError unless the draft means what the file meant, and the new entry."""
    before = [] if _is_empty(path) else list(load_lab(path).machines)
    after: list[Any] = []
    with suppress(UsageError):
        after = list(load_lab(draft).machines)
    if after[:-1] != before or not after or after[-1] != wanted:
        by_hand = entry_text(wanted.model_dump(mode="json", exclude_defaults=True))
        raise UsageError(
            f"{path} is written in a way that an entry cannot be added to by this program: nothing was changed",
            resolution=f"Add it by hand to machines:\n{by_hand}",
        )


def _is_empty(path: Path) -> bool:
    """Is there no file, or one that holds nothing but comments? What is no YAML is not empty."""
    try:
        return not path.exists() or yaml.compose(path.read_text("utf-8"), Loader=yaml.SafeLoader) is None
    except (OSError, ValueError, yaml.YAMLError):
        return False


def as_read(value: Any) -> Any:
    """The same with tuples for lists: what the models take, and what reading a file gives."""
    if isinstance(value, Mapping):
        return {key: as_read(child) for key, child in value.items()}
    return tuple(map(as_read, value)) if isinstance(value, list | tuple) else value


def _cannot_write(path: Path, error: OSError) -> UsageError:
    return UsageError(
        f"{path} cannot be written: {error.strerror or error}", resolution="Name another machines file with --file"
    )

from pathlib import Path

import pytest

from bisector.model.errors import RecipeError, UsageError
from bisector.recipe.lab import lab_path, load_lab
from bisector.recipe.load import load_recipe, parse_recipe
from bisector.recipe.machines import GrubBoot, Prepare, SshMachine

HEAD = "name: hunt\nrepo: linux\ngood: v6.1\nbad: v6.2\nmachines:\n"
BOX = """\
  - kind: ssh
    name: {name}
    host: 192.0.2.7
    key: id_lab
    host_key: [ssh-ed25519 AAAAC3NzaC1lZDI1NTE5]
    boot: {{method: grub}}
    tags: [{tags}]
"""


def box(name: str = "box1", tags: str = "intel") -> str:
    return BOX.format(name=name, tags=tags)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "id_lab").write_text("a key")
    return tmp_path


def write_lab(text: str) -> Path:
    path = lab_path()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("machines:\n" + text)
    (path.parent / "id_lab").write_text("another key")
    return path


def errors_of(text: str) -> list[str]:
    with pytest.raises(RecipeError) as caught:
        load_recipe(text)
    return caught.value.brief.splitlines()


def test_a_physical_machine_gets_every_default_and_its_key_an_absolute_path(folder: Path) -> None:
    [machine] = load_recipe(HEAD + box()).recipe.machines
    assert isinstance(machine, SshMachine)
    assert machine.boot == GrubBoot(method="grub")
    assert (machine.port, machine.user, machine.sudo, machine.power) == (22, "root", False, None)
    assert machine.key == str(folder / "id_lab")


def test_a_session_can_be_read_though_the_key_and_the_machines_file_are_gone(folder: Path) -> None:
    write_lab(box())
    loaded = load_recipe(HEAD + "  - {kind: lab, name: box1}\n")
    lab_path().unlink()
    (lab_path().parent / "id_lab").unlink()
    assert parse_recipe(loaded.text) == loaded.recipe


def test_every_error_of_a_physical_machine_has_its_place_and_no_word_of_unions() -> None:
    text = box().replace("192.0.2.7", "no").replace("method: grub", "method: grubb") + "    prot: 22\n    power: {}\n"
    assert errors_of(HEAD + text) == [
        "<recipe>:8:11: machines.0.host: must be text, got no, which is read as false: quote it: host: 'no'",
        "<recipe>:11:20: machines.0.boot.method: must be 'grub', 'systemd-boot', 'kexec', 'hook', got 'grubb'",
        "<recipe>:13:5: machines.0.prot: unknown key; did you mean machines.0.port?",
        "<recipe>:14:12: machines.0.power: must have either cycle, or off and on",
    ]


@pytest.mark.parametrize("line", ["    host_key: [ssh-ed25519 AAAAC3NzaC1lZDI1NTE5]\n", ""])
def test_a_machine_that_does_not_prove_its_identity_in_one_way_is_refused(line: str) -> None:
    text = box().replace("    host_key: [ssh-ed25519 AAAAC3NzaC1lZDI1NTE5]\n", line)
    text += "    known_hosts: id_lab\n" if line else ""
    [error] = errors_of(HEAD + text)
    assert error.startswith("<recipe>:6:5: machines.0: must have either host_key")


def test_a_kind_that_does_not_exist_names_those_that_do() -> None:
    assert errors_of(HEAD + "  - {kind: phone, name: x}\n") == [
        "<recipe>:6:12: machines.0.kind: must be 'embedded', 'ssh', got 'phone'"
    ]


def test_a_key_that_is_not_there_is_an_error_where_it_is_named(folder: Path) -> None:
    (folder / "id_lab").unlink()
    assert errors_of(HEAD + box()) == ["<recipe>:9:10: machines.0.key: not a readable file, got 'id_lab'"]


def test_a_recipe_names_a_machine_of_the_machines_file_and_paths_are_relative_to_that() -> None:
    write_lab(box() + box("box2"))
    [machine] = load_recipe(HEAD + "  - {kind: lab, name: box2}\n").recipe.machines
    assert isinstance(machine, SshMachine)
    assert (machine.name, machine.key) == ("box2", str(lab_path().parent / "id_lab"))


def test_tags_choose_machines_in_the_files_order_and_never_one_that_is_named_already() -> None:
    write_lab(box("a", "intel") + box("b", "intel, fast") + box("c", "amd, fast") + box("d", "fast, intel"))
    recipe = load_recipe(HEAD + "  - {kind: lab, tags: [intel, fast]}\n  - {kind: lab, name: b}\n").recipe
    assert [machine.name for machine in recipe.machines] == ["d", "b"]
    recipe = load_recipe(HEAD + "  - {kind: lab, tags: [intel], count: 3}\n").recipe
    assert [machine.name for machine in recipe.machines] == ["a", "b", "d"]


def test_what_the_machines_file_does_not_have_is_an_error_in_the_recipe_with_what_it_has() -> None:
    path = write_lab(box("a") + box("b"))
    text = HEAD + "  - {kind: lab, name: x}\n  - {kind: lab, tags: [arm]}\nsearch: {confidence: 7}\n"
    assert errors_of(text) == [
        f"<recipe>:6:23: machines.0.name: no machine of that name in {path}, got 'x'; known there: a, b",
        f"<recipe>:7:23: machines.1.tags: {path} has 0 more with all of these, of 1; known there: a, b",
        "<recipe>:8:22: search.confidence: must be less than 1, got 7",
    ]


def test_an_error_in_the_machines_file_names_that_file_with_line_and_column() -> None:
    path = write_lab(box() + "    tagz: []\n")
    assert errors_of(HEAD + "  - {kind: lab, name: box1}\n") == [
        f"{path}:9:5: machines.0.tagz: unknown key; did you mean machines.0.tags?"
    ]


def test_a_recipe_may_bring_its_own_machines_file(folder: Path) -> None:
    (folder / "ours.yaml").write_text("machines:\n" + box("ours"))
    recipe = load_recipe(HEAD + "  - {kind: lab, name: ours, file: ours.yaml}\n").recipe
    assert recipe.machines[0].name == "ours"


def test_a_missing_machines_file_says_where_it_was_looked_for() -> None:
    with pytest.raises(UsageError, match=str(lab_path())):
        load_recipe(HEAD + "  - {kind: lab, name: x}\n")


def test_a_name_that_stands_twice_in_the_machines_file_is_an_error() -> None:
    write_lab(box() + box())
    with pytest.raises(RecipeError, match="a name stands twice in box1, box1"):
        load_lab(lab_path())


def test_the_digest_of_a_recipe_does_not_depend_on_the_private_key(folder: Path) -> None:
    before = load_recipe(HEAD + box()).digest
    (folder / "id_lab").write_text("a new key")
    assert load_recipe(HEAD + box()).digest == before


def test_what_a_machine_says_of_its_preparation_goes_before_what_the_recipe_says() -> None:
    prepared = "    prepare: {governor: powersave, boost: false, cpu: isolated, required: [boost]}\n"
    tail = "prepare: {governor: performance, thp: never, cpu: 2, required: [thp]}\n"
    recipe = load_recipe(HEAD + box() + prepared + tail).recipe
    [machine] = recipe.machines
    assert isinstance(machine, SshMachine)
    assert machine.prepare.over(recipe.prepare) == Prepare(
        governor="powersave", boost=False, thp="never", cpu="isolated", required=("thp", "boost")
    )
    # "drop_caches: false" is said too, and not only left out.
    assert not Prepare(drop_caches=False).over(Prepare(drop_caches=True)).drop_caches
    assert Prepare().over(Prepare(drop_caches=True)).drop_caches


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{irq_cpus: all}", "prepare.irq_cpus"),
        ("{cpu: first}", "prepare.cpu"),
        ("{required: [heat]}", "prepare.required"),
        ("{thp: sometimes}", "prepare.thp"),
        ("{speed: fast}", "prepare.speed"),
    ],
)
def test_a_preparation_that_makes_no_sense_is_refused_where_it_stands(text: str, words: str) -> None:
    for error in errors_of(HEAD + box() + f"    prepare: {text}\n"):
        assert error.startswith("<recipe>:13:")
        assert words in error

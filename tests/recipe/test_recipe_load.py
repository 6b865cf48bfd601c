import contextlib
import json

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from bisector.model.errors import RecipeError, UsageError
from bisector.recipe.load import canonical_text, load_recipe, parse_recipe, text_override
from bisector.recipe.schema import BenchmarkPart, EmbeddedMachine, KernelPart, Recipe, SearchPart

SMALL = """\
name: hunt
repo: linux
good: v6.1
bad: v6.2
machines:
  - kind: embedded
"""


def errors_of(text, *overrides):
    with pytest.raises(RecipeError) as caught:
        load_recipe(text, overrides=overrides)
    return caught.value.brief.splitlines()


def with_line(line):
    return SMALL + line + "\n"


def test_a_small_recipe_gets_every_default():
    recipe = load_recipe(SMALL).recipe
    assert (recipe.name, recipe.good, recipe.bad) == ("hunt", "v6.1", "v6.2")
    assert recipe.search == SearchPart()
    assert recipe.machines == (EmbeddedMachine(kind="embedded"),)


def test_sequences_of_the_file_are_tuples_though_the_schema_is_strict():
    recipe = load_recipe(with_line("benchmark: {also: [brk_test, fork_test]}")).recipe
    assert recipe.benchmark.also == ("brk_test", "fork_test")


def test_all_errors_come_at_once_in_order_of_line_with_place_and_value(tmp_path):
    path = tmp_path / "hunt.yaml"
    path.write_text(
        "name: hunt\n"
        "repo: .\n"
        "good: 12345678\n"
        "bad: v2\n"
        "search:\n"
        "  confidense: 0.9\n"
        "  confidence: .nan\n"
        "  max_boots: many\n"
        "  max_boots: 3\n"
        "machines:\n"
        "  - kind: embedded\n"
        "    clock: sundial\n"
    )
    with pytest.raises(RecipeError) as caught:
        load_recipe(path)
    assert caught.value.exit_code == 2
    assert caught.value.brief.splitlines() == [
        f"{path}:3:7: good: must be text, got 12345678, which is read as the number 12345678: "
        "quote it: good: '12345678'",
        f"{path}:6:3: search.confidense: unknown key; did you mean search.confidence?",
        f"{path}:7:15: search.confidence: must be a finite number, got .nan",
        f"{path}:8:14: search.max_boots: must be a whole number, got 'many'",
        f"{path}:9:3: search.max_boots: this key stands twice, first in line 8: remove one of them",
        f"{path}:12:12: machines.0.clock: must be 'wall' or 'instructions', got 'sundial'",
    ]


@pytest.mark.parametrize(
    ("written", "read_as"),
    [
        ("12345678", "the number 12345678"),
        ("1234567890123456789012345678901234567890", "the number 1234567890123456789012345678901234567890"),
        ("6.10", "the number 6.1"),
        ("no", "false"),
        ("on", "true"),
        ("12:30", "a number in base 60"),
        ("2024-01-05", "a date"),
        ("2024-13-45", "a date"),
        ("0123", "an octal number"),
        ("0x1f", "a hexadecimal number"),
        (".nan", "the number nan"),
        (".inf", "the number inf"),
    ],
)
def test_a_revision_that_yaml_takes_for_something_else_says_to_quote_it(written, read_as):
    text = SMALL.replace("v6.1", written)
    assert errors_of(text) == [
        f"<recipe>:3:7: good: must be text, got {written}, which is read as {read_as}: quote it: good: '{written}'"
    ]
    assert load_recipe(text.replace(written, f"'{written}'")).recipe.good == written


@pytest.mark.parametrize("written", ["12e4567", "y", "1e3", "v6.1~3", "abc123", "HEAD^", "08123456"])
def test_a_revision_that_yaml_leaves_alone_stays_as_it_was_written(written):
    assert load_recipe(SMALL.replace("v6.1", written)).recipe.good == written


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("search: {max_boots: 010}", "got 010, which is read as an octal number: write it in decimal"),
        ("search: {max_boots: 1:30}", "got 1:30, which is read as a number in base 60: write it in decimal"),
        ("search: {max_boots: '8'}", "got '8', which YAML reads as text: write 8"),
        ("search: {max_boots: 8.0}", "must be a whole number, got 8.0"),
        ("search: {max_boots: yes}", "must be a whole number, got yes"),
        ("search: {smallest_effect_percent: 1e-3}", "got '1e-3', which YAML reads as text: write 0.001"),
        ("search: {smallest_effect_percent: 2e-7}", "got '2e-7', which YAML reads as text: write 2.0e-07"),
        ("search: {smallest_effect_percent: .inf}", "must be a finite number, got .inf"),
        ("search: {smallest_effect_percent: 1.2e+999}", "must be a finite number, got 1.2e+999"),
        ("search: {smallest_effect_percent: 5%}", "must be a number, got '5%'"),
        ("search: {audit: maybe}", "must be true or false, got 'maybe'"),
        ("search: [1]", "must be a mapping of keys, got a list of 1"),
        ("benchmark: {also: brk_test}", "must be a list, got 'brk_test': write ['brk_test']"),
        ("benchmark: {also: [page_test]}", "a test is named twice in page_test, page_test"),
        ("kernel: {base: ''}", "must not be empty, got ''"),
    ],
)
def test_a_wrong_value_is_shown_as_written_with_what_to_write(line, message):
    [error] = errors_of(with_line(line))
    assert error.startswith("<recipe>:7:")
    assert error.endswith(message)


def test_a_key_on_the_wrong_level_is_told_where_it_belongs():
    [error] = errors_of(with_line("confidence: 0.9"))
    assert error == "<recipe>:7:1: confidence: unknown key here; did you mean search.confidence?"


def test_a_key_that_yaml_reads_as_a_boolean_is_named():
    assert errors_of(with_line("no: 3")) == ["<recipe>:7:1: the key 'no' is read as false: quote it"]


def test_a_name_that_stands_twice_among_machines_is_an_error_at_the_machines():
    [error] = errors_of(SMALL + "  - kind: embedded\n")
    assert error.startswith("<recipe>:5:1: machines: a name stands twice in embedded, embedded")


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("\n", "<recipe>:1:1: the recipe is empty: it needs at least name, repo, good, bad and machines"),
        (
            "# only a comment\n",
            "<recipe>:1:1: the recipe is empty: it needs at least name, repo, good, bad and machines",
        ),
        ("- a\n", "<recipe>:1:1: a recipe is a mapping of keys (name: ...), this is a list"),
        ("hello\n", "<recipe>:1:1: a recipe is a mapping of keys (name: ...), this is the text 'hello'"),
        ("name: x\n---\nname: y\n", "<recipe>:2:1: a second document begins: "),
        ("name: x\nkernel:\n\tjobs: 2\n", "<recipe>:3:1: a tab stands where YAML wants spaces"),
        ("name: x\t# c\ngood: %a\n", "a tab stands where YAML wants spaces|cannot start any token: quote the value"),
        ("good: @a\n", "<recipe>:1:7: found character '@' that cannot start any token: quote the value"),
        ("good: a\x00b\n", "<recipe>:1:8: the character '\\x00' is not allowed in YAML"),
        ("a: [" + "[" * 4000 + "\n", "nested deeper than 24 levels"),
        ("a: &a [*a]\n", "aliases make this document too large or endless"),
        ("good: *nowhere\n", "<recipe>:1:7: found undefined alias"),
        ("good: [a\n", "<recipe>:2:1: "),
        ('good: "\\UFFFFFFFF"\n', "a character that does not exist"),
    ],
)
def test_what_is_no_recipe_at_all_is_one_line_with_its_place(text, error):
    [line] = errors_of(text)
    assert any(part in line for part in error.split("|"))


def test_an_anchor_bomb_is_refused_before_it_unfolds():
    levels = "".join(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]\n" for i in range(1, 10))
    [line] = errors_of("a0: &a0 [x, x, x, x, x, x, x, x, x]\n" + levels)
    assert "aliases make this document too large or endless" in line


def test_an_object_tag_is_refused_and_nothing_is_made_of_it():
    errors = errors_of(with_line("kernel: !!python/object/apply:os.system [reboot]"))
    assert any("remove the tag 'tag:yaml.org,2002:python/object/apply:os.system'" in error for error in errors)


def test_merge_keys_lay_own_keys_over_the_anchor():
    text = SMALL + "    name: one\n    clock: wall\n"
    text = text.replace("- kind", "- &one\n    kind") + "  - {<<: *one, name: two}\n"
    machines = load_recipe(text).recipe.machines
    assert [(machine.name, machine.clock) for machine in machines] == [("one", "wall"), ("two", "wall")]


def test_a_file_that_is_missing_or_a_folder_is_a_usage_error(tmp_path):
    for path in (tmp_path / "none.yaml", tmp_path):
        with pytest.raises(UsageError, match="cannot read the recipe"):
            load_recipe(path)


def test_a_file_that_is_not_utf8_names_the_byte_and_its_place(tmp_path):
    path = tmp_path / "latin.yaml"
    path.write_bytes(b"name: hunt\nrepo: caf\xe9\n")
    with pytest.raises(RecipeError) as caught:
        load_recipe(path)
    assert caught.value.brief == f"{path}:2:10: byte 0xe9 is not UTF-8: save the file as UTF-8"


def test_a_byte_order_mark_does_no_harm(tmp_path):
    path = tmp_path / "bom.yaml"
    path.write_bytes(b"\xef\xbb\xbf" + SMALL.encode())
    assert load_recipe(path).recipe.name == "hunt"


def test_a_file_of_a_kernel_images_size_is_not_parsed(tmp_path):
    path = tmp_path / "bzImage"
    path.write_bytes(b"a" * 100_000)
    with pytest.raises(RecipeError, match="is this the right file"):
        load_recipe(path)


def test_a_control_character_smuggled_in_by_an_escape_is_refused():
    [error] = errors_of(SMALL.replace("v6.1", '"v6.1\\x1b[2J"'))
    assert error == "<recipe>:3:7: holds the control character '\\x1b': remove it"


def test_overrides_change_values_and_make_the_parts_they_need():
    loaded = load_recipe(
        SMALL,
        overrides=["search.confidence=0.9", "machines.0.clock=wall", "benchmark.also=[brk_test]", "benchmark.cpu="],
    )
    assert loaded.recipe.search.confidence == 0.9
    assert loaded.recipe.machines[0].clock == "wall"
    assert loaded.recipe.benchmark.also == ("brk_test",)
    assert loaded.recipe.benchmark.cpu is None


def test_an_override_mends_what_the_file_got_wrong():
    assert load_recipe(with_line("search: {confidence: 2}"), overrides=["search.confidence=0.9"])


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("search.confidence=2", "search.confidence: must be less than 1, got 2"),
        ("search.confidence", "must be key.path=value, for example --set search.confidence=0.95"),
        ("search..confidence=1", "must be key.path=value, for example --set search.confidence=0.95"),
        ("search.seed=010", "search.seed: must be a whole number, got 010, which is read as an octal number: "),
        ("serch.seed=1", "serch: unknown key; did you mean search?"),
        ("machines.7.clock=wall", "machines is a list of 1: write machines.0 for its first item, got '7'"),
        ("machines.clock=wall", "machines is a list of 1: write machines.0 for its first item, got 'clock'"),
        ("name.x=1", "name is a single value, it has no key 'x'"),
        ("good=[", "did not find expected node content|expected the node content"),
        ("good=@x", "cannot start any token: quote the value"),
    ],
)
def test_an_error_in_an_override_names_the_option(option, message):
    [error] = errors_of(SMALL, option)
    assert error.startswith(f"--set {option}: ")
    assert any(part in error for part in message.split("|"))


def test_errors_of_the_file_stand_before_those_of_the_options():
    errors = errors_of(with_line("search: {seed: x}"), "benchmark.cpu=-1", "kernel.jobs=0")
    assert [error.split(":")[0] for error in errors] == ["<recipe>", "--set benchmark.cpu=-1", "--set kernel.jobs=0"]


@pytest.mark.parametrize("text", ["12345678", "no", "it's", "2024-01-05", "a: b", "ünï", "1e3", "# x", "🐧"])
def test_a_text_override_is_taken_letter_by_letter(text):
    assert load_recipe(SMALL, overrides=[text_override("good", text)]).recipe.good == text


def test_paths_are_taken_from_the_recipes_folder_and_from_where_an_option_was_typed(tmp_path, monkeypatch):
    folder, here = tmp_path / "recipes", tmp_path / "here"
    folder.mkdir()
    here.mkdir()
    (folder / "base.config").write_text("CONFIG_NET=y\n")
    (here / "more.config").write_text("CONFIG_SMP=y\n")
    path = folder / "hunt.yaml"
    path.write_text(with_line("kernel: {base: base.config, fragments: [./base.config]}"))
    monkeypatch.chdir(here)
    loaded = load_recipe(path, overrides=["kernel.fragments=[more.config]"])
    assert loaded.folder == folder
    assert loaded.recipe.repo == str(folder / "linux")
    assert loaded.recipe.kernel.base == str(folder / "base.config")
    assert loaded.recipe.kernel.fragments == (str(here / "more.config"),)
    monkeypatch.chdir(tmp_path)
    again = load_recipe(loaded.text)
    assert (again.recipe, again.text, again.digest) == (loaded.recipe, loaded.text, loaded.digest)


def test_make_targets_are_not_taken_for_files():
    for base in ("allnoconfig", "defconfig"):
        assert load_recipe(SMALL, overrides=[f"kernel.base={base}"]).recipe.kernel.base == base


def test_a_missing_configuration_file_is_an_error_where_it_is_named(tmp_path):
    path = tmp_path / "hunt.yaml"
    path.write_text(with_line("kernel:\n  base: tinyconfig\n  fragments:\n    - no.config"))
    with pytest.raises(RecipeError) as caught:
        load_recipe(path)
    assert caught.value.brief.splitlines() == [
        f"{path}:8:9: kernel.base: not a readable file (nor one of allnoconfig, defconfig): {tmp_path}/tinyconfig: "
        "No such file or directory",
        f"{path}:10:7: kernel.fragments.0: not a readable file: {tmp_path}/no.config: No such file or directory",
    ]


def test_a_session_can_be_read_though_its_fragments_are_gone(tmp_path):
    fragment = tmp_path / "a.config"
    fragment.write_text("CONFIG_NET=y\n")
    loaded = load_recipe(SMALL, overrides=[f"kernel.fragments=[{fragment}]"])
    fragment.unlink()
    assert parse_recipe(loaded.text) == loaded.recipe


def test_the_digest_sees_what_is_in_the_files_and_no_layout_of_the_recipe(tmp_path):
    fragment = tmp_path / "a.config"
    fragment.write_text("CONFIG_NET=y\n")
    option = f"kernel.fragments=[{fragment}]"
    first = load_recipe(SMALL, overrides=[option]).digest
    assert load_recipe("# a comment\n" + SMALL, overrides=[option]).digest == first
    assert load_recipe(SMALL, overrides=[option, "search.seed=2"]).digest != first
    fragment.write_text("CONFIG_NET=n\n")
    assert load_recipe(SMALL, overrides=[option]).digest != first


words = st.text(
    st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="\ufeff\ufffe\uffff"), min_size=1
).filter(lambda text: text == text.strip() and "/" not in text and text not in (".", "..") and text[0] != "~")
positive = st.floats(min_value=1e-9, max_value=1e12)
machines = st.builds(
    EmbeddedMachine,
    kind=st.just("embedded"),
    name=words,
    clock=st.sampled_from(["wall", "instructions"]),
    icount_shift=st.integers(0, 10),
    cmdline=st.text(st.characters(codec="ascii", exclude_categories=["Cc"])),
    boot_timeout_s=positive,
    build_beside_runs=st.none() | st.booleans(),
)
recipes = st.builds(
    Recipe,
    name=st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", fullmatch=True),
    repo=words.map(lambda word: f"/srv/{word}"),
    good=words | st.from_regex(r"[0-9a-f]{7,40}", fullmatch=True),
    bad=words | st.from_regex(r"[0-9]{1,40}", fullmatch=True),
    kernel=st.builds(
        KernelPart,
        arch=words,
        base=st.sampled_from(["defconfig", "allnoconfig"]),
        required=st.lists(words).map(tuple),
        compiler=words,
        jobs=st.none() | st.integers(1, 10**30),
        timeout_s=positive,
    ),
    benchmark=st.builds(
        BenchmarkPart,
        test=st.just("page_test"),
        also=st.lists(words.filter(lambda word: word != "page_test"), unique=True, max_size=3).map(tuple),
        cpu=st.sampled_from([None, 0, "housekeeping"]),
    ),
    machines=st.lists(machines, min_size=1, max_size=3, unique_by=lambda machine: machine.name).map(tuple),
    search=st.builds(
        SearchPart,
        confidence=st.floats(0.5, 1, exclude_min=True, exclude_max=True),
        time_budget_h=st.none() | positive,
        seed=st.integers(0, 2**64),
    ),
)


@settings(max_examples=150, deadline=None)
@given(recipes)
def test_any_recipe_comes_back_equal_from_its_canonical_text(recipe):
    loaded = load_recipe(canonical_text(recipe))
    assert loaded.recipe == recipe
    assert load_recipe(loaded.text) == loaded


FULL = canonical_text(load_recipe(SMALL).recipe)
TOKENS = ["\t", "\n", "  ", ": ", "- ", "[", "]", "{", "}", "'", '"', "&a ", "*a", "!!", "!", "|", ">", "%", "@", "#"]
TOKENS += ["---\n", "<<: ", "? ", "~", "no", "-1", "1e999", ".nan", "99" * 3000, "\x00", "\ud800", "é", "0b1", "=", ","]


@settings(max_examples=400, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, len(FULL)), st.integers(0, 12), st.sampled_from(TOKENS)), min_size=1, max_size=4)
)
@example([(0, len(FULL), "!!int no")])
def test_any_damage_to_a_recipe_gives_a_recipe_error_or_a_recipe(cuts):
    text = FULL
    for position, length, token in cuts:
        text = text[:position] + token + text[position + length :]
    try:
        loaded = load_recipe(text + "\n")
    except RecipeError as error:
        for line in error.brief.splitlines():
            assert line.startswith("<recipe>:")
            assert len(line) < 500
    else:
        assert json.dumps(loaded.recipe.model_dump(mode="json"), allow_nan=False)
        assert load_recipe(loaded.text).recipe == loaded.recipe


@settings(max_examples=150, deadline=None)
@given(st.text(st.sampled_from("abkerngoodmchis.0123=:[]{}'\"-~&*!@#% \t\n\\x"), max_size=30))
def test_any_override_gives_a_recipe_error_or_a_recipe(option):
    with contextlib.suppress(RecipeError):
        loaded = load_recipe(SMALL, overrides=[option])
        assert load_recipe(loaded.text).recipe == loaded.recipe


@pytest.mark.parametrize(
    ("counters", "says"),
    [
        ("[page-fault]", "there is no counter page-fault: did you mean page-faults?"),
        ("[instructions]", "did you mean instructions:"),
        ("[branches]", "there is no counter branches: there are instructions:u, instructions:k"),
        ("[page-faults, page-faults]", "a counter is named twice"),
        ("page-faults", "benchmark.counters"),
    ],
)
def test_a_counter_that_there_is_not_is_refused_with_those_close_to_it(counters, says):
    [error] = errors_of(with_line(f"benchmark: {{counters: {counters}}}"))
    assert "benchmark.counters" in error
    assert says in error


def test_counters_are_named_as_perf_names_them():
    recipe = load_recipe(with_line("benchmark: {counters: ['instructions:k', page-faults]}")).recipe
    assert recipe.benchmark.counters == ("instructions:k", "page-faults")

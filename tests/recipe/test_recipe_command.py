"""A command instead of a test of the suite: what a recipe may say of it, and what it must."""

from pathlib import Path

import pytest

from bisector.model.errors import RecipeError
from bisector.recipe.load import canonical_text, load_recipe, parse_recipe

HEAD = """\
name: hunt
repo: .
good: v6.1
bad: v6.2
machines:
  - kind: embedded
benchmark:
  test: pipes
"""
COMMAND = """\
  command:
    argv: [hackbench, -l, "100"]
    parser: hackbench
    metrics:
      - {name: pipes, reads: Time, better: lower, unit: s}
"""
PHASES = """\
  also: [push]
  command:
    shell: ./patches.sh
    files: [tools/patches.sh]
    parser: key-value
    metrics:
      - {name: pipes, sum: [push, pop], better: lower, unit: s}
      - {name: push, better: lower, unit: s}
"""


def refusal(text: str) -> str:
    with pytest.raises(RecipeError) as caught:
        load_recipe(text)
    return caught.value.brief


def test_a_benchmark_may_be_any_command() -> None:
    command = load_recipe(HEAD + COMMAND).recipe.benchmark.command
    assert command is not None
    assert command.argv == ("hackbench", "-l", "100")
    [metric] = command.metrics
    assert (metric.name, metric.sources, metric.better, metric.unit) == ("pipes", ("Time",), "lower", "s")


def test_a_metric_may_be_the_sum_of_phases() -> None:
    command = parse_recipe(HEAD + PHASES).benchmark.command
    assert command is not None
    assert [metric.sources for metric in command.metrics] == [("push", "pop"), ("push",)]


def test_uploaded_files_are_absolute_and_belong_to_the_digest(tmp_path: Path) -> None:
    recipe = tmp_path / "hunt.yaml"
    recipe.write_text(HEAD + PHASES)
    (tmp_path / "tools").mkdir()
    script = tmp_path / "tools" / "patches.sh"
    script.write_text("echo push: 1\n")
    first = load_recipe(recipe)
    assert first.recipe.benchmark.command is not None
    assert first.recipe.benchmark.command.files == (str(script),)
    assert load_recipe(canonical_text(first.recipe)).recipe == first.recipe
    script.write_text("echo push: 2\n")
    assert load_recipe(recipe).digest != first.digest


def test_an_upload_that_is_not_there_is_named_with_its_place() -> None:
    assert "benchmark.command.files.0: not a readable file" in refusal(HEAD + PHASES)


@pytest.mark.parametrize(
    ("changed", "into", "says"),
    [
        ("test: pipes", "test: fork", "fork is no metric of the command; its metrics: pipes"),
        ("    argv: [hackbench, -l, \"100\"]\n", "", "must have either argv"),
        ("    parser: hackbench\n", "    parser: hackbench\n    shell: hackbench\n", "must have either argv"),
        ('argv: [hackbench, -l, "100"]', 'argv: ["", x]', "argv must begin with a program"),
        ("    parser: hackbench\n", "", "benchmark.command.parser: this key is missing"),
        ("better: lower, ", "", "benchmark.command.metrics.0.better: this key is missing"),
        ("better: lower", "better: smaller", "better: must be 'higher' or 'lower', got 'smaller'"),
        (", unit: s", "", "benchmark.command.metrics.0.unit: this key is missing"),
        ("reads: Time", "reads: Time, sum: [a, b]", "must have either reads (one name) or sum (several), not both"),
        ("reads: Time", "sum: [a, a]", "sum must name at least two different metrics"),
        ("reads: Time", "sum: [a]", "sum must name at least two different metrics"),
        ("parser: hackbench", "parser: regex", "regex (a pattern with named groups) belongs to parser: regex"),
        ("parser: hackbench", "parser: hackbench\n    regex: x", "belongs to parser: regex, and to no other"),
        ("parser: hackbench", "parser: hackbench\n    files: [a/x, b/x]", "two files would have one name"),
        ("    metrics:\n", "    metrics:\n      - {name: pipes, better: lower, unit: s}\n", "a metric is named twice"),
        ('"100"', "100", "must be text, got 100"),
    ],
)  # fmt: skip
def test_what_a_command_must_say_is_asked_for_with_its_place(changed: str, into: str, says: str) -> None:
    assert changed in HEAD + COMMAND
    message = refusal((HEAD + COMMAND).replace(changed, into))
    assert says in message
    assert message.startswith("<recipe>:")


def test_the_example_of_the_readme_is_a_recipe() -> None:
    readme = (Path(__file__).parent.parent.parent / "README.md").read_text()
    [example] = [block for block in readme.split("```yaml\n")[1:] if block.startswith("benchmark:\n  test: both")]
    text = HEAD.partition("benchmark:")[0] + example.partition("```")[0]
    command = parse_recipe(text).benchmark.command
    assert command is not None
    assert [metric.sources for metric in command.metrics] == [("push", "pop"), ("push",)]


def test_the_length_of_a_sample_is_refused_where_a_command_would_ignore_it(tmp_path: Path) -> None:
    recipe = tmp_path / "hunt.yaml"
    recipe.write_text(HEAD + "  sample_ms: 200\n" + COMMAND)
    with pytest.raises(RecipeError) as caught:
        load_recipe(recipe)
    says = "benchmark.sample_ms: is of the suite's tests; a command decides itself how long it runs: leave it out"
    assert caught.value.brief == f"{recipe}:9:3: {says}"
    with pytest.raises(RecipeError) as caught:
        load_recipe(HEAD + COMMAND, overrides=("benchmark.sample_ms=200",))
    assert caught.value.brief == f"--set benchmark.sample_ms=200: {says}"


def test_a_session_whose_journal_has_the_length_written_out_is_still_read() -> None:
    loaded = load_recipe(HEAD + COMMAND)
    assert "sample_ms" not in loaded.text
    older = loaded.text.replace("  timeout_s: 600.0\n", "  sample_ms: 500\n  timeout_s: 600.0\n", 1)
    assert "  sample_ms: 500" in older
    assert parse_recipe(older) == loaded.recipe


def test_counters_are_of_the_suites_tests_and_not_of_a_command() -> None:
    text = COMMAND.replace("  command:", "  counters: [page-faults]\n  command:")
    assert "counters are of the suite's tests" in refusal(HEAD + text)

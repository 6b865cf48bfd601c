"""Where a benchmark ran and what its kernels were told, in the report, its JSON and the MMTests text."""

import pytest
from story import Story, recipe, run_of

from bisector.model.machine import MachineFacts
from bisector.recipe.load import canonical_text
from bisector.report.as_json import report_document
from bisector.report.measured import measured_table
from bisector.report.summary import summarise
from bisector.report.text import report_text
from bisector.session.state import SessionState

CMDLINE = "console=ttyS0 isolcpus=1 nohz_full=1"


def measured_on(pinned: str | None, *, cpu: object = 3, cmdline: str = CMDLINE) -> SessionState:
    """A hunt that has measured its good end, on a machine that told these facts."""
    asked = recipe().model_copy(update={"benchmark": recipe().benchmark.model_copy(update={"cpu": cpu})})
    told = {"cmdline": cmdline, "pinned": pinned}
    facts = MachineFacts(pairs=tuple((name, value) for name, value in told.items() if value))
    story = Story(text=canonical_text(asked)).build(0).start_boot(0, runs=2).booted(0, facts=facts)
    for number in (1, 2):
        story.run(0, number, run_of(page_test=43.7, brk_test=1.0))
    return story.end_look(0).state


@pytest.mark.parametrize(
    ("pinned", "cpu", "words", "number", "role"),
    [
        ("CPU 3 (nohz_full)", "nohz_full", "pinned to CPU 3 (nohz_full)", 3, "nohz_full"),
        ("CPU 1 (isolated)", "isolated", "pinned to CPU 1 (isolated)", 1, "isolated"),
        ("CPU 3", 3, "pinned to CPU 3", 3, None),
        ("not pinned", None, "not pinned to a CPU", None, None),
    ],
)
def test_a_report_names_the_cpu_and_its_role(
    pinned: str, cpu: object, words: str, number: int | None, role: str | None
) -> None:
    summary = summarise(measured_on(pinned, cpu=cpu), None)
    text = report_text(summary)
    assert f", {words}." in " ".join(text.split())
    assert f"  booted with {CMDLINE}\n" in text
    [place] = report_document(summary)["method"]["places"]
    assert place == {"machine": "lab-01", "pinned": pinned, "cpu": number, "role": role, "cmdline": CMDLINE}
    assert summary.method.cpu == cpu


def test_the_mmtests_text_ends_with_the_cpu_and_the_command_line() -> None:
    table = measured_table(measured_on("CPU 1 (isolated)", cpu="isolated"), None)
    assert table.endswith(f"\nlab-01: CPU 1 (isolated); kernel command line: {CMDLINE}\n")


def test_a_session_of_an_older_program_ran_where_its_recipe_says() -> None:
    [place] = summarise(measured_on(None), None).method.places
    assert (place.pinned, place.cpu, place.role) == ("CPU 3", 3, None)
    assert "\nlab-01: CPU 3; kernel command line: not told\n" in measured_table(measured_on("CPU 3", cmdline=""), None)


def test_a_role_of_which_no_boot_told_a_cpu_is_not_made_up() -> None:
    summary = summarise(measured_on(None, cpu="isolated"), None)
    assert summary.method.places == ()
    assert summary.method.pinning == "pinned to a CPU that is isolated"

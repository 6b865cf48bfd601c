"""Where a recipe says that its benchmark runs, and the roles that no boot of its kernels could offer."""

from pathlib import Path

import pytest

from bisector.model.errors import RecipeError
from bisector.recipe.load import load_recipe

HEAD = """\
name: hunt
repo: .
good: v6.1
bad: v6.2
benchmark:
  cpu: {cpu}
machines:
  - kind: embedded
"""
BOX = """\
name: hunt
repo: .
good: v6.1
bad: v6.2
machines:
  - kind: ssh
    name: box1
    host: box1
    key: key
    host_key: [ssh-ed25519 AAAA]
    boot: {method: grub}
    prepare: {cpu: nohz_full}
kernel:
  required: [CONFIG_SMP=y]
"""


def refusal(text: str) -> str:
    with pytest.raises(RecipeError) as caught:
        load_recipe(text)
    return caught.value.brief


@pytest.mark.parametrize("written", ["null", "0", "housekeeping"])
def test_a_benchmark_runs_anywhere_or_on_a_cpu_or_in_a_role(written: str) -> None:
    cpu = load_recipe(HEAD.format(cpu=written)).recipe.benchmark.cpu
    assert cpu == {"null": None, "0": 0}.get(written, written)


@pytest.mark.parametrize("written", ["-1", "nohz", "1.5", "true", "'0'", "[isolated]"])
def test_anything_else_is_refused_with_what_it_may_be(written: str) -> None:
    says = "must be the number of a CPU, housekeeping, isolated or nohz_full, got "
    assert refusal(HEAD.format(cpu=written)).startswith(f"<recipe>:6:8: benchmark.cpu: {says}")


@pytest.mark.parametrize(
    ("cpu", "more", "says"),
    [
        ("isolated", "", "isolated, but the kernels of embedded are not told which: give it cmdline: isolcpus=1, cpus"),
        ("nohz_full", "", "the kernels of embedded are not told which: give it cmdline: nohz_full=1"),
        (
            "nohz_full",
            "    cmdline: isolcpus=1\n    cpus: 2\n    clock: wall\n",
            "the kernels of embedded are not told which",
        ),
        (
            "isolated",
            "    cmdline: nohz_full=1\n    cpus: 2\n    clock: wall\n",
            "the kernels of embedded are not told which",
        ),
        (
            "isolated",
            "    cmdline: isolcpus=nohz,1\n    cpus: 2\n    clock: wall\n",
            "the kernels of embedded are not told which",
        ),
        ("isolated", "    cmdline: isolcpus=1\n", "embedded has 1 (from CPU 0 on) and none of those in its cmdline"),
        ("1", "", "1, but embedded has 1 (from CPU 0 on): give it more, cpus: 2, clock: wall"),
    ],
)
def test_a_cpu_that_an_embedded_machine_cannot_have_is_refused(cpu: str, more: str, says: str) -> None:
    found = refusal(HEAD.format(cpu=cpu) + more)
    assert found.startswith(f"<recipe>:6:8: benchmark.cpu: {cpu}, but ")
    assert says in found


@pytest.mark.parametrize(
    ("cpu", "more"),
    [
        ("isolated", "    cmdline: quiet isolcpus=1\n    cpus: 2\n    clock: wall\n"),
        ("isolated", "    cmdline: isolcpus=managed_irq,domain,1-3\n    cpus: 2\n    clock: wall\n"),
        ("isolated", "    cmdline: isolcpus=1-N\n    cpus: 2\n    clock: wall\n"),
        ("nohz_full", "    cmdline: nohz_full=0-1\n    cpus: 2\n    clock: wall\n"),
        ("nohz_full", "    cmdline: isolcpus=nohz,1\n    cpus: 2\n    clock: wall\n"),
        ("1", "    cpus: 2\n    clock: wall\n"),
    ],
)
def test_a_cpu_that_the_command_line_may_offer_is_left_to_the_boot(cpu: str, more: str) -> None:
    assert str(load_recipe(HEAD.format(cpu=cpu) + more).recipe.benchmark.cpu) == cpu


def test_several_cpus_need_the_wall_clock() -> None:
    says = "machines.0: cpus: more than one needs clock: wall; a guest whose clock counts instructions hangs"
    assert refusal(HEAD.format(cpu="0") + "    cpus: 2\n") == f"<recipe>:8:5: {says}"


def test_kernels_that_must_not_keep_cpus_apart_cannot_offer_a_role() -> None:
    more = "    cmdline: isolcpus=1\n    cpus: 2\n    clock: wall\nkernel:\n  required: [CONFIG_SMP=n]\n"
    says = "isolated, but kernels with CONFIG_SMP=n (kernel.required) keep no CPU apart"
    assert refusal(HEAD.format(cpu="isolated") + more) == f"<recipe>:6:8: benchmark.cpu: {says}"


def test_a_machine_that_says_so_itself_is_judged_at_its_own_place(tmp_path: Path) -> None:
    (tmp_path / "key").touch()
    recipe = tmp_path / "hunt.yaml"
    recipe.write_text(BOX)
    # What its bootloader tells the kernels, nobody knows before it was asked.
    loaded = load_recipe(recipe).recipe
    assert loaded.cpu_on(loaded.machines[0]) == "nohz_full"
    recipe.write_text(BOX.replace("CONFIG_SMP=y", "CONFIG_NO_HZ_FULL=n"))
    with pytest.raises(RecipeError) as caught:
        load_recipe(recipe)
    says = "nohz_full, but kernels with CONFIG_NO_HZ_FULL=n (kernel.required) keep no CPU apart"
    assert caught.value.brief == f"{recipe}:12:20: machines.0.prepare.cpu: {says}"

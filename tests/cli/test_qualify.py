"""`bisector lab qualify`, as a person types it: on a box with a real sshd, where the real suite measures this host."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from lab.fakebox import DEFAULT_RELEASE, USABLE, WHY_NOT, FakeBox, fake_kernel, running_box

from bisector.cli.wiring import image_cache
from bisector.model.kernel import KernelImage
from bisector.session.home import Home

SHORT = ("--boots", "4", "--runs", "2", "--set", "benchmark.sample_ms=5", "--set", "benchmark.cpu=null")


@pytest.fixture
def kernel(tmp_path: Path) -> KernelImage:
    """A kernel in the cache of this test's home."""
    image = fake_kernel(tmp_path, 7)
    facts = {"commit": image.commit, "release": image.release, "build_id": image.build_id, "signature": "s"}
    config = 'CONFIG_CC_VERSION_TEXT="gcc 12"\n'
    image_cache(Home.of_this_user()).put("7" * 64, image=Path(image.path), config=config, facts=facts)
    return image


def lab_file(folder: Path, box: FakeBox) -> Path:
    path = folder / "lab.yaml"
    path.write_text(yaml.safe_dump({"machines": [box.config().model_dump(mode="json")]}))
    return path


@pytest.mark.skipif(not USABLE, reason=WHY_NOT)
def test_one_kernel_is_booted_again_and_again_and_its_noise_told(
    run: Callable, kernel: KernelImage, tmp_path: Path
) -> None:
    with running_box(tmp_path / "box") as box:
        before = box.editenv("list")
        file = lab_file(tmp_path, box)
        command = ("lab", "qualify", "box1", "--file", str(file), *SHORT)
        # First somebody else is there: the test pauses, and the same command goes on with it.
        (box.root / "who").write_text("alice    pts/0        2026-11-30 10:00\n")
        said = run(*command)
        assert said.code == 3
        assert (
            "Paused: box1 failed 3 times in a row (limits.machine_errors is 3), the last time: box1: alice is logged in"
            in said.out
        )
        assert f"go on: bisector lab qualify box1 --file {file}" in said.out
        (box.root / "who").unlink()
        said = run(*command, "--json")
        assert said.code == 0, said.err
        assert "resumed by bisector" in said.err
        assert (box.release, box.editenv("list"), box.leased) == (DEFAULT_RELEASE, before, False)
        assert sum(kernel.release in line for line in box.boots) == 4
    told = json.loads(said.out)
    assert (told["machine"], told["state"], told["kernel"]["build_id"]) == ("box1", "finished", kernel.build_id)
    assert len({boot["boot_id"] for boot in told["boots"]}) == 4
    assert [len(boot["values"]) for boot in told["boots"]] == [2] * 4
    figures = told["figures"]
    assert figures["run_sd_percent"] > 0
    assert [reach["boots"] for reach in figures["reach"]] == [4, 8, 16, 32, 64]
    assert len(list((Home.of_this_user().folder / "qualifications/sessions").iterdir())) == 1
    # What was found serves for a forecast.
    forecast = run("simulate", "--from-qualify", "box1", "--commits", "20", "--effect", "50", "--trials", "2", "--json")
    assert forecast.code == 0, forecast.err
    world = json.loads(forecast.out)["world"]
    assert world["run_sd_percent"] == pytest.approx(figures["run_sd_percent"])
    assert world["boot_s"] == pytest.approx(told["costs"]["boot_s"])


def test_a_dry_run_says_what_would_be_done_and_leaves_no_trace(run: Callable, kernel: KernelImage) -> None:
    said = run("lab", "qualify", "embedded", "--clock", "wall", "--dry-run", "--boots", "5")
    assert said.code == 0, said.err
    assert said.out.startswith("embedded (embedded, clock: wall) would boot one kernel 5 times for 4 runs each")
    assert f"{kernel.commit[:12]}, {kernel.release} (built already)" in said.out
    assert not (Home.of_this_user().folder / "qualifications").exists()


def recipe(folder: Path, **machines: str) -> Path:
    path = folder / "hunt.yaml"
    listed = [{"kind": "embedded", "name": name, "clock": clock} for name, clock in machines.items()]
    path.write_text(yaml.safe_dump({"name": "h", "repo": "nowhere", "good": "a", "bad": "b", "machines": listed}))
    return path


def test_with_a_recipe_its_machine_is_taken_and_a_cached_kernel_by_its_commit(
    run: Callable, kernel: KernelImage, tmp_path: Path
) -> None:
    path = str(recipe(tmp_path, one="wall", two="wall"))
    said = run("lab", "qualify", path, "--dry-run")
    assert (said.code, "has 2 machines: one, two" in said.err) == (2, True)
    said = run(
        "lab",
        "qualify",
        path,
        "--machine",
        "two",
        "--kernel",
        kernel.commit[:12],
        "--dry-run",
        "--clock",
        "instructions",
    )
    assert said.out.startswith("two (embedded, clock: instructions)"), said.err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("embedded", "--boots", "3"), "--boots"),
        (("box9",), "No machine is called 'box9'"),
        (("embedded", "--kernel", "0123456789ab"), "--kernel 0123456789ab was not built here"),
        (("embedded", "--set", "benchmark.sample_ms=-1"), "benchmark.sample_ms"),
        (("missing.yaml",), "cannot read the recipe"),
    ],
)
def test_bad_input_is_refused_before_anything_is_written(
    run: Callable, tmp_path: Path, arguments: tuple[str, ...], words: str
) -> None:
    said = run("lab", "qualify", *arguments)
    assert said.code == 2
    assert words in said.err
    assert not (Home.of_this_user().folder / "qualifications").exists()
    assert not (Home.of_this_user().folder / "kernels").exists()


def test_a_forecast_from_a_machine_that_was_never_tested_says_how_to_test_it(run: Callable) -> None:
    said = run("simulate", "--from-qualify", "box7")
    assert said.code == 2
    assert "bisector lab qualify box7" in said.err

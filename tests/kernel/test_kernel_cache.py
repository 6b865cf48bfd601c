"""Built kernels that are there already: found by any builder, at any time, and never built again."""

import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from bisector.model.errors import BuilderError

if TYPE_CHECKING:
    from conftest import Toy


def test_a_built_kernel_is_taken_from_the_cache_by_any_builder(toy: "Toy") -> None:
    first = toy.build(toy.builder(), toy.good)
    other = toy.build(toy.builder(name="other"), toy.good)
    assert other.from_cache
    assert (other.key, other.path, other.build_id, other.config_digest) == (
        first.key, first.path, first.build_id, first.config_digest,
    )  # fmt: skip
    assert not (toy.folder / "other/out/vmlinux").exists()


def test_equal_trees_of_two_commits_are_two_kernels(toy: "Toy") -> None:
    two = toy.commit("nothing", {})
    builder = toy.builder()
    assert toy.build(builder, toy.good).release != toy.build(builder, two).release


def test_the_cache_answers_while_a_build_runs(toy: "Toy", wait_until: Callable[[Callable[[], bool]], None]) -> None:
    hangs = toy.commit("hangs", {"trouble": "echo waiting; sleep 300\n"})
    built = toy.build(toy.builder(), toy.good)
    other = toy.builder(name="other")
    assert toy.build(other, toy.good).from_cache
    outcome: list[BaseException] = []

    def build() -> None:
        try:
            toy.build(other, hangs)
        except BuilderError as error:
            outcome.append(error)

    thread = threading.Thread(target=build)
    thread.start()
    wait_until(lambda: "waiting" in toy.log.read_text())
    found = other.find(toy.good)
    assert other.find(hangs) is None
    assert thread.is_alive()
    other.cancel()
    thread.join(20)
    assert "was cancelled" in str(outcome[0])
    assert found is not None
    assert (found.key, found.build_id, found.from_cache) == (built.key, built.build_id, True)


def test_a_builder_that_never_built_finds_nothing_and_writes_nothing(toy: "Toy") -> None:
    toy.build(toy.builder(), toy.good)
    fresh = toy.builder(name="fresh")
    before = sorted((toy.folder / "fresh").rglob("*"))
    assert fresh.find(toy.good) is None
    assert sorted((toy.folder / "fresh").rglob("*")) == before


def test_a_kernel_that_only_the_cache_forgot_needs_no_make(toy: "Toy") -> None:
    builder = toy.builder()
    first = toy.build(builder, toy.good)
    shutil.rmtree(toy.folder / "cache/images")
    again = toy.build(builder, toy.good)
    assert again.build_id == first.build_id
    assert toy.log.read_text() == ""
    assert Path(again.path).exists()

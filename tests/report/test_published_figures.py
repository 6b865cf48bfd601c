"""Figures that others published, computed anew from their raw values, with their own rounding."""

import csv
from pathlib import Path

import pytest

from bisector.bench.formats.profiles import read_ticks
from bisector.bench.formats.registry import measure, reader
from bisector.bench.profile import Profile, movers
from bisector.recipe.command import Metric
from bisector.report.profiles import movers_text
from bisector.report.ratios import Step, cut, cut_percent, cut_ratio, steps_text

DATA = Path(__file__).parent.parent / "data"
HZ = {"2.4.21-pre2": 100, "2.5.52-mm3": 1000, "2.5.52-mm3-noshpte": 1000, "2.5.52-mm3-noshpte-nohighpte": 1000}


def rows(name: str) -> list[dict[str, str]]:
    lines = (DATA / name).read_text().splitlines()
    return list(csv.DictReader(line for line in lines if not line.startswith("#")))


def profile(kernel: str, workload: str) -> Profile:
    return read_ticks((DATA / f"readprofile_{kernel}_{workload}.txt").read_bytes()).with_hz(HZ[kernel])


def test_percentages_of_2009_are_cut_off_not_rounded() -> None:
    table = rows("paravirt_mmap_perf.csv")
    assert len(table) == 6
    for row in table:
        assert cut_percent(float(row["without"]), float(row["with"])) == row["printed_percent"]
    rounded = [f"{100 * (float(row['with']) / float(row['without']) - 1):+.2f}" for row in table]
    assert sum(one != row["printed_percent"] for one, row in zip(rounded, table, strict=True)) >= 2


def test_ratios_of_2015_are_cut_off_after_three_digits() -> None:
    table = rows("nohz_stat.csv")
    off = float(table[0]["real_s"])
    before: dict[str, float] = {}
    misprints = []
    for row in table:
        real = float(row["real_s"])
        assert cut_ratio(off, real) == row["ratio_vs_off"]
        if row["ratio_vs_prev"]:
            ratio = cut_ratio(before.get(row["cpu_role"], real), real)
            if ratio.removeprefix("0") != row["ratio_vs_prev"]:
                misprints.append((row["patches"], row["cpu_role"], ratio, row["ratio_vs_prev"]))
        before[row["cpu_role"]] = real
    # The one cell that its author rounded: 20.423 / 20.427 = 0.99980.
    assert misprints == [("rik12", "housekeeper", "0.999", "1.000")]


def test_the_stack_of_patches_of_2015_as_a_table() -> None:
    table = [row for row in rows("nohz_stat.csv") if row["cpu_role"] == "nohz_full"]
    values = [float(row["real_s"]) for row in table]
    steps = [
        Step(name=row["patches"], value=value, base=14.266, previous=previous)
        for row, value, previous in zip(table, values, [None, *values], strict=False)
    ]
    assert steps_text(steps, "real s") == (
        "step                         real s    vs base    vs prev\n"
        "none                         27.921      1.957          -\n"
        "rik12                        27.930      1.957      1.000\n"
        "rik12+paolo12                27.803      1.948      0.995\n"
        "rik12+paolo12+rik3           26.946      1.888      0.969"
    )


def test_user_time_moves_without_the_work_so_real_time_decides() -> None:
    by_role = {row["cpu_role"]: row for row in rows("nohz_stat.csv") if row["patches"] == "none"}
    user = [float(by_role[role]["user_s"]) for role in ("nohz_full_off", "nohz_full")]
    assert user[1] / user[0] > 5.9
    assert float(by_role["nohz_full"]["sys_s"]) < float(by_role["housekeeper"]["sys_s"])


def test_ten_million_getpriority_calls_in_nanoseconds_each() -> None:
    per_call = {row["kernel"]: float(row["run_s"]) / 10_000_000 * 1e9 for row in rows("nohz_getpriority.csv")}
    assert {kernel: cut(value, 0) for kernel, value in per_call.items()} == {
        "vanilla": "549", "acct patch": "521", "both patches": "488", "CPU without nohz_full": "312",
    }  # fmt: skip


def summed_elapsed_s(kernel: str) -> float:
    """Through the importer, as a script that prints its phases would be read."""
    printed = [
        f"{row['workload']}: {row['elapsed_s']} s\n" for row in rows("shpte_timing.csv") if row["kernel"] == kernel
    ]
    both = Metric(name="both", sum=("pushpatch", "poppatch"), better="lower", unit="s")
    [measured] = measure(reader("key-value")("".join(printed).encode()), [both])
    return measured.value


def test_the_13_percent_of_2_5_over_2_4_come_from_summed_phases() -> None:
    old, new = summed_elapsed_s("2.4.21-pre2"), summed_elapsed_s("2.5.52-mm3-noshpte-nohighpte")
    assert (old, new) == (pytest.approx(38.969), pytest.approx(43.974))
    assert cut_ratio(old, new) == "1.128"
    assert f"{100 * (new / old - 1):.0f}" == "13"


def test_shared_page_tables_cost_three_percent_in_each_phase() -> None:
    elapsed = {(row["kernel"], row["workload"]): float(row["elapsed_s"]) for row in rows("shpte_timing.csv")}
    changes = [
        cut_percent(elapsed["2.5.52-mm3-noshpte", phase], elapsed["2.5.52-mm3", phase], 1)
        for phase in ("pushpatch", "poppatch")
    ]
    assert changes == ["+3.1", "+3.2"]


@pytest.mark.parametrize("row", rows("shpte_timing.csv"), ids=lambda row: f"{row['kernel']}-{row['workload']}")
def test_ticks_divided_by_hz_are_the_system_time_that_was_timed(row: dict[str, str]) -> None:
    found = profile(row["kernel"], row["workload"])
    assert found.total / HZ[row["kernel"]] == pytest.approx(float(row["system_s"]), rel=0.06)


def test_the_top_movers_of_2_5_over_2_4_after_normalising() -> None:
    found = movers(profile("2.4.21-pre2", "pushpatch"), profile("2.5.52-mm3", "pushpatch"))
    assert (found.unit, found.base_total, found.new_total) == ("s", pytest.approx(10.62), pytest.approx(15.261))
    assert found.unlisted_below == (pytest.approx(0.10), pytest.approx(0.094))
    assert [row.symbol for row in found.rows[:6]] == [
        "page_remove_rmap", "page_add_rmap", "zap_page_range", "kmap_atomic", "zap_pte_range", "pte_unshare",
    ]  # fmt: skip
    first = found.rows[0]
    assert (first.base, first.new, first.change) == (None, pytest.approx(0.928), pytest.approx(0.828))
    [copies] = [row for row in found.rows if row.symbol == "do_wp_page"]
    # Raw ticks would say that it grew ninefold (275 to 2594); in seconds it fell.
    assert (copies.base, copies.new) == (pytest.approx(2.75), pytest.approx(2.594))
    assert copies.change == pytest.approx(-0.156)


def test_the_top_movers_of_shared_page_tables() -> None:
    found = movers(profile("2.5.52-mm3-noshpte", "poppatch"), profile("2.5.52-mm3", "poppatch"))
    # What fork copied before is now shared, and unshared at the first write. Each where one list ends before it.
    top = {row.symbol: row.change for row in found.rows[:3]}
    assert top == {
        "pte_unshare": pytest.approx(0.375 - 0.091),
        "copy_page_range": pytest.approx(0.077 - 0.309),
        "clear_page_tables": pytest.approx(0.563 - 0.393),
    }


def test_the_movers_as_a_table() -> None:
    found = movers(profile("2.4.21-pre2", "pushpatch"), profile("2.5.52-mm3", "pushpatch"))
    assert movers_text(found, ("2.4.21-pre2", "2.5.52-mm3"), top=4) == (
        "function                            2.4.21-pre2   2.5.52-mm3       change  s\n"
        "page_remove_rmap                          <0.10         0.93      ≥ +0.83\n"
        "page_add_rmap                             <0.10         0.77      ≥ +0.67\n"
        "zap_page_range                             0.72        <0.09      ≤ -0.63\n"
        "kmap_atomic                               <0.10         0.58      ≥ +0.48\n"
        "total                                     10.62        15.26        +4.64\n"
        "\n"
        'Seconds: ticks divided by the timer\'s frequency, or the clock that was sampled. "<": below the\n'
        "smallest function that the profile lists."
    )

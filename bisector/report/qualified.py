"""What `lab qualify` says: how a lab scatters, drifts and jumps, and what a hunt could see there; text and JSON."""

from dataclasses import asdict, dataclass
from typing import Any

from bisector.model.sample import Sample
from bisector.recipe.load import parse_recipe
from bisector.recipe.schema import Recipe
from bisector.report.counts import pinning, places_of
from bisector.report.text import deviation
from bisector.report.words import between, count, duration, interval, iso, number, signed, wrap
from bisector.search.qualify import FEWEST_BOOTS, Modes, Qualified, qualify
from bisector.search.types import Costs
from bisector.session.evidence import costs_of, evidence_of, measured_looks, options_of
from bisector.session.state import SessionState

_INDENT = " " * 18
_GROUP_NAMES_SHOWN = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """An A/A test as it stands. `qualified` is None while there are too few boots; the unit and direction with them."""

    state: SessionState
    recipe: Recipe
    costs: Costs
    first: Sample | None
    qualified: Qualified | None


def qualification_report(state: SessionState) -> Report:
    """What the boots so far say, by the search's own words."""
    recipe = parse_recipe(state.recipe_text)
    test = recipe.benchmark.test
    samples = [sample for look in measured_looks(state) for sample in look.runs[0].samples if sample.test == test]
    boots = list(evidence_of(state, test).boots)
    qualified = None
    if len(boots) >= FEWEST_BOOTS:
        options = options_of(recipe, higher_is_better=samples[0].higher_is_better)
        qualified = qualify(boots, options, costs_of(state))
    return Report(
        state=state,
        recipe=recipe,
        costs=costs_of(state),
        first=samples[0] if samples else None,
        qualified=qualified,
    )


def qualified_text(report: Report) -> str:
    """The figures for people."""
    state, seen = report.state, report.qualified
    looks = measured_looks(state)
    lines = _head(report)
    if seen is None:
        more = f"{count(len(looks), 'boot')} so far; it takes {FEWEST_BOOTS} to say anything"
        return "\n".join([*lines, more + "."])
    lines += _row("values", ", ".join(number(value) for value in seen.values))
    lines.append("")
    lines += _row("between runs", _runs(seen))
    lines += _row("between boots", _boots(seen))
    lines += _row("drift", _drift(seen))
    lines += _row("modes", _modes(seen.modes))
    lines += _row(
        "A against A",
        f"{signed(seen.effect_percent)} {interval(*seen.effect_interval_percent)} when the boots are taken for two "
        f"kernels (A B B A); told apart in {seen.false_alarms} of {count(seen.orders, 'order')} of neighbours",
    )
    return "\n".join([*lines, "", *_reach(report, seen), *_advice(seen)])


def _head(report: Report) -> list[str]:
    state, recipe = report.state, report.recipe
    machine, first = recipe.machines[0], report.first
    looks = measured_looks(state)
    planned = sorted({len(look.runs) for look in looks})
    runs = between(planned[0], planned[-1], "run") if planned else "no run"
    image = state.builds[0].image if 0 in state.builds else None
    metric = recipe.benchmark.test
    if first is not None:
        metric += f", {first.unit}, {'higher' if first.higher_is_better else 'lower'} is better"
    worked_s = state.last_at - state.started_at - state.paused_s
    return [
        f"A/A test of {machine.name} ({machine.kind}, clock: {machine.clock}): "
        f"one kernel, {count(len(looks), 'boot')}, {runs} a boot, {duration(worked_s)}",
        *_row("kernel", state.range.commits[0].short + ("" if image is None else f", {image.release}")),
        *_row("metric", f"{metric}, {pinning(state, recipe)}"),
    ]


def _row(name: str, text: str) -> list[str]:
    return wrap(text, indent=_INDENT, first=f"  {name}".ljust(len(_INDENT)))


def _runs(seen: Qualified) -> str:
    told = f"{deviation(seen.run_sd_percent)} within a boot"
    if seen.wild_runs:
        wildest = _fine(seen.wildest_percent)
        told += f"; {count(seen.wild_runs, 'wild run')} of {seen.total_runs}, the wildest {wildest} off its boot"
    return told


def _boots(seen: Qualified) -> str:
    low, high = seen.boot_sd_interval_percent
    told = f"{deviation(seen.boot_sd_seen_percent)}, at 95 % {deviation(low)} to {deviation(high)}"
    if seen.boot_sd_seen_percent == 0:
        told = f"none to be seen beside the runs, at 95 % below {deviation(high)}"
    return f"{told}; a hunt would take it for {deviation(seen.boot_sd_percent)} after so few"


def _drift(seen: Qualified) -> str:
    low, high = seen.drift_interval_percent
    verdict = "none to be seen" if low <= 0 <= high else "the machine drifts"
    return (
        f"{_fine(seen.drift_percent)} [{_fine(low)}, {_fine(high)}] from the first boot to the last, "
        f"{duration(seen.span_s)}: {verdict}"
    )


def _fine(value: float) -> str:
    """A signed change with the digits that a quiet lab needs."""
    digits = 1 if abs(value) >= 0.95 else 2 if abs(value) >= 0.095 else 3
    return f"{value + 0.0:+.{digits}f} %"


def _modes(modes: Modes) -> str:
    if not modes.two:
        return f"one; one normal sample in {max(1, round(1 / modes.p_value))} splits as cleanly"
    upper = ", ".join(str(place + 1) for place in modes.upper[:_GROUP_NAMES_SHOWN])
    return f"TWO, {deviation(modes.apart_percent)} apart (p = {modes.p_value:.2g}); the higher one: boots {upper}"


def _reach(report: Report, seen: Qualified) -> list[str]:
    costs = report.costs
    lines = [
        f"The smallest effect that a hunt could see here, with {count(seen.best_runs, 'run')} a boot "
        f"(boot {duration(costs.boot_s)}, run {duration(costs.run_s)}):",
        "  boots of both ends   half of the hunts see   nine in ten see   machine time",
    ]
    lines += [
        f"  {reach.boots:>18}   {deviation(reach.half_percent):>21}   {deviation(reach.sure_percent):>15}   "
        f"{duration(reach.machine_s):>12}"
        for reach in seen.reach
    ]
    needed = f"{seen.boots_needed:,}".replace(",", " ")
    lines.append(f"For {seen.smallest_percent:g} %, the smallest effect of interest: {needed} boots.")
    return lines


def _advice(seen: Qualified) -> list[str]:
    told = []
    if seen.modes.two:
        told.append(
            "The boots fall into two groups, so a hunt needs many boots. Look for what differs between them: "
            "transparent huge pages, memory placement, the CPU's frequency; compare: bisector lab facts."
        )
    if seen.false_alarms > seen.orders / 20:
        told.append("The same kernel was told apart from itself too often: do not hunt here before that is mended.")
    low, high = seen.drift_interval_percent
    if not low <= 0 <= high:
        told.append("The level moved during the test. A hunt takes a slow drift off, at the price of more boots.")
    return [line for sentence in told for line in wrap(f"warn  {sentence}", indent="      ", first="")]


def qualified_document(report: Report) -> dict[str, Any]:
    """The same for scripts: plain values, ISO times."""
    state, image = report.state, report.state.builds[0].image if 0 in report.state.builds else None
    test = report.recipe.benchmark.test
    return {
        "name": state.name,
        "state": "paused" if state.pause_reason else "finished",
        "machine": report.recipe.machines[0].name,
        "clock": report.recipe.machines[0].clock,
        "test": test,
        "unit": None if report.first is None else report.first.unit,
        "kernel": None
        if image is None
        else {"commit": image.commit, "release": image.release, "build_id": image.build_id},
        "boots": [
            {
                "boot": look.number,
                "at": iso(look.booted_at if look.booted_at is not None else look.started_at),
                "boot_id": None if look.record is None else look.record.boot_id,
                "values": [run.value_of(test) for run in look.runs],
            }
            for look in measured_looks(state)
        ],
        "places": [asdict(place) for place in places_of(state, report.recipe)],
        "facts": dict(next((look.record.facts.pairs for look in state.looks if look.record is not None), ())),
        "costs": asdict(report.costs),
        "figures": None if report.qualified is None else asdict(report.qualified),
        "pause": {"reason": state.pause_reason, "resolution": state.pause_resolution} if state.pause_reason else None,
    }

"""Lists of CPUs as the kernel writes them, and the CPU that is chosen of them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bisector.model.cpus import ROLES, PinnedCpu, in_role, list_of, parse_cpus, pinned_of, preferred

cpus = st.sets(st.integers(0, 8191), max_size=40)


@given(cpus)
def test_a_list_that_was_written_is_read_back(some: set[int]) -> None:
    assert set(parse_cpus(list_of(some))) == some


@given(st.lists(st.tuples(st.integers(0, 300), st.integers(0, 20)), min_size=1, max_size=8))
def test_ranges_may_overlap_and_stand_in_any_order(ranges: list[tuple[int, int]]) -> None:
    written = ",".join(str(first) if not more else f"{first}-{first + more}" for first, more in ranges)
    expected = sorted({cpu for first, more in ranges for cpu in range(first, first + more + 1)})
    assert list(parse_cpus(written)) == expected


@given(st.text(st.sampled_from("0123456789-, N:/\n٣"), max_size=12))
def test_anything_is_a_list_or_a_value_error(text: str) -> None:
    try:
        found = parse_cpus(text)
    except ValueError:
        return
    assert list(found) == sorted(set(found))
    assert parse_cpus(list_of(found)) == found


@pytest.mark.parametrize(
    ("written", "says"),
    [
        ("3-1", 'the range "3-1" runs backwards'),
        ("1,", '"" is neither a number nor a range'),
        ("0-N", '"0-N" is neither'),
        ("1-9:1/2", '"1-9:1/2" is neither'),
        ("(null)", "neither"),
        ("0-999999", "nobody has a CPU 999999"),
    ],
)
def test_what_is_no_list_is_refused_with_the_part_that_is_wrong(written: str, says: str) -> None:
    with pytest.raises(ValueError, match="is no list of CPUs") as caught:
        parse_cpus(written)
    assert says in str(caught.value)


@given(cpus, cpus, cpus)
def test_a_role_is_of_cpus_that_are_online_and_housekeeping_is_the_rest(
    online: set[int], isolated: set[int], full: set[int]
) -> None:
    facts = {"cpus": list_of(online), "isolated": list_of(isolated), "nohz_full": list_of(full)}
    found = {role: set(in_role(role, facts)) for role in ROLES}
    assert found["isolated"] == online & isolated
    assert found["nohz_full"] == online & full
    assert found["housekeeping"] | found["isolated"] | found["nohz_full"] == online
    assert not found["housekeeping"] & (isolated | full)


@pytest.mark.parametrize(("some", "one"), [((), None), ((0,), 0), ((0, 3, 2), 2), ((1,), 1), ((0, 1), 1)])
def test_cpu_0_is_taken_only_where_there_is_no_other(some: tuple[int, ...], one: int | None) -> None:
    assert preferred(some) == one


@given(st.none() | st.integers(0, 8191), st.none() | st.sampled_from(ROLES))
def test_what_a_session_keeps_of_a_cpu_is_read_back(number: int | None, role: str | None) -> None:
    pinned = PinnedCpu(number=number, role=role if number is not None else None)  # type: ignore[arg-type]
    assert pinned_of(str(pinned)) == pinned

"""Pictures in a line of text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bisector.report.pictures import round_up, span, strip


def test_a_strip_shows_where_values_lie_and_how_many() -> None:
    assert strip([-10, 0, 0, 5, 5, 5, 10], 10, width=9) == ".   : # ."
    assert strip([-10, 10], 10, width=9) == ".   |   ."


def test_an_interval_shows_its_ends_its_middle_and_no_difference() -> None:
    assert span(-8, -6, -4, 10, width=21) == "  [-o-]   |          "
    assert span(-2, 0, 2, 10, width=21) == "        [-o-]        "


def test_what_lies_beyond_the_scale_stands_at_its_end() -> None:
    assert strip([-99, 99], 1, width=5) == ". | ."
    assert span(-99, -98, 99, 1, width=5) == "o---]"


@given(st.floats(1e-6, 1e9))
def test_a_scale_ends_at_a_number_that_people_read(reach: float) -> None:
    end = round_up(reach)
    assert reach <= end
    assert end <= max(0.1, 2.5 * reach) * (1 + 1e-9)
    assert f"{end:.0e}"[0] in "125"


@pytest.mark.parametrize(("reach", "end"), [(0.01, 0.1), (0.1, 0.1), (0.11, 0.2), (3, 5), (5.1, 10), (60, 100)])
def test_scales_end_at_one_two_or_five(reach: float, end: float) -> None:
    assert round_up(reach) == pytest.approx(end)

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bisector.report import words


@pytest.mark.parametrize(
    ("hostile", "shown"),
    [
        ("a\x1b[2Jb", "a\\x1b[2Jb"),
        ("line\nbreak\ttab", "line break tab"),
        ("\u202egnp.exe", "\\u202egnp.exe"),
        ("\x9b31m", "\\x9b31m"),
        ("bell\x07", "bell\\x07"),
        ("half\ud800", "half\\ud800"),
        ("naïve 🐧 漢字", "naïve 🐧 漢字"),
        ("[red]x[/red]", "[red]x[/red]"),
    ],
)
def test_other_peoples_text_is_shown_and_never_obeyed(hostile, shown):
    assert words.plain(hostile) == shown


@given(st.text())
def test_plain_text_is_one_line_without_control_characters_and_stays_as_it_is(text):
    once = words.plain(text)
    assert len(once.splitlines()) <= 1
    assert not any(ord(character) < 32 or 127 <= ord(character) < 160 for character in once)
    assert words.plain(once) == once
    once.encode("utf-8")


@given(st.text(), st.integers(1, 60))
def test_a_padded_text_takes_exactly_its_columns(text, width):
    assert words.cells(words.pad(words.plain(text), width)) == width


def test_wide_characters_take_two_columns_and_combining_ones_none():
    assert words.cells("漢字") == 4
    assert words.cells("e\u0301") == 1
    assert words.clip("漢字漢字", 5) == "漢字…"


@given(st.text(max_size=400), st.integers(40, 100))
def test_wrapped_lines_fit(text, width):
    assert all(words.cells(line) <= width for line in words.wrap(text, indent="    ", width=width))


def test_a_number_is_not_torn_from_its_unit():
    lines = words.wrap("x " * 46 + "fell -12.8 % [-13.5, -12.1] here")
    assert "-12.8 % [-13.5, -12.1]" in lines[1]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (41.4, "41 s"),
        (59.6, "1 m"),
        (200, "3 m 20 s"),
        (3599.7, "1 h"),
        (7860, "2 h 11 m"),
        (86400, "1 d"),
        (100_000, "1 d 4 h"),
        (-3, "0 s"),
    ],
)
def test_durations_have_two_units_at_most(seconds, text):
    assert words.duration(seconds) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(43.7, "43.70"), (1234.5, "1234"), (5.1234, "5.123"), (0.01234, "0.0123"), (2.5e12, "2.500e+12"), (0, "0")],
)
def test_values_have_four_significant_digits(value, text):
    assert words.number(value) == text


def test_a_belief_is_never_rounded_to_certainty():
    assert words.belief(0.99996) == "> 99.9 %"
    assert words.belief(0.9941) == "99.4 %"
    assert words.belief(1e-7) == "< 0.1 %"
    assert words.belief(0.0) == "0.0 %"


def test_zero_has_no_minus_sign():
    assert words.signed(-0.01) == "+0.0 %"
    assert words.interval(-0.04, 0.04) == "[+0.0, +0.0]"

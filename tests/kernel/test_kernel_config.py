"""Configurations as values: what is set, what is wanted, what became of it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bisector.kernel.config import (
    config_changes,
    config_digest,
    merge,
    parse_config,
    parse_wanted,
    shortfalls,
    wanted_lines,
)
from bisector.model.errors import RecipeError

_NAMES = st.sampled_from([f"CONFIG_{name}" for name in ("A", "B", "NET", "INET6", "HZ_1000")])
_VALUES = st.sampled_from(["y", "m", "n", "42", "0x10", '"text with = and #"'])
_WISHES = st.dictionaries(_NAMES, _VALUES)


def test_no_line_and_not_set_and_n_are_one_thing() -> None:
    assert parse_config("CONFIG_A=n\n") == parse_config("# CONFIG_A is not set\n") == parse_config("") == {}
    assert shortfalls({"CONFIG_A": "n"}, {}) == ()
    assert parse_wanted("CONFIG_A=n\n# CONFIG_B is not set\n", where="f") == {"CONFIG_A": "n", "CONFIG_B": "n"}


def test_later_lines_win() -> None:
    assert parse_wanted("CONFIG_A=y\nCONFIG_A=m\n# CONFIG_A is not set\nCONFIG_B=y\n", where="f") == {
        "CONFIG_A": "n",
        "CONFIG_B": "y",
    }
    assert parse_config("CONFIG_A=y\n# CONFIG_A is not set\n") == {}


def test_what_did_not_come_out_is_told_with_both_values() -> None:
    got = parse_config('CONFIG_A=m\nCONFIG_S="x"\n')
    wanted = {"CONFIG_A": "y", "CONFIG_GONE": "y", "CONFIG_S": '"x"', "CONFIG_B": "n"}
    assert shortfalls(wanted, got) == ("CONFIG_A: wanted y, got m", "CONFIG_GONE: wanted y, got n")


def test_every_bad_line_of_a_fragment_is_told_with_its_place() -> None:
    with pytest.raises(RecipeError) as caught:
        parse_wanted("CONFIG_A=y\nA=y\n# fine\n\nCONFIG_B y\n", where="demo.config")
    assert caught.value.brief == "demo.config:2:1: not a configuration line: 'A=y'"
    assert caught.value.details == "demo.config:5:1: not a configuration line: 'CONFIG_B y'"


def test_the_digest_is_of_the_options_alone() -> None:
    one = parse_config("# Linux/x86 6.1.1 Kernel Configuration\nCONFIG_A=y\n# CONFIG_B is not set\nCONFIG_C=m\n")
    two = parse_config("# Linux/x86 6.1.2 Kernel Configuration\nCONFIG_C=m\nCONFIG_A=y\n")
    assert config_digest(one) == config_digest(two)
    assert config_digest(one) != config_digest({**two, "CONFIG_B": "y"})
    assert config_digest({"CONFIG_A": "yCONFIG_B=y"}) != config_digest({"CONFIG_A": "y", "CONFIG_B": "y"})


def test_changes_read_from_before_to_after() -> None:
    before = {"CONFIG_A": "y", "CONFIG_HZ": "100", "CONFIG_SAME": "y"}
    after = {"CONFIG_B": "m", "CONFIG_HZ": "1000", "CONFIG_SAME": "y"}
    assert config_changes(before, after) == ("CONFIG_A: y -> n", "CONFIG_B: n -> m", "CONFIG_HZ: 100 -> 1000")


@given(base=_WISHES, wanted=_WISHES)
def test_what_is_laid_over_a_configuration_wins_and_the_rest_stays(
    base: dict[str, str], wanted: dict[str, str]
) -> None:
    text = "# a comment stays\n" + "\n".join(wanted_lines(base)) + "\n"
    merged = merge(text, wanted)
    assert parse_wanted(merged, where="f") == {**base, **wanted}
    assert not shortfalls(wanted, parse_config(merged))
    assert merged.startswith("# a comment stays\n")
    assert all(merged.count(f"{name}=") + merged.count(f"# {name} is") == 1 for name in wanted)


@given(one=_WISHES, two=_WISHES)
def test_changes_are_empty_exactly_for_equal_digests(one: dict[str, str], two: dict[str, str]) -> None:
    first, second = parse_config("\n".join(wanted_lines(one))), parse_config("\n".join(wanted_lines(two)))
    assert (config_changes(first, second) == ()) == (config_digest(first) == config_digest(second))

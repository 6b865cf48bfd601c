import pytest
from hypothesis import given
from hypothesis import strategies as st

from bisector.lab.boot.loaderentry import (
    Entry,
    conf_default,
    does_one_shot,
    entry_id,
    has_tries_left,
    is_on,
    parse_entry,
    plain_id,
    sorts_by_key,
    takes_default,
    variable_text,
)


def test_an_entry_file_is_read_with_its_comments_and_repeated_keys() -> None:
    entry = parse_entry(
        "# made by hand\ntitle  Debian GNU/Linux\nsort-key debian\nlinux /vmlinuz\n"
        "initrd /ucode.img\ninitrd\t/initrd.img\n"
        "options root=UUID=1 ro\noptions quiet\nversion 6.1\n"
    )
    assert entry == Entry(
        title="Debian GNU/Linux",
        kernel="/vmlinuz",
        initrds=("/ucode.img", "/initrd.img"),
        options="root=UUID=1 ro quiet",
        sort_key="debian",
    )


def test_an_entry_that_starts_a_program_is_one_also_when_written_again() -> None:
    entry = parse_entry("title UKI\nefi /EFI/Linux/debian.efi\n")
    assert entry.is_program
    assert "\nefi /EFI/Linux/debian.efi\n" in entry.text()


line = st.text(st.characters(codec="ascii", exclude_categories=["Cc"]), min_size=1).map(str.strip).filter(bool)


@given(line, line, st.lists(line, max_size=3), line)
def test_what_is_written_is_read_again(title: str, kernel: str, initrds: list[str], options: str) -> None:
    entry = Entry(title=title, kernel=kernel, initrds=tuple(initrds), options=options)
    assert parse_entry(entry.text()) == entry


@given(st.text(st.characters(codec="ascii"), min_size=1))
def test_an_id_of_ours_is_one_that_systemd_boot_accepts_and_leaves_as_it_is(name: str) -> None:
    made = entry_id(name)
    assert made == made.lower() == plain_id(made)
    assert set(made) <= set("abcdefghijklmnopqrstuvwxyz0123456789._-")


@pytest.mark.parametrize(
    ("file", "expected"),
    [("Debian.conf", "debian.conf"), ("debian+3.conf", "debian.conf"), ("debian+0-3.efi", "debian.efi")],
)
def test_the_counter_of_boot_assessment_is_no_part_of_the_id(file: str, expected: str) -> None:
    assert plain_id(file) == expected


def test_a_variable_is_text_after_its_attributes() -> None:
    assert variable_text(b"\7\0\0\0" + "debian.conf\0".encode("utf-16-le")) == "debian.conf"
    assert variable_text(b"") == ""


def test_the_loaders_features_say_whether_it_boots_an_entry_once() -> None:
    assert does_one_shot(b"\6\0\0\0" + (0b1000).to_bytes(8, "little"))
    assert not does_one_shot(b"\6\0\0\0" + (0xFFF7).to_bytes(8, "little"))
    assert not does_one_shot(b"")


def test_the_loaders_features_say_whether_a_sort_key_comes_first() -> None:
    assert sorts_by_key(b"\6\0\0\0" + (1 << 8).to_bytes(8, "little"))
    assert not sorts_by_key(b"\6\0\0\0" + (0xFEFF).to_bytes(8, "little"))


@pytest.mark.parametrize(
    ("file", "expected"),
    [("debian.conf", True), ("debian+3.conf", True), ("debian+0-3.conf", False), ("debian+01-2.conf", True)],
)
def test_an_entry_whose_tries_are_used_up_comes_last(file: str, expected: bool) -> None:
    assert has_tries_left(file) is expected


def test_secure_boot_is_on_only_if_the_firmware_says_so() -> None:
    assert [is_on(raw) for raw in (b"\6\0\0\0\1", b"\6\0\0\0\0", b"")] == [True, False, False]


def test_the_last_default_of_loader_conf_counts_and_comments_do_not() -> None:
    assert conf_default("#default x\ntimeout 3\ndefault a.conf\n default  b-*\n") == "b-*"
    assert conf_default("timeout 3\n") == ""


OTHERS = ["debian-6.1.conf", "debian-6.2.conf"]


@pytest.mark.parametrize(
    ("wanted", "last_booted", "sorted_first", "expected"),
    [
        ("debian-6.1.conf", "", False, False),
        ("Debian-*", "", False, False),
        ("*", "", True, True),
        ("b*", "", False, True),
        ("gone.conf", "", False, True),
        ("gone.conf", "", True, False),
        ("", "", True, False),
        ("", "", False, True),
        ("@saved", "debian-6.2.conf", False, False),
        ("@saved", "", False, True),
    ],
)
def test_an_entry_of_ours_must_not_become_the_default_by_a_pattern_or_by_its_place(
    wanted: str, last_booted: str, sorted_first: bool, expected: bool
) -> None:
    assert takes_default(wanted, last_booted, OTHERS, sorted_first=sorted_first) is expected

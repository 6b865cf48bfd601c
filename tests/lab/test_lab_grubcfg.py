import shlex

from hypothesis import given
from hypothesis import strategies as st

from bisector.lab.boot.grubcfg import Entry, boot_image, entry_names, quoted, with_entries

words = st.text(st.characters(codec="ascii", exclude_categories=["Cc"]), min_size=1)


def entry(name: str, *cmdline: str) -> Entry:
    return Entry(name=name, filesystem="0a1b", kernel=f"/bisector/vmlinuz-{name}", initrd=None, cmdline=cmdline)


def test_an_entry_needs_no_password_and_looks_for_its_filesystem() -> None:
    text = with_entries("", add=[Entry(name="6.1", filesystem="0a-1b", kernel="/k", initrd="/i", cmdline=("ro",))])
    assert text == (
        "# bisector begin 6.1\n"
        "menuentry 'bisector 6.1' --unrestricted --id bisector-6.1 {\n"
        "\tsearch --no-floppy --fs-uuid --set=root 0a-1b\n"
        "\tlinux /k ro\n"
        "\tinitrd /i\n"
        "}\n"
        "# bisector end 6.1\n"
    )


def test_an_entry_of_the_same_name_is_replaced_and_another_one_dropped() -> None:
    text = with_entries("# mine\n", add=[entry("a", "old"), entry("b")])
    text = with_entries(text + "# mine too\n", add=[entry("a", "new")], drop=["b"])
    assert entry_names(text) == ("a",)
    assert "new" in text
    assert "old" not in text
    assert text.startswith("# mine\n# mine too\n")


@given(st.text(st.characters(codec="latin-1")), st.lists(words, max_size=4))
def test_other_peoples_lines_come_back_untouched(theirs: str, cmdline: list[str]) -> None:
    theirs = theirs.replace("# bisector", "")
    whole = theirs if not theirs or theirs.endswith("\n") else theirs + "\n"
    text = with_entries(theirs, add=[entry("a", *cmdline), entry("b")])
    assert text.startswith(whole)
    assert with_entries(text, drop=["a", "b"]) == whole


@given(words)
def test_a_quoted_word_is_one_word_again(word: str) -> None:
    # GRUB's single quotes are the shell's.
    assert shlex.split(quoted(word)) == [word]


def test_the_default_kernels_path_is_told_by_grub() -> None:
    assert boot_image("BOOT_IMAGE=(hd0,gpt2)/vmlinuz-6.1 ro") == "/vmlinuz-6.1"
    assert boot_image("ro quiet") is None

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bisector.lab.boot.cmdline import joined, kernel_words


@pytest.mark.parametrize(
    ("cmdline", "expected"),
    [
        ("BOOT_IMAGE=(hd0,gpt2)/vmlinuz root=UUID=1 ro quiet panic=0", ("root=UUID=1", "ro", "quiet")),
        ('dyndbg="file mm/*.c +p" ro', ("dyndbg=file mm/*.c +p", "ro")),
        ("initrd=\\EFI\\i.img bisector.boot=6.1 x", ("x",)),
        ("", ()),
    ],
)
def test_a_command_line_is_taken_over_without_what_belongs_to_one_boot(cmdline: str, expected: tuple[str, ...]) -> None:
    assert kernel_words(cmdline) == expected


@given(st.lists(st.text(st.characters(codec="ascii", exclude_characters='"'), min_size=1).map(str.strip).filter(bool)))
def test_words_joined_into_a_line_are_the_same_words_again(words: list[str]) -> None:
    words = [word for word in words if not word.startswith(("BOOT_IMAGE=", "initrd=", "panic="))]
    assert kernel_words(joined(words)) == tuple(words)

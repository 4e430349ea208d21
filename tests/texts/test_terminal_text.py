"""Text of jobs neither steers a terminal nor stops one."""

import pytest

from trackside.texts.terminal_text import one_line, visible


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("loss\t0.5\n", "loss\t0.5\n"),
        ("\x1b[2J", "\\x1b[2J"),
        ("\u202etxt.exe", "\\u202etxt.exe"),
        ("half \ud83d of a pair", "half \\ud83d of a pair"),
        ("undecodable \udce9", "undecodable \\udce9"),
    ],
)
def test_what_is_shown_can_be_written(text: str, shown: str):
    assert visible(text) == shown
    assert visible(text).encode().decode() == shown
    assert one_line(f" {text} ") == shown.strip().replace("\t", " ")

"""Texts for people."""

from trackside.texts.terminal_text import one_line, visible


def test_what_could_steer_a_terminal_is_written_as_its_escape():
    assert visible("a\x1b[2J\x07\x9b\u202eb\tc\nd") == "a\\x1b[2J\\x07\\x9b\\u202eb\tc\nd"
    assert visible("grün 😀 [red]") == "grün 😀 [red]"


def test_a_cell_is_one_line():
    assert one_line("a\n  b\r\x1bc") == "a b \\x1bc"

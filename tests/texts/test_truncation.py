"""Cuts: at words, marked, and never within what a terminal or a reader takes for one thing."""

import pytest

from trackside.texts.truncation import from_whole_line, last_lines, plain, shortened


@pytest.mark.parametrize("most", range(1, 60))
def test_a_cut_is_marked_and_ends_with_a_whole_word(most: int):
    text = "the loss of rank seven is grün and not a number at all"
    cut = shortened(text, most)
    assert len(cut) <= most
    if cut == text:
        return
    assert cut.endswith("…")
    if most > 14:  # no word is longer than half of that
        assert text.startswith(f"{cut[:-1]} ")


def test_a_single_long_word_is_cut_all_the_same():
    assert shortened("x" * 100, 10) == "x" * 9 + "…"
    assert shortened("short", 5) == "short"


def test_characters_of_several_bytes_stay_whole():
    cut = shortened("😀" * 100, 7)
    assert cut == "😀" * 6 + "…"
    assert cut.encode().decode() == cut


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[1;31mred\x1b[0m and plain", "red and plain"),
        ("\x1b]8;;http://x\x07link\x1b]8;;\x1b\\", "link"),
        ("cut off in a colour\x1b[3", "cut off in a colour"),
        ("tab\tand\nline", "tab\tand\nline"),
        ("bell\x07 null\x00 half \ud83d", "bell null half "),
        ("grün 😀", "grün 😀"),
    ],
)
def test_orders_to_a_terminal_are_left_out(text: str, shown: str):
    assert plain(text) == shown


def test_the_end_of_a_text_begins_with_a_whole_line():
    assert from_whole_line("lf a line\nwhole\nlast\n") == "whole\nlast\n"
    assert from_whole_line("lf of all that there is\n") == "…of all that there is\n"


def test_the_last_whole_lines_that_fit_are_kept():
    lines = ["one", "two", "three", "four"]
    assert last_lines(lines, 100) == "one\ntwo\nthree\nfour"
    assert last_lines(lines, 18) == "one\ntwo\nthree\nfour"
    assert last_lines(lines, 17) == "…\ntwo\nthree\nfour"
    assert last_lines(lines, 15) == "…\nthree\nfour"
    assert last_lines(lines, 5) == "four"
    assert last_lines(["a word " * 20], 20) == "a word a word a…"

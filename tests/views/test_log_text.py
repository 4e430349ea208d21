"""A line is shown as a terminal would leave it, and nothing in it can do more than colour text."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trackside.views.logs.log_text import MOST_CHARACTERS, plain_text, shown_text

RED, RESET = "\x1b[31m", "\x1b[0m"


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        (b"plain\n", "plain"),
        (b"of Windows\r\n", "of Windows"),
        (b"a\ttab stays\n", "a\ttab stays"),
        (b"\r 10%\r 20%\r100%\n", "100%"),
        (b"loading 10%\rdone\n", "doneing 10%"),
        (b"loading 10%\r\x1b[Kdone\n", "done"),
        (b"\x1b[2K\rdone\n", "done"),
        (b"abc\x08\x08XY\n", "aXY"),
        (b"\x08\x08a\n", "a"),
        (b"abc\x1b[1Gx\n", "xbc"),
        (b"abc\x1b[1K\rx\n", "x  "),
        (b"\x1b[31mred\x1b[0m plain\n", f"{RED}red{RESET} plain"),
        (b"\x1b[31mred\rX\n", f"{RED}Xed{RESET}"),
        (b"red\r\x1b[31mX\x1b[mY\n", f"{RED}X{RESET}Yd"),
        (b"\x1b[?25lhidden cursor\x1b[?25h\x1b[3A\n", "hidden cursor"),
        (b"\x1b]0;title\x07text\n", "text"),
        (b"\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\\n", "link"),
        (b"\x1b(Btext\x1b7\n", "text"),
        (b"nul \x00 bell \x07\n", "nul \\x00 bell \\x07"),
        (b"\x1b\x1b[31mlone\n", f"\\x1b{RED}lone"),
        (b"\x1b]unfinished\n", "\\x1b]unfinished"),
        (b"\xff\xfe no utf-8\n", "�� no utf-8"),
        ("turned \u202e round\n".encode(), "turned \\u202e round"),
        (b"\n", ""),
        (b"\r\n", ""),
        (b"\r\r\r\n", ""),
    ],
)
def test_what_is_shown(line: bytes, shown: str):
    assert shown_text(line) == shown


def test_a_long_line_is_cut_with_a_note():
    shown = shown_text(b"x" * (MOST_CHARACTERS + 1234))
    assert shown == "x" * MOST_CHARACTERS + " … [1,234 more bytes]"


def test_a_colour_does_not_go_on_after_the_cut():
    shown = shown_text(b"\x1b[31m" + b"x" * MOST_CHARACTERS * 2)
    assert f"{RESET} … [" in shown


def test_a_sequence_is_not_cut_in_two():
    line = b"x" * (MOST_CHARACTERS - 2) + b"\x1b[31m" + b"y" * 100
    assert "\x1b" not in shown_text(line)


def test_colours_are_not_searched():
    assert plain_text(f"loss: {RED}nan{RESET}") == "loss: nan"


CONTROL = st.sampled_from(
    ["\r", "\b", "\x1b[K", "\x1b[2K", "\x1b[9G", "\x1b[31m", "\x1b[m", "\x1b]0;t\x07", "\x1b", "ab"]
)


@given(st.lists(CONTROL | st.text(max_size=5), max_size=30).map("".join))
def test_nothing_but_colours_can_control_anything(text: str):
    shown = shown_text(text.replace("\n", "").encode(errors="surrogatepass"))
    rest = re.sub(r"\x1b\[[0-9;:]*m", "", shown)
    assert not re.search("[\x00-\x08\x0a-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", rest)


@given(st.text(alphabet="abc \r", max_size=40))
def test_a_terminal_overwrites_from_the_left(text: str):
    screen: list[str] = []
    column = 0
    for character in text.removesuffix("\r"):
        if character == "\r":
            column = 0
        else:
            screen[column : column + 1] = [character]
            column += 1
    assert shown_text(text.encode() + b"\n") == "".join(screen)

"""Styled text: how wide it is, where it breaks, and what a terminal is sent."""

import pytest
from rich.console import Console

from trackside.cli.styled_text import Text, cell_len, chopped

SENTENCES = (
    "No rules watch the job. `trackside run --rule all` starts a job with rules; look there.",
    "one\n\n  two, further in\nthree",
    f"s3://bucket/{'x' * 70}/model.tar.gz is a location",
    "学習率 が 大きすぎます " * 6,
    "an arrow → and a café",
    "",
)


@pytest.mark.parametrize("width", [20, 33, 80])
@pytest.mark.parametrize("sentence", SENTENCES)
def test_lines_break_where_those_of_rich_do(sentence: str, width: int):
    console = Console(width=width, color_system=None, highlight=False, markup=False)
    with console.capture() as captured:
        console.print(sentence)
    expected = [line.rstrip() for line in captured.get().removesuffix("\n").split("\n")]
    assert [line.plain for line in Text(sentence).wrapped(width)] == expected


def test_wide_letters_take_two_columns():
    assert cell_len("abc") == 3
    assert cell_len("学習") == 4
    assert chopped("学習率", 4) == ["学習", "率"]
    assert chopped("abcdef", 4) == ["abcd", "ef"]
    assert Text("学習率").cropped(5).plain == "学習"


def test_the_style_of_the_whole_is_below_that_of_its_parts():
    text = Text("job-1", "bold").append("  ").append("Failed", "red")
    assert text.plain == "job-1  Failed"
    assert text.rendered() == "\x1b[1mjob-1  \x1b[0m\x1b[1;31mFailed\x1b[0m"
    assert text.rendered(with_colours=False) == "\x1b[1mjob-1  Failed\x1b[0m"


def test_a_part_keeps_its_style_wherever_it_is_broken():
    text = Text("one ", "red").append_text(Text("two three", "bold"))
    first, second = text.wrapped(8)
    assert first.rendered() == "\x1b[31mone \x1b[0m\x1b[1;31mtwo\x1b[0m"
    assert second.rendered() == "\x1b[1;31mthree\x1b[0m"


def test_a_letter_is_replaced_in_a_style_of_its_own():
    text = Text("....", "dim")
    text.replace(1, "x", "bold red")
    assert text.plain == ".x.."
    assert text.rendered() == "\x1b[2m.\x1b[0m\x1b[1;2;31mx\x1b[0m\x1b[2m..\x1b[0m"
    text.replace(4, "!", "")
    assert text.plain == ".x..!"


def test_spaces_at_the_end_are_taken_away():
    text = Text("a ").append("  ", "bold").append(" ")
    text.rstrip()
    assert text.plain == "a"
    assert text.rendered() == "a"

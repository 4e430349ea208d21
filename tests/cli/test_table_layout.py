"""Layouts never take more room than there is, unless a single word does."""

import pytest

from trackside.cli.table_layout import GAP, INDENT, LEAST_TEXT, broken, even, fitting

NAMES = ("NAME", "STATUS", "AGE", "OUTPUT")


def test_with_room_for_all_nothing_changes():
    layout = fitting(NAMES, [10, 9, 4, 30], 80, spare=("OUTPUT", "AGE"))
    assert layout.kept == (0, 1, 2, 3)
    assert layout.widths == (10, 9, 4, 30)
    assert not layout.is_stacked


def test_no_more_is_given_up_than_needed():
    assert fitting(NAMES, [50, 9, 4, 30], 80, spare=("OUTPUT", "AGE")).kept == (0, 1, 2)
    assert fitting(NAMES, [65, 9, 4, 30], 80, spare=("OUTPUT", "AGE")).kept == (0, 1)


def test_the_first_column_stands_above_only_if_the_last_has_too_little():
    beside = fitting(NAMES, [30, 9, 4, 90], 80)
    assert not beside.is_stacked
    assert sum(beside.widths) + 3 * GAP == 80
    above = fitting(NAMES, [60, 9, 4, 90], 80)
    assert above.is_stacked
    assert INDENT + sum(above.widths[1:]) + 2 * GAP == 80
    assert above.widths[-1] >= LEAST_TEXT


@pytest.mark.parametrize("num_jobs", [1, 2, 3, 5, 9])
@pytest.mark.parametrize("room", [40, 80, 120])
def test_columns_to_compare_are_all_shown_once_and_fit(num_jobs: int, room: int):
    layouts = even([20, *[43] * num_jobs], room)
    assert [index for each in layouts for index in each.kept[1:]] == [*range(1, num_jobs + 1)]
    for layout in layouts:
        assert layout.kept[0] == 0
        assert sum(layout.widths) + GAP * (len(layout.widths) - 1) <= room


def test_text_is_broken_at_spaces_and_a_location_not_at_all():
    assert broken("one two three", 8, in_words=False) == ["one two", "three"]
    assert broken("at s3://bucket/out", 8, in_words=False) == ["at", "s3://bucket/out"]
    assert broken("s3://bucket/out", 8, in_words=True) == ["s3://buc", "ket/out"]
    assert broken("你好你好", 4, in_words=True) == ["你好", "你好"]

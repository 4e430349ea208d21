"""Names as people write them, and as the wire has them."""

import re

import pytest

from trackside.texts.shown_names import JOB_NAME, shown_name, wire_name


@pytest.mark.parametrize(
    ("shown", "wire"),
    [
        ("my_run.v2", "my-run-v2--x5"),
        ("lr-0.1", "lr-0-1--x2"),
        ("a__b", "a--b--x4"),
        ("train-2026-11-15", "train-2026-11-15"),
        ("a--b", "a--b"),
        ("a.b--x5", "a-b--x5--xi"),
        ("1.2_3.4-5_6.7.8_9.0", "1-2-3-4-5-6-7-8-9-0--xd25"),
    ],
)
def test_each_stands_for_one_of_the_other(shown: str, wire: str):
    assert wire_name(shown) == wire
    assert shown_name(wire) == shown
    assert re.fullmatch(JOB_NAME, wire)


@pytest.mark.parametrize("wrong", ["", "_a", "a.", "a b", "a/b", "é", "..", "a_" * 40])
def test_what_can_be_no_name_stands_for_none(wrong: str):
    assert not re.fullmatch(JOB_NAME, wire_name(wrong))


@pytest.mark.parametrize("wire", ["a--x5", "a-b--x0", "a-b--x9", "a-b--xZ", "x--x1"])
def test_a_similar_name_is_shown_unchanged(wire: str):
    assert shown_name(wire) == wire

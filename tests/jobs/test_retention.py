"""What goes, by age and size: the oldest first, and what is lost for good last."""

import pytest

from trackside.errors import InvalidSetting
from trackside.jobs.retention import Item, Keep, Kind, decide

NOW = 1e9
DAY = 86400.0


def item(kind: Kind, name: str, days: float, size_bytes: int = 10) -> Item:
    return Item(kind, name, NOW - days * DAY, size_bytes)


FOUND = [
    item(Kind.DATA, "a", 300, 100),
    item(Kind.FOLDER, "a", 300),
    item(Kind.FOLDER, "b", 20),
    item(Kind.OVERLAY, "packages", 50),
    item(Kind.WORKING, "b", 20),
    item(Kind.LEFTOVER, "jobs/.draft", 1),
]


def chosen(keep: str, used_bytes: int = 150) -> list[tuple[str, str]]:
    found = decide(FOUND, Keep.parse(keep), now=NOW, used_bytes=used_bytes)
    return [(str(each.kind), each.name) for each in found]


def test_without_limits_only_leftovers_go():
    assert chosen("") == [("leftover", "jobs/.draft")]


def test_by_age_no_data_goes_however_old_it_is():
    leftover = ("leftover", "jobs/.draft")
    assert chosen("90d") == [leftover, ("job folder", "a")]
    assert chosen("40d") == [leftover, ("overlay", "packages"), ("job folder", "a")]
    assert ("job data", "a") not in chosen("0h")


def test_by_size_each_kind_has_its_turn_and_data_is_the_last():
    order = chosen("0GB")
    assert order == [
        ("leftover", "jobs/.draft"),
        ("working files", "b"),
        ("overlay", "packages"),
        ("job folder", "a"),
        ("job folder", "b"),
        ("job data", "a"),
    ]
    for number in range(1, len(order)):
        fits = sum(10 for _ in range(number))
        assert chosen(f"{(150 - fits) / 1e6:.6f}MB") == order[:number]


def test_what_is_too_old_goes_before_a_size_is_reached_by_anything_else():
    keep = "100d,0.000130MB"  # the leftover and the old folder are enough
    assert chosen(keep) == [("leftover", "jobs/.draft"), ("job folder", "a")]


@pytest.mark.parametrize(
    ("text", "age", "size"),
    [
        ("90d,200GB", 90 * DAY, 200e9),
        ("1.5TB, 2w", 14 * DAY, 1.5e12),
        ("12h", DAY / 2, None),
        ("", None, None),
    ],
)
def test_limits_are_read(text: str, age: float | None, size: float | None):
    assert Keep.parse(text) == Keep(age, size)


@pytest.mark.parametrize("text", ["90", "90d,30d", "-1d", "5 parsecs", "200 gb", "d", "1d;2GB"])
def test_limits_that_say_nothing_clear_are_refused(text: str):
    with pytest.raises(InvalidSetting, match="as in 90d,200GB"):
        Keep.parse(text)

"""What goes, by age and size: the oldest first, and what is lost for good last."""

import time

import pytest

from trackside.errors import InvalidSetting
from trackside.jobs.retention import Item, Keep, Kind, decide, parse_quota, within_quota

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


@pytest.mark.parametrize(
    ("text", "size"),
    [("200GB", 200 * 10**9), (" 1.5 TB ", 1_500 * 10**9), ("1MB", 10**6), ("none", None)],
)
def test_a_quota_is_read(text: str, size: int | None):
    assert parse_quota(text) == size


@pytest.mark.parametrize(
    "text",
    ["-1", "-1GB", "lots", "0", "0GB", "", "200", "200gb", "200GiB", "0.0000001MB", "1e3GB"]
    + ["nan GB", "9" * 400 + "TB", "200GB,1TB", "None", "90d"],
)
def test_a_quota_that_says_nothing_clear_is_refused(text: str):
    with pytest.raises(InvalidSetting, match="as in 200GB, or none for no quota") as caught:
        parse_quota(text)
    assert repr(text) in str(caught.value)


def test_a_quota_takes_no_data_of_the_last_day(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(time, "time", lambda: NOW)
    found = [
        item(Kind.FOLDER, "new", 0.1),
        item(Kind.FOLDER, "old", 2),
        item(Kind.DATA, "new", 0.9),
        item(Kind.DATA, "old", 2),
        item(Kind.DATA, "older", 3),
    ]

    def gone(quota: int) -> list[tuple[str, str]]:
        chosen = within_quota(found, quota_bytes=quota, used_bytes=100)
        return [(str(each.kind), each.name) for each in chosen]

    folders = [("job folder", "old"), ("job folder", "new")]
    data = [("job data", "older"), ("job data", "old")]
    assert gone(100) == []
    assert gone(85) == folders
    assert gone(75) == [*folders, *data[:1]]
    assert gone(0) == [*folders, *data]

"""What jobs are looked for by, as it is typed."""

from datetime import datetime

import pytest

from trackside.errors import InputError
from trackside.views.query.search_conditions import (
    Name,
    as_parameters,
    moment,
    parse_condition,
    parse_moment,
    unnamed_words,
)

NOW = datetime(2026, 11, 17, 12, 30)


@pytest.mark.parametrize(
    ("text", "held", "fits"),
    [
        ("lr=0.1", "1e-1", True),
        ("lr = 0.10", "0.1", True),
        ("lr>0.01", "0.1", True),
        ("lr>0.01", "0.01", False),
        ("lr>=0.01", 0.01, True),
        ("loss<=0.3", 0.31, False),
        ("loss!=0.3", 0.31, True),
        ("optimizer=adam", '"adam"', True),
        ("optimizer==sgd", "adam", False),
        ("optimizer!=sgd", "adam", True),
        ("optimizer>a", "adam", False),
        ("lr!=0.1", None, False),
        ("text=a=b", "a=b", True),
    ],
)
def test_values_are_compared_as_numbers_where_both_are(
    text: str, held: str | float | None, fits: bool
):
    assert parse_condition(text).fits(held) is fits


@pytest.mark.parametrize(
    ("typed", "name"),
    [
        ("loss/val", Name("loss/val")),
        ("metric.loss", Name("loss", "metric")),
        ("param.model.lr", Name("model.lr", "param")),
        ("model.lr", Name("model.lr")),
    ],
)
def test_a_name_may_say_what_it_is_of(typed: str, name: Name):
    assert parse_condition(f"{typed}>1").name == name


@pytest.mark.parametrize("text", ["lr", "", ">3"])
def test_what_is_no_condition_is_answered_with_one(text: str):
    with pytest.raises(InputError, match="Write one like"):
        parse_condition(text)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("2d", datetime(2026, 11, 15, 12, 30)),
        ("12h", datetime(2026, 11, 17, 0, 30)),
        ("30min", datetime(2026, 11, 17, 12, 0)),
        ("30m", datetime(2026, 11, 17, 12, 0)),
        ("2 days", datetime(2026, 11, 15, 12, 30)),
        ("1.5h", datetime(2026, 11, 17, 11, 0)),
        ("1w", datetime(2026, 11, 10, 12, 30)),
        ("today", datetime(2026, 11, 17)),
        ("yesterday", datetime(2026, 11, 16)),
        ("2026-11-15", datetime(2026, 11, 15)),
        ("2026-11-15T14:30", datetime(2026, 11, 15, 14, 30)),
        ("soon", None),
        ("2x", None),
        ("3months", None),
        ("9999999999d", None),
    ],
)
def test_times_are_ago_or_dates(text: str, found: datetime | None):
    assert moment(text, NOW) == found


def test_what_is_no_time_is_answered_with_one():
    with pytest.raises(InputError, match=r"'soon' is no time. Write one like 30min"):
        parse_moment("soon", NOW)


def test_arguments_are_read_by_name():
    words = ["data.yaml", "--lr", "0.1", "--batch-size=32", "--amp", "-v", "model.depth=3"]
    words += ["--scale", "-1.5", "+extra=1", "--last"]
    assert as_parameters(words) == {
        "lr": "0.1",
        "batch-size": "32",
        "amp": "true",
        "v": "true",
        "model.depth": "3",
        "scale": "-1.5",
        "extra": "1",
        "last": "true",
    }
    assert unnamed_words(words) == ["data.yaml"]

"""What jobs are looked for by, as it is typed."""

from datetime import datetime

import click
import pytest

from trackside.cli.search_conditions import (
    Condition,
    Name,
    as_parameters,
    moment,
    parse_moment,
    parse_where,
)

NOW = datetime(2026, 11, 17, 12, 30)
OPTION = click.Option(["--where"])
CONTEXT = click.Context(click.Command("jobs"))


def where(text: str) -> Condition:
    (found,) = parse_where(CONTEXT, OPTION, (text,))
    return found


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
    assert where(text).fits(held) is fits


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
    assert where(f"{typed}>1").name == name


@pytest.mark.parametrize("text", ["lr", "", ">3"])
def test_what_is_no_condition_is_answered_with_one(text: str):
    with pytest.raises(click.BadParameter, match="Write one like"):
        where(text)


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
    with pytest.raises(click.BadParameter, match=r"'soon' is no time. Write one like 30min"):
        parse_moment(CONTEXT, OPTION, "soon")


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

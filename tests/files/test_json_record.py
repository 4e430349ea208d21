"""Records from JSON that anybody may have written."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any

import pytest

from trackside.files.json_record import DamagedRecord, Moment, parsed, parsed_object, record


class Colour(StrEnum):
    RED = "red"


@dataclass(frozen=True, slots=True)
class Part:
    name: str
    size: int = 0


@dataclass(frozen=True, slots=True)
class Whole:
    part: Part
    colour: Colour = Colour.RED
    parts: tuple[Part, ...] = ()
    pair: tuple[int, str] | None = None
    names: list[str] = field(default_factory=list)
    by_name: Mapping[str, Part] = field(default_factory=dict)
    anything: Any = None
    share: float = 0.0
    when: Moment = 0.0
    is_done: bool = False


WHOLE = Whole(
    Part("é"), Colour.RED, (Part("a", 1), Part("b", 2)), (1, "x"), ["n"], {"k": Part("p")},
    [1, {"a": None}], 0.5, 1.7e9, True,
)  # fmt: skip


def reported(whole: Whole) -> dict[str, Any]:
    described = asdict(whole)
    return {**described, "parts": [*described["parts"]], "pair": [*(whole.pair or ())]}


def test_what_was_written_is_read_again():
    assert record(Whole, reported(WHOLE)) == WHOLE


def test_what_a_later_version_adds_is_left_out_and_what_is_missing_has_its_default():
    assert record(Whole, {"part": {"name": "a", "of_tomorrow": 1}}) == Whole(Part("a"))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"part": None}, "part: it is not an object but None"),
        ({"part": {}}, "part: name is missing"),
        ({"part": {"name": 5}}, "part: name: 5 is not a text"),
        ({"part": {"name": "a", "size": True}}, "True is not a whole number"),
        ({"part": {"name": "a", "size": 1.0}}, "1.0 is not a whole number"),
        ({"part": {"name": "a", "size": 10**30}}, "a huge number is not a whole number"),
        ({"colour": "blue"}, "colour: 'blue' is not one of red"),
        ({"colour": []}, "a list is not one of red"),
        ({"parts": {"name": "a"}}, "parts: an object is not a list"),
        ({"parts": [{"name": "a"}, 3]}, "parts: it is not an object but 3"),
        ({"pair": [1]}, "pair: a list is not a list of 2"),
        ({"names": "text"}, "names: 'text' is not a list"),
        ({"by_name": []}, "by_name: a list is not an object"),
        ({"share": "0.5"}, "share: '0.5' is not a whole number"),
        ({"when": -1}, "when: -1 is not a time"),
        ({"when": float("nan")}, "when: nan is not a time"),
        ({"when": 1e300}, "when: 1e+300 is not a time"),
        ({"is_done": 1}, "is_done: 1 is not true or false"),
    ],
)
def test_a_field_of_another_type_is_damage(change: dict[str, Any], said: str):
    with pytest.raises(DamagedRecord) as caught:
        record(Whole, {**reported(WHOLE), **change})
    assert said in str(caught.value)


@pytest.mark.parametrize(
    "data",
    [b"", b"{", b"\xff", b"[" * 100_000, b"[" * 100_000 + b"]" * 100_000, b"9" * 5000, b"1 x"],
    ids=["empty", "torn", "encoding", "deep", "deep and whole", "digits", "rubbish"],
)
def test_what_is_no_json_or_too_much_of_it_is_damage(data: bytes):
    with pytest.raises(DamagedRecord):
        parsed(data)


@pytest.mark.parametrize("data", ["[1]", "null", "5", '"a"'])
def test_what_is_no_object_is_damage_where_one_is_wanted(data: str):
    assert parsed(data) is None or parsed(data)
    with pytest.raises(DamagedRecord, match="not an object"):
        parsed_object(data)

"""Our `dataclass` does what the library's does, for every kind of field and class that we use."""

import ast
import copy
import dataclasses
import inspect
import pickle
from collections.abc import Callable
from dataclasses import field
from pathlib import Path
from typing import Any, ClassVar

import pytest

import trackside
from trackside.quick_dataclass import dataclass

Make = Callable[..., Any]


def point(make: Make) -> Any:
    @make(frozen=True, slots=True)
    class Point:
        x: int
        y: int = 2
        names: list[str] = field(default_factory=list)
        hidden: str = field(default="secret", repr=False, compare=False)
        made: int = field(default=7, init=False)
        many: dict[str, int] = field(default_factory=dict, init=False, hash=False)
        kinds: ClassVar[int] = 3

    return Point


def named(make: Make) -> Any:
    @make(frozen=True, slots=True, kw_only=True)
    class Named:
        """Has words."""

        x: int
        names: tuple[str, ...] = ()

        def __post_init__(self) -> None:
            if self.x < 0:
                raise ValueError("negative")

    return Named


def empty(make: Make) -> Any:
    @make(frozen=True, slots=True)
    class Empty:
        pass

    return Empty


def reported(make: Make) -> Any:
    @make(frozen=True, slots=True)
    class Told:
        one: int

        def __repr__(self) -> str:
            return "mine"

    return Told


@pytest.mark.parametrize(
    ("make", "given", "other"),
    [
        (point, {"x": 1}, {"x": 1, "y": 3}),
        (point, {"x": 1, "names": ["a"], "hidden": "b"}, {"x": 1}),
        (named, {"x": 1}, {"x": 1, "names": ("a",)}),
        (reported, {"one": 1}, {"one": 2}),
    ],
)
def test_records_are_made_compared_and_shown_alike(
    make: Make, given: dict[str, Any], other: dict[str, Any]
):
    ours, theirs = make(dataclass), make(dataclasses.dataclass)
    record = ours(**given)
    assert repr(record) == repr(theirs(**given))
    assert dataclasses.asdict(record) == dataclasses.asdict(theirs(**given))
    assert record == ours(**given)
    assert record != ours(**other)
    assert record != theirs(**given)
    assert copy.copy(record) == record
    assert dataclasses.replace(record, **other) == ours(**{**given, **other})
    assert ours.__match_args__ == theirs.__match_args__
    assert ours.__slots__ == theirs.__slots__
    assert not hasattr(record, "__dict__")
    shown = [
        [(each.name, each.kind) for each in inspect.signature(cls).parameters.values()]
        for cls in (ours, theirs)
    ]
    assert shown[0] == shown[1]


def test_hashes_leave_out_what_the_fields_say():
    of_empty = empty(dataclass)
    assert hash(of_empty()) == hash(of_empty())
    assert of_empty() == of_empty()
    of_named = named(dataclass)
    assert len({of_named(x=1), of_named(x=1), of_named(x=2)}) == 2
    with pytest.raises(TypeError, match="unhashable"):
        hash(point(dataclass)(1))


def test_a_record_is_frozen_and_refuses_what_it_has_not():
    record = named(dataclass)(x=1)
    for name in ("x", "else_"):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(record, name, 2)
    with pytest.raises(dataclasses.FrozenInstanceError):
        del record.x
    for wrong in ({}, {"x": 1, "z": 2}):
        with pytest.raises(TypeError):
            named(dataclass)(**wrong)
    with pytest.raises(TypeError):
        named(dataclass)(1)
    with pytest.raises(ValueError, match="negative"):
        named(dataclass)(x=-1)


def test_records_share_no_default_that_is_made():
    cls = point(dataclass)
    assert cls(1).names is not cls(1).names
    assert cls.kinds == 3


@dataclass(frozen=True, slots=True)
class Kept:
    x: int
    y: str = "b"


def test_records_can_be_pickled():
    assert pickle.loads(pickle.dumps(Kept(1))) == Kept(1)


def test_other_kinds_are_the_librarys():
    @dataclass
    class Open:
        x: int

    @dataclass(frozen=True, slots=True)
    class Longer(Kept):
        z: int = 3

    assert Open(1) == Open(1)
    opened = Open(1)
    opened.x = 2
    assert dataclasses.asdict(Longer(1)) == {"x": 1, "y": "b", "z": 3}
    with pytest.raises(dataclasses.FrozenInstanceError):
        Longer(1).z = 4  # type: ignore[misc]


def test_importing_modules_use_its_dataclass():
    """Where it brings nothing, the library's own is used."""
    source = Path(trackside.__file__).parent
    for path in source.rglob("*.py"):
        text = path.read_text()
        if "from trackside.quick_dataclass import" not in text:
            continue
        tree = ast.parse(text)
        decorators = [
            ast.unparse(each)
            for node in ast.walk(tree)
            if isinstance(node, ast.ClassDef)
            for each in node.decorator_list
        ]
        assert any("frozen=True, slots=True" in each for each in decorators), path

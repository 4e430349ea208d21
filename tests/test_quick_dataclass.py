"""Our `dataclass` does what the library's does, for every kind of field and class that we use."""

import ast
import copy
import dataclasses
import inspect
import pickle
import signal
import subprocess
import sys
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


def test_a_constructor_is_compiled_for_the_first_record_and_used_for_all():
    base = point(dataclass)
    sub = type("Sub", (base,), {})
    assert not inspect.isfunction(base.__dict__["__init__"])
    assert sub(1).y == 2
    made = base.__dict__["__init__"]
    assert inspect.isfunction(made)
    assert base(1, 3).y == 3
    assert base.__dict__["__init__"] is made


def test_a_record_that_is_made_at_exit_does_not_hide_an_interrupt():
    script = """
import atexit
from trackside.quick_dataclass import dataclass

@dataclass(frozen=True, slots=True)
class Point:
    x: int

atexit.register(Point, 1)
raise KeyboardInterrupt
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, timeout=60)
    assert done.returncode == -signal.SIGINT


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


def rule(make: Make) -> Any:
    @make
    class General:
        reported: set[str] = field(default_factory=set, init=False)
        kind: int = field(default=7, init=False)

    @make
    class Special(General):
        x: int = field(default=1, metadata={"doc": "how many"})
        names: list[str] = field(default_factory=list, repr=False)

        def __post_init__(self) -> None:
            self.names.append("made")

    return Special


@pytest.mark.parametrize("given", [{}, {"x": 2, "names": ["a"]}])
def test_rules_are_made_compared_and_shown_alike(given: dict[str, Any]):
    ours, theirs = rule(dataclass), rule(dataclasses.dataclass)
    one, other = (make(**copy.deepcopy(given)) for make in (ours, theirs))
    assert repr(one) == repr(other)
    assert vars(one) == vars(other)
    assert one == ours(**copy.deepcopy(given))
    assert one != ours(x=5)
    one.x, one.reported = 3, {"b"}
    assert dataclasses.replace(one, x=4).x == 4
    assert ours().reported is not ours().reported
    assert ours.__match_args__ == theirs.__match_args__
    assert [each.metadata for each in dataclasses.fields(ours)] == [
        each.metadata for each in dataclasses.fields(theirs)
    ]
    assert str(inspect.signature(ours)).count("=") == str(inspect.signature(theirs)).count("=")
    with pytest.raises(TypeError, match="unhashable"):
        hash(one)


def test_other_kinds_are_the_librarys():
    @dataclass(slots=True)
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
        fitting = ("frozen=True, slots=True" in each or each == "dataclass" for each in decorators)
        assert any(fitting), path

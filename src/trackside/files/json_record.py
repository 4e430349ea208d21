"""Parses JSON into records of declared types, within bounds, from untrusted writers.

Callers handle damage; most use `files/damaged_files.py`.
"""

import json
import types
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import MISSING, asdict, fields, is_dataclass
from enum import Enum
from functools import cache
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

FORMAT = 1
"""The version of a job's records, which is the member `format` of each: docs/job-folder.md. A
record without it has version 1."""
T = TypeVar("T")
Convert = Callable[[Any], Any]

INT_MOST = 2**63 - 1
MOMENT_END = 253402300800.0
"""The year 10000, beyond Python's calendars."""
_IS_MOMENT = "seconds since the epoch"
Moment = Annotated[float, _IS_MOMENT]
"""A float that is also a representable time."""


class DamagedRecord(ValueError):
    """Not a valid record; the message says what is wrong, for a log."""


class NewerFormat(DamagedRecord):
    """A later version of Trackside wrote it, and means something else by its members."""

    def __init__(self, number: int) -> None:
        super().__init__(
            f"it is of format {number}, and this version of Trackside reads formats up to "
            f"{FORMAT}; install a newer one"
        )


def parsed(data: bytes | str) -> Any:
    """Any JSON value. Excessive nesting and numbers count as damage too."""
    try:
        return json.loads(data)
    except RecursionError:
        raise DamagedRecord("it is nested too deeply") from None
    except ValueError as error:
        raise DamagedRecord(f"it is not JSON ({error})") from None


def parsed_object(data: bytes | str) -> dict[str, Any]:
    found = parsed(data)
    if not isinstance(found, dict):
        raise DamagedRecord(f"it is not an object but {_shown(found)}")
    return found


def numbered(record: "DataclassInstance") -> dict[str, Any]:
    """A record as it is written."""
    return {"format": FORMAT, **asdict(record)}


def check_format(data: Any) -> None:
    """`NewerFormat` if this version cannot read it."""
    if isinstance(data, Mapping) and "format" in data:
        number = _integer(data["format"])
        if number > FORMAT:
            raise NewerFormat(number)


def numbered_record(kind: type[T], data: Any) -> T:
    """A dataclass from what `numbered` and JSON made of one; `NewerFormat` of a later format."""
    check_format(data)
    return record(kind, data)


def record(kind: type[T], data: Any) -> T:
    """A dataclass from what `asdict` and JSON made of one, each field of its declared type.

    Unknown fields are ignored; a later version may have written them.
    """
    if not isinstance(data, Mapping):
        raise DamagedRecord(f"it is not an object but {_shown(data)}")
    values = {}
    for name, convert, is_required in _members(cast(Hashable, kind)):
        if name in data:
            try:
                values[name] = convert(data[name])
            except DamagedRecord as error:
                raise DamagedRecord(f"{name}: {error}") from None
        elif is_required:
            raise DamagedRecord(f"{name} is missing")
    return kind(**values)


@cache
def _members(kind: Any) -> tuple[tuple[str, Convert, bool], ...]:
    """Name, conversion and whether it is required, of each field."""
    hints = get_type_hints(kind, include_extras=True)
    return tuple(
        (
            each.name,
            _conversion(hints[each.name]),
            each.default is MISSING and each.default_factory is MISSING,
        )
        for each in fields(kind)
        if each.init
    )


def _conversion(hint: Any) -> Convert:
    origin, arguments = get_origin(hint), get_args(hint)
    if hint is Any:
        return lambda value: value
    if origin is Annotated:
        return _moment if _IS_MOMENT in arguments[1:] else _conversion(arguments[0])
    if origin in (Union, types.UnionType):
        return _one_of([_conversion(each) for each in arguments])
    if origin is not None:
        return _container(origin, arguments)
    if is_dataclass(hint):
        kind: Any = hint
        return lambda value: record(kind, value)
    if issubclass(hint, Enum):
        return lambda value: _member_of(hint, value)
    return _PLAIN[hint]


def _container(origin: Any, arguments: tuple[Any, ...]) -> Convert:
    if issubclass(origin, Mapping):
        of_value = _conversion(arguments[1])
        return lambda value: _mapping(value, of_value)
    if origin is tuple and arguments[-1] is not Ellipsis:
        parts = [_conversion(each) for each in arguments]
        return lambda value: _parts(value, parts)
    make = tuple if origin is tuple else list
    of_item = _conversion(arguments[0])
    assert issubclass(origin, Sequence), origin
    return lambda value: make(of_item(each) for each in _list(value))


def _mapping(value: Any, of_value: Convert) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _wrong(value, "an object")
    return {_text(key): of_value(each) for key, each in value.items()}


def _parts(value: Any, parts: list[Convert]) -> tuple[Any, ...]:
    if len(_list(value)) != len(parts):
        raise _wrong(value, f"a list of {len(parts)}")
    return tuple(convert(each) for convert, each in zip(parts, value, strict=True))


def _one_of(conversions: list[Convert]) -> Convert:
    def convert(value: Any) -> Any:
        errors = []
        for each in conversions:
            try:
                return each(value)
            except DamagedRecord as error:
                errors.append(error)
        raise errors[0]

    return convert


def _member_of(kind: type[Enum], value: Any) -> Enum:
    try:
        return kind(value)
    except ValueError:
        raise _wrong(value, f"one of {', '.join(str(each.value) for each in kind)}") from None


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise _wrong(value, "a list")
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise _wrong(value, "a text")
    return value


def _integer(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or abs(value) > INT_MOST:
        raise _wrong(value, "a whole number")
    return value


def _real(value: Any) -> float:
    if isinstance(value, float):
        return value
    return float(_integer(value))


def _moment(value: Any) -> float:
    moment = _real(value)
    if not 0 <= moment < MOMENT_END:
        raise _wrong(value, "a time")
    return moment


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise _wrong(value, "true or false")
    return value


def _nothing(value: Any) -> None:
    if value is not None:
        raise _wrong(value, "null")


_PLAIN: dict[Any, Convert] = {
    str: _text,
    int: _integer,
    float: _real,
    bool: _flag,
    type(None): _nothing,
}


def _wrong(value: Any, expected: str) -> DamagedRecord:
    return DamagedRecord(f"{_shown(value)} is not {expected}")


def _shown(value: Any) -> str:
    """A few characters of it, however large it is."""
    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else "a list"
    if isinstance(value, int) and abs(value) > INT_MOST:
        return "a huge number"
    return repr(value[:40] if isinstance(value, str) else value)

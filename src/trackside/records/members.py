"""Declares a request's members on a dataclass, reads them from JSON, checks them and writes them
back.

`records/spec.py` declares what a job may request; this module knows only shapes and constraints.
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, Field, field, fields
from typing import Any, TypeVar, cast

from trackside.errors import UnknownMember, Violation
from trackside.quick_dataclass import dataclass
from trackside.texts.secret_names import MASK, looks_secret

T = TypeVar("T")
_found: "dict[type, list[tuple[Field[Any], Member]]]" = {}
"""Members by class, collected once."""
_split: "dict[type, list[list[str]]]" = {}
"""Their paths."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """One member of the wire format. `path` is dotted where that nests deeper than ours."""

    path: str
    kind: type
    """str, int, float, bool, dict (string to string), tuple (of `of`) or a dataclass of members."""
    of: type | None = None
    pattern: str = ""
    says: str = ""
    """The pattern in words, for the error message."""
    least: int | None = None
    most: int | None = None
    """Limits: of an int its value, of a string its length, of a dict or tuple its count."""
    choices: tuple[str, ...] = ()
    key_pattern: str = ""
    key_most: int = 0
    value_most: int = 0


def member(path: str, kind: type = str, *, default: Any = MISSING, **constraints: Any) -> Any:
    """A dataclass field that is one member of the request."""
    metadata = {"member": Member(path=path, kind=kind, **constraints)}
    if default is dict:
        return field(default_factory=dict, metadata=metadata)
    return field(default=default, metadata=metadata)


def read(cls: type[T], data: Any, where: str, violations: list[Violation]) -> T | None:
    """Build `cls` from its wire format, adding every violation found.

    An invalid member keeps its default, so that checks across members are still possible; the
    result is unusable once `violations` has an entry. None when `data` is not an object.
    """
    if not isinstance(data, Mapping):
        violations.append(Violation(where or "request", data, "must be an object"))
        return None
    members = _members(cls)
    _reject_unknown(data, _paths(cls), where, violations)
    values: dict[str, Any] = {}
    for declared, spec in members:
        value = _dig(data, spec.path)
        if value is None and declared.default is not MISSING:
            continue
        here = f"{where}.{spec.path}" if where else spec.path
        required = declared.default is MISSING and declared.default_factory is MISSING
        if value is None:
            if required:
                violations.append(Violation(here, None, "is required", constraint="required"))
                values[declared.name] = None
            continue
        found = len(wrong(violations))
        value = _read_value(spec, value, here, violations)
        if len(wrong(violations)) == found or required:
            values[declared.name] = value
    return cls(**values)


def wrong(violations: Sequence[Violation]) -> list[Violation]:
    """Without members that are not known: who reads what a later version wrote ignores them."""
    return (
        [each for each in violations if not isinstance(each, UnknownMember)] if violations else []
    )


def write(record: Any) -> dict[str, Any]:
    """The wire format; empty members are left out."""
    out: dict[str, Any] = {}
    for declared, spec in _members(type(record)):
        value = getattr(record, declared.name)
        if value is None or value in ({}, ()):
            continue
        if spec.kind is tuple:
            value = [write(item) if hasattr(item, "__slots__") else item for item in value]
        elif spec.kind is dict:
            value = dict(value)
        elif spec.kind not in (str, int, float, bool):
            value = write(value)
        *parents, last = spec.path.split(".")
        inner = out
        for parent in parents:
            inner = inner.setdefault(parent, {})
        inner[last] = value
    return out


def _members(cls: type) -> list[tuple[Field[Any], Member]]:
    if cls not in _found:
        declared = fields(cast(Any, cls))
        _found[cls] = [(f, f.metadata["member"]) for f in declared if "member" in f.metadata]
    return _found[cls]


def _paths(cls: type) -> list[list[str]]:
    if cls not in _split:
        _split[cls] = [spec.path.split(".") for _, spec in _members(cls)]
    return _split[cls]


def _dig(data: Mapping[str, Any], path: str) -> Any:
    if "." not in path:
        return data.get(path)
    value: Any = data
    for part in path.split("."):
        if not isinstance(value, Mapping):
            return None
        value = value.get(part)
    return value


def _reject_unknown(
    data: Mapping[str, Any], paths: list[list[str]], where: str, violations: list[Violation]
) -> None:
    heads = sorted({path[0] for path in paths})
    for key, value in data.items():
        here = f"{where}.{key}" if where else str(key)
        if key not in heads:
            known = ", ".join(heads)
            violations.append(UnknownMember(here, value, f"is not known; known: {known}"))
            continue
        deeper = [path[1:] for path in paths if path[0] == key and len(path) > 1]
        if not deeper or value is None:
            continue
        if isinstance(value, Mapping):
            _reject_unknown(value, deeper, here, violations)
        else:
            violations.append(Violation(here, value, "must be an object"))


def _read_value(spec: Member, value: Any, here: str, violations: list[Violation]) -> Any:
    if spec.kind is str:
        return _read_text(spec, value, here, violations)
    if spec.kind is int:
        return _read_number(spec, value, here, violations)
    if spec.kind is float:
        return _read_real(spec, value, here, violations)
    if spec.kind is bool:
        if not isinstance(value, bool):
            violations.append(Violation(here, value, "must be true or false"))
        return value
    if spec.kind is dict:
        return _read_map(spec, value, here, violations)
    if spec.kind is tuple:
        return _read_list(spec, value, here, violations)
    return read(spec.kind, value, here, violations)


def _read_text(spec: Member, value: Any, here: str, violations: list[Violation]) -> Any:
    if not isinstance(value, str):
        violations.append(Violation(here, value, f"must be a string; write {_quoted(value)}"))
    elif "\0" in value:
        violations.append(Violation(here, value, "must not contain a NUL character"))
    elif spec.choices and value not in spec.choices:
        known = ", ".join(spec.choices)
        constraint = f"Member must satisfy enum value set: [{known}]"
        violations.append(Violation(here, value, f"must be one of {known}", constraint=constraint))
    elif spec.pattern and not re.fullmatch(spec.pattern, value):
        constraint = f"Member must satisfy regular expression pattern: {spec.pattern}"
        advice = f"must be {spec.says or 'of the form ' + spec.pattern}"
        violations.append(Violation(here, value, advice, constraint=constraint))
    else:
        _check_size(spec, value, len(value), "characters", here, violations)
    return value


def _read_number(spec: Member, value: Any, here: str, violations: list[Violation]) -> Any:
    if not isinstance(value, int) or isinstance(value, bool):
        violations.append(Violation(here, value, "must be a whole number"))
    else:
        _check_size(spec, value, value, "", here, violations)
    return value


def _read_real(spec: Member, value: Any, here: str, violations: list[Violation]) -> Any:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not math.isfinite(value):
        violations.append(Violation(here, value, "must be a number"))
    else:
        _check_size(spec, value, value, "", here, violations)
    return value


def _read_map(spec: Member, value: Any, here: str, violations: list[Violation]) -> Any:
    if not isinstance(value, Mapping):
        violations.append(Violation(here, value, "must be an object of strings"))
        return value
    _check_size(spec, value, len(value), "entries", here, violations)
    for key, item in value.items():
        at = f"{here}.{key}"
        if spec.key_pattern and not re.fullmatch(spec.key_pattern, str(key)):
            violations.append(Violation(at, key, f"name must match {spec.key_pattern}"))
        if spec.key_most and len(str(key)) > spec.key_most:
            violations.append(Violation(at, key, f"name has over {spec.key_most} characters"))
        shown = MASK if looks_secret(str(key)) else item
        if not isinstance(item, str):
            advice = f"must be a string on the wire; write {_quoted(shown)}"
            violations.append(Violation(at, shown, advice))
        elif "\0" in item:
            violations.append(Violation(at, shown, "must not contain a NUL character"))
        elif spec.value_most and len(item) > spec.value_most:
            violations.append(Violation(at, shown, f"has over {spec.value_most} characters"))
    return dict(value)


def _read_list(spec: Member, value: Any, here: str, violations: list[Violation]) -> Any:
    if isinstance(value, str) or not isinstance(value, Sequence):
        violations.append(Violation(here, value, "must be a list"))
        return value
    _check_size(spec, value, len(value), "entries", here, violations)
    items: list[Any] = []
    for index, item in enumerate(value):
        at = f"{here}[{index}]"
        if spec.of is None:
            if not isinstance(item, str):
                violations.append(Violation(at, item, f"must be a string; write {_quoted(item)}"))
            elif "\0" in item:
                violations.append(Violation(at, item, "must not contain a NUL character"))
            items.append(item)
        else:
            items.append(read(spec.of, item, at, violations))
    return tuple(items)


def _check_size(
    spec: Member, value: Any, size: float, unit: str, here: str, violations: list[Violation]
) -> None:
    shown = f" {unit}" if unit else ""
    what = "length" if unit else "value"
    if spec.least is not None and size < spec.least:
        constraint = f"Member must have {what} greater than or equal to {spec.least}"
        advice = f"must be at least {spec.least}{shown}"
        violations.append(Violation(here, value, advice, constraint=constraint))
    if spec.most is not None and size > spec.most:
        constraint = f"Member must have {what} less than or equal to {spec.most}"
        advice = f"must be at most {spec.most}{shown}"
        violations.append(Violation(here, value, advice, constraint=constraint))


def _quoted(value: Any) -> str:
    text = {True: "true", False: "false"}.get(value, value) if isinstance(value, bool) else value
    return f'"{text}"'

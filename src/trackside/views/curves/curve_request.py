"""Requests for points of curves and of groups, as the page sends them."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from trackside.errors import InvalidCurveRequest

MOST_CURVES = 2000
MOST_COLUMNS = 20_000
MOST_GROUPS = 200
OF_CURVE = "curve:"
"""Begins an x that is another curve of the same job; its id follows."""
_AXES = ("step", "time", "relative")


@dataclass(frozen=True, slots=True)
class CurveRef:
    job: str
    id: str


@dataclass(frozen=True, slots=True)
class View:
    """What of a curve is shown: x, its range, and the number of columns."""

    points: int
    x: str = "step"
    start: float | None = None
    end: float | None = None

    @classmethod
    def from_json(cls, request: Mapping[str, Any]) -> "View":
        """`InvalidCurveRequest` names what is wrong."""
        x, points = request.get("x", "step"), request.get("points")
        if x not in _AXES and not (isinstance(x, str) and x.startswith(OF_CURVE)):
            known = ", ".join([*_AXES, "curve:ID"])
            raise InvalidCurveRequest(f"x = {x!r} is no axis. Known: {known}.")
        if type(points) is not int or not 1 <= points <= MOST_COLUMNS:
            raise InvalidCurveRequest(
                f"points = {points!r} is no number of columns. Give 1 to {MOST_COLUMNS:,}."
            )
        start, end = (_number(request, name) for name in ("from", "to"))
        if start is not None and end is not None and start > end:
            raise InvalidCurveRequest(f"from = {start} is greater than to = {end}. Exchange them.")
        return cls(points, x, start, end)


@dataclass(frozen=True, slots=True)
class SeriesRequest:
    curves: tuple[CurveRef, ...]
    view: View

    @classmethod
    def from_json(cls, request: Any) -> "SeriesRequest":
        """`InvalidCurveRequest` names what is wrong."""
        if not isinstance(request, Mapping):
            raise InvalidCurveRequest("The request is no object. Give {curves, x, points}.")
        return cls(curve_refs(request.get("curves")), View.from_json(request))


@dataclass(frozen=True, slots=True)
class GroupRequest:
    groups: tuple[tuple[str, tuple[CurveRef, ...]], ...]
    """Key and curves of each."""
    view: View

    @classmethod
    def from_json(cls, request: Any) -> "GroupRequest":
        """`InvalidCurveRequest` names what is wrong."""
        if not isinstance(request, Mapping):
            raise InvalidCurveRequest("The request is no object. Give {groups, x, points}.")
        given = request.get("groups")
        if not isinstance(given, list) or len(given) > MOST_GROUPS:
            raise InvalidCurveRequest(
                f"groups is no list of at most {MOST_GROUPS} {{key, curves}}."
            )
        return cls(tuple(_group(each) for each in given), View.from_json(request))


def curve_refs(given: Any) -> tuple[CurveRef, ...]:
    if not isinstance(given, list) or len(given) > MOST_CURVES:
        raise InvalidCurveRequest(f"curves is no list of at most {MOST_CURVES:,} {{job, id}}.")
    return tuple(_ref(each) for each in given)


def _group(given: Any) -> tuple[str, tuple[CurveRef, ...]]:
    key = given.get("key") if isinstance(given, Mapping) else None
    if not isinstance(key, str):
        raise InvalidCurveRequest(f"{given!r} is no group. Give {{key, curves}}, the key a text.")
    return key, curve_refs(given.get("curves"))


def _ref(given: Any) -> CurveRef:
    job, identity = (
        (given.get("job"), given.get("id")) if isinstance(given, Mapping) else (None, None)
    )
    if not isinstance(job, str) or not isinstance(identity, str):
        raise InvalidCurveRequest(f"{given!r} names no curve. Give {{job, id}}, both texts.")
    return CurveRef(job, identity)


def _number(request: Mapping[str, Any], name: str) -> float | None:
    given = request.get(name)
    if given is None:
        return None
    if isinstance(given, bool) or not isinstance(given, int | float) or not _is_finite(given):
        raise InvalidCurveRequest(f"{name} = {given!r} is not a finite number.")
    return float(given)


def _is_finite(number: float) -> bool:
    try:
        return math.isfinite(number)
    except OverflowError:  # an integer that is too large for a float
        return False

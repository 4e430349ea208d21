"""The figures of one job's curves, and the same metric of many jobs side by side. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trackside.curves.curve_points import CurvePoints
    from trackside.views.curves.curve_list import CurveInfo

MOST_METRICS = 2000
MOST_AT_STEP = 20_000
"""Curves of which the value at a step is read."""


@dataclass(frozen=True, slots=True)
class ComparedCurve:
    """The page knows these by their order."""

    name: str
    id: str
    more_is_better: bool
    last: float
    best: float
    min: float
    max: float
    at: float | None


@dataclass(frozen=True, slots=True)
class ComparedMetric:
    name: str
    more_is_better: bool
    last: list[float | None]
    best: list[float | None]
    min: list[float | None]
    max: list[float | None]
    at: list[float | None]
    ids: list[str | None]


def compared_curve(info: "CurveInfo", at: float | None) -> ComparedCurve:
    figures = (info.last, info.best, info.min, info.max)
    return ComparedCurve(info.name, info.id, info.more_is_better, *figures, at)


def compared_metrics(curves: Sequence[Sequence[ComparedCurve]]) -> list[ComparedMetric]:
    """In the order of the first job that has each."""
    by_name = [{each.name: each for each in of_job} for of_job in curves]
    metrics = list(dict.fromkeys(name for of_job in by_name for name in of_job))[:MOST_METRICS]
    return [_metric(name, [of_job.get(name) for of_job in by_name]) for name in metrics]


def _metric(name: str, held: Sequence[ComparedCurve | None]) -> ComparedMetric:
    first = next(one for one in held if one is not None)
    return ComparedMetric(
        name,
        first.more_is_better,
        [one.last if one else None for one in held],
        [one.best if one else None for one in held],
        [one.min if one else None for one in held],
        [one.max if one else None for one in held],
        [one.at if one else None for one in held],
        [one.id if one else None for one in held],
    )


def last_up_to(points: "CurvePoints", step: int) -> float | None:
    found = None
    for piece in points.pieces:
        count = piece.steps.num_up_to(step)
        if count:
            found = float(piece.values[count - 1])
    return found

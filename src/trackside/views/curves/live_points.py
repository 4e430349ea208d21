"""New points of some curves, each time it is polled: for what is on the screen and nothing else."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from trackside.curves.columns import Integers
from trackside.curves.curve_points import LEAST_THINNED, CurvePoints
from trackside.errors import CurveNotFound, TracksideError
from trackside.views.curves.binary_frame import number_name
from trackside.views.curves.curve_list import is_vital_id

if TYPE_CHECKING:
    from trackside.views.curves.curve_request import CurveRef
    from trackside.views.curves.job_curves import State
    from trackside.views.curves.series import CurveReader

MOST_COLUMNS = 1000
"""More new points of a curve at once are thinned to this many columns, extremes kept."""
_NUM_MARKS = 64
_SAME, _RUNS, _CHANGED = range(3)
_UNREADABLE = (TracksideError, OSError)


@dataclass(frozen=True, slots=True)
class NewPoints:
    job: str
    id: str
    steps: list[int]
    times: list[float]
    values: list[float]
    replaces: bool = False
    """The script went back to an earlier step: all points from `steps[0]` on are replaced."""

    def as_json(self) -> dict[str, Any]:
        item = {
            "job": self.job,
            "id": self.id,
            "x": self.steps,
            "t": [number_name(time) for time in self.times],
            "y": [number_name(value) for value in self.values],
        }
        return {**item, "replace": True} if self.replaces else item


@dataclass(frozen=True, slots=True)
class _Seen:
    """How many points were there, and a few of them: to notice when points were replaced."""

    count: int
    marks: list[tuple[int, int, float]]
    """Index, step and time."""

    @classmethod
    def of(cls, points: CurvePoints) -> "_Seen":
        count = len(points)
        at = np.unique(np.linspace(0, max(count - 1, 0), _NUM_MARKS).astype(np.int64))[:count]
        columns = (at, points.steps_at(at), points.times_at(at))
        return cls(count, [*zip(*(column.tolist() for column in columns), strict=True)])

    def num_kept(self, points: CurvePoints) -> int:
        """How many of the points seen are certainly still there."""
        at = np.array([mark[0] for mark in self.marks if mark[0] < len(points)], np.int64)
        columns = (points.steps_at(at), points.times_at(at))
        found = [*zip(*(column.tolist() for column in columns), strict=True)]
        same = sum(1 for mark, now in zip(self.marks, found, strict=False) if mark[1:] == now)
        if same == len(self.marks):
            return self.count
        return self.marks[same - 1][0] + 1 if same else 0


class LivePoints:
    """Begins with what is there when it is made. Not thread-safe."""

    def __init__(self, reader: "CurveReader", subscriptions: Iterable["CurveRef"]) -> None:
        self._reader = reader
        self._seen: dict[CurveRef, _Seen | None] = dict.fromkeys(subscriptions)
        self._states: dict[str, State] = {}
        self.poll()

    def poll(self) -> list[NewPoints]:
        """What was added since the last call. A job that has finished is read one last time."""
        jobs = {job: self._change(job) for job in {ref.job for ref in self._seen}}
        found: list[NewPoints] = []
        for ref in self._seen:
            is_due = jobs[ref.job] >= (_RUNS if is_vital_id(ref.id) else _CHANGED)
            if is_due and (new := self._new(ref)) is not None:
                found.append(new)
        return found

    def _change(self, job: str) -> int:
        """Whether event files have changed; vitals are looked at while a job runs."""
        try:
            state = self._reader.job(job).state()
        except _UNREADABLE:  # deleted, or not within reach for a moment
            return _SAME
        known = self._states.get(job)
        self._states[job] = state
        if state != known:
            return _CHANGED
        return _SAME if state.is_final else _RUNS

    def _new(self, ref: "CurveRef") -> NewPoints | None:
        try:
            points = self._reader.points(ref)
        except CurveNotFound:
            self._seen[ref] = _Seen(0, [])  # it may begin later
            return None
        except _UNREADABLE:
            self._states.pop(ref.job, None)  # not within reach for a moment: look again
            return None
        seen = self._seen[ref]
        self._seen[ref] = _Seen.of(points)
        if seen is None:
            return None
        kept = seen.num_kept(points)
        if kept == seen.count:
            return _points(ref, points, kept, replaces=False) if len(points) > kept else None
        # Points of one step stay together.
        step = points.steps_at(np.array([kept]))
        return _points(ref, points, int(points.num_steps_below(step)[0]), replaces=True)


def _points(ref: "CurveRef", points: CurvePoints, first: int, *, replaces: bool) -> NewPoints:
    at = _drawn(points, first)
    return NewPoints(
        ref.job,
        ref.id,
        points.steps_at(at).tolist(),
        points.times_at(at).tolist(),
        points.values_at(at).tolist(),
        replaces,
    )


def _drawn(points: CurvePoints, first: int) -> Integers:
    count = len(points) - first
    if count <= LEAST_THINNED * MOST_COLUMNS:
        return np.arange(first, len(points))
    return points.chosen(np.linspace(first, len(points), MOST_COLUMNS + 1).astype(np.int64))

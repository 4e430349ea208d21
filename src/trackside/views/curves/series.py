"""Points of curves for charts: thinned in columns of the requested range, whatever else is shown.

`CurveReader` answers for all jobs; `curves/curve_points.py` chooses the points.
"""

import csv
import io
import math
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np

from trackside.curves.columns import Reals
from trackside.curves.curve_points import CurvePoints, Thinned, by_time, over, thinned
from trackside.curves.series_store import SeriesStore
from trackside.errors import TracksideError
from trackside.views.comparison.groups import GroupItem, group_items
from trackside.views.curves.curve_list import CurveInfo
from trackside.views.curves.curve_request import OF_CURVE
from trackside.views.curves.curve_request import CurveRef as CurveRef
from trackside.views.curves.curve_request import GroupRequest as GroupRequest
from trackside.views.curves.curve_request import SeriesRequest as SeriesRequest
from trackside.views.curves.curve_request import View as View
from trackside.views.curves.job_curves import JobCurves
from trackside.views.curves.live_points import LivePoints

if TYPE_CHECKING:
    from trackside.jobs.job_service import JobReader

MOST_JOBS = 256
"""Whose curves are kept open."""
NUM_THREADS = 2
"""Reading event files is mostly work of C code, which runs beside other threads."""
_CSV_ROWS = 4096


@dataclass(frozen=True, slots=True)
class SeriesItem:
    """`error` says why there are no points."""

    job: str
    id: str
    total: int = 0
    thinned: bool = False
    first: float = math.nan
    last: float = math.nan
    x: Reals = field(default_factory=lambda: np.empty(0))
    y: Reals = field(default_factory=lambda: np.empty(0))
    error: str = ""

    def as_frame_item(self) -> dict[str, Any]:
        item = {
            "job": self.job,
            "id": self.id,
            "total": self.total,
            "thinned": self.thinned,
            "first": self.first,
            "last": self.last,
            "arrays": {"x": self.x, "y": self.y},
        }
        return {**item, "error": self.error} if self.error else item


class CurveReader:
    """The curves of all jobs. May be used by several threads."""

    def __init__(self, jobs: "JobReader") -> None:
        self._jobs = jobs
        settings = jobs.settings
        self._store = SeriesStore(settings.layout, settings.series_gb * 1e9)
        self._lock = Lock()
        self._open: OrderedDict[str, JobCurves] = OrderedDict()
        self._pool = ThreadPoolExecutor(NUM_THREADS, thread_name_prefix="trackside-series")

    def close(self) -> None:
        self._pool.shutdown(cancel_futures=True)

    def job(self, name: str) -> JobCurves:
        with self._lock:
            if name not in self._open:
                self._open[name] = JobCurves(self._jobs, name, self._store)
                while len(self._open) > MOST_JOBS:
                    self._open.popitem(last=False)
            self._open.move_to_end(name)
            return self._open[name]

    def curves(self, job: str, *, vitals: bool = True) -> list[CurveInfo]:
        """Every curve of a job. `JobNotFound` for an unknown name."""
        return self.job(job).list(vitals=vitals)

    def series(self, request: SeriesRequest) -> Iterator[SeriesItem]:
        """An item for each curve, as soon as it is ready; the order is not that of the request."""
        by_job: dict[str, list[CurveRef]] = {}
        for ref in dict.fromkeys(request.curves):
            by_job.setdefault(ref.job, []).append(ref)
        if len(by_job) == 1:
            yield from self._items([*by_job.values()][0], request.view)
            return
        futures = [self._pool.submit(self._items, each, request.view) for each in by_job.values()]
        try:
            for future in as_completed(futures):
                yield from future.result()
        finally:
            for future in futures:
                future.cancel()

    def points(self, ref: CurveRef) -> CurvePoints:
        return self.job(ref.job).points(ref.id)

    def points_over(self, ref: CurveRef, x: str) -> tuple[Reals, Reals]:
        """All points of a curve as x, ascending, and values."""
        curves = self.job(ref.job)
        points = curves.points(ref.id)
        if x.startswith(OF_CURVE):
            points = joined(points, curves.points(x.removeprefix(OF_CURVE)))
        if x != "step" and not points.is_timed:
            points = by_time(points)
        if x == "step":
            found = points.steps().astype(np.float64)
        else:
            found = points.times() - (curves.zero() if x == "relative" else 0.0)
        values = np.array(points.values())
        curves.release()
        return found, values

    def groups(self, request: GroupRequest) -> Iterator[GroupItem]:
        """An item for each group."""
        return group_items(request, self.points_over)

    def live(self, subscriptions: Iterable[CurveRef]) -> LivePoints:
        return LivePoints(self, subscriptions)

    def csv(self, ref: CurveRef) -> Iterator[str]:
        """Every point of a curve as lines of text, with a heading."""
        return csv_lines(self.points(ref))

    def _items(self, refs: Sequence[CurveRef], view: View) -> list[SeriesItem]:
        """Of one job."""
        curves = self.job(refs[0].job)
        found = [self._item(curves, ref, view) for ref in refs]
        curves.release()
        return found

    def _item(self, curves: JobCurves, ref: CurveRef, view: View) -> SeriesItem:
        try:
            found = shown(curves, ref.id, view)
        except (TracksideError, OSError) as error:
            return SeriesItem(ref.job, ref.id, error=str(error))
        parts = (found.total, found.is_thinned, found.first, found.last, found.x, found.y)
        return SeriesItem(ref.job, ref.id, *parts)


def shown(curves: JobCurves, identity: str, view: View) -> Thinned:
    points = curves.points(identity)
    if view.x.startswith(OF_CURVE):
        other = curves.points(view.x.removeprefix(OF_CURVE))
        points, axis, zero = joined(points, other), "time", 0.0
    else:
        axis, zero = view.x, curves.zero() if view.x == "relative" else 0.0
    return thinned(points, axis, view.points, view.start, view.end, zero)


def joined(points: CurvePoints, other: CurvePoints) -> CurvePoints:
    """The points over the other curve's value at the same step, ordered by it; without those whose
    step the other lacks. Of several values at one step, the last counts as x.
    """
    steps, known, values = points.steps(), other.steps(), other.values()
    if not len(known):
        return CurvePoints([])
    at = np.searchsorted(known, steps, side="right") - 1
    x = values[np.maximum(at, 0)]
    fits = (at >= 0) & (known[np.maximum(at, 0)] == steps) & np.isfinite(x)
    x, y = x[fits], points.values()[fits]
    order = np.argsort(x, kind="stable")
    return over(x[order], y[order])


def csv_lines(points: CurvePoints) -> Iterator[str]:
    yield "step,time,value\n"
    for start in range(0, len(points), _CSV_ROWS):
        at = np.arange(start, min(start + _CSV_ROWS, len(points)))
        columns = (points.steps_at(at), points.times_at(at), points.values_at(at))
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerows(zip(*(column.tolist() for column in columns), strict=True))
        yield text.getvalue()

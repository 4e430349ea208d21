"""Several curves as one: mean, spread and extremes at every step, over all points of all of them.

A curve counts at each x between its first and its last point: with its own value where it has one,
else with the value on the straight line between its neighbours. Values that are not finite do not
count. The result depends only on the curves, the range and the number of columns.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from trackside.curves.columns import Integers, Reals
from trackside.curves.curve_points import LEAST_THINNED
from trackside.curves.levels import distinct, extremes
from trackside.errors import TracksideError
from trackside.views.curves.curve_request import CurveRef, GroupRequest, View

Read = Callable[[], tuple[Reals, Reals]]
"""All points of a curve: x, ascending, and values."""
ReadOver = Callable[[CurveRef, str], tuple[Reals, Reals]]
"""The same for a curve and what is x."""
MOST_X = 1 << 21
"""Different x of a group. With more, as with the times of many curves, the range has this many
equal cells, and a curve counts in a cell with the mean of its points there."""


@dataclass(frozen=True, slots=True)
class Merged:
    """Arrays of one length; x ascends."""

    x: Reals
    mean: Reals
    low: Reals
    """The mean less one standard deviation (of the curves that count there, divided by their
    number); `high` is the mean plus one."""
    high: Reals
    min: Reals
    max: Reals

    def at(self, indices: Integers) -> "Merged":
        return Merged(*(getattr(self, name)[indices] for name in NAMES))


NAMES = ("x", "mean", "low", "high", "min", "max")


@dataclass(frozen=True, slots=True)
class GroupItem:
    key: str
    total: int
    """Different x in the range."""
    thinned: bool
    num_curves: int
    merged: Merged
    errors: tuple[str, ...] = ()
    """Why curves are missing in it."""

    def as_frame_item(self) -> dict[str, Any]:
        return {
            "key": self.key,
            "total": self.total,
            "thinned": self.thinned,
            "curves": self.num_curves,
            "errors": list(self.errors),
            "arrays": {name: getattr(self.merged, name) for name in NAMES},
        }


def group_items(request: GroupRequest, read: ReadOver) -> Iterator[GroupItem]:
    """An item for each group, in the order of the request."""
    for key, refs in request.groups:
        yield _item(read, key, refs, request.view)


def merged(curves: Sequence[Read], most: int = MOST_X) -> Merged:
    """Each is read twice, so that no more than one is in memory at a time."""
    every = _EveryX(most)
    for read in curves:
        every.add(_counting(read())[0])
    return _merged(curves, every)


def thinned(whole: Merged, view: View) -> tuple[Merged, int, bool]:
    """What of it is drawn in the columns of a view: of each column first and last, the extremes of
    the mean, and the outermost of the spread and of all. Also how many x the range has.
    """
    if not len(whole.x):
        return whole, 0, False
    start = whole.x[0] if view.start is None else view.start
    end = whole.x[-1] if view.end is None else view.end
    edges = start + (end - start) * (np.arange(view.points) / view.points)
    last = np.searchsorted(whole.x, end, side="right")
    bounds = np.append(np.searchsorted(whole.x, edges), last)
    total = int(bounds[-1] - bounds[0])
    around = np.array([bounds[0] - 1, bounds[-1]])
    around = around[(around >= 0) & (around < len(whole.x))]
    if total <= LEAST_THINNED * view.points:
        return whole.at(np.union1d(np.arange(bounds[0], bounds[-1]), around)), total, False
    return whole.at(np.union1d(_chosen(whole, bounds), around)), total, True


class _Total:
    """Running mean and spread: no more than one curve is in memory besides it."""

    def __init__(self, count: int) -> None:
        self._number = np.zeros(count)
        self._mean = np.zeros(count)
        self._squares = np.zeros(count)
        self._least = np.full(count, np.inf)
        self._greatest = np.full(count, -np.inf)

    def add(self, first: int, values: Reals) -> None:
        """Values from the x of this index on."""
        at = slice(first, first + len(values))
        self._number[at] += 1
        apart = values - self._mean[at]
        self._mean[at] += apart / self._number[at]
        self._squares[at] += apart * (values - self._mean[at])
        np.minimum(self._least[at], values, out=self._least[at])
        np.maximum(self._greatest[at], values, out=self._greatest[at])

    def finished(self, x: Reals) -> Merged:
        """Without the x at which no curve counts: those between curves that lie apart."""
        has_some = self._number > 0
        spread = np.sqrt(self._squares[has_some] / self._number[has_some])
        mean = self._mean[has_some]
        least, greatest = self._least[has_some], self._greatest[has_some]
        return Merged(x[has_some], mean, mean - spread, mean + spread, least, greatest)


def _item(read: ReadOver, key: str, refs: Sequence[CurveRef], view: View) -> GroupItem:
    """The order in which curves were named changes nothing."""
    curves: list[Read] = []
    errors: list[str] = []
    every = _EveryX(MOST_X)
    for ref in sorted(set(refs), key=lambda ref: (ref.job, ref.id)):
        try:
            every.add(_counting(read(ref, view.x))[0])
        except (TracksideError, OSError) as error:
            errors.append(str(error))
        else:
            curves.append(partial(read, ref, view.x))
    drawn, total, is_thinned = thinned(_merged(curves, every), view)
    return GroupItem(key, total, is_thinned, len(curves), drawn, tuple(errors))


def _merged(curves: Sequence[Read], every: "_EveryX") -> Merged:
    x, span, most = every.x, every.span, every.most
    if span is None:
        return Merged(*(np.empty(0) for _ in NAMES))
    middles = _middles(np.arange(most), span, most) if x is None else x
    total = _Total(len(middles))
    for read in curves:
        own, values = _counting(read())
        if x is None and len(own):
            own, values = _in_cells(own, values, span, most)
        if len(own):
            total.add(*_lifted(middles, own, values))
    return total.finished(middles)


def _counting(curve: tuple[Reals, Reals]) -> tuple[Reals, Reals]:
    """Its finite points; of several at one x the last."""
    x, values = curve
    is_kept = np.isfinite(values) & np.isfinite(x)
    if not is_kept.all():
        x, values = x[is_kept], values[is_kept]
    is_other = x[1:] != x[:-1]
    if is_other.all():
        return x, values
    is_last = np.append(is_other, True)
    return x[is_last], values[is_last]


class _EveryX:
    """Every x of any curve, ascending, unless there are too many; and the least and greatest."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.x: Reals | None = np.empty(0)
        self.span: tuple[float, float] | None = None

    def add(self, x: Reals) -> None:
        if not len(x):
            return
        first, last = self.span or (np.inf, -np.inf)
        self.span = (min(first, float(x[0])), max(last, float(x[-1])))
        if self.x is not None and not np.array_equal(self.x, x):
            found = np.union1d(self.x, x)
            self.x = found if len(found) <= self.most else None


def _middles(cells: Integers, span: tuple[float, float], count: int) -> Reals:
    start, end = span
    return start + (end - start) * ((cells + 0.5) / count)


def _in_cells(
    x: Reals, values: Reals, span: tuple[float, float], count: int
) -> tuple[Reals, Reals]:
    start, end = span
    cells = np.minimum((x - start) / (end - start) * count, count - 1).astype(np.int64)
    used, first, number = np.unique(cells, return_index=True, return_counts=True)
    return _middles(used, span, count), np.add.reduceat(values, first) / number


def _lifted(x: Reals, own: Reals, values: Reals) -> tuple[int, Reals]:
    """The curve at every x of its range, and the index of the first of these."""
    first, last = np.searchsorted(x, own[0]), np.searchsorted(x, own[-1], side="right")
    inside = x[first:last]
    if len(inside) == len(own):
        return int(first), values
    return int(first), np.interp(inside, own, values)


def _chosen(whole: Merged, bounds: Integers) -> Integers:
    has_some = bounds[:-1] < bounds[1:]
    begins, ends = bounds[:-1][has_some], bounds[1:][has_some]
    mean = extremes(whole.mean, (), begins, ends)
    outer = [extremes(each, (), begins, ends).low_at for each in (whole.low, whole.min)]
    outer += [extremes(each, (), begins, ends).high_at for each in (whole.high, whole.max)]
    indices = np.concatenate([begins, ends - 1, mean.low_at, mean.high_at, *outer])
    return distinct(indices)

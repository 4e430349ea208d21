"""A curve's points in pieces, as they are stored, and the thinned view of any range of it. Pure.

Steps ascend over all pieces: what a resumed script wrote again has replaced the old points.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trackside.curves.columns import Integers, Reals
from trackside.curves.downsample import in_order
from trackside.curves.levels import Level, Unusual, Values, chosen, extremes

LEAST_THINNED = 4
"""Points of a column: a range with no more than this many times its columns is not thinned."""
_FARTHEST = 1 << 62
"""Beyond it, limits of steps are not told apart."""
_EXACT = 1 << 53
"""Up to here every integer is a number of double precision."""


@dataclass(frozen=True, slots=True)
class Steps:
    """Ascending; `start + stride * i` for point `i`, unless they are listed."""

    count: int
    start: int = 0
    stride: int = 1
    listed: Integers | None = None

    @classmethod
    def of(cls, steps: Integers) -> "Steps":
        if len(steps) < 2:
            return cls(len(steps), int(steps[0]) if len(steps) else 0)
        stride = int(steps[1]) - int(steps[0])
        is_usual = int(steps[0]) > -_EXACT and int(steps[-1]) < _EXACT
        if is_usual and stride > 0 and bool((np.diff(steps) == stride).all()):
            return cls(len(steps), int(steps[0]), stride)
        return cls(len(steps), listed=steps)

    def at(self, indices: Integers) -> Integers:
        if self.listed is not None:
            return self.listed[indices].astype(np.int64, copy=False)
        return self.start + self.stride * indices

    def all(self) -> Integers:
        if self.listed is not None:
            return self.listed
        return self.start + self.stride * np.arange(self.count, dtype=np.int64)

    def num_below(self, limits: Integers) -> Integers:
        """How many steps are less than each limit."""
        if self.listed is not None:
            return np.searchsorted(self.listed, limits, side="left")
        limits = np.clip(limits, self.start, self.start + self.stride * self.count)
        return np.minimum(-(-(limits - self.start) // self.stride), self.count)

    def num_up_to(self, step: int) -> int:
        if self.listed is not None:
            return int(np.searchsorted(self.listed, step, side="right"))
        return min(max((step - self.start) // self.stride + 1, 0), self.count)

    def cut(self, count: int) -> "Steps":
        listed = None if self.listed is None else self.listed[:count]
        return Steps(count, self.start, self.stride, listed)


@dataclass(frozen=True, slots=True)
class Piece:
    """Consecutive points: those of one event file that count."""

    steps: Steps
    times: Reals
    values: Values
    unusual: Unusual
    levels: Sequence[Level] = ()
    is_timed: bool = True
    """Whether times ascend, too."""

    def __len__(self) -> int:
        return self.steps.count

    @classmethod
    def of(cls, steps: Integers, times: Reals, values: Reals) -> "Piece":
        """Of points in the order they were written."""
        kept = in_order(steps)
        if kept is not None:
            steps, times, values = steps[kept], times[kept], values[kept]
        return cls.ordered(Steps.of(steps), times, values)

    @classmethod
    def ordered(cls, steps: Steps, times: Reals, values: Values) -> "Piece":
        return cls(steps, times, values, Unusual.of(values), (), are_in_order(times))

    def cut(self, count: int) -> "Piece":
        """Its first points."""
        if count == len(self):
            return self
        unusual = Unusual(*(at[at < count] for at in self.unusual.kinds))
        levels = [_cut_level(level, count) for level in self.levels]
        return Piece(
            self.steps.cut(count),
            self.times[:count],
            self.values[:count],
            unusual,
            [level for level in levels if len(level.low)],
            self.is_timed,
        )


@dataclass(frozen=True, slots=True)
class Thinned:
    x: Reals
    y: Reals
    total: int
    """Points in the range, of which these are some."""
    is_thinned: bool
    first: float
    """The least x of all points, and the greatest; NaN without points."""
    last: float


class CurvePoints:
    """All points of a curve that count."""

    def __init__(self, pieces: Sequence[Piece]) -> None:
        self.pieces = [piece for piece in _shortened(pieces) if len(piece)]
        ends = np.cumsum([len(piece) for piece in self.pieces], dtype=np.int64)
        self._ends = [0, *ends.tolist()]

    def __len__(self) -> int:
        return int(self._ends[-1])

    @property
    def is_timed(self) -> bool:
        """Whether times ascend."""
        spans = [(piece.times[0], piece.times[-1]) for piece in self.pieces]
        pairs = zip(spans, spans[1:], strict=False)
        return all(piece.is_timed for piece in self.pieces) and all(
            before[1] <= after[0] for before, after in pairs
        )

    def steps(self) -> Integers:
        return _joined([piece.steps.all() for piece in self.pieces], np.int64)

    def times(self) -> Reals:
        return _joined([piece.times for piece in self.pieces], np.float64)

    def values(self) -> Reals:
        return _joined([piece.values for piece in self.pieces], np.float64)

    def since(self, index: int) -> tuple[Integers, Reals, Reals]:
        """Steps, times and values of the points from this index on."""
        at = np.arange(index, len(self))
        return self.steps_at(at), self.times_at(at), self.values_at(at)

    def steps_at(self, indices: Integers) -> Integers:
        parts = [piece.steps.at(at) for piece, at in self._located(indices)]
        return _joined(parts, np.int64)

    def times_at(self, indices: Integers) -> Reals:
        return _joined([piece.times[at] for piece, at in self._located(indices)], np.float64)

    def values_at(self, indices: Integers) -> Reals:
        return _joined([piece.values[at] for piece, at in self._located(indices)], np.float64)

    def num_steps_below(self, limits: Integers) -> Integers:
        found = np.zeros(len(limits), np.int64)
        for piece in self.pieces:
            found += piece.steps.num_below(limits)
        return found

    def num_times_below(self, limits: Reals, *, or_equal: bool = False) -> Integers:
        """If `is_timed`."""
        found = np.zeros(len(limits), np.int64)
        for piece in self.pieces:
            found += np.searchsorted(piece.times, limits, side="right" if or_equal else "left")
        return found

    def chosen(self, bounds: Integers) -> Integers:
        """Indices for each column `bounds[i]:bounds[i + 1]`: see `levels.chosen`."""
        parts = []
        for piece, start in zip(self.pieces, self._ends, strict=False):
            inside = np.clip(bounds - start, 0, len(piece))
            begins, ends = inside[:-1], inside[1:]
            at = chosen(piece.values, piece.levels, piece.unusual, begins, ends)
            parts.append(at + start)
        indices = _joined(parts, np.int64)
        return indices if len(self.pieces) < 2 else self._of_columns(indices, bounds)

    def figures(self) -> "Figures":
        return _figures(self)

    def _located(self, indices: Integers) -> list[tuple[Piece, Integers]]:
        """Ascending indices, by piece."""
        if len(self.pieces) == 1:
            return [(self.pieces[0], indices)]
        cuts = np.searchsorted(indices, self._ends)
        return [
            (piece, indices[cuts[number] : cuts[number + 1]] - self._ends[number])
            for number, piece in enumerate(self.pieces)
        ]

    def _of_columns(self, indices: Integers, bounds: Integers) -> Integers:
        """Pieces meet within columns: of what stands for each of them, what stands for both."""
        values = self.values_at(indices)
        edges = np.searchsorted(indices, bounds)
        at = chosen(values, (), Unusual.of(values), edges[:-1], edges[1:])
        return indices[at]


@dataclass(frozen=True, slots=True)
class Figures:
    """What a list says about a curve. Values are NaN, and the steps 0, where there is none."""

    count: int
    first_step: int
    last_step: int
    first_time: float
    last: float
    low: float
    """Of the finite values; likewise `high`."""
    high: float
    low_step: int
    high_step: int


NO_FIGURES = Figures(0, 0, 0, np.nan, np.nan, np.nan, np.nan, 0, 0)


def thinned(
    points: CurvePoints,
    axis: str,
    num_columns: int,
    start: float | None = None,
    end: float | None = None,
    zero: float = 0.0,
) -> Thinned:
    """The points with start <= x <= end, in columns of equal width: of each column, what `chosen`
    keeps. The last point before the range and the first after it come too: lines reach the edges.

    `axis` is `step`, `time`, or `relative`: seconds after `zero`. Points whose time is no number
    are not among those over time. The result depends only on the arguments.
    """
    if axis != "step" and not points.is_timed:
        points = by_time(points)
    if not len(points):
        return Thinned(np.empty(0), np.empty(0), 0, False, np.nan, np.nan)
    if axis == "relative":
        points = over(points.times() - zero, points.values(), points)
    first, last = _span(points, axis)
    start, end = first if start is None else start, last if end is None else end
    bounds = _bounds(points, axis, start, end, num_columns)
    at, is_thinned = _indices(points, bounds, num_columns)
    x = points.steps_at(at).astype(np.float64) if axis == "step" else points.times_at(at)
    total = int(bounds[-1] - bounds[0])
    return Thinned(x, points.values_at(at), total, is_thinned, first, last)


def by_time(points: CurvePoints) -> CurvePoints:
    """Those whose time is a number, ordered by it."""
    times, values = points.times(), points.values()
    is_known = np.isfinite(times)
    times, values = times[is_known], values[is_known]
    order = np.argsort(times, kind="stable")
    return over(times[order], values[order])


def over(x: Reals, values: Values, like: CurvePoints | None = None) -> CurvePoints:
    """Points with these x, ascending, in the place of times; values, and levels, are those of
    `like`."""
    if like is not None and len(like.pieces) == 1:
        piece = like.pieces[0]
        return CurvePoints([Piece(piece.steps, x, piece.values, piece.unusual, piece.levels)])
    return CurvePoints([Piece(Steps(len(x)), x, values, Unusual.of(values))])


def are_in_order(times: Reals) -> bool:
    """Whether they are finite and ascend."""
    are_finite = bool(np.isfinite(times[:1]).all() and np.isfinite(times[-1:]).all())
    return are_finite and bool((times[1:] >= times[:-1]).all())


def _shortened(pieces: Sequence[Piece]) -> list[Piece]:
    """Each up to the first step of those after it, which have replaced the rest."""
    found: list[Piece] = []
    least: int | None = None
    for piece in reversed(pieces):
        if not len(piece):
            continue
        if least is not None:
            piece = piece.cut(piece.steps.num_up_to(least))
        found.append(piece)
        if len(piece):
            least = int(piece.steps.at(np.array([0]))[0])
    return found[::-1]


def _cut_level(level: Level, count: int) -> Level:
    left = count // level.width
    parts = (level.low, level.high, level.low_at, level.high_at)
    return Level(level.width, *(part[:left] for part in parts))


def _span(points: CurvePoints, axis: str) -> tuple[float, float]:
    ends = np.array([0, len(points) - 1])
    x = points.steps_at(ends) if axis == "step" else points.times_at(ends)
    return float(x[0]), float(x[1])


def _bounds(points: CurvePoints, axis: str, start: float, end: float, num_columns: int) -> Integers:
    """The index of each column's first point, and the one after the last column's last."""
    edges = start + (end - start) * (np.arange(num_columns) / num_columns)
    if axis == "step":
        limits = np.append(_as_limits(np.ceil(edges)), _as_limits(np.floor(end)) + 1)
        return points.num_steps_below(limits)
    last = points.num_times_below(np.array([end]), or_equal=True)
    return np.append(points.num_times_below(edges), last)


def _as_limits(edges: Reals) -> Integers:
    return np.clip(edges, -_FARTHEST, _FARTHEST).astype(np.int64)


def _indices(points: CurvePoints, bounds: Integers, num_columns: int) -> tuple[Integers, bool]:
    first, last = int(bounds[0]), int(bounds[-1])
    around = (max(first - 1, 0), min(last + 1, len(points)))
    if last - first <= LEAST_THINNED * num_columns:
        return np.arange(*around), False
    inside = points.chosen(bounds)
    before, after = np.arange(around[0], first), np.arange(last, around[1])
    return np.concatenate([before, inside, after]), True


def _figures(points: CurvePoints) -> Figures:
    count = len(points)
    if not count:
        return NO_FIGURES
    found = [
        extremes(piece.values, piece.levels, np.array([0]), np.array([len(piece)]))
        for piece in points.pieces
    ]
    low, high = (np.array([getattr(each, name)[0] for each in found]) for name in ("low", "high"))
    ends = np.array([0, count - 1])
    first_step, last_step = points.steps_at(ends).tolist()
    first_time = float(points.times_at(ends)[0])
    last = float(points.values_at(ends)[1])
    if not np.isfinite(low).any():
        return Figures(count, first_step, last_step, first_time, last, np.nan, np.nan, 0, 0)
    at_low, at_high = int(low.argmin()), int(high.argmax())
    low_step = points.pieces[at_low].steps.at(found[at_low].low_at)[0]
    high_step = points.pieces[at_high].steps.at(found[at_high].high_at)[0]
    return Figures(
        count,
        first_step,
        last_step,
        first_time,
        last,
        float(low[at_low]),
        float(high[at_high]),
        int(low_step),
        int(high_step),
    )


def _joined(parts: Sequence[NDArray[Any]], kind: type) -> NDArray[Any]:
    if not parts:
        return np.empty(0, kind)
    whole = parts[0] if len(parts) == 1 else np.concatenate(parts)
    return whole.astype(kind, copy=False)

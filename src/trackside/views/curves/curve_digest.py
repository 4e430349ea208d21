"""A job's curves in little memory: some points of each, with its extremes and its last. Reads the
event files further on each update, and keeps none of their content.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy

from trackside.curves import summaries, wire
from trackside.curves.chunks import Source
from trackside.curves.columns import Column, Decoded
from trackside.curves.downsample import thin
from trackside.curves.event_reader import TOP, Curves, Key, Series
from trackside.curves.event_tail import EventTail
from trackside.storage.locate import Location

POINTS = 80
"""Kept of each curve when it has twice as many, and all together have many."""
MANY_POINTS = 1 << 15
MOST_CURVES = 3000


@dataclass(slots=True)
class _Kept:
    """Points in the order they were written, and what is known of all."""

    points: Series
    num_finite: int = 0
    total: float = 0.0
    new: list[Column] = field(default_factory=list)


class CurveDigest:
    """Of one job. Not thread-safe."""

    def __init__(self) -> None:
        self._tails: dict[str, EventTail] = {}
        self._kept: dict[Key, _Kept] = {}
        self._plugins: dict[Key, str] = {}

    def update(self, places: Sequence[Location]) -> bool:
        """Whether there is more than before. The places change when the job ends: then everything
        is read again."""
        uris = [place.uri for place in places]
        is_moved = any(uri not in uris for uri in self._tails)
        if is_moved:
            self._tails, self._kept = {}, {}
        for place in places:
            if place.uri not in self._tails:
                self._tails[place.uri] = EventTail(place, self._take)
            self._tails[place.uri].update()
        grown = [each for each in self._kept.values() if each.new]
        for kept in grown:
            _merge(kept)
        if sum(len(each.points) for each in self._kept.values()) > MANY_POINTS:
            for kept in self._kept.values():
                _thin(kept)
        return bool(grown) or is_moved

    def curves(self) -> Curves:
        return Curves(scalars={key: kept.points for key, kept in self._kept.items()})

    def mean(self, key: Key) -> float | None:
        """Of all finite values."""
        kept = self._kept[key]
        return kept.total / kept.num_finite if kept.num_finite else None

    def _take(self, source: Source, decoded: Decoded) -> int:
        run = source.folder or TOP
        for column in decoded.columns:
            self._add((run, column.tag), column)
        return self._take_others(run, decoded.others)

    def _take_others(self, run: str, contents: Sequence[bytes]) -> int:
        """Scalars in tensors; returns how many are no events."""
        num_wrong = 0
        points: dict[str, list[tuple[int, float, float]]] = defaultdict(list)
        for content in contents:
            try:
                for summary in summaries.summaries(content):
                    plugin = self._plugins.setdefault((run, summary.tag), summary.plugin)
                    found = replace(summary, plugin=summary.plugin or plugin)
                    if (number := summaries.scalar(found)) is not None:
                        points[summary.tag].append((summary.step, summary.time, number))
            except wire.NotAMessage:
                num_wrong += 1
        for tag, several in points.items():
            steps, times, values = zip(*several, strict=True)
            arrays = numpy.array(steps), numpy.array(times), numpy.array(values)
            self._add((run, tag), Column(tag, *arrays))
        return num_wrong

    def _add(self, key: Key, column: Column) -> None:
        kept = self._kept.get(key)
        if kept is None:
            if len(self._kept) >= MOST_CURVES:
                return
            empty = numpy.empty(0)
            kept = _Kept(Series(*key, empty.astype(numpy.int64), empty, empty))
            self._kept[key] = kept
        kept.new.append(column)
        finite = column.values[numpy.isfinite(column.values)]
        kept.num_finite += len(finite)
        kept.total += float(finite.sum())


def _merge(kept: _Kept) -> None:
    parts: list[Series | Column] = [kept.points, *kept.new]
    kept.new = []
    steps = numpy.concatenate([part.steps for part in parts])
    times = numpy.concatenate([part.times for part in parts])
    values = numpy.concatenate([part.values for part in parts])
    kept.points = Series(kept.points.run, kept.points.tag, steps, times, values)


def _thin(kept: _Kept) -> None:
    points = kept.points
    if len(points) > 2 * POINTS:
        chosen = thin(points.values, POINTS)
        parts = (points.steps[chosen], points.times[chosen], points.values[chosen])
        kept.points = Series(points.run, points.tag, *parts)

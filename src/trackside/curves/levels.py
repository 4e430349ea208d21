"""The least and the greatest of a curve's points at several levels: any range of points is reduced
by reading few of them, with the same result as by reading all. Pure.

A level has buckets of equally many points. Values that are not finite are left out of them: where
these are is stored apart, in `Unusual`.
"""

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trackside.curves import native
from trackside.curves.columns import Integers, Reals

FINEST = 64
"""Points in a bucket of the lowest level."""
FACTOR = 16
"""Buckets of a level in one of the next."""
NONE = np.iinfo(np.int64).max
"""In the place of an index: there is no such point."""

Values = NDArray[Any]
"""In single or double precision."""
Positions = NDArray[Any]
"""Integers."""


@dataclass(frozen=True, slots=True)
class Level:
    """Complete buckets only; the points after the last are in no bucket."""

    width: int
    """Points in a bucket."""
    low: Values
    """The least finite value of each bucket; infinite if it has none. Likewise `high`."""
    high: Values
    low_at: Positions
    """The index of the first point with that value."""
    high_at: Positions


@dataclass(frozen=True, slots=True)
class Unusual:
    """The indices of the points that are not finite, ascending."""

    nan: Positions
    high: Positions
    """Infinite."""
    low: Positions
    """The same, negative."""

    @classmethod
    def of(cls, values: Values) -> "Unusual":
        odd = np.flatnonzero(~np.isfinite(values)).astype(np.uint32)
        kind = values[odd]
        return cls(odd[np.isnan(kind)], odd[kind == np.inf], odd[kind == -np.inf])

    @property
    def kinds(self) -> tuple[Positions, Positions, Positions]:
        return self.nan, self.high, self.low


@dataclass(frozen=True, slots=True)
class Extremes:
    """Of some ranges of points; the indices are NONE for a range without finite values."""

    low: Reals
    high: Reals
    low_at: Integers
    high_at: Integers


def build_levels(values: Values) -> list[Level]:
    """From the finest to the one with the fewest buckets; none for a short curve."""
    count = len(values) // FINEST * FINEST
    if not count:
        return []
    is_finite = np.isfinite(values[:count])
    if is_finite.all():
        rows = values[:count].reshape(-1, FINEST)
        levels = [_first_level(rows, rows)]
    else:
        low = np.where(is_finite, values[:count], np.inf).astype(values.dtype, copy=False)
        high = np.where(is_finite, values[:count], -np.inf).astype(values.dtype, copy=False)
        levels = [_first_level(low.reshape(-1, FINEST), high.reshape(-1, FINEST))]
    while len(levels[-1].low) >= FACTOR:
        levels.append(_next_level(levels[-1]))
    return levels


def extremes(values: Values, levels: Sequence[Level], begins: Integers, ends: Integers) -> Extremes:
    """Of each range of indices `begins[i]:ends[i]`."""
    parts: list[Extremes] = []
    of = _points(values)
    for level in levels:
        first = -(-begins // level.width) * level.width
        last = np.minimum(ends // level.width, len(level.low)) * level.width
        is_wide = first < last
        if not is_wide.any():
            break
        first, last = np.where(is_wide, first, ends), np.where(is_wide, last, ends)
        parts += [_reduced(of, begins, first), _reduced(of, last, ends)]
        of, begins, ends = level, first, last
    parts.append(_reduced(of, begins, ends))
    return _combined(parts)


def chosen(
    values: Values,
    levels: Sequence[Level],
    unusual: Unusual,
    begins: Integers,
    ends: Integers,
    library: ctypes.CDLL | None = native.library,
) -> Integers:
    """The indices that stand for each range `begins[i]:ends[i]`: its first and last point, its
    least and greatest finite value, and its first NaN and infinities. Ascending.
    """
    has_some = begins < ends
    begins, ends = begins[has_some], ends[has_some]
    if library is not None and native.can_choose(library):
        found = _by_library(library, values, levels, begins, ends)
    else:
        of = extremes(values, levels, begins, ends)
        at = np.concatenate([of.low_at, of.high_at])
        is_inside = (at >= np.tile(begins, 2)) & (at < np.tile(ends, 2))  # else of a damaged level
        found = distinct(np.concatenate([begins, ends - 1, at[is_inside]]))
    odd = [_first_within(at, begins, ends) for at in unusual.kinds if len(at)]
    return distinct(np.concatenate([found, *odd])) if odd else found


def distinct(indices: Integers) -> Integers:
    """Ascending, each once, without NONE. (`numpy.unique` is slower on so few.)"""
    indices = np.sort(indices)
    is_first = np.ones(len(indices), np.bool_)
    is_first[1:] = indices[1:] != indices[:-1]
    kept: Integers = indices[is_first & (indices != NONE)]
    return kept


def _by_library(
    library: ctypes.CDLL,
    values: Values,
    levels: Sequence[Level],
    begins: Integers,
    ends: Integers,
) -> Integers:
    rows = [
        (level.width, len(level.low), *(part.ctypes.data for part in _parts(level)))
        for level in levels
    ]
    table = np.array(rows, np.int64)
    values, begins, ends = (np.ascontiguousarray(array) for array in (values, begins, ends))
    found = np.empty(4 * len(begins), np.int64)
    count = library.trackside_choose(
        values.ctypes.data,
        values.itemsize,
        table.ctypes.data,
        len(rows),
        len(begins),
        *(array.ctypes.data for array in (begins, ends, found)),
    )
    kept: Integers = found[:count]
    return kept


def _parts(level: Level) -> tuple[NDArray[Any], ...]:
    return level.low, level.high, level.low_at, level.high_at


def _points(values: Values) -> Level:
    """The points themselves as a level; which of them are finite is looked at when reduced."""
    nowhere = np.empty(0, np.uint32)
    return Level(1, values, values, nowhere, nowhere)


def _first_level(low: Values, high: Values) -> Level:
    """From rows of FINEST points each."""
    rows = np.arange(len(low))
    at_low, at_high = low.argmin(axis=1), high.argmax(axis=1)
    return Level(
        FINEST,
        low[rows, at_low],
        high[rows, at_high],
        (rows * FINEST + at_low).astype(np.uint32),
        (rows * FINEST + at_high).astype(np.uint32),
    )


def _next_level(below: Level) -> Level:
    count = len(below.low) // FACTOR * FACTOR
    low, high = (part[:count].reshape(-1, FACTOR) for part in (below.low, below.high))
    rows = np.arange(len(low))
    at_low, at_high = low.argmin(axis=1), high.argmax(axis=1)
    return Level(
        below.width * FACTOR,
        low[rows, at_low],
        high[rows, at_high],
        below.low_at[rows * FACTOR + at_low],
        below.high_at[rows * FACTOR + at_high],
    )


def _reduced(level: Level, begins: Integers, ends: Integers) -> Extremes:
    """Of whole buckets of the level: the ranges begin and end with one."""
    count = len(begins)
    found = Extremes(
        np.full(count, np.inf),
        np.full(count, -np.inf),
        np.full(count, NONE),
        np.full(count, NONE),
    )
    lengths = (ends - begins) // level.width
    some = np.flatnonzero(lengths > 0)
    if not len(some):
        return found
    lengths = lengths[some]
    starts = np.cumsum(lengths) - lengths
    at = np.arange(int(lengths.sum())) + np.repeat(begins[some] // level.width - starts, lengths)
    low, high = level.low[at], level.high[at]
    if level.width == 1 and not (is_finite := np.isfinite(low)).all():
        low, high = np.where(is_finite, low, np.inf), np.where(is_finite, high, -np.inf)
    _put(found.low, found.low_at, some, *_least(low, starts, lengths), at, level.low_at)
    least, where = _least(-high, starts, lengths)
    _put(found.high, found.high_at, some, -least, where, at, level.high_at)
    found.low_at[found.low == np.inf] = NONE
    found.high_at[found.high == -np.inf] = NONE
    return found


def _least(values: Values, starts: Integers, lengths: Integers) -> tuple[Values, Integers]:
    """Of each stretch of the values, and where among all of them it comes first."""
    least = np.minimum.reduceat(values, starts)
    owners = np.repeat(np.arange(len(starts)), lengths)
    places = np.flatnonzero(values == least[owners])
    owner = owners[places]
    is_first = np.ones(len(places), np.bool_)
    is_first[1:] = owner[1:] != owner[:-1]
    return least, places[is_first]


def _put(
    values: Reals,
    indices: Integers,
    some: Integers,
    least: Values,
    where: Integers,
    at: Integers,
    positions: Positions,
) -> None:
    values[some] = least
    buckets = at[where]
    indices[some] = positions[buckets] if len(positions) else buckets


def _combined(parts: Sequence[Extremes]) -> Extremes:
    """Of equal values the one with the lowest index."""
    low, high = (np.stack([getattr(part, name) for part in parts]) for name in ("low", "high"))
    least, greatest = low.min(axis=0), high.max(axis=0)
    low_at, high_at = (
        np.stack([getattr(part, name) for part in parts]) for name in ("low_at", "high_at")
    )
    return Extremes(
        least,
        greatest,
        np.where(low == least, low_at, NONE).min(axis=0),
        np.where(high == greatest, high_at, NONE).min(axis=0),
    )


def _first_within(positions: Positions, begins: Integers, ends: Integers) -> Integers:
    """The first of these positions in each range; NONE without any."""
    at = np.searchsorted(positions, begins)
    found = positions[np.minimum(at, len(positions) - 1)].astype(np.int64)
    return np.where((at < len(positions)) & (found < ends), found, NONE)

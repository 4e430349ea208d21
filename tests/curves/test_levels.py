"""The levels against reading every point."""

import ctypes
import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from trackside.curves.levels import (
    FACTOR,
    FINEST,
    NONE,
    Unusual,
    build_levels,
    chosen,
    extremes,
)

NUMBERS = st.one_of(
    st.integers(-3, 3).map(float),
    st.floats(width=32),
    st.sampled_from([math.nan, math.inf, -math.inf]),
)


@st.composite
def values_and_ranges(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray]:
    """Long enough for three levels; repeated, so that equal extremes are common."""
    some = draw(st.lists(NUMBERS, min_size=1, max_size=200))
    length = draw(st.integers(1, 3 * FINEST * FACTOR))
    values = np.resize(np.array(some, np.float32), length)
    for at in draw(st.lists(st.integers(0, length - 1), max_size=5)):
        values[at] = draw(NUMBERS)
    values = values.astype(draw(st.sampled_from([np.float32, np.float64])))
    cuts = draw(st.lists(st.integers(0, length), min_size=2, max_size=20).map(sorted))
    return values, np.array(cuts)


def expected(values: np.ndarray, begin: int, end: int) -> set[int]:
    """By looking at every point."""
    if begin == end:
        return set()
    indices = range(begin, end)
    finite = [at for at in indices if math.isfinite(values[at])]
    found = {begin, end - 1}
    if finite:
        found.add(min(finite, key=lambda at: (values[at], at)))
        found.add(min(finite, key=lambda at: (-values[at], at)))
    for is_kind in (np.isnan, np.isposinf, np.isneginf):
        found.update([at for at in indices if is_kind(values[at])][:1])
    return found


@settings(max_examples=200, deadline=None)
@given(given_values=values_and_ranges())
def test_each_range_keeps_what_reading_every_point_finds(
    compiled: ctypes.CDLL, given_values: tuple[np.ndarray, np.ndarray]
) -> None:
    values, cuts = given_values
    levels = build_levels(values)
    unusual = Unusual.of(values)
    wanted: set[int] = set()
    for begin, end in zip(cuts[:-1], cuts[1:], strict=True):
        wanted |= expected(values, int(begin), int(end))
    for library in (compiled, None):
        for some in (levels, levels[:1], ()):
            found = chosen(values, some, unusual, cuts[:-1], cuts[1:], library)
            assert found.tolist() == sorted(wanted)


def test_a_damaged_level_names_no_point_outside_its_range(compiled: ctypes.CDLL) -> None:
    values = np.arange(4.0 * FINEST)
    [level] = build_levels(values)
    wrong = np.full(len(level.low), 2**32 - 1, np.uint32)
    damaged = [replace(level, low_at=wrong, high_at=wrong)]
    for library in (compiled, None):
        cuts = ranges([(0, 2 * FINEST), (2 * FINEST, 4 * FINEST)])
        found = chosen(values, damaged, Unusual.of(values), *cuts, library)
        assert found.tolist() == [0, 127, 128, 255]


def test_a_level_is_made_of_the_one_below() -> None:
    values = np.random.default_rng(1).normal(size=FINEST * FACTOR * FACTOR + 7)
    levels = build_levels(values)
    assert [level.width for level in levels] == [FINEST, FINEST * FACTOR, FINEST * FACTOR**2]
    assert [len(level.low) for level in levels] == [FACTOR**2, FACTOR, 1]
    for level in levels:
        for number, at in enumerate(level.low_at.tolist()):
            bucket = values[number * level.width : (number + 1) * level.width]
            assert values[at] == level.low[number] == bucket.min()
            assert at // level.width == number


def test_a_range_without_finite_values_has_no_extremes() -> None:
    values = np.full(3 * FINEST, np.nan)
    values[5] = 1.0
    found = extremes(values, build_levels(values), *ranges([(0, 5), (5, 6), (FINEST, 192)]))
    assert found.low_at.tolist() == [NONE, 5, NONE]
    assert found.high_at.tolist() == [NONE, 5, NONE]


def ranges(pairs: Sequence[tuple[int, int]]) -> tuple[np.ndarray, np.ndarray]:
    begins, ends = zip(*pairs, strict=True)
    return np.array(begins), np.array(ends)

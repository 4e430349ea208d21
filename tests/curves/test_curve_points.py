"""Views of a curve, against computing them from all its points."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from trackside.curves.curve_points import CurvePoints, Piece, Steps, thinned
from trackside.curves.downsample import in_order
from trackside.curves.levels import FINEST, build_levels

SPECIAL = [math.nan, math.inf, -math.inf]


@st.composite
def written(draw: st.DrawFn) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Event files of one curve: steps that ascend, stay, jump, and begin again after a resume."""
    files = []
    seed = np.random.default_rng(draw(st.integers(0, 1000)))
    begin = draw(st.integers(-5, 1000))
    for _ in range(draw(st.integers(1, 4))):
        count = draw(st.integers(0, 400))
        stride = draw(st.integers(1, 50))
        steps = begin + stride * np.arange(count, dtype=np.int64)
        kind = draw(st.sampled_from(["regular", "ragged", "resumed"]))
        if kind == "ragged":
            steps = begin + np.cumsum(seed.integers(0, 20, count))
        elif kind == "resumed" and count > 4:
            steps[count // 2 :] -= stride * draw(st.integers(0, count // 2))
        times = 1.7e9 + np.cumsum(seed.random(count))
        if draw(st.booleans()) and count:
            times[count // 2] -= draw(st.sampled_from([0.0, 100.0]))
        values = seed.normal(size=count).round(1)
        for at in draw(st.lists(st.integers(0, 399), max_size=4)):
            if at < count:
                values[at] = draw(st.sampled_from(SPECIAL))
        files.append((steps.astype(np.int64), times, values))
        begin += draw(st.integers(0, 20_000))
    return files


def curve(files: list[tuple[np.ndarray, np.ndarray, np.ndarray]]) -> CurvePoints:
    pieces = []
    for steps, times, values in files:
        piece = Piece.of(steps, times, values)
        pieces.append(replace(piece, levels=build_levels(piece.values)))
    return CurvePoints(pieces)


def expected(
    x: np.ndarray, y: np.ndarray, start: float, end: float, columns: int
) -> list[tuple[float, float]]:
    """Column by column, from all points, ordered by x."""
    inside = np.flatnonzero((x >= start) & (x <= end))
    first = int(inside[0]) if len(inside) else int((x < start).sum())
    last = int(inside[-1]) + 1 if len(inside) else first
    around = {at for at in (first - 1, last) if 0 <= at < len(x)}
    if len(inside) <= 4 * columns:
        kept = {*inside.tolist()}
    else:
        kept = set()
        edges = start + (end - start) * (np.arange(columns) / columns)
        column = np.searchsorted(edges, x[inside], side="right") - 1
        for number in range(columns):
            kept |= of_column(inside[column == number].tolist(), y)
    return [(x[at], y[at]) for at in sorted(kept | around)]


def of_column(indices: list[int], y: np.ndarray) -> set[int]:
    finite = [at for at in indices if math.isfinite(y[at])]
    found = {*indices[:1], *indices[-1:]}
    if finite:
        found.add(min(finite, key=lambda at: (y[at], at)))
        found.add(min(finite, key=lambda at: (-y[at], at)))
    for is_kind in (np.isnan, np.isposinf, np.isneginf):
        found.update([at for at in indices if is_kind(y[at])][:1])
    return found


@settings(max_examples=300, deadline=None)
@given(
    written(),
    st.sampled_from(["step", "time", "relative"]),
    st.integers(1, 60),
    st.tuples(st.floats(0, 1), st.floats(0, 1)).map(sorted),
    st.booleans(),
)
@example([(np.array([3]), np.array([1.0]), np.array([2.0]))], "step", 5, [0.0, 1.0], True)
def test_a_view_is_what_all_points_give(files, axis, columns, part, is_whole) -> None:
    steps, times, values = (np.concatenate(parts) for parts in zip(*files, strict=True))
    kept = in_order(steps)
    if kept is not None:
        steps, times, values = steps[kept], times[kept], values[kept]
    zero = 1.7e9 if axis == "relative" else 0.0
    x = steps.astype(float) if axis == "step" else times - zero
    order = np.argsort(x, kind="stable")
    x, y = x[order], values[order]
    points = curve(files)
    assert len(points) == len(x)
    if not len(x):
        assert len(thinned(points, axis, columns, zero=zero).x) == 0
        return
    start, end = (float(x[0] + (x[-1] - x[0]) * share) for share in part)
    if is_whole:
        found = thinned(points, axis, columns, zero=zero)
        start, end = float(x[0]), float(x[-1])
    else:
        found = thinned(points, axis, columns, start, end, zero)
    wanted = expected(x, y, start, end, columns)
    assert np.array_equal(found.x, [one for one, _ in wanted])
    assert np.array_equal(found.y, [one for _, one in wanted], equal_nan=True)
    assert found.total == int(((x >= start) & (x <= end)).sum())
    assert (found.first, found.last) == (x[0], x[-1])
    if not found.is_thinned:
        assert found.total <= 4 * columns


@settings(max_examples=100, deadline=None)
@given(written())
def test_the_figures_of_a_curve_are_those_of_all_its_points(files) -> None:
    points = curve(files)
    found = points.figures()
    steps, values = points.steps(), points.values()
    assert found.count == len(steps)
    if not len(steps):
        return
    assert (found.first_step, found.last_step) == (steps[0], steps[-1])
    assert np.array_equal([found.last], values[-1:], equal_nan=True)
    is_finite = np.isfinite(values)
    if not is_finite.any():
        assert math.isnan(found.low)
        assert math.isnan(found.high)
        return
    assert (found.low, found.high) == (values[is_finite].min(), values[is_finite].max())
    assert found.low_step == steps[values == found.low][0]
    assert found.high_step == steps[values == found.high][0]


def test_a_thousand_spikes_in_a_million_points_are_all_there() -> None:
    rng = np.random.default_rng(5)
    values = rng.normal(size=1_000_000)
    spikes = rng.choice(1_000_000, 1000, replace=False)
    values[spikes] = 100.0 + np.arange(1000)
    points = curve([(np.arange(1_000_000), np.arange(1_000_000.0), values)])
    found = thinned(points, "step", 1000)
    assert len(found.x) <= 4000
    columns = values.reshape(1000, 1000)
    drawn = [found.y[(found.x >= 1000 * c) & (found.x < 1000 * (c + 1))] for c in range(1000)]
    # Columns are those of 0..999,999 in a thousand parts: slightly narrower than a thousand.
    assert {*np.sort(columns.max(axis=1))} >= {max(each) for each in drawn if len(each)}
    assert {values[at] for at in spikes} & {*found.y} == {
        max(values[at] for at in spikes if int(at / 999.999) == c)
        for c in {int(at / 999.999) for at in spikes}
    }


@pytest.mark.parametrize(
    ("steps", "is_listed"),
    [
        ([0, 1, 2, 3], False),
        ([7], False),
        ([], False),
        ([5, 10, 15], False),
        ([5, 5, 5], True),
        ([1, 2, 4], True),
        ([-(2**62), 0, 2**62], True),
    ],
)
def test_steps_are_listed_only_where_they_are_irregular(steps: list[int], is_listed: bool) -> None:
    found = Steps.of(np.array(steps, np.int64))
    assert (found.listed is not None) == is_listed
    assert found.all().tolist() == steps
    limits = np.array([-(2**62), -1, 0, 1, 5, 6, 11, 2**62])
    wanted = [sum(step < limit for step in steps) for limit in limits.tolist()]
    assert found.num_below(limits).tolist() == wanted
    for step in (-5, 0, 4, 5, 100):
        assert found.num_up_to(step) == sum(each <= step for each in steps)


def test_a_piece_that_is_cut_has_the_levels_of_what_is_left() -> None:
    values = np.arange(3.0 * FINEST)
    piece = Piece.of(np.arange(len(values)), values, values)
    whole = replace(piece, levels=build_levels(values))
    cut = whole.cut(2 * FINEST + 1)
    assert [len(level.low) for level in cut.levels] == [2]
    assert CurvePoints([cut]).figures().high == 2 * FINEST


@pytest.mark.parametrize("axis", ["time", "relative"])
def test_points_without_a_time_are_not_drawn_over_time(axis: str) -> None:
    times = np.array([math.nan, 5.0, 3.0, math.inf, 4.0, -math.inf])
    points = CurvePoints([Piece.of(np.arange(6), times, np.arange(6.0))])
    found = thinned(points, axis, 10)
    assert [*zip(found.x, found.y, strict=True)] == [(3.0, 2.0), (4.0, 4.0), (5.0, 1.0)]
    nowhere = CurvePoints([Piece.of(np.arange(2), np.array([math.inf, math.inf]), np.zeros(2))])
    assert len(thinned(nowhere, axis, 10).x) == 0
    assert len(thinned(nowhere, "step", 10).x) == 2

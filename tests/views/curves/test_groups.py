"""Groups of curves against numpy."""

import math
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trackside.errors import InvalidCurveRequest
from trackside.views.comparison.groups import NAMES, Merged, merged, thinned
from trackside.views.curves.binary_frame import decode, encode
from trackside.views.curves.curve_list import curve_id
from trackside.views.curves.curve_request import CurveRef, GroupRequest, View
from trackside.views.curves.series import CurveReader

LOSS = curve_id(".", "loss")
CURVE = st.dictionaries(
    st.integers(0, 60).map(float),
    st.one_of(st.floats(-5, 5), st.sampled_from([math.nan, math.inf, -math.inf])),
    max_size=40,
).map(lambda points: (np.array(sorted(points)), np.array([points[x] for x in sorted(points)])))


def of(*curves: tuple[np.ndarray, np.ndarray], most: int = 1 << 20) -> Merged:
    return merged([partial(lambda curve: curve, curve) for curve in curves], most)


def expected(curves: list[tuple[np.ndarray, np.ndarray]]) -> dict[float, list[float]]:
    """The values that count at each x, by numpy."""
    known = [(x[np.isfinite(y)], y[np.isfinite(y)]) for x, y in curves]
    known = [(x, y) for x, y in known if len(x)]
    found: dict[float, list[float]] = {}
    for at in sorted({each for x, _ in known for each in x.tolist()}):
        for x, y in known:
            if x[0] <= at <= x[-1]:
                found.setdefault(at, []).append(float(np.interp(at, x, y)))
    return found


@settings(max_examples=200, deadline=None)
@given(st.lists(CURVE, max_size=6))
def test_a_group_is_what_numpy_computes_from_all_points(curves) -> None:
    found = of(*curves)
    wanted = expected(curves)
    assert found.x.tolist() == [*wanted]
    values = [*wanted.values()]
    assert np.allclose(found.mean, [np.mean(each) for each in values])
    assert np.allclose(found.low, [np.mean(each) - np.std(each) for each in values], atol=1e-7)
    assert np.allclose(found.high, [np.mean(each) + np.std(each) for each in values], atol=1e-7)
    assert found.min.tolist() == [min(each) for each in values]
    assert found.max.tolist() == [max(each) for each in values]


@settings(max_examples=100, deadline=None)
@given(st.integers(1, 500), st.integers(1, 20), st.floats(0, 1), st.floats(0, 1))
def test_a_thinned_group_keeps_what_stands_out_of_each_column(count, columns, one, other) -> None:
    rng = np.random.default_rng(count)
    x = np.cumsum(rng.integers(1, 5, count)).astype(float)
    mean = rng.normal(size=count).round(1)
    spread, wide = rng.random(count), 1 + rng.random(count)
    whole = Merged(x, mean, mean - spread, mean + spread, mean - wide, mean + wide)
    start, end = (float(x[0] + (x[-1] - x[0]) * share) for share in sorted((one, other)))
    drawn, total, is_thinned = thinned(whole, View(columns, "step", start, end))
    inside = (x >= start) & (x <= end)
    assert total == inside.sum()
    assert is_thinned == (total > 4 * columns)
    if not is_thinned:
        assert {*drawn.x} >= {*x[inside]}
        return
    edges = start + (end - start) * (np.arange(columns) / columns)
    column = np.searchsorted(edges, x, side="right") - 1
    kept = np.searchsorted(edges, drawn.x, side="right") - 1
    is_kept = (drawn.x >= start) & (drawn.x <= end)
    for number in {*column[inside].tolist()}:
        all_of, some = inside & (column == number), is_kept & (kept == number)
        assert drawn.x[some][0] == x[all_of][0]
        assert drawn.x[some][-1] == x[all_of][-1]
        assert drawn.mean[some].min() == whole.mean[all_of].min()
        assert drawn.mean[some].max() == whole.mean[all_of].max()
        assert drawn.low[some].min() == whole.low[all_of].min()
        assert drawn.high[some].max() == whole.high[all_of].max()
        assert drawn.min[some].min() == whole.min[all_of].min()
        assert drawn.max[some].max() == whole.max[all_of].max()


def test_too_many_different_x_are_computed_in_cells() -> None:
    rng = np.random.default_rng(2)
    curves = []
    for _ in range(3):
        x = np.sort(rng.random(1000)) * 100
        x[0], x[-1] = 0.0, 100.0
        curves.append((x, np.where(x < 50, 1.0, 3.0) + rng.integers(0, 2)))
    found = of(*curves, most=100)
    assert len(found.x) == 100
    assert found.x[0] == 0.5
    levels = [y[0] for _, y in curves]
    assert np.allclose(found.mean[:49], np.mean(levels))
    assert np.allclose(found.high[:49], np.mean(levels) + np.std(levels))
    assert np.allclose(found.max[51:], max(levels) + 2)


def test_a_group_of_jobs_has_the_same_numbers_whatever_else_is_shown(jobs, finished) -> None:
    finished("seed-1", {"": {"loss": [(1, 1.0), (2, 2.0), (3, 3.0)]}})
    finished("seed-2", {"": {"loss": [(1, 3.0), (3, 7.0), (5, 9.0)]}})
    finished("other", {"": {"loss": [(step, 100.0) for step in range(50)]}})
    reader = CurveReader(jobs)
    seeds = [{"job": job, "id": LOSS} for job in ("seed-1", "seed-2", "gone")]
    others = {"key": "others", "curves": [{"job": "other", "id": LOSS}]}
    request = {"groups": [{"key": "seeds", "curves": seeds}], "x": "step", "points": 100}
    alone = [*reader.groups(GroupRequest.from_json(request))]
    request["groups"] = [others, {"key": "seeds", "curves": seeds[::-1]}]
    beside = [*reader.groups(GroupRequest.from_json(request))]
    frames = [encode(item.as_frame_item() for item in items) for items in (alone, beside[1:])]
    assert frames[0] == frames[1]
    [item] = decode(frames[0])
    arrays = {name: array.tolist() for name, array in item["arrays"].items()}
    assert [*arrays] == [*NAMES]
    assert arrays["x"] == [1.0, 2.0, 3.0, 5.0]
    assert arrays["mean"] == [2.0, 3.5, 5.0, 9.0]
    assert arrays["low"] == [1.0, 2.0, 3.0, 9.0]
    assert arrays["high"] == [3.0, 5.0, 7.0, 9.0]
    assert arrays["min"] == [1.0, 2.0, 3.0, 9.0]
    assert arrays["max"] == [3.0, 5.0, 7.0, 9.0]
    assert (item["key"], item["total"], item["curves"]) == ("seeds", 4, 2)
    assert "gone" in item["errors"][0]
    reader.close()


@pytest.mark.parametrize(
    "groups",
    [None, {}, [{}], [{"key": 1, "curves": []}], [{"key": "a"}], [{"key": "", "curves": []}] * 201],
)
def test_groups_that_break_the_contract_are_refused(groups) -> None:
    with pytest.raises(InvalidCurveRequest):
        GroupRequest.from_json({"groups": groups, "x": "step", "points": 10})
    with pytest.raises(InvalidCurveRequest):
        GroupRequest.from_json(None)


def test_a_group_over_relative_time_starts_at_each_job_s_beginning(jobs, finished) -> None:
    finished("a", {"": {"loss": [(0, 1.0)]}})
    finished("b", {"": {"loss": [(0, 3.0)]}})
    refs = (CurveRef("a", LOSS), CurveRef("b", LOSS))
    request = GroupRequest((("both", refs),), View(10, "relative"))
    [item] = CurveReader(jobs).groups(request)
    assert item.merged.x.tolist() == [0.0]
    assert item.merged.mean.tolist() == [2.0]

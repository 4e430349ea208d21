"""Thinned curves keep what a person would have seen."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some

from trackside.curves.downsample import in_order, thin

VALUES = some.lists(some.floats(width=32), max_size=300)


@given(VALUES, some.integers(0, 60))
def test_no_more_than_requested_in_order_and_with_the_last(values: list[float], limit: int):
    chosen = thin(np.array(values, dtype=np.float64), limit).tolist()
    assert len(chosen) <= limit or len(values) <= limit
    assert chosen == sorted(set(chosen))
    if values and limit:
        assert chosen[-1] == len(values) - 1


@given(VALUES, some.integers(5, 60))
def test_the_extremes_and_a_nan_are_among_them(values: list[float], limit: int):
    whole = np.array(values, dtype=np.float64)
    kept = whole[thin(whole, limit)]
    numbers, kept_numbers = whole[~np.isnan(whole)], kept[~np.isnan(kept)]
    if len(numbers):
        assert kept_numbers.max() == numbers.max()
        assert kept_numbers.min() == numbers.min()
    assert np.isnan(kept).any() == np.isnan(whole).any()


def test_every_spike_of_a_long_curve_stays():
    values = np.zeros(100_000)
    values[[17, 5_000, 77_777, 99_998]] = [9, -9, 8, 7]
    assert {9, -9, 8, 7} <= set(values[thin(values, 1000)])


@pytest.mark.parametrize(
    ("steps", "kept"),
    [
        ([], []),
        ([1, 2, 3], [1, 2, 3]),
        ([0, 0, 0], [0, 0, 0]),
        ([1, 2, 3, 4, 2, 3], [1, 2, 2, 3]),
        ([5, 6, 1, 2, 9, 3], [1, 2, 3]),
    ],
)
def test_what_a_resumed_script_wrote_last_counts(steps: list[int], kept: list[int]):
    array = np.array(steps, dtype=np.int64)
    which = in_order(array)
    assert (array if which is None else array[which]).tolist() == kept

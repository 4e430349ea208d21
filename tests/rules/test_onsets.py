from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from trackside.rules.onsets import HEALTHY_CHECKS, Onsets


def begun(onsets: Onsets, names: str, holds: Any, saved: Any = None) -> list[tuple[int, int]]:
    holds = np.array(holds, bool)
    return [*onsets.of(names, holds, np.ones_like(holds) if saved is None else np.array(saved))]


def test_it_starts_once_for_each_thing():
    assert begun(Onsets(), "ab", [[0, 1], [1, 1], [1, 0], [0, 1]]) == [(0, 1), (1, 0)]


def test_what_is_now_above_and_now_below_a_threshold_is_one_illness():
    around = ([[1]] + [[0]] * (HEALTHY_CHECKS - 1)) * 5
    assert begun(Onsets(), "a", around) == [(0, 0)]


def test_it_starts_again_after_it_was_healthy_for_a_good_while():
    assert begun(Onsets(), "a", [[1]] + [[0]] * HEALTHY_CHECKS + [[1], [1]]) == [
        (0, 0),
        (HEALTHY_CHECKS + 1, 0),
    ]


def test_an_illness_goes_on_from_one_check_to_the_next():
    onsets = Onsets(healthy_checks=2)
    assert begun(onsets, "ab", [[1, 0]]) == [(0, 0)]
    assert begun(onsets, "ab", [[1, 1], [0, 1]]) == [(0, 1)]
    assert begun(onsets, "ba", [[1, 1], [0, 0]]) == []
    assert begun(onsets, "ab", [[0, 1], [1, 1]]) == [(1, 0)]


def test_a_step_at_which_it_was_not_saved_changes_nothing():
    onsets = Onsets(healthy_checks=2)
    assert begun(onsets, "a", [[1], [0], [0], [1]], [[True], [False], [True], [True]]) == [(0, 0)]
    assert begun(onsets, "a", [[0], [0]], [[False], [True]]) == []
    assert begun(onsets, "a", [[0], [1]]) == [(1, 0)]


@given(st.lists(st.booleans(), max_size=40), st.integers(1, 4), st.integers(0, 40))
def test_one_thing_judged_at_a_time_follows_the_same_rule(holds, well_looks, cut):
    one, many = Onsets(well_looks), Onsets(well_looks)
    expected = [row for row, each in enumerate(holds) if one.begins("x", each)]
    column = [[each] for each in holds]
    found = [row for row, _ in begun(many, "x", column[:cut])] if column[:cut] else []
    if column[cut:]:
        found += [cut + row for row, _ in begun(many, "x", column[cut:])]
    assert found == expected


def test_a_check_without_a_step_does_not_change_open_conditions():
    onsets = Onsets()
    assert begun(onsets, "a", [[1]]) == [(0, 0)]
    assert begun(onsets, "a", np.empty((0, 1))) == []
    assert begun(onsets, "a", [[1]]) == []

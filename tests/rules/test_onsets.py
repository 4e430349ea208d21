from typing import Any

import numpy as np

from trackside.rules.onsets import Onsets


def begun(onsets: Onsets, names: str, holds: Any, saved: Any = None) -> list[tuple[int, int]]:
    holds = np.array(holds, bool)
    return [*onsets.of(names, holds, np.ones_like(holds) if saved is None else np.array(saved))]


def test_it_begins_once_and_again_after_it_was_well():
    assert begun(Onsets(), "ab", [[0, 1], [1, 1], [1, 0], [0, 1]]) == [(0, 1), (1, 0), (3, 1)]


def test_what_was_bad_at_the_last_look_does_not_begin_again():
    onsets = Onsets()
    assert begun(onsets, "ab", [[1, 0]]) == [(0, 0)]
    assert begun(onsets, "ab", [[1, 1], [0, 1]]) == [(0, 1)]
    assert begun(onsets, "ba", [[1, 1]]) == [(0, 1)]


def test_what_was_well_at_a_whole_look_may_begin_again():
    onsets = Onsets()
    assert begun(onsets, "ab", [[1, 0]]) == [(0, 0)]
    assert begun(onsets, "ab", [[0, 0]]) == []
    assert begun(onsets, "ab", [[1, 0]]) == [(0, 0)]


def test_a_step_at_which_it_was_not_saved_changes_nothing():
    onsets = Onsets()
    assert begun(onsets, "a", [[1], [0], [1]], [[True], [False], [True]]) == [(0, 0)]
    assert begun(onsets, "a", [[0]], [[False]]) == []
    assert begun(onsets, "a", [[1]]) == []


def test_one_thing_judged_at_a_time_follows_the_same_rule():
    onsets = Onsets()
    holds = [False, True, True, False, True]
    assert [onsets.begins("x", each) for each in holds] == [False, True, False, False, True]

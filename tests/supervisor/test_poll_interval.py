"""A supervisor looks often while something happens, and rests while nothing does."""

from trackside.supervisor.poll_interval import (
    CHORE_SECONDS,
    IDLE_CHORE_SECONDS,
    IDLE_SECONDS,
    QUICK_SECONDS,
    STILL_SECONDS,
    TICK_SECONDS,
    WOKEN_SECONDS,
    Pace,
)


def test_looks_are_close_at_first_and_while_the_job_moves():
    pace = Pace(100.0)
    assert pace.pause(101.0) == QUICK_SECONDS
    assert pace.pause(103.0) == TICK_SECONDS
    assert pace.pause(116.0) == IDLE_SECONDS
    pace.moved(120.0)
    assert pace.pause(134.0) == TICK_SECONDS
    assert pace.pause(136.0) == IDLE_SECONDS
    assert pace.pause(241.0) == STILL_SECONDS
    assert pace.pause(241.0, is_woken=True) == WOKEN_SECONDS
    pace.moved(241.0)
    assert pace.pause(242.0, is_woken=True) == TICK_SECONDS


def test_chores_wait_longer_while_nothing_happens():
    pace = Pace(100.0)
    assert pace.chore_pause(101.0) == CHORE_SECONDS
    assert pace.chore_pause(116.0) == IDLE_CHORE_SECONDS
    pace.moved(120.0)
    assert pace.chore_pause(121.0) == CHORE_SECONDS

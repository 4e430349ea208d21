"""How long a server is waited for: a table, and no waiting."""

import pytest

from trackside.remote.retry_policy import is_worth_retrying, pause_before


@pytest.mark.parametrize(("next_try", "most"), [(1, 0.2), (2, 0.4), (5, 3.2), (6, 5.0), (500, 5.0)])
def test_pauses_are_anywhere_up_to_twice_as_long_as_before(next_try: int, most: float):
    pauses = [pause_before(next_try, 0.0, 900.0) for _ in range(200)]
    known = [pause for pause in pauses if pause is not None]
    assert len(known) == 200
    assert 0 <= min(known) < most / 2 < max(known) <= most


@pytest.mark.parametrize(
    ("elapsed", "at_least", "least", "most"),
    [
        (0.0, 2.0, 2.0, 5.0),
        (9.5, 0.0, 0.0, 0.5),
        (9.5, 0.5, 0.5, 0.5),
    ],
)
def test_the_last_try_is_when_time_is_up(
    elapsed: float, at_least: float, least: float, most: float
):
    pause = pause_before(8, elapsed, 10.0, at_least)
    assert pause is not None
    assert least <= pause <= most


@pytest.mark.parametrize(("elapsed", "at_least"), [(10.0, 0.0), (11.0, 0.0), (9.0, 1.5)])
def test_nobody_waits_for_what_comes_too_late(elapsed: float, at_least: float):
    assert pause_before(1, elapsed, 10.0, at_least) is None


@pytest.mark.parametrize("status", [429, 502, 503, 504])
def test_a_busy_server_is_asked_again_and_again(status: int):
    assert is_worth_retrying(status, 100)


def test_a_server_that_breaks_is_asked_a_few_times_and_one_that_refuses_never():
    assert is_worth_retrying(500, 3)
    assert not is_worth_retrying(500, 4)
    assert not any(is_worth_retrying(status, 1) for status in (200, 400, 403, 404, 501))

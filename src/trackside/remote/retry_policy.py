"""How often and how long requests to an unreachable or busy server are retried. Pure."""

import random
from dataclasses import dataclass

_FIRST_SECONDS = 0.1
_LONGEST_SECONDS = 5.0
_FAULTS_MOST = 4
"""A server that fails at a request will do so again: a 500 is retried only a few times."""


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    away_seconds: float
    """For a server that does not respond."""
    busy_seconds: float
    """For a server that responds that it is busy."""
    way_out: str = ""
    """Advice for a user who does not want to wait that long."""


NO_RETRY = RetryPolicy(0.0, 0.0)
"""For requests that are optional."""
SHORT_RETRY = RetryPolicy(5.0, 60.0)
"""For a user who waits for the response."""
LONG_RETRY = RetryPolicy(900.0, 900.0, "The job goes on by itself: Ctrl-C leaves it running.")
"""For following a job, which continues by itself: an updated server is back before it finishes."""


def pause_before(
    next_try: int, elapsed_seconds: float, limit_seconds: float, at_least: float = 0.0
) -> float | None:
    """Seconds, up to twice the previous pause with jitter: clients that were cut off together do
    not reconnect together. None when time is up, or `at_least` is too long. `next_try` is 1 for the
    second.
    """
    left = limit_seconds - elapsed_seconds
    if left <= 0 or at_least > left:
        return None
    most = min(_LONGEST_SECONDS, _FIRST_SECONDS * 2 ** min(next_try, 16))
    return min(left, max(at_least, random.uniform(0, most)))


def is_worth_retrying(status: int, next_try: int) -> bool:
    if status == 500:
        return next_try < _FAULTS_MOST
    return status in (429, 502, 503, 504)

"""Waiting for something to become true, up to a deadline."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def until(condition: Callable[[], T], *, seconds: float = 20.0) -> T:
    """The first truthy answer of `condition`; a test that waits in vain fails with its name."""
    deadline = time.monotonic() + seconds
    while not (answer := condition()):
        if time.monotonic() > deadline:
            raise AssertionError(f"still {answer!r} after {seconds} s")
        time.sleep(0.005)
    return answer

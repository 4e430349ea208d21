"""Waiting for something to become true, up to a deadline."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def until(condition: Callable[[], T], *, seconds: float = 30.0) -> T:
    """The first truthy answer of `condition`; a test that waits in vain fails with its name."""
    deadline = time.monotonic() + seconds
    while True:
        last: T | FileNotFoundError
        try:
            if last := condition():
                return last
        except FileNotFoundError as error:  # files come and go while one looks at them
            last = error
        if time.monotonic() > deadline:
            raise AssertionError(f"still {last!r} after {seconds} s")
        time.sleep(0.005)

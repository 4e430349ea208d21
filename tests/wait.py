"""Waiting for something to become true: the one way in which tests wait."""

import inspect
import json
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

_PASSING = (OSError, json.JSONDecodeError)
"""Files, servers and processes come and go while one looks at them."""
_SHORTEST_SECONDS, _LONGEST_SECONDS = 0.005, 0.05


def until(condition: Callable[[], T], *, seconds: float = 60.0) -> T:
    """The first truthy answer of `condition`; whoever waits in vain is told for what.

    It is asked once more when the time is up: the machine may have stood still meanwhile.
    """
    deadline = time.monotonic() + seconds
    pause = _SHORTEST_SECONDS
    while True:
        is_late = time.monotonic() > deadline
        last: T | Exception
        try:
            if last := condition():
                return last
        except _PASSING as error:
            last = error
        if is_late:
            raise AssertionError(f"still {last!r} after {seconds} s: {_words(condition)}")
        time.sleep(pause)
        pause = min(_LONGEST_SECONDS, pause * 1.2)


def _words(condition: Callable[[], object]) -> str:
    if getattr(condition, "__name__", "") != "<lambda>":
        return repr(condition)
    try:
        return " ".join(inspect.getsource(condition).split())
    except OSError:
        return repr(condition)

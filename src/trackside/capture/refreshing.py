"""Switches a trial's refresh off and on. After the block it is the opposite: smdebug's behaviour,
which rules rely on.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar

from trackside.capture.trial import Trial

_Trials = TypeVar("_Trials", Trial, list[Trial])


@contextmanager
def no_refresh(trials: _Trials) -> Iterator[_Trials]:
    """Inside, nothing new is read: every query sees the same steps."""
    _set(trials, False)
    try:
        yield trials
    finally:
        _set(trials, True)


@contextmanager
def refresh(trials: _Trials) -> Iterator[_Trials]:
    """Inside, every query reads new data first."""
    _set(trials, True)
    try:
        yield trials
    finally:
        _set(trials, False)


def _set(trials: Trial | list[Trial], value: bool) -> None:
    for trial in trials if isinstance(trials, list) else [trials]:
        trial.dynamic_refresh = value

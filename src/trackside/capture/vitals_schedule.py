"""When vitals are taken: always at the start, then as often as their measured cost allows."""

from collections import deque
from statistics import median

DENSE = 50
"""Steps at the start of which every one is taken."""
WIDEST = 50
"""No more steps than this lie between two that are taken, whatever they cost."""
SHARE = 0.005
"""Of training's time, for each of the two schedules: steps, and updates of the weights."""
_REMEMBERED = 11
"""Costs whose median counts; a single one may hold a pause of the whole machine."""


class Schedule:
    """Counts from 0. `spend` tells what the steps that were taken cost, `pass_time` how long
    all of them last."""

    def __init__(self, share: float = SHARE) -> None:
        self._share = share
        self._next = 0
        self._costs: deque[float] = deque(maxlen=_REMEMBERED)
        self._durations: deque[float] = deque(maxlen=_REMEMBERED)

    def is_due(self, count: int) -> bool:
        return count >= self._next

    def take(self, count: int) -> None:
        """The step is taken; says when the next one is."""
        self._next = count + (1 if count + 1 < DENSE else self.interval)

    def spend(self, seconds: float) -> None:
        self._costs.append(seconds)

    def pass_time(self, seconds: float) -> None:
        self._durations.append(seconds)

    @property
    def interval(self) -> int:
        """Steps from one that is taken to the next, once the start is over."""
        if not self._costs or not self._durations:
            return WIDEST
        affordable = median(self._durations) * self._share
        return max(1, min(WIDEST, -int(-median(self._costs) // max(affordable, 1e-9))))

"""When vitals are sampled: always at the start, then as often as their measured cost allows."""

from collections import deque
from statistics import median

FIRST = 10
"""Steps at the start that are all taken, whatever they cost."""
DENSE = 50
"""Steps at the start that are all taken, unless that costs more than `ALLOWANCE`."""
ALLOWANCE = 0.1
"""Seconds, for each of the two schedules: steps, and updates of the weights."""
SHARE = 0.005
"""Of training's time, for each of the two, once the start is over."""
_GROWTH = 4
"""An interval is not longer than the steps so far over this: short trainings are sampled, too."""
_REMEMBERED = 11
"""Costs whose median counts; a single one may hold a pause of the whole machine."""


class Schedule:
    """Counts from 0. `spend` records what a sampled step cost, `pass_time` how long steps last
    since the last sampled one."""

    def __init__(self, share: float = SHARE) -> None:
        self.count = 0
        """Steps that have started, for callers that do not count them."""
        self.next = 0
        """The step that is taken next."""
        self._share = share
        self._costs: deque[float] = deque(maxlen=_REMEMBERED)
        self._durations: deque[float] = deque(maxlen=_REMEMBERED)

    def is_due(self, count: int) -> bool:
        return count >= self.next

    def take(self, count: int) -> None:
        """The step is sampled; schedules the next one."""
        is_start = count + 1 < FIRST or (count + 1 < DENSE and self._is_affordable(count + 1))
        self.next = count + (1 if is_start else min(self.interval, max(1, count // _GROWTH)))

    def spend(self, seconds: float) -> None:
        self._costs.append(seconds)

    def pass_time(self, seconds: float) -> None:
        """Of one step; a mean of several is fine."""
        self._durations.append(seconds)

    @property
    def interval(self) -> int:
        """Steps from one sampled step to the next, by what they cost."""
        if not self._costs or not self._durations:
            return DENSE
        affordable = median(self._durations) * self._share
        return max(1, -int(-median(self._costs) // max(affordable, 1e-9)))

    def _is_affordable(self, num_steps: int) -> bool:
        return not self._costs or num_steps * median(self._costs) < ALLOWANCE

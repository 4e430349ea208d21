"""Which steps every rank samples, so that their figures can be compared, without the ranks talking
to each other.
"""

from collections import deque
from statistics import median

SHARE = 0.0015
"""Of training's time, for each of the two schedules: figures, and hashes of the weights. With what
every step costs, that stays below 0.5 %."""
_FIRST_INTERVAL, _MOST_INTERVAL = 16, 1 << 20
_REMEMBERED = 11
"""Costs and durations whose median counts; a single one may hold a pause of the whole machine."""


class CommonSteps:
    """The first steps, powers of two, and multiples of an interval. The interval is a power of two
    that each rank chooses by its own cost: so the steps of the more patient one of two ranks are
    steps of the other, too.
    """

    def __init__(self, num_first: int) -> None:
        self.interval = _FIRST_INTERVAL
        self._num_first = num_first
        self._costs: deque[float] = deque(maxlen=_REMEMBERED)
        self._durations: deque[float] = deque(maxlen=_REMEMBERED)

    def is_due(self, number: int) -> bool:
        """`number` counts training steps from 0."""
        return number < self._num_first or number % self.interval == 0 or number & (number - 1) == 0

    @staticmethod
    def is_timed(number: int) -> bool:
        """Four steps to each doubling, on every rank, whatever a sample costs: clocks cost next to
        nothing, and ranks of a short training have several stretches of steps in common."""
        return number % (1 << max(0, number.bit_length() - 3)) == 0

    def spend(self, seconds: float) -> None:
        """What a sampled step has cost."""
        self._costs.append(seconds)

    def pass_time(self, seconds: float) -> None:
        """The duration of a step."""
        self._durations.append(seconds)
        if self._costs:
            affordable = max(median(self._durations) * SHARE, 1e-9)
            steps = max(1.0, median(self._costs) / affordable)
            self.interval = min(_MOST_INTERVAL, 1 << (int(steps - 1e-9)).bit_length())

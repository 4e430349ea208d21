"""When the last step began, and how long steps take: what a limit for hangs is made of."""

import statistics
import time
from collections import deque
from collections.abc import Callable

ENOUGH_STEPS = 5
"""Intervals before their median says something: the first ones load and compile."""
START_FACTOR = 6.0
"""Before that the limit is so many times the least one: 60 s. Nothing is known of the job, and
processes that meet for the first time wait for the slowest machine."""
OPEN_FACTOR = 6.0
"""Likewise where something outside the job may still end the wait: a server that computes its
answer, a program that runs, a sleep."""
MEDIAN_FACTOR = 20.0
SHOWN_FACTOR = 2.0
"""A job that has been still for so long before, and went on, may be so again, and longer."""


class Progress:
    """One per process. `mark` is called at each step, and is all that a running training pays."""

    __slots__ = ("_gaps", "at", "count", "mirror", "shown", "step")

    def __init__(self) -> None:
        self.at = time.monotonic()
        self.count = 0
        self.step = -1
        self.shown = 0.0
        """Seconds of the longest stillness that ended by itself."""
        self.mirror: Callable[[int], None] | None = None
        """Gets each step, too."""
        self._gaps: deque[float] = deque(maxlen=64)

    def mark(self, step: int) -> None:
        now = time.monotonic()
        if self.count:
            self._gaps.append(now - self.at)
        self.at = now
        self.count += 1
        self.step = step
        if self.mirror is not None:
            self.mirror(step)

    @property
    def quiet(self) -> float:
        return time.monotonic() - self.at

    def limit(self, least: float) -> float:
        """Seconds without a step and without any other sign of life, `least` at the least."""
        gaps = list(self._gaps)
        shown = SHOWN_FACTOR * self.shown
        if len(gaps) < ENOUGH_STEPS:
            return max(START_FACTOR * least, shown)
        return max(least, MEDIAN_FACTOR * statistics.median(gaps), shown)

"""How much one call may scan before it returns a page and a position to continue from.

A long scan pauses regularly: Python runs one thread at a time, and the event loop needs to run for
every event on any connection.
"""

import time
from collections.abc import Callable

ITEMS = 100_000
SECONDS = 2.0
_WORK_SECONDS = _REST_SECONDS = 0.001


class Budget:
    """Of one call. Something can be spent of it in any case, so that each page gets further."""

    def __init__(
        self,
        items: int = ITEMS,
        seconds: float = SECONDS,
        clock: Callable[[], float] = time.monotonic,
        *,
        least: int = 1,
    ) -> None:
        """At least `least` items can be spent, however little is left."""
        self._left = items
        self._least = least
        self._clock = clock
        self._works_since = clock()
        self._deadline = self._works_since + seconds
        self.is_spent = False

    def spend(self, items: int = 1) -> None:
        """May pause for a moment."""
        self._left -= items
        self._least -= 1
        now = self._clock()
        self.is_spent = self._least <= 0 and (self._left <= 0 or now >= self._deadline)
        if now - self._works_since > _WORK_SECONDS:
            time.sleep(_REST_SECONDS)
            self._works_since = self._clock()

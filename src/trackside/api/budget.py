"""How much one call may look through before it answers with what it has, and where to go on."""

import time
from collections.abc import Callable

ITEMS = 100_000
SECONDS = 1.0


class Budget:
    """Of one call. Something can be spent of it in any case, so that each page gets further."""

    def __init__(
        self,
        items: int = ITEMS,
        seconds: float = SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._left = items
        self._clock = clock
        self._deadline = clock() + seconds
        self.is_spent = False

    def spend(self, items: int = 1) -> None:
        self._left -= items
        self.is_spent = self._left <= 0 or self._clock() >= self._deadline

"""How long a supervisor rests between two looks at its job.

Short while the job is young or moves, long while nothing happens: hundreds of jobs that sleep must
cost next to nothing. The script's end is seen at once in any case.
"""

QUICK_SECONDS = 0.02
TICK_SECONDS = 0.1
IDLE_SECONDS = 1.0
QUICK_FOR_SECONDS = 2.0
IDLE_AFTER_SECONDS = 15.0
STILL_SECONDS = 2.0
STILL_AFTER_SECONDS = 120.0
WOKEN_SECONDS = 20.0
"""Between looks of one that is woken when something happens."""
CHORE_SECONDS = 1.0
"""Between looks at what changes rarely, …"""
IDLE_CHORE_SECONDS = 5.0
"""… and while nothing happens."""


class Pace:
    """Times are monotonic."""

    def __init__(self, now: float) -> None:
        self._began = self._moved_at = now

    def moved(self, now: float) -> None:
        """Something happened: more may follow soon."""
        self._moved_at = now

    def pause(self, now: float, *, is_woken: bool = False) -> float:
        """`is_woken`: nothing can happen of which the supervisor would not be told."""
        if now - self._began < QUICK_FOR_SECONDS:
            return QUICK_SECONDS
        if not self._is_idle(now):
            return TICK_SECONDS
        if now - self._moved_at < STILL_AFTER_SECONDS:
            return IDLE_SECONDS
        return WOKEN_SECONDS if is_woken else STILL_SECONDS

    def chore_pause(self, now: float) -> float:
        return IDLE_CHORE_SECONDS if self._is_idle(now) else CHORE_SECONDS

    def _is_idle(self, now: float) -> bool:
        return now - self._moved_at >= IDLE_AFTER_SECONDS

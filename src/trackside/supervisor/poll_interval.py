"""How long a supervisor pauses between two polls of its job.

The script's end is always noticed at once; `WakeUps` ends a pause early.
"""

QUICK_SECONDS = 0.02
TICK_SECONDS = 0.1
IDLE_SECONDS = 1.0
QUICK_FOR_SECONDS = 2.0
IDLE_AFTER_SECONDS = 15.0
STILL_SECONDS = 2.0
STILL_AFTER_SECONDS = 120.0
WOKEN_SECONDS = 20.0
"""Between polls of a supervisor that is woken when something happens."""
CHORE_SECONDS = 1.0
"""Between checks of what changes rarely, …"""
IDLE_CHORE_SECONDS = 5.0
"""… and while nothing happens."""


class PollInterval:
    """Short while the job is young or something happens, long while nothing does: hundreds of idle
    jobs must cost next to nothing. Times are monotonic."""

    def __init__(self, now: float) -> None:
        self._began = self._moved_at = now

    def moved(self, now: float) -> None:
        """Something happened: more may follow soon."""
        self._moved_at = now

    def pause(self, now: float, *, is_woken: bool = False) -> float:
        """`is_woken`: nothing can happen without waking the supervisor."""
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

"""How many logins of one client may fail. Secrets cannot be guessed in any number of attempts; this
keeps the attempts from costing much."""

import time
from collections import deque
from threading import Lock

from trackside.page.problems import TooManyLogins

WITHIN_SECONDS = 60.0
MOST_OF_CLIENT = 10
_MOST_KEPT = 1000
"""Of all clients: none can make the others wait."""


class LoginLimit:
    """Thread-safe."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._failures: deque[tuple[float, str]] = deque(maxlen=_MOST_KEPT)

    def check(self, source: str) -> None:
        """`TooManyLogins` when another attempt must wait."""
        since = time.monotonic() - WITHIN_SECONDS
        with self._lock:
            count = sum(each == source and moment > since for moment, each in self._failures)
        if count >= MOST_OF_CLIENT:
            raise TooManyLogins(f"{count} logins failed within a minute.", "Wait for a minute.")

    def note(self, source: str) -> None:
        """A login has failed."""
        with self._lock:
            self._failures.append((time.monotonic(), source))

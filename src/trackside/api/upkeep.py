"""Keeps jobs alive and the index true while a server runs: what clients of one machine do whenever
they look, a server does by itself."""

import logging
import time
from threading import Event, Thread

from trackside.jobs.jobs import Jobs

logger = logging.getLogger(__name__)

_PAUSE_SECONDS = 2.0


class Upkeep:
    """Owns one thread."""

    def __init__(self, jobs: Jobs) -> None:
        self._jobs = jobs
        self._ending = Event()
        self._thread = Thread(target=self._run, name="trackside-upkeep", daemon=True)
        self._done_at = time.monotonic()
        self.round_seconds = 0.0
        """How long the last round took that came to its end."""

    @property
    def age_seconds(self) -> float:
        """Since a round came to its end."""
        return time.monotonic() - self._done_at

    def start(self) -> None:
        self._jobs.refresh()
        self._done_at = time.monotonic()
        self._thread.start()

    def close(self, *, timeout: float) -> None:
        self._ending.set()
        self._thread.join(timeout)
        if self._thread.is_alive():
            logger.warning("the upkeep of jobs is still busy after %s s", timeout)

    def _run(self) -> None:
        while not self._ending.wait(_PAUSE_SECONDS):
            began = time.monotonic()
            try:
                self._jobs.reconcile()
                self._jobs.refresh()
                self._done_at = time.monotonic()
                self.round_seconds = self._done_at - began
            except Exception:
                logger.exception("jobs could not be looked after; trying again")

"""Keeps jobs alive and the index true while a server runs: what clients of one machine do whenever
they look, a server does by itself."""

import time

from trackside.jobs.jobs import Jobs
from trackside.system.worker import Worker

_PAUSE_SECONDS = 2.0


class Upkeep:
    """Owns one thread."""

    def __init__(self, jobs: Jobs) -> None:
        self._jobs = jobs
        self._worker = Worker(
            "trackside-upkeep",
            self._round,
            interval=_PAUSE_SECONDS,
            delay=_PAUSE_SECONDS,
            retry_seconds=(_PAUSE_SECONDS, _PAUSE_SECONDS),
            problem="jobs could not be reconciled; trying again",
        )
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
        self._worker.start()

    def close(self, *, timeout: float) -> None:
        self._worker.close(timeout)

    def _round(self) -> None:
        began = time.monotonic()
        self._jobs.reconcile()
        self._jobs.refresh()
        self._done_at = time.monotonic()
        self.round_seconds = self._done_at - began

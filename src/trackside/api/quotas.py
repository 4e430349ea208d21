"""Keeps the jobs of each owner within the quota of its keys, and rejects new ones where that is
impossible. `keys` has the quotas; `jobs/garbage_collection` decides what may be removed, as for
TRACKSIDE_KEEP.

Usage is measured in the background and remembered: a request within its quota by the last
measurement costs nothing. No request is rejected by an old measurement.
"""

import logging
import time
from collections.abc import Callable, Mapping
from math import inf
from threading import Lock

from trackside.errors import QuotaExceeded
from trackside.jobs.jobs import Jobs
from trackside.system.worker import Worker

logger = logging.getLogger(__name__)

_PAUSE_SECONDS = 60.0
_LEAST_REST = 20.0
"""Between two rounds, in times of what a round takes: a large disk is not read all the time."""
FRESH_SECONDS = 10.0
"""How old a measurement may be by which a request is rejected."""
_GB = 1e9


class Quotas:
    def __init__(self, jobs: Jobs, quotas: Callable[[], Mapping[str, int]]) -> None:
        """`quotas` has the bytes of each owner with a quota, as of now."""
        self._jobs = jobs
        self._quotas = quotas
        self._used: dict[str, int] = {}
        self._enforced: dict[str, tuple[float, int]] = {}
        """When each owner's usage was last reduced, by the monotonic clock, and what remained."""
        self._enforcing = Lock()
        self._worker = Worker(
            "trackside-quotas",
            self._round,
            interval=_PAUSE_SECONDS,
            retry_seconds=(_PAUSE_SECONDS, _PAUSE_SECONDS),
            problem="quotas could not be enforced; trying again",
        )

    def start(self) -> None:
        self._worker.start()

    def close(self, *, timeout: float) -> None:
        self._worker.close(timeout)

    def check(self, owner: str) -> None:
        """`QuotaExceeded` when the owner's jobs store too much, and none of it may be removed."""
        quota = self._quotas().get(owner)
        if quota is None or self._used.get(owner, 0) <= quota:
            return
        used = self._enforce(owner, quota)
        if used > quota:
            raise QuotaExceeded(
                f"The jobs of {owner!r} keep {used / _GB:.3f} GB on the server, more than their "
                f"quota of {quota / _GB:.3f} GB, and none of it may be removed now. Remove jobs "
                "with `trackside delete --data NAME`, wait for running ones, or ask the server's "
                "operator, who sees the quota with `trackside keys list`, what would go with "
                "`trackside gc --dry-run`, and sets it with `trackside keys quota`."
            )

    def _round(self) -> float:
        """Measure and enforce; the pause until the next round."""
        began = time.monotonic()
        quotas = self._quotas()
        self._used = self._jobs.disk.used_by(quotas) if quotas else {}
        for owner, quota in quotas.items():
            if self._used[owner] > quota:
                self._enforce(owner, quota)
        return max(_PAUSE_SECONDS, _LEAST_REST * (time.monotonic() - began))

    def _enforce(self, owner: str, quota: int) -> int:
        """Remove what may be removed until the rest fits; returns the usage then. One at a time:
        concurrent callers get the same result."""
        with self._enforcing:
            when, used = self._enforced.get(owner, (-inf, 0))
            if time.monotonic() - when >= FRESH_SECONDS:
                used = self._used[owner] = self._cleared(owner, quota)
                self._enforced[owner] = time.monotonic(), used
            return used

    def _cleared(self, owner: str, quota: int) -> int:
        disk = self._jobs.disk
        used = disk.used_by([owner])[owner]
        freed = 0
        for item in disk.find_beyond(owner, quota, used):
            if self._worker.is_closing:
                break
            if disk.remove(item):
                freed += item.size_bytes
                logger.info("removed the %s of %s: %d bytes", item.kind, item.name, item.size_bytes)
        if not freed:
            return used
        logger.info("freed %d bytes by the quota of %s", freed, owner)
        return disk.used_by([owner])[owner]

"""Frees the server's disk by itself, within TRACKSIDE_KEEP: what `trackside gc` does, each hour."""

import logging

from trackside.jobs.jobs import Jobs
from trackside.jobs.retention import Keep
from trackside.system.worker import Worker

logger = logging.getLogger(__name__)

_PAUSE_SECONDS = 3600.0


class GarbageCollector:
    """Owns one thread, apart from the upkeep of jobs, which must not wait for a large disk."""

    def __init__(self, jobs: Jobs, keep: Keep) -> None:
        """Nothing is removed where everything is kept."""
        self._jobs = jobs
        self._keep = keep
        self._worker = Worker(
            "trackside-clearing",
            self._clear,
            interval=_PAUSE_SECONDS,
            retry_seconds=(_PAUSE_SECONDS, _PAUSE_SECONDS),
            problem="the disk could not be freed; trying again in an hour",
        )

    def start(self) -> None:
        if self._keep != Keep():
            self._worker.start()

    def close(self, *, timeout: float) -> None:
        self._worker.close(timeout)

    def _clear(self) -> None:
        disk, freed = self._jobs.disk, 0
        for item in disk.find(self._keep):
            if self._worker.is_closing:
                return
            if disk.remove(item):
                freed += item.size_bytes
                logger.info("removed the %s of %s: %d bytes", item.kind, item.name, item.size_bytes)
        if freed:
            logger.info("freed %d bytes by TRACKSIDE_KEEP", freed)

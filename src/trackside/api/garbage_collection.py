"""Frees the server's disk by itself, within TRACKSIDE_KEEP: what `trackside gc` does, each hour."""

import logging
from threading import Event, Thread

from trackside.jobs.jobs import Jobs
from trackside.jobs.retention import Keep

logger = logging.getLogger(__name__)

_PAUSE_SECONDS = 3600.0


class GarbageCollector:
    """Owns one thread, apart from the upkeep of jobs, which must not wait for a large disk."""

    def __init__(self, jobs: Jobs, keep: Keep) -> None:
        """Nothing is removed where everything is kept."""
        self._jobs = jobs
        self._keep = keep
        self._ending = Event()
        self._thread = Thread(target=self._run, name="trackside-clearing", daemon=True)

    def start(self) -> None:
        if self._keep != Keep():
            self._thread.start()

    def close(self, *, timeout: float) -> None:
        self._ending.set()
        if self._thread.ident is not None:
            self._thread.join(timeout)

    def _run(self) -> None:
        while not self._ending.is_set():
            try:
                self._clear()
            except Exception:
                logger.exception("the disk could not be freed; trying again in an hour")
            self._ending.wait(_PAUSE_SECONDS)

    def _clear(self) -> None:
        disk, freed = self._jobs.disk, 0
        for item in disk.find(self._keep):
            if self._ending.is_set():
                return
            if disk.remove(item):
                freed += item.size_bytes
                logger.info("removed the %s of %s: %d bytes", item.kind, item.name, item.size_bytes)
        if freed:
            logger.info("freed %d bytes by TRACKSIDE_KEEP", freed)

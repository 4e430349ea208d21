"""The background threads of a server: jobs are kept alive and the index current, the disk is freed,
and the embedded buckets are rid of unfinished files and abandoned uploads."""

import logging
import os
import time
from abc import ABC, abstractmethod
from pathlib import Path
from threading import Event, Thread

from trackside.api.s3.buckets import Buckets
from trackside.api.s3.uploads import Uploads
from trackside.jobs.jobs import Jobs
from trackside.jobs.retention import Keep
from trackside.storage.partial_file import is_temporary, sweep

logger = logging.getLogger(__name__)

_ROUND_PAUSE_SECONDS = 2.0
_CLEANUP_PAUSE_SECONDS = 3600.0


class BackgroundThread(ABC):
    """Runs `_run` until it is closed; `_ending` is set then."""

    def __init__(self, name: str) -> None:
        self._ending = Event()
        self._thread = Thread(target=self._run, name=f"trackside-{name}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self, *, timeout: float) -> None:
        self._ending.set()
        if self._thread.ident is not None:
            self._thread.join(timeout)
        if self._thread.is_alive():
            logger.warning("%s is still busy after %s s", self._thread.name, timeout)

    @abstractmethod
    def _run(self) -> None: ...


class Upkeep(BackgroundThread):
    """Restarts supervisors that died and updates the index: clients of one machine do that with
    every command, a server by itself."""

    def __init__(self, jobs: Jobs) -> None:
        super().__init__("upkeep")
        self._jobs = jobs
        self._done_at = time.monotonic()
        self.round_seconds = 0.0
        """How long the last complete round took."""

    @property
    def age_seconds(self) -> float:
        """Since the last complete round."""
        return time.monotonic() - self._done_at

    def start(self) -> None:
        self._jobs.refresh()
        self._done_at = time.monotonic()
        super().start()

    def _run(self) -> None:
        while not self._ending.wait(_ROUND_PAUSE_SECONDS):
            started = time.monotonic()
            try:
                self._jobs.reconcile()
                self._jobs.refresh()
                self._done_at = time.monotonic()
                self.round_seconds = self._done_at - started
            except Exception:
                logger.exception("the upkeep of jobs failed; trying again")


class GarbageCollector(BackgroundThread):
    """`trackside gc` once an hour, within TRACKSIDE_KEEP. Separate from the upkeep of jobs, which
    must not wait for a large disk."""

    def __init__(self, jobs: Jobs, keep: Keep) -> None:
        super().__init__("garbage-collection")
        self._jobs = jobs
        self._keep = keep

    def start(self) -> None:
        """Does nothing where everything is kept."""
        if self._keep != Keep():
            super().start()

    def _run(self) -> None:
        while not self._ending.is_set():
            try:
                self._clear()
            except Exception:
                logger.exception("the disk could not be freed; trying again in an hour")
            self._ending.wait(_CLEANUP_PAUSE_SECONDS)

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


class BucketCleanup(BackgroundThread):
    """Removes the unfinished files of a killed server once, and abandoned uploads every hour."""

    def __init__(self, root: Path, upload_age_seconds: float) -> None:
        """An age of 0 keeps uploads for ever."""
        super().__init__("bucket-cleanup")
        self._root = root
        self._age_seconds = upload_age_seconds

    def _run(self) -> None:
        try:
            self._sweep()
            while not self._ending.is_set() and self._age_seconds:
                drop_abandoned_uploads(self._root, self._age_seconds)
                self._ending.wait(_CLEANUP_PAUSE_SECONDS)
        except Exception:
            logger.exception("the cleanup of buckets failed; it runs again after a restart")

    def _sweep(self) -> None:
        for folder, _, names in os.walk(self._root):
            if self._ending.is_set():
                return
            if any(is_temporary(name) for name in names):
                sweep(folder)


def drop_abandoned_uploads(root: Path, age_seconds: float) -> None:
    """Those to which no part was added for so long."""
    oldest = time.time() - age_seconds
    buckets = Buckets(str(root))
    for bucket in buckets.all():
        for upload_id in Uploads(buckets.get(bucket.name)).drop_older(oldest):
            logger.info(
                "abandoned upload %s to bucket %s was removed: no part came for %.0f s",
                upload_id,
                bucket.name,
                age_seconds,
            )

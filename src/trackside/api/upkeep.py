"""The background work of a server: restarts supervisors, updates the index, frees disk space, and
removes unfinished files and abandoned uploads from the embedded buckets.
"""

import logging
import os
import time
from pathlib import Path

from trackside.api.s3.buckets import Buckets
from trackside.api.s3.uploads import Uploads
from trackside.jobs.jobs import Jobs
from trackside.jobs.retention import Keep
from trackside.storage.partial_file import is_temporary, sweep
from trackside.system.worker import Worker

logger = logging.getLogger(__name__)

_ROUND_PAUSE_SECONDS = 2.0
_CLEANUP_PAUSE_SECONDS = 3600.0


class Upkeep:
    """Restarts supervisors that died and updates the index: on one machine every command does that,
    a server does it by itself.
    """

    def __init__(self, jobs: Jobs) -> None:
        self._jobs = jobs
        self._worker = Worker(
            "trackside-upkeep",
            self._round,
            interval=_ROUND_PAUSE_SECONDS,
            delay=_ROUND_PAUSE_SECONDS,
            retry_seconds=(_ROUND_PAUSE_SECONDS, _ROUND_PAUSE_SECONDS),
            problem="jobs could not be reconciled; trying again",
        )
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
        self._worker.start()

    def close(self, *, timeout: float) -> None:
        self._worker.close(timeout)

    def _round(self) -> None:
        started = time.monotonic()
        self._jobs.reconcile()
        self._jobs.refresh()
        self._done_at = time.monotonic()
        self.round_seconds = self._done_at - started


class GarbageCollector:
    """`trackside gc` once an hour, within TRACKSIDE_KEEP. Separate from the upkeep of jobs, which
    must not wait for a large disk."""

    def __init__(self, jobs: Jobs, keep: Keep) -> None:
        self._jobs = jobs
        self._keep = keep
        self._worker = Worker(
            "trackside-garbage-collection",
            self._clear,
            interval=_CLEANUP_PAUSE_SECONDS,
            retry_seconds=(_CLEANUP_PAUSE_SECONDS, _CLEANUP_PAUSE_SECONDS),
            problem="the disk could not be freed; trying again in an hour",
        )

    def start(self) -> None:
        """Does nothing where everything is kept."""
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


class BucketCleanup:
    """Removes the unfinished files of a killed server once, and abandoned uploads every hour."""

    def __init__(self, root: Path, upload_age_seconds: float) -> None:
        """An age of 0 keeps uploads for ever."""
        self._root = root
        self._age_seconds = upload_age_seconds
        self._has_swept = False
        self._worker = Worker(
            "trackside-bucket-cleanup",
            self._clean,
            interval=_CLEANUP_PAUSE_SECONDS,
            retry_seconds=(60.0, _CLEANUP_PAUSE_SECONDS),
            problem="the buckets could not be cleaned up; trying again",
        )

    def start(self) -> None:
        self._worker.start()

    def close(self, *, timeout: float) -> None:
        self._worker.close(timeout)

    def _clean(self) -> None:
        if not self._has_swept:
            self._sweep()
            self._has_swept = True
        if self._age_seconds and not self._worker.is_closing:
            drop_abandoned_uploads(self._root, self._age_seconds)

    def _sweep(self) -> None:
        for folder, _, names in os.walk(self._root):
            if self._worker.is_closing:
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

"""Keeps the embedded buckets free of what nobody will come back for: files that a killed server
left half-written, and multipart uploads that were abandoned."""

import logging
import os
import time
from pathlib import Path

from trackside.api.s3.buckets import Buckets
from trackside.api.s3.uploads import Uploads
from trackside.storage.partial_file import is_temporary, sweep
from trackside.system.worker import Worker

logger = logging.getLogger(__name__)

_PAUSE_SECONDS = 3600.0


class BucketCleanup:
    """Owns one thread: it sweeps once, and looks at uploads from time to time."""

    def __init__(self, root: Path, upload_age_seconds: float) -> None:
        """An age of 0 keeps uploads for ever."""
        self._root = root
        self._age_seconds = upload_age_seconds
        self._has_swept = False
        self._worker = Worker(
            "trackside-s3-tidying",
            self._clean,
            interval=_PAUSE_SECONDS,
            retry_seconds=(60.0, _PAUSE_SECONDS),
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
    """Those to which nothing was added for so long."""
    oldest = time.time() - age_seconds
    buckets = Buckets(str(root))
    for bucket in buckets.all():
        for upload_id in Uploads(buckets.get(bucket.name)).drop_older(oldest):
            logger.info(
                "upload %s to bucket %s was given up: nothing came for %.0f s",
                upload_id,
                bucket.name,
                age_seconds,
            )

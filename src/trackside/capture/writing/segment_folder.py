"""The folder of a worker's files: complete under their names, or not there at all."""

import os
import time
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from threading import Lock

from trackside.capture.trial_layout import SegmentName, segments_of
from trackside.capture.writing.direct_output import DirectOutput
from trackside.capture.writing.segments import Skipped, StepRecord, lay_out, write_parts
from trackside.files.durable import sync_folder

_LARGE_BYTES = 4 << 20
"""From this size on a segment is not left in the page cache, if its writer may wait."""


class SegmentFolder:
    """Safe to use from two threads. Syncs only on request: see `sync_one`."""

    def __init__(self, path: Path, worker: str) -> None:
        self.path = path
        self._worker = worker
        self._segments = path / segments_of(worker)
        self._session = time.time_ns() // 1_000_000
        self._next_number = 0
        self._lock = Lock()
        self._unsynced: deque[Path] = deque(maxlen=1024)

    @property
    def has_unsynced(self) -> bool:
        return bool(self._unsynced)

    def write(
        self, records: Sequence[StepRecord], direct: DirectOutput | None = None
    ) -> list[Skipped]:
        """One segment of these records; returns the tensors that cannot be stored.

        With `direct`, the caller waits for the disk if the segment is large.
        """
        segment = lay_out(records, self._worker)
        with self._lock:
            number, self._next_number = self._next_number, self._next_number + 1
        path = self._segments / str(SegmentName(self._session, number, records[0].step))
        temporary = _temporary(path)
        descriptor = _create(temporary)
        try:
            try:
                if direct is not None and segment.size_bytes >= _LARGE_BYTES:
                    direct.write(descriptor, segment.parts)
                else:
                    write_parts(descriptor, segment.parts)
            finally:
                os.close(descriptor)
            os.rename(temporary, path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        self._unsynced.append(path)
        return segment.skipped

    def put(self, name: str, data: bytes) -> None:
        """A small file; an existing one is replaced."""
        path = self.path / name
        temporary = _temporary(path)
        descriptor = _create(temporary)
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
        os.replace(temporary, path)

    def sync_one(self) -> None:
        """Make the oldest segment durable that is not known to be on disk."""
        try:
            descriptor = os.open(self._unsynced.popleft(), os.O_RDONLY)
        except (FileNotFoundError, IndexError):
            return  # sent to the object store and removed, or none is left
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def sync_all(self) -> None:
        while self._unsynced:
            self.sync_one()
        if self._segments.exists():
            sync_folder(self._segments)


def _temporary(path: Path) -> Path:
    # The form of name that folder stores and uploads ignore.
    return path.with_name(f".trackside-{os.getpid()}-{path.name}.part")


def _create(path: Path) -> int:
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
    try:
        return os.open(path, flags, 0o666)
    except FileNotFoundError:
        path.parent.mkdir(parents=True, exist_ok=True)
        return os.open(path, flags, 0o666)

"""Takes step records from the training thread and writes them as segments in the background."""

import hashlib
import json
import logging
import os
import time
from collections import deque
from collections.abc import Callable, Mapping
from pathlib import Path
from threading import Condition, RLock, Thread
from types import TracebackType
from typing import Any

from trackside.capture.exceptions import SMDebugRuntimeError, SMDebugTypeError, SMDebugValueError
from trackside.capture.trial_layout import (
    END_MARKER,
    anatomy_file,
    collections_file,
    is_worker_name,
)
from trackside.capture.writing.direct_output import DirectOutput
from trackside.capture.writing.segment_folder import SegmentFolder
from trackside.capture.writing.segments import StepRecord, record_size
from trackside.capture.writing.upload import Uploader
from trackside.quick_dataclass import dataclass
from trackside.settings import Settings
from trackside.storage.locate import Location, locate

logger = logging.getLogger(__name__)

_AGE_GROWTH = 200
"""A segment may be as old as the run's age over this: readers of a young run see it live, and a run
of a day creates thousands of files, not tens of thousands.
"""
_OLDEST = 10
"""Multiple of `age_seconds` at which that growth ends."""
_PATIENT_GROWTH = 10
"""The same as `_AGE_GROWTH`, up to `patient_seconds`."""


@dataclass(frozen=True, slots=True)
class WriterLimits:
    memory_bytes: int = 128 << 20
    """Records in memory. Further ones are written by the thread that adds them."""
    segment_bytes: int = 16 << 20
    age_seconds: float = 2.0
    """How long a record waits at most for others to share its segment, in a young run."""
    patient_seconds: float = 0.0
    """The same in a run ten times as old: for readers that look every few seconds, since each
    segment costs them, and what uploads it, some milliseconds."""


@dataclass(frozen=True, slots=True)
class WriterReport:
    """What happened to the records so far."""

    num_segments: int
    num_bytes: int
    num_spilled: int
    """Records that the training thread wrote itself because memory was full."""
    num_lost: int
    """Records that could not be written."""
    num_waiting: int
    """Files not yet in the object store; they stay in `folder` and go with the next run."""
    folder: Path
    failure: Exception | None
    """The first error."""


class SegmentWriter:
    """Owns one thread, and a second one when `out_dir` is in an object store.

    `add` never waits for disk or network while memory lasts, and nothing here raises into
    training after construction: errors are stored in `failure`, counted, and logged once.
    Segments are synced to disk when idle and, for the rest, before the end marker. A power cut
    may tear the last ones; readers then report it.
    """

    def __init__(
        self,
        out_dir: str,
        worker: str,
        *,
        home: Path | None = None,
        limits: WriterLimits | None = None,
    ) -> None:
        if not is_worker_name(worker):
            raise SMDebugValueError(
                f"Worker name {worker!r} cannot be a file name. Use letters, digits, '_', '.', '-'."
            )
        self.failure: Exception | None = None
        """The first since the last one was taken from here."""
        self._is_reported = False
        self._limits = limits or WriterLimits()
        self._collections_file = collections_file(worker)
        self._anatomy_file = anatomy_file(worker)
        home = home or Settings.load().home
        target = locate(out_dir, home=home)
        self._folder = SegmentFolder(target.local or _staging(home, target, worker), worker)
        self._uploader = None if target.local else Uploader(self._folder.path, target)
        # Files for a store are read again at once: keep them in the page cache.
        self._direct = DirectOutput() if self._uploader is None else None
        self._started = time.monotonic()
        self._num_segments = self._num_bytes = self._num_spilled = self._num_lost = 0
        self._waiting: deque[tuple[StepRecord, int]] = deque()
        self._waiting_bytes = self._writing_bytes = 0
        self._oldest = 0.0
        self._files: dict[str, str | Mapping[str, Any]] = {}
        self._closing = self._is_urgent = self._is_busy = False
        self._pid = os.getpid()
        lock = RLock()
        self._wake = Condition(lock)
        """For the writer's thread, which alone waits for it."""
        self._done = Condition(lock)
        self._thread = Thread(target=self._run, name="trackside-capture", daemon=True)
        self._thread.start()

    def __enter__(self) -> "SegmentWriter":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def add(self, record: StepRecord) -> None:
        """Take the record over; from here on it belongs to the writer."""
        if os.getpid() != self._pid:
            return  # a forked data loader has the hook but not the thread
        try:
            size = record_size(record)
        except (AttributeError, TypeError) as error:
            self._fail(error, num_lost=1)
            return
        with self._wake:
            closed = self._closing
            fits = not closed and self._fits(size)
            if fits:
                self._enqueue(record, size)
            elif not closed:
                self._num_spilled += 1
        if closed:
            self._fail(SMDebugRuntimeError("A step was added to a closed writer."), num_lost=1)
        elif not fits:
            self._write([record], size)

    def put_collections(self, collections: str | Mapping[str, Any]) -> None:
        """Store the JSON of `CollectionManager`; a later one replaces it."""
        self.put_file(self._collections_file, collections)

    def put_anatomy(self, anatomy: Mapping[str, Any]) -> None:
        """Store what is known about the training; a later one replaces it."""
        self.put_file(self._anatomy_file, anatomy)

    def put_file(self, name: str, content: str | Mapping[str, Any]) -> None:
        """A small file beside the segments; a later one of that name replaces it.

        `content` is the writer's from here on: the thread makes JSON of it.
        """
        with self._wake:
            self._files[name] = content
            self._wake.notify()

    def report(self) -> WriterReport:
        upload_failure = None if self._uploader is None else self._uploader.failure
        num_waiting = 0 if self._uploader is None else self._uploader.num_waiting
        with self._wake:
            return WriterReport(
                num_segments=self._num_segments,
                num_bytes=self._num_bytes,
                num_spilled=self._num_spilled,
                num_lost=self._num_lost,
                num_waiting=num_waiting,
                folder=self._folder.path,
                failure=self.failure or upload_failure,
            )

    def flush(self, timeout: float) -> None:
        """Wait until readers can see what was passed, for so many seconds at most."""
        if os.getpid() != self._pid:
            return
        deadline = time.monotonic() + timeout
        with self._wake:
            self._is_urgent = True
            self._wake.notify()
            self._done.wait_for(self._is_idle, timeout)
            self._is_urgent = False
        if self._uploader is not None:
            self._uploader.flush(max(0.0, deadline - time.monotonic()))

    def close(self, end_marker: bool = True, *, timeout: float = 60.0) -> WriterReport:
        """Write the rest, mark the end, and upload it, for so many seconds at most."""
        deadline = time.monotonic() + timeout
        with self._wake:
            first, self._closing = not self._closing, True
            self._wake.notify()
        self._thread.join(timeout)
        if self._thread.is_alive():
            self._fail(TimeoutError(f"Segments were still being written after {timeout} s."))
        elif first:
            self._finish(end_marker)
        if self._uploader is not None:
            self._uploader.close(max(0.0, deadline - time.monotonic()))
        report = self.report()
        if first and report.num_waiting:
            logger.warning(
                "%d capture files are not in the object store yet. They are kept in %s.",
                report.num_waiting,
                report.folder,
            )
        return report

    def _fits(self, size: int) -> bool:
        held = self._waiting_bytes + self._writing_bytes
        return held == 0 or held + size <= self._limits.memory_bytes

    def _enqueue(self, record: StepRecord, size: int) -> None:
        if not self._waiting:
            self._oldest = time.monotonic()
        self._waiting.append((record, size))
        self._waiting_bytes += size
        # One wake-up starts the age's clock and one ends the segment: none in between.
        if len(self._waiting) == 1 or self._waiting_bytes >= self._limits.segment_bytes:
            self._wake.notify()

    def _run(self) -> None:
        while self._take_turn():
            pass  # no references are kept: written memory is reusable when the turn ends

    def _take_turn(self) -> bool:
        """Wait for work and do it; False when the writer is closed and everything is done."""
        with self._wake:
            woken = self._is_due() or self._wake.wait(self._seconds_left())
            closing, self._is_busy = self._closing, True
            files, self._files = self._files, {}
            batch, size = self._take() if self._is_segment_due() else ([], 0)
        for name, content in files.items():
            self._put(name, content if isinstance(content, str) else json.dumps(content))
        if batch:
            self._write(batch, size, self._direct)
        with self._wake:
            self._writing_bytes, self._is_busy = 0, False
            self._done.notify_all()
        if batch:
            return True
        if closing:
            return False
        if not woken:
            self._guard(self._folder.sync_one)
        return True

    def _is_idle(self) -> bool:
        return not (self._waiting or self._files or self._is_busy)

    def _is_due(self) -> bool:
        return self._is_segment_due() or bool(self._files) or self._closing

    def _is_segment_due(self) -> bool:
        return bool(self._waiting) and (
            self._closing
            or self._is_urgent
            or self._waiting_bytes >= self._limits.segment_bytes
            or self._seconds_left() == 0.0
        )

    def _seconds_left(self) -> float | None:
        """Until the oldest record has waited long enough; until the next sync when none waits."""
        if not self._waiting:
            return self._limits.age_seconds if self._folder.has_unsynced else None
        now = time.monotonic()
        return max(0.0, self._oldest + oldest_age(self._limits, now - self._started) - now)

    def _take(self) -> tuple[list[StepRecord], int]:
        batch, size = [], 0
        while self._waiting and size < self._limits.segment_bytes:
            record, record_bytes = self._waiting.popleft()
            batch.append(record)
            size += record_bytes
        self._waiting_bytes -= size
        self._writing_bytes = size
        self._oldest = time.monotonic()
        return batch, size

    def _write(
        self, records: list[StepRecord], size: int, direct: DirectOutput | None = None
    ) -> None:
        """Called by the writer's thread, and by the training thread when memory is full.

        The latter must not wait for the disk, so it uses the page cache.
        """
        try:
            skipped = self._folder.write(records, direct)
        except Exception as error:  # noqa: BLE001 the capture boundary: training continues
            self._fail(error, num_lost=len(records))
            return
        with self._wake:
            self._num_segments += 1
            self._num_bytes += size
        for item in skipped:
            self._fail(
                SMDebugTypeError(f"{item.name!r} was not saved at step {item.step}: {item.reason}.")
            )
        if self._uploader is not None:
            self._uploader.notify()

    def _put(self, name: str, text: str) -> None:
        self._guard(lambda: self._folder.put(name, text.encode()))
        if self._uploader is not None:
            self._uploader.notify()

    def _finish(self, end_marker: bool) -> None:
        if self._uploader is None:
            self._guard(self._folder.sync_all)
        if end_marker:
            self._put(END_MARKER, "")

    def _guard(self, act: Callable[[], None]) -> None:
        try:
            act()
        except OSError as error:
            self._fail(error)

    def _fail(self, error: Exception, num_lost: int = 0) -> None:
        with self._wake:
            first, self._is_reported = not self._is_reported, True
            self.failure = self.failure or error
            self._num_lost += num_lost
        if first:
            logger.warning("Capture continues, but something was not saved: %s", error)


def oldest_age(limits: WriterLimits, run_seconds: float) -> float:
    """Seconds that a record waits at most in a run that is so old."""
    patient = min(limits.patient_seconds, run_seconds / _PATIENT_GROWTH)
    age = max(limits.age_seconds, run_seconds / _AGE_GROWTH, patient)
    return min(age, limits.age_seconds * _OLDEST)


def _staging(home: Path, target: Location, worker: str) -> Path:
    """The same for every process that writes there as this worker: it uploads what others left."""
    name = hashlib.sha256(f"{target.uri} {worker}".encode()).hexdigest()[:16]
    return home / "capture" / name

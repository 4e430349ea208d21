"""Transfers many files between a store and this machine. Synchronous, over a `ThreadPool`.

Downloads appear under their names complete or not at all; a second call fetches what is missing.
They are not synced to disk: what a power cut loses can be fetched again.
"""

import logging
import os
import re
import threading
from collections.abc import Iterable, Iterator
from dataclasses import field
from functools import partial
from pathlib import Path
from typing import Protocol

from trackside.errors import DamagedTransfer
from trackside.quick_dataclass import dataclass
from trackside.storage.download_target import DownloadTarget, writing_named
from trackside.storage.partial_file import PartialFile
from trackside.storage.store import Entry, Store
from trackside.storage.thread_pool import StopFlag, Task, ThreadPool, check

SMALL_BYTES = 1 << 20
"""Files up to this size pass through memory whole; larger ones piece by piece."""

PART_BYTES = 8 << 20
"""Larger files are fetched in parts of at least this size, several at once."""

NUM_DOWNLOADS = 16
"""Requests at once, at most. Memory in use is no more than a small file for each."""

NUM_UPLOADS = 8
_LARGEST_PART_BYTES = 32 << 20  # so that the last ones do not leave other threads idle for long
_LARGE_UPLOADS = 2  # each sends a few parts at once already

_MD5 = re.compile(r"[0-9a-f]{32}")

_log = logging.getLogger(__name__)


class Progress(Protocol):
    """Called with each transferred size, from several threads."""

    def add(self, num_files: int, size_bytes: int) -> None: ...


@dataclass(frozen=True, slots=True)
class Transferred:
    num_files: int
    size_bytes: int
    num_skipped: int
    """Files that existed already, complete and unchanged; not in the other two figures."""


def download(
    store: Store,
    files: Iterable[tuple[Entry, Path]],
    *,
    progress: Progress | None = None,
    stop: StopFlag | None = None,
    num_threads: int = NUM_DOWNLOADS,
) -> Transferred:
    """Fetch entries of a listing, each to its path; `files` may be a generator still listing.

    `ObjectChanged` when an object was replaced since it was listed. After any error the files
    that are whole stay, and calling again skips those whose size and time still agree.
    """
    check(stop)
    tally = _Tally(progress)
    work = _Downloads(store, tally)
    pool = work.pool = ThreadPool(work.tasks(files), num_threads)
    try:
        with pool:
            pool.wait(stop)
    finally:
        work.clean_up()
    return tally.total


def upload(
    store: Store,
    files: Iterable[tuple[Path, str]],
    *,
    progress: Progress | None = None,
    stop: StopFlag | None = None,
    num_threads: int = NUM_UPLOADS,
) -> Transferred:
    """Store files, each under its key. After an error, those not yet started are not stored."""
    check(stop)
    tally = _Tally(progress)
    large = threading.Semaphore(_LARGE_UPLOADS)

    def send(path: Path, key: str) -> None:
        tally.add(1, store.put(key, path).size_bytes)

    def send_large(path: Path, key: str) -> None:
        with large:
            send(path, key)

    def tasks() -> Iterator[Task]:
        for path, key in files:
            is_large = path.exists() and path.stat().st_size > PART_BYTES
            yield partial(send_large if is_large else send, path, key)

    with ThreadPool(tasks(), num_threads) as pool:
        pool.wait(stop)
    return tally.total


class _Tally:
    """Counts what was transferred, and reports it to the caller's progress."""

    def __init__(self, progress: Progress | None) -> None:
        self._progress = progress
        self._lock = threading.Lock()
        self._num_files = self._size_bytes = self._num_skipped = 0

    def add(self, num_files: int, size_bytes: int) -> None:
        with self._lock:
            self._num_files += num_files
            self._size_bytes += size_bytes
        if self._progress is not None:
            self._progress.add(num_files, size_bytes)

    def skip(self, size_bytes: int) -> None:
        """Counts as progress, or a second call would never seem to end."""
        with self._lock:
            self._num_skipped += 1
        if self._progress is not None:
            self._progress.add(1, size_bytes)

    @property
    def total(self) -> Transferred:
        return Transferred(self._num_files, self._size_bytes, self._num_skipped)


@dataclass(slots=True)
class _Large:
    """A file written by several threads."""

    entry: Entry
    file: PartialFile
    missing_bytes: int
    lock: threading.Lock = field(default_factory=threading.Lock)


class _Downloads:
    pool: ThreadPool

    def __init__(self, store: Store, tally: _Tally) -> None:
        self._store = store
        self._tally = tally
        self._target = DownloadTarget()
        self._etags_are_md5 = True
        self._large: list[_Large] = []

    def tasks(self, files: Iterable[tuple[Entry, Path]]) -> Iterator[Task]:
        for entry, target in files:
            path = os.fspath(target)
            if entry.size_bytes <= SMALL_BYTES:
                yield partial(self._fetch_small, entry, path)
            elif self._target.holds(entry, path):
                self._tally.skip(entry.size_bytes)
            else:
                file = self._target.begin(path, entry.size_bytes)
                large = _Large(entry, file, entry.size_bytes)
                self._large.append(large)
                part_bytes = _part_bytes(entry.size_bytes)
                for start in range(0, entry.size_bytes, part_bytes):
                    end = min(start + part_bytes, entry.size_bytes)
                    yield partial(self._fetch_part, large, start, end)

    def clean_up(self) -> None:
        """Remove unfinished files; an abandoned thread may still be writing to one."""
        for large in self._large:
            if self.pool.is_gone:
                large.file.discard()
            else:
                large.file.unlink()

    def _fetch_small(self, entry: Entry, path: str) -> None:
        if self._target.holds(entry, path):
            self._tally.skip(entry.size_bytes)
            return
        if entry.size_bytes > 0 and self._is_checkable(entry):
            # The checksum detects another version as well as damage: the quickest request will do.
            data = self._store.get(entry.key, 0, entry.size_bytes)
            if (digest := _md5(data)) != entry.etag:
                data = self._store.get(entry.key, etag=entry.etag)
                self._judge(entry, digest, _md5(data))
        else:
            data = self._store.get(entry.key, etag=entry.etag)
        _check_size(entry, 0, len(data), entry.size_bytes)
        if self.pool.is_ending:
            return
        self._target.write(entry, path, data)
        self._tally.add(1, len(data))

    def _fetch_part(self, large: _Large, start: int, end: int) -> None:
        with writing_named(large.file.target):
            for size_bytes in self._fill(large.entry, large.file, start, end):
                self._tally.add(0, size_bytes)
                if self.pool.is_ending:
                    return
            with large.lock:
                large.missing_bytes -= end - start
                is_whole = large.missing_bytes == 0
            if is_whole:
                if self._is_checkable(large.entry):
                    self._check(large.entry, large.file)
                self._target.publish(large.entry, large.file)
                self._tally.add(1, 0)

    def _fill(self, entry: Entry, file: PartialFile, start: int, end: int) -> Iterator[int]:
        """Write this range of the object to the file; yields the sizes of pieces."""
        offset = start
        for size in self._store.move(entry.key, start, end, file.descriptor, etag=entry.etag):
            offset += size
            yield size
        if offset < end:
            for piece in self._store.read(entry.key, offset, end, etag=entry.etag):
                file.write_at(piece, offset)
                offset += len(piece)
                yield len(piece)
        _check_size(entry, start, offset - start, end - start)

    def _is_checkable(self, entry: Entry) -> bool:
        """The ETag of an object stored in one request is its MD5, except under some encryption."""
        return self._etags_are_md5 and _MD5.fullmatch(entry.etag or "") is not None

    def _check(self, entry: Entry, file: PartialFile) -> None:
        digest = file.md5()
        if digest == entry.etag:
            return
        for _ in self._fill(entry, file, 0, entry.size_bytes):
            pass
        self._judge(entry, digest, file.md5())

    def _judge(self, entry: Entry, first: str, again: str) -> None:
        """After a mismatch and a second fetch: if both copies are equal, the ETag is not an MD5."""
        if again == entry.etag:
            _log.warning("%r arrived damaged and was fetched again", entry.key)
        elif again == first:
            _log.debug("ETags of %r are not MD5 sums; only sizes are checked", self._store)
            self._etags_are_md5 = False
        else:
            raise DamagedTransfer(
                f"{entry.key!r} arrived damaged twice: its MD5 is {entry.etag}, not {again}. "
                "Suspect the network or a proxy on the way."
            )


def _part_bytes(size_bytes: int) -> int:
    """One per thread, within limits: a request and its connection cost something too."""
    return min(max(PART_BYTES, size_bytes // NUM_DOWNLOADS), _LARGEST_PART_BYTES)


def _md5(data: bytes) -> str:
    from hashlib import md5  # loads OpenSSL, which most jobs do not need

    return md5(data, usedforsecurity=False).hexdigest()


def _check_size(entry: Entry, start: int, came: int, listed: int) -> None:
    if came != listed:
        raise DamagedTransfer(
            f"{entry.key!r} gave {came} bytes from {start} on where {listed} were listed. "
            "List and download again."
        )

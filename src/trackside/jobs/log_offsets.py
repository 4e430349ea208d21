"""Offsets in one host's log to start reading from: some way before another, or near a time.

Reading backwards, or from a time on, then does not read everything before. Each offset is the start
of a line, or of a part of a long one. `logs` reads the lines.
"""

import sys
from bisect import bisect_left, bisect_right
from collections.abc import Mapping
from typing import Protocol

from trackside.coordination.host_files import files_of
from trackside.jobs.logs import PART_BYTES, LogPosition, stored_chunks
from trackside.jobs.records import Record
from trackside.records.layout import Home, HostFolder
from trackside.records.log_lines import decode, last_mark, line_start, parse_stamp
from trackside.storage.locate import Location


class LogOffsets:
    """All attempts of one host."""

    def __init__(self, record: Record, home: Home, host: str) -> None:
        self._record = record
        self._home = home
        self._host = host

    def before(self, end: LogPosition | None, size_bytes: int) -> LogPosition | None:
        """About this many bytes before the offset, or before the end; None at the beginning."""
        last = self._record.history.attempt
        attempt, offset = last, sys.maxsize
        if end is not None and end.attempt <= last:
            attempt, offset = end
        while True:
            there = self._attempt(attempt)
            if offset := min(offset, there.size):
                return LogPosition(attempt, there.start_before(offset, size_bytes))
            if attempt <= 1:
                return None
            attempt, offset = attempt - 1, sys.maxsize

    def since(self, time: float) -> LogPosition:
        """Shortly before the first line of this time or later."""
        for attempt in range(self._record.history.attempt, 0, -1):
            if offset := self._attempt(attempt).start_at(time):
                return LogPosition(attempt, offset)
        return LogPosition(1, 0)

    def last_time_before(self, attempt: int) -> float:
        """The time of the last line of an earlier attempt; 0 if there is none."""
        times = (self._attempt(each).last_time for each in range(attempt - 1, 0, -1))
        return next(filter(None, times), 0.0)

    def _attempt(self, number: int) -> "_Attempt":
        folder = self._record.folder
        if folder is not None:
            return _InFolder(files_of(folder, self._host, number))
        return _InStorage(stored_chunks(self._record, self._home, self._host, number))


class _Attempt(Protocol):
    @property
    def size(self) -> int:
        """0 when nothing was written."""

    @property
    def last_time(self) -> float: ...

    def start_before(self, offset: int, size_bytes: int) -> int: ...

    def start_at(self, time: float) -> int: ...


class _InFolder:
    def __init__(self, folder: HostFolder) -> None:
        self._log = folder.log
        self._times = folder.log_times

    @property
    def size(self) -> int:
        return self._log.stat().st_size if self._log.exists() else 0

    @property
    def last_time(self) -> float:
        mark = last_mark(self._times, lambda mark: True)
        return 0.0 if mark is None else mark.time

    def start_before(self, offset: int, size_bytes: int) -> int:
        """Each part of a long line counts as a start."""
        wanted = max(0, offset - size_bytes)
        with self._log.open("rb") as file:
            line = line_start(file, wanted)
        return line + (wanted - line) // PART_BYTES * PART_BYTES

    def start_at(self, time: float) -> int:
        mark = last_mark(self._times, lambda mark: mark.time < time)
        return 0 if mark is None else self.start_before(mark.size, 1)


class _InStorage:
    """A chunk starts at a line start, unless the line is longer than the previous chunk."""

    size = sys.maxsize
    """After the last chunk, wherever that ends."""

    def __init__(self, chunks: Mapping[int, Location]) -> None:
        self._chunks = chunks
        self._starts = sorted(chunks)
        if not chunks:
            self.size = 0

    @property
    def last_time(self) -> float:
        if not self._starts:
            return 0.0
        return max(time for time, _ in decode(self._data(self._starts[-1])))

    def start_before(self, offset: int, size_bytes: int) -> int:
        return self._whole(bisect_right(self._starts, max(0, offset - size_bytes)) - 1)

    def start_at(self, time: float) -> int:
        return self._whole(bisect_left(self._starts, time, key=self._first_time) - 1)

    def _whole(self, number: int) -> int:
        """The start of this chunk, or of an earlier one that starts with a line."""
        while number > 0 and not self._data(self._starts[number - 1]).endswith(b"\n"):
            number -= 1
        return self._starts[number] if number > 0 else 0

    def _first_time(self, start: int) -> float:
        return parse_stamp(self._data(start))

    def _data(self, start: int) -> bytes:
        chunk = self._chunks[start]
        return chunk.store.get(chunk.key)

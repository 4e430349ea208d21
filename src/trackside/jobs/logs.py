"""Reads a job's log by host and byte offset: from its folder while that exists, else from storage.

A reader can stop at any byte and another continue from there; nothing is lost or repeated.
"""

import heapq
import logging
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import BinaryIO, NamedTuple

from trackside.coordination.host_files import files_of
from trackside.errors import JobError, StorageError
from trackside.jobs.log_prefilter import MayHold, skim_chunk, skim_file
from trackside.jobs.records import Record
from trackside.quick_dataclass import dataclass
from trackside.records.layout import Home, HostFolder
from trackside.records.log_lines import TimeMark, chunk_position, decode, near_mark
from trackside.storage.locate import Location, locate_to_read

logger = logging.getLogger(__name__)

PART_BYTES = 1 << 16
"""A longer line is returned in parts."""
_TAIL_BYTES = 1 << 14
_BLOCK_BYTES = 1 << 14


class LogPosition(NamedTuple):
    """Everything in one host's log before this has been read."""

    attempt: int
    offset: int


SeenLogs = Mapping[str, LogPosition | Sequence[int]]
"""How far each host's log was read. A position that was stored as JSON is a list."""


@dataclass(frozen=True, slots=True)
class LogLine:
    """A line with its newline, or a part of one that is long or incomplete.

    The `data` of all lines of one host and attempt, concatenated, are the log byte for byte.
    """

    host: str
    attempt: int
    offset: int
    """Offset of the first byte in this host's log of this attempt."""
    time: float
    """When it was written, in seconds since the epoch."""
    data: bytes

    @property
    def end(self) -> LogPosition:
        """Where to continue after this line."""
        return LogPosition(self.attempt, self.offset + len(self.data))


class LogReader:
    """All hosts of a job, or one of them. Each call of `lines` continues where the last stopped."""

    def __init__(
        self,
        record: Record,
        home: Home,
        host: str | None = None,
        after: SeenLogs | None = None,
        *,
        settled: bool = False,
        may_hold: MayHold | None = None,
    ) -> None:
        """`settled`: of a running job, only lines whose time is final.

        `may_hold` filters lines. An empty line is returned now and then to report the position.
        """
        self._record = record
        self._home = home
        self._after = positions(record, after or {})
        self._settled = settled
        self._may_hold = may_hold
        self._hosts = chosen_hosts(record, host)
        self._streams: dict[tuple[int, str], Stream] = {}

    def lines(self, attempt: int, *, whole: bool) -> Iterator[LogLine]:
        """New lines up to this attempt, in order.

        Unless `whole`, an incomplete last line is held back for a moment.
        """
        for host in self._hosts:
            for number in range(self._start(host).attempt, attempt + 1):
                if (number, host) not in self._streams:
                    self._streams[number, host] = self._open(number, host)
        lines = heapq.merge(
            *(
                stream.lines(whole=whole or number < attempt)
                for (number, _), stream in self._streams.items()
            ),
            key=lambda line: (line.attempt, line.time),
        )
        return lines if self._record.folder is not None else self._or_again(lines)

    def _or_again(self, lines: Iterator[LogLine]) -> Iterator[LogLine]:
        """These lines. If the store fails, the next call continues after the last of them: some
        were read and are waiting for those of another host."""
        given = {key: stream.offset for key, stream in self._streams.items()}
        try:
            for line in lines:
                given[line.attempt, line.host] = line.end.offset
                yield line
        except StorageError:
            for key, offset in given.items():
                self._streams[key].go_back(offset)
            raise

    def tail(self, host: str, num_lines: int) -> list[str]:
        """The last lines of one host, for people."""
        stream = self._open(self._record.history.attempt, host)
        stream.skip_to_last(_TAIL_BYTES)
        data = b"".join(line.data for line in stream.lines(whole=True))
        return list(deque(data.decode(errors="replace").splitlines(), maxlen=num_lines))

    def _start(self, host: str) -> LogPosition:
        return self._after.get(host, LogPosition(1, 0))

    def _open(self, attempt: int, host: str) -> "Stream":
        start = self._start(host)
        place = _Place(host, attempt, start.offset if attempt == start.attempt else 0)
        if self._record.folder is not None:
            folder = files_of(self._record.folder, host, attempt)
            return LocalStream(place, folder, settled=self._settled, may_hold=self._may_hold)
        return StoredStream(place, partial(self._chunks, attempt, host), self._may_hold)

    def _chunks(self, attempt: int, host: str) -> dict[int, Location]:
        return stored_chunks(self._record, self._home, host, attempt)


def stored_chunks(record: Record, home: Home, host: str, attempt: int) -> dict[int, Location]:
    """Existing chunks, by the offset of their first byte."""
    folder = locate_to_read(f"{record.keys.logs}/{host}", home=home.root)
    chunks = {}
    for entry in folder.store.list(f"{folder.key}/" if folder.key else ""):
        name = entry.key.rpartition("/")[2]
        place = chunk_position(name)
        if place is not None and place[0] == attempt:
            chunks[place[1]] = folder.child(name)
    return chunks


class LocalStream:
    """Reads the file the script writes."""

    def __init__(
        self,
        place: "_Place",
        folder: HostFolder,
        *,
        settled: bool = False,
        may_hold: MayHold | None = None,
    ) -> None:
        self._place = place
        self._settled = settled
        self._may_hold = may_hold
        self._log = folder.log
        self._times = LogTimes(folder.log_times)
        self._seen_size = -1

    def lines(self, *, whole: bool) -> Iterator[LogLine]:
        try:
            file = self._log.open("rb")
        except FileNotFoundError:
            return
        with file:
            status = self._log.stat()
            # A last line that has not grown since the last read is a progress bar: show it.
            whole = whole or status.st_size == self._seen_size
            self._seen_size = status.st_size
            for data in self._data(file, status.st_size, whole=whole):
                # An empty one has the time of the last skipped byte.
                time = self._times.at(self._place.offset - (0 if data else 1))
                if time is None and self._settled and not whole:
                    return
                yield self._place.line(status.st_mtime if time is None else time, data)

    def _data(self, file: BinaryIO, end: int, *, whole: bool) -> Iterator[bytes]:
        if self._may_hold is not None:
            start = self._place.offset
            for passed, data in skim_file(file, start, end, self._may_hold, PART_BYTES):
                self._place.offset += passed
                yield data
        yield from _parts(file, self._place.offset, end, whole=whole)

    @property
    def offset(self) -> int:
        return self._place.offset

    def go_back(self, offset: int) -> None:
        """Read everything after this offset again."""
        self._place.offset = offset

    def skip_to_last(self, size_bytes: int) -> None:
        size = self._log.stat().st_size if self._log.exists() else 0
        self._place.offset = max(0, size - size_bytes)


class StoredStream:
    """Reads chunks; overlapping ones are fine.

    A partially stored line is held back, unless everything is requested.
    """

    def __init__(
        self,
        place: "_Place",
        chunks: Callable[[], Mapping[int, Location]],
        may_hold: MayHold | None = None,
    ) -> None:
        self._place = place
        self._chunks = chunks
        """Those there are now, by the offset of their first byte."""
        self._may_hold = may_hold
        self._is_cut = False
        """Whether the chunk before ended within a line."""

    def lines(self, *, whole: bool) -> Iterator[LogLine]:
        begun: list[LogLine] = []
        for line in self._stored_lines():
            begun.append(line)
            if whole or line.data.endswith(b"\n") or not line.data or len(line.data) >= PART_BYTES:
                yield from begun
                begun.clear()
        if begun:
            self._place.offset = begun[0].offset

    def _stored_lines(self) -> Iterator[LogLine]:
        chunks = self._chunks()
        starts = sorted(chunks)
        for start, following in zip(starts, [*starts[1:], None], strict=False):
            if following is None or following > self._place.offset:
                yield from self._chunk_lines(start, chunks[start])

    @property
    def offset(self) -> int:
        return self._place.offset

    def go_back(self, offset: int) -> None:
        """Read everything after this offset again."""
        self._place.offset = offset
        self._is_cut = True  # it may be within a line

    def skip_to_last(self, size_bytes: int) -> None:
        self._place.offset = max(self._chunks(), default=0)

    def _chunk_lines(self, start: int, chunk: Location) -> Iterator[LogLine]:
        missing = start - self._place.offset
        if missing > 0:
            logger.warning("%d bytes of the log before %s are missing", missing, chunk.uri)
            self._place.offset = start
        stored = chunk.store.get(chunk.key)
        is_whole = self._place.offset == start and not self._is_cut and stored.endswith(b"\n")
        self._is_cut = not stored.endswith(b"\n")
        if self._may_hold is not None and is_whole:
            for passed, time, data in skim_chunk(stored, self._may_hold):
                self._place.offset += passed
                yield self._place.line(time, data)
            return
        for time, data in decode(stored):
            seen = max(0, self._place.offset - start)
            start += len(data)
            if seen < len(data):
                yield self._place.line(time, data[seen:])


Stream = LocalStream | StoredStream


@dataclass(slots=True)
class _Place:
    host: str
    attempt: int
    offset: int

    def line(self, time: float, data: bytes) -> LogLine:
        line = LogLine(self.host, self.attempt, self.offset, time, data)
        self.offset += len(data)
        return line


class LogTimes:
    """When each part of the log was written, for increasing offsets.

    Reads the file of marks once, sequentially: a job of weeks has millions.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._read_bytes = 0
        self._marks: deque[TimeMark] = deque()

    def at(self, offset: int) -> float | None:
        """None if not recorded yet."""
        while self._marks and self._marks[0].size <= offset:
            self._marks.popleft()
        if not self._marks:
            self._read_on(offset)
        return self._marks[0].time if self._marks else None

    def _read_on(self, offset: int) -> None:
        """Up to the requested mark, and some more for later offsets."""
        try:
            file = self._path.open("rb")
        except FileNotFoundError:
            return
        with file:
            if not self._read_bytes:
                self._read_bytes = near_mark(file, lambda mark: mark.size <= offset)
            file.seek(self._read_bytes)
            while not self._marks and (lines := file.readlines(_BLOCK_BYTES)):
                if not lines[-1].endswith(b"\n"):
                    lines.pop()  # being written
                for size, time in map(bytes.split, lines):
                    if int(size) > offset:
                        self._marks.append(TimeMark(int(size), float(time)))
                self._read_bytes += sum(map(len, lines))


def _parts(file: BinaryIO, start: int, end: int, *, whole: bool) -> Iterator[bytes]:
    """The lines between these offsets, long ones in parts."""
    file.seek(start)
    while start < end:
        data = file.readline(min(PART_BYTES, end - start))
        is_cut = not data.endswith(b"\n") and len(data) < PART_BYTES
        if not data or (is_cut and not whole):
            return
        start += len(data)
        yield data


def chosen_hosts(record: Record, host: str | None) -> Sequence[str]:
    """All hosts of the job, or this one."""
    hosts = record.spec.hosts
    if host is None:
        return hosts
    if host not in hosts:
        raise JobError(
            f"Job {record.spec.name!r} has no host {host!r}. Its hosts: {', '.join(hosts)}."
        )
    return (host,)


def positions(record: Record, seen: SeenLogs) -> dict[str, LogPosition]:
    """The positions, validated: each has a host of this job and a possible offset."""
    return {host: _position(record, host, place) for host, place in seen.items()}


def _position(record: Record, host: str, place: Sequence[int]) -> LogPosition:
    chosen_hosts(record, host)
    match place:
        case [int(attempt), int(offset)] if attempt >= 1 and offset >= 0:
            return LogPosition(attempt, offset)
    raise JobError(
        f"{place!r} is no position in the log of {host!r}. Give the `end` of a line that "
        "`logs` gave, an attempt from 1 and an offset from 0."
    )

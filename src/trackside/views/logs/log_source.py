"""The raw bytes of one host's log in one attempt, by offset: from the job's folder, or from the
chunks in storage. With the time at which each byte was written.
"""

import os
from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from trackside.coordination.host_files import files_of
from trackside.jobs.logs import LogTimes, stored_chunks
from trackside.jobs.records import Record
from trackside.quick_dataclass import dataclass
from trackside.records.layout import Home, HostFolder
from trackside.records.log_lines import STAMP_LENGTH, last_mark, parse_stamp
from trackside.storage.locate import Location
from trackside.views.logs.line_index import STRIDE

BLOCK_BYTES = 1 << 20
_KEPT_CHUNKS = 8
_THREADS = 8


class Counted(NamedTuple):
    """A block that was added to a log."""

    size: int
    newlines: int
    ends_line: bool


@dataclass(frozen=True, slots=True)
class SearchPart:
    """A part of a log, as another process can read it: in a file, or given."""

    path: str = ""
    start: int = 0
    end: int = 0
    """Of the file, where it is not a chunk."""
    data: bytes = b""
    skipped: int | None = None
    """For a chunk, whose lines have time stamps: how many bytes of the log at its beginning do not
    count."""


class LogSource(Protocol):
    """Offsets count the bytes that are there, from 0. Not thread-safe, except for what is named."""

    def new(self, size: int) -> Iterator[Counted]:
        """What was added after the first `size` bytes, in blocks."""

    def read(self, start: int, end: int) -> bytes: ...

    def parts(self, start: int, end: int) -> Iterator[SearchPart]:
        """The same for a search. The iterator may be used in another thread."""

    def times(self, offsets: Sequence[int]) -> list[float]:
        """When these bytes were written; increasing offsets."""

    def offset_at(self, time: float) -> int:
        """Of the first byte that was written at this time or later; after the last if none was."""

    def state(self) -> dict[str, Any]:
        """What `source_of` needs to continue without reading everything again."""


def source_of(
    record: Record, home: Home, host: str, attempt: int, state: dict[str, Any] | None = None
) -> LogSource:
    """`state` of an earlier one. ValueError when it does not fit."""
    if record.folder is not None:
        return LocalLog(files_of(record.folder, host, attempt))
    return StoredLog(record, home, host, attempt, state or {})


class LocalLog:
    """The file that the script writes."""

    def __init__(self, folder: HostFolder) -> None:
        self._log = folder.log
        self._times = folder.log_times

    def new(self, size: int) -> Iterator[Counted]:
        for block in self._blocks(size, _size(self._log)):
            for at in range(0, len(block), STRIDE):
                end = min(at + STRIDE, len(block))
                ends_line = block[end - 1 : end] == b"\n"
                yield Counted(end - at, block.count(b"\n", at, end), ends_line)

    def read(self, start: int, end: int) -> bytes:
        return b"".join(self._blocks(start, end))

    def parts(self, start: int, end: int) -> Iterator[SearchPart]:
        return iter([SearchPart(os.fspath(self._log), start, end)])

    def _blocks(self, start: int, end: int) -> Iterator[bytes]:
        try:
            file = self._log.open("rb", buffering=0)
        except FileNotFoundError:
            return
        with file:
            file.seek(start)
            while start < end and (data := file.read(min(BLOCK_BYTES, end - start))):
                start += len(data)
                yield data

    def times(self, offsets: Sequence[int]) -> list[float]:
        times = LogTimes(self._times)
        modified = self._log.stat().st_mtime if self._log.exists() else 0.0
        found = map(times.at, offsets)
        return [modified if time is None else time for time in found]

    def offset_at(self, time: float) -> int:
        mark = last_mark(self._times, lambda mark: mark.time < time)
        return 0 if mark is None else mark.size

    def state(self) -> dict[str, Any]:
        return {}


@dataclass(frozen=True, slots=True)
class _Part:
    """A chunk, or the note that bytes are missing."""

    start: int
    """In the log as it is shown."""
    end: int
    chunk: int
    """The offset in its name."""
    skipped: int
    """How many bytes at its beginning are in an earlier chunk too."""
    time: float
    """Of its first line."""
    note: bytes = b""


class StoredLog:
    """The chunks in storage, without what overlaps. Where bytes are missing, a line says so."""

    def __init__(
        self, record: Record, home: Home, host: str, attempt: int, state: dict[str, Any]
    ) -> None:
        self._place = (record, home, host, attempt)
        self._parts: list[_Part] = []
        self._end = 0
        """The raw offset up to which chunks were read."""
        self._chunks: dict[int, Location] = {}
        self._decoded: OrderedDict[int, _Chunk] = OrderedDict()
        if state:
            self._resume(state)

    def new(self, size: int) -> Iterator[Counted]:
        del size  # all that was given before; each chunk is given once
        self._chunks = stored_chunks(*self._place)
        last = self._parts[-1].chunk if self._parts else -1
        wanted = [at for at in sorted(self._chunks) if at > last]
        for start, stored in _fetched(self._chunks, wanted):
            yield from self._added(start, _Chunk(stored))

    def read(self, start: int, end: int) -> bytes:
        found = []
        for part in self._parts[self._number(start) :]:
            if part.start >= end:
                break
            found.append(self._data(part)[max(0, start - part.start) : end - part.start])
        return b"".join(found)

    def parts(self, start: int, end: int) -> Iterator[SearchPart]:
        wanted = [part for part in self._parts[self._number(start) :] if part.start < end]
        return _search_parts(wanted, self._chunks, start)

    def times(self, offsets: Sequence[int]) -> list[float]:
        return [self._time_at(offset) for offset in offsets]

    def offset_at(self, time: float) -> int:
        number = max(0, bisect_left(self._parts, time, key=lambda part: part.time) - 1)
        for part in self._parts[number:]:
            if part.note:
                continue
            found = self._chunk(part).offset_at(time)
            if found is not None:
                return part.start + max(0, found - part.skipped)
        return self._parts[-1].end if self._parts else 0

    def state(self) -> dict[str, Any]:
        parts = [
            [part.start, part.end, part.chunk, part.skipped, part.time, part.note.decode()]
            for part in self._parts
        ]
        return {"parts": parts, "end": self._end}

    def _time_at(self, offset: int) -> float:
        if not self._parts:
            return 0.0
        part = self._parts[self._number(offset)]
        if part.note:
            return part.time
        return self._chunk(part).time_at(offset - part.start + part.skipped)

    def _resume(self, state: dict[str, Any]) -> None:
        self._chunks = stored_chunks(*self._place)
        self._parts = [
            _Part(start, end, chunk, skipped, time, note.encode())
            for start, end, chunk, skipped, time, note in state["parts"]
        ]
        self._end = int(state["end"])
        if not {part.chunk for part in self._parts} <= set(self._chunks):
            raise ValueError("the chunks are other ones")

    def _number(self, offset: int) -> int:
        """Of the part with this byte."""
        return max(0, bisect_right(self._parts, offset, key=lambda part: part.start) - 1)

    def _added(self, start: int, chunk: "_Chunk") -> Iterator[Counted]:
        time = chunk.time_at(0)
        shown = self._parts[-1].end if self._parts else 0
        if start > self._end:
            note = b"[%d bytes of the log are missing here]\n" % (start - self._end)
            self._parts.append(_Part(shown, shown + len(note), start, 0, time, note))
            shown += len(note)
            self._end = start
            yield Counted(len(note), 1, True)
        skipped = self._end - start
        size = chunk.size - skipped
        if size > 0:
            self._parts.append(_Part(shown, shown + size, start, skipped, time))
            self._end = start + chunk.size
            yield Counted(size, chunk.newlines_after(skipped), chunk.ends_line)

    def _data(self, part: _Part) -> bytes:
        if part.note:
            return part.note
        size = part.end - part.start
        return self._chunk(part).raw[part.skipped :][:size].ljust(size)  # if it is damaged

    def _chunk(self, part: _Part) -> "_Chunk":
        if part.chunk in self._decoded:
            self._decoded.move_to_end(part.chunk)
        else:
            place = self._chunks[part.chunk]
            self._decoded[part.chunk] = _Chunk(place.store.get(place.key))
            while len(self._decoded) > _KEPT_CHUNKS:
                self._decoded.popitem(last=False)
        return self._decoded[part.chunk]


class _Chunk:
    """A stored chunk: its bytes as in the log, and its time stamps."""

    def __init__(self, stored: bytes) -> None:
        self._stored = stored
        self._newlines = stored.count(b"\n")
        self.ends_line = stored.endswith(b"\n")
        num_stamps = self._newlines + (bool(stored) and not self.ends_line)
        self.size = max(0, len(stored) - num_stamps * STAMP_LENGTH)
        """Of the log."""

    @cached_property
    def raw(self) -> bytes:
        return b"\n".join([line[STAMP_LENGTH:] for line in self._stored.split(b"\n")])

    def newlines_after(self, skipped: int) -> int:
        return self.raw.count(b"\n", skipped) if skipped else self._newlines

    def time_at(self, offset: int) -> float:
        if offset == 0:
            return _time(self._stored)
        return self._time(bisect_right(self._starts, offset) - 1)

    def offset_at(self, time: float) -> int | None:
        """None when all of it is earlier."""
        count = len(self._stamps)
        number = bisect_left(range(count), time, key=self._time)
        return self._starts[number] if number < count else None

    @cached_property
    def _stamps(self) -> list[bytes]:
        return [line[:STAMP_LENGTH] for line in self._stored.split(b"\n") if line]

    @cached_property
    def _starts(self) -> list[int]:
        return [0, *accumulate(len(line) + 1 for line in self.raw.split(b"\n"))]

    def _time(self, number: int) -> float:
        if not self._stamps:
            return 0.0
        return _time(self._stamps[max(0, min(number, len(self._stamps) - 1))])


def _time(line: bytes) -> float:
    try:
        return parse_stamp(line)
    except ValueError:  # damaged
        return 0.0


def _fetched(chunks: Mapping[int, Location], starts: Sequence[int]) -> Iterator[tuple[int, bytes]]:
    """In their order, a few at a time."""

    def fetch(start: int) -> bytes:
        return chunks[start].store.get(chunks[start].key)

    if len(starts) < 2 or chunks[starts[0]].local is not None:
        yield from ((start, fetch(start)) for start in starts)
        return
    with ThreadPoolExecutor(_THREADS) as pool:
        for at in range(0, len(starts), _THREADS):
            some = starts[at : at + _THREADS]
            yield from zip(some, pool.map(fetch, some), strict=True)


def _search_parts(
    parts: Sequence[_Part], chunks: Mapping[int, Location], start: int
) -> Iterator[SearchPart]:
    remote = [part.chunk for part in parts if not part.note and chunks[part.chunk].local is None]
    fetched = _fetched(chunks, remote)
    for part in parts:
        left_out = max(0, start - part.start)
        local = chunks[part.chunk].local
        if part.note:
            yield SearchPart(data=part.note[left_out:])
        elif local is not None:
            yield SearchPart(os.fspath(local), skipped=part.skipped + left_out)
        else:
            yield SearchPart(data=next(fetched)[1], skipped=part.skipped + left_out)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0

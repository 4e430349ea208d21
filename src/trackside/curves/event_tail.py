"""Follows the event files below a location: new records each time, decoded, run by run.

`decode.py` decodes; `chunks.py` groups objects; the caller processes the result.
"""

import logging
import os
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice

from trackside.curves.chunks import Piece, Source
from trackside.curves.columns import Decoded
from trackside.curves.decode import decode
from trackside.curves.event_listing import EventListing
from trackside.curves.records import FRAME_BYTES, HEADER_BYTES, length_at
from trackside.errors import ObjectNotFound
from trackside.files import damaged_files
from trackside.storage.folder import FolderStore
from trackside.storage.locate import Location

logger = logging.getLogger(__name__)

BLOCK_BYTES = 8 << 20
MOST_RECORD_BYTES = 256 << 20
"""A longer record is skipped and counted as lost: no summary is that large."""
NUM_FETCHERS = 32
"""Pieces are small and stores are remote: latency dominates."""
NUM_TRIES = 3
"""Tries of a listing while objects vanish between listing and reading."""

Take = Callable[[Source, Decoded], int]
"""Gets a file and what is new in it; returns how many of the other records were invalid events."""
Check = Callable[[Mapping[Source, Sequence[Piece]]], None]
"""Gets all files before any is read; it may `forget` some."""


class EventTail:
    """Reads what is new on each `update`. Not thread-safe."""

    def __init__(
        self,
        location: Location,
        take: Take,
        *,
        positions: Mapping[Source, int] | None = None,
        check: Check | None = None,
        advanced: Callable[[], None] | None = None,
    ) -> None:
        """`positions`: where reading continues that another process began. `advanced` is called
        after each block, when `positions` has its end."""
        self.location = location
        self.lost_bytes: dict[str, int] = {}
        """Damaged and skipped, by the path of the file they were in."""
        self.num_damaged: dict[str, int] = {}
        """Records, and stretches that are no record, likewise. A file's first are logged."""
        self.unread_bytes: dict[str, int] = {}
        """At the end of a file, and no whole record yet."""
        self.positions: dict[Source, int] = dict(positions or {})
        """How far each file was read."""
        self._take = take
        self._check = check
        self._advanced = advanced
        self._listing = EventListing(location)

    @property
    def pieces(self) -> Mapping[Source, Sequence[Piece]]:
        """What the last listing found."""
        return self._listing.pieces

    def forget(self, source: Source) -> None:
        """Read it again from its beginning."""
        self.positions.pop(source, None)

    def update(self) -> None:
        for number in range(NUM_TRIES):
            self._listing.update(whole=number > 0)
            if self._check is not None:
                self._check(self._listing.pieces)
            if self._read_all():
                return

    def _read_all(self) -> bool:
        """False when an object was removed since the listing: merged into another, or deleted."""
        grown = [
            (source, pieces)
            for source, pieces in self._listing.pieces.items()
            if pieces[-1].end != self.positions.get(source, 0)
        ]
        if not grown:
            return True
        is_whole = True
        with ThreadPoolExecutor(NUM_FETCHERS, thread_name_prefix="trackside-read") as pool:
            for source, pieces in sorted(grown, key=lambda item: item[1][0].chunk.sent):
                try:
                    self._read(source, pieces, pool)
                except (ObjectNotFound, FileNotFoundError):
                    is_whole = False
        return is_whole

    def _read(self, source: Source, pieces: list[Piece], pool: ThreadPoolExecutor) -> None:
        """Range by range from where the last read stopped."""
        name = f"{source.folder}/{source.name}" if source.folder else source.name
        position, end = self.positions.get(source, 0), pieces[-1].end
        if position > end:  # recreated
            position = 0
        is_known = name in self.num_damaged
        for stretch in _stretches(pieces[bisect_right(pieces, position, key=_end) :]):
            if (missing := stretch[0].chunk.offset - position) > 0:
                position = self._lose(name, position, missing)
            position = self._read_stretch(source, name, stretch, position, pool)
            if position < stretch[-1].end < end:  # what belongs to it is missing
                position = self._lose(name, position, stretch[-1].end - position)
            self.positions[source] = position
        self.unread_bytes.pop(name, None)
        if position < end:
            self.unread_bytes[name] = end - position
        if not is_known and name in self.num_damaged:
            self._say_damaged(name)

    def _read_stretch(
        self,
        source: Source,
        name: str,
        pieces: list[Piece],
        position: int,
        pool: ThreadPoolExecutor,
    ) -> int:
        """Block by block; returns where it stopped. The rest may be partial, or not written yet."""
        end, block = pieces[-1].end, BLOCK_BYTES
        while position < end:
            size = min(block, end - position)
            data = self._fetch(pieces, position, position + size, pool)
            decoded = decode(data)
            damaged = decoded.num_lost + self._take(source, decoded)
            self._lose(name, position, decoded.lost_bytes, damaged)
            position += decoded.consumed
            self.positions[source] = position
            if self._advanced is not None:
                self._advanced()
            if decoded.consumed:
                block = BLOCK_BYTES
                continue
            length = length_at(data)
            needed = FRAME_BYTES + (length or 0)
            if len(data) < size or size == end - position or position + needed > end:
                return position
            if length is None:  # no record starts in the block
                position = self._lose(name, position, size - HEADER_BYTES + 1)
            elif needed > MOST_RECORD_BYTES:
                position = self._lose(name, position, needed)
            else:
                block = needed
        return position

    def _fetch(self, pieces: list[Piece], start: int, end: int, pool: ThreadPoolExecutor) -> bytes:
        """These bytes without gaps: fewer only if a file was truncated."""
        first = bisect_right(pieces, start, key=_end)
        ranges: list[tuple[str, int, int]] = []
        at = start
        for piece in islice(pieces, first, None):
            if at >= end:
                break
            offset = piece.chunk.offset
            ranges.append((piece.key, at - offset, min(end, piece.end) - offset))
            at = piece.end
        if len(ranges) == 1:
            return self._get(ranges[0])
        # Threads help with a remote store; with a disk they are slower.
        get = map if isinstance(self.location.store, FolderStore) else pool.map
        return b"".join(get(self._get, ranges))

    def _get(self, part: tuple[str, int, int]) -> bytes:
        key, start, end = part
        store = self.location.store
        if not isinstance(store, FolderStore):
            return store.get(key, start, end)
        file = os.open(os.path.join(store.root, key), os.O_RDONLY | os.O_CLOEXEC)
        try:
            return os.pread(file, end - start, start)  # in one piece
        finally:
            os.close(file)

    def _lose(self, name: str, position: int, num_bytes: int, num_records: int = 1) -> int:
        """Record the loss, and where reading continues after these bytes."""
        if num_bytes:
            self.lost_bytes[name] = self.lost_bytes.get(name, 0) + num_bytes
        if num_bytes or num_records:
            self.num_damaged[name] = self.num_damaged.get(name, 0) + num_records
        return position + num_bytes

    def _say_damaged(self, name: str) -> None:
        logger.warning(
            "%s skipped in event file %s of %s, with %d bytes.",
            damaged_files.counted(self.num_damaged[name], "record"),
            name,
            self.location,
            self.lost_bytes.get(name, 0),
        )


def _stretches(pieces: list[Piece]) -> Iterator[list[Piece]]:
    """Consecutive chunks, up to a gap."""
    start = 0
    for at in range(1, len(pieces)):
        if pieces[at].chunk.offset > pieces[at - 1].end:
            yield pieces[start:at]
            start = at
    if pieces:
        yield pieces[start:]


def _end(piece: Piece) -> int:
    return piece.end

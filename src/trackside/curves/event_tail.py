"""Follows the event files below a location: what is new each time, decoded, run by run.

Decoding is `decode.py`'s; which objects belong together is `chunks.py`'s; what becomes of it all is
the caller's.
"""

import os
from bisect import bisect_right
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import islice

from trackside.curves.chunks import Piece, Source
from trackside.curves.columns import Decoded
from trackside.curves.decode import decode
from trackside.curves.event_listing import EventListing
from trackside.curves.records import FRAME_BYTES, length_at
from trackside.errors import ObjectNotFound
from trackside.storage.folder import FolderStore
from trackside.storage.locate import Location

BLOCK_BYTES = 8 << 20
MOST_RECORD_BYTES = 256 << 20
"""A longer record is skipped and counted as lost: no summary is so large."""
NUM_FETCHERS = 32
"""Pieces are small and stores are far away: waiting is what takes the time."""
NUM_TRIES = 3
"""Listings, while objects vanish between listing and reading."""

Take = Callable[[str, Decoded], None]
"""Gets the folder below the location (empty at its top) and what is new in it."""


class EventTail:
    """Reads what is new each time it is asked. Not thread-safe."""

    def __init__(self, place: Location, take: Take) -> None:
        self.place = place
        self.lost_bytes: dict[str, int] = {}
        """Damaged and skipped, by the path of the file they were in."""
        self.unread_bytes: dict[str, int] = {}
        """At the end of a file, and no whole record yet."""
        self._take = take
        self._position: dict[Source, int] = {}
        self._listing = EventListing(place)

    def update(self) -> None:
        for number in range(NUM_TRIES):
            self._listing.update(whole=number > 0)
            if self._read_all():
                return

    def _read_all(self) -> bool:
        """False when an object was gone since the listing: merged into another, or deleted."""
        grown = [
            (source, pieces)
            for source, pieces in self._listing.pieces.items()
            if pieces[-1].end != self._position.get(source, 0)
        ]
        is_whole = True
        with ThreadPoolExecutor(NUM_FETCHERS, thread_name_prefix="trackside-read") as pool:
            for source, pieces in sorted(grown, key=lambda item: item[1][0].chunk.sent):
                try:
                    self._read(source, pieces, pool)
                except (ObjectNotFound, FileNotFoundError):
                    is_whole = False
        return is_whole

    def _read(self, source: Source, pieces: list[Piece], pool: ThreadPoolExecutor) -> None:
        """Block by block from where the last reading stopped."""
        name = f"{source.folder}/{source.name}" if source.folder else source.name
        position, end = self._position.get(source, 0), pieces[-1].end
        if position > end:  # begun anew
            position = 0
        block = BLOCK_BYTES
        while position < end:
            start, data = self._fetch(pieces, position, min(end, position + block), pool)
            self._lose(name, start - position)
            position = start
            decoded = decode(data)
            self._take(source.folder, decoded)
            self._lose(name, decoded.lost_bytes)
            position += decoded.consumed
            self._position[source] = position
            if decoded.consumed:
                continue
            needed = FRAME_BYTES + (length_at(data) or 0)
            if start + len(data) >= end or start + needed > end:
                break  # torn, or not written yet
            if needed > MOST_RECORD_BYTES:
                self._lose(name, needed)
                position += needed
            block = max(2 * block, min(needed, MOST_RECORD_BYTES))
        self._position[source] = position
        self.unread_bytes.pop(name, None)
        if position < end:
            self.unread_bytes[name] = end - position

    def _fetch(
        self, pieces: list[Piece], start: int, end: int, pool: ThreadPoolExecutor
    ) -> tuple[int, bytes]:
        """Where the next bytes begin (later than asked, if some are missing), and they."""
        first = bisect_right(pieces, start, key=_end)
        start = max(start, pieces[first].chunk.offset)
        ranges: list[tuple[str, int, int]] = []
        at = start
        for piece in islice(pieces, first, None):
            if piece.chunk.offset > at or at >= end and ranges:
                break  # bytes are missing, or enough are there
            ranges.append((piece.key, at - piece.chunk.offset, max(at, end) - piece.chunk.offset))
            at = piece.end
        if len(ranges) == 1:
            return start, self._get(ranges[0])
        # Threads help with a store that is far away; with a disk they are only in the way.
        get = map if isinstance(self.place.store, FolderStore) else pool.map
        return start, b"".join(get(self._get, ranges))

    def _get(self, part: tuple[str, int, int]) -> bytes:
        key, start, end = part
        store = self.place.store
        if not isinstance(store, FolderStore):
            return store.get(key, start, end)
        file = os.open(os.path.join(store.root, key), os.O_RDONLY | os.O_CLOEXEC)
        try:
            return os.pread(file, end - start, start)  # in one piece
        finally:
            os.close(file)

    def _lose(self, name: str, num_bytes: int) -> None:
        if num_bytes:
            self.lost_bytes[name] = self.lost_bytes.get(name, 0) + num_bytes


def _end(piece: Piece) -> int:
    return piece.end

"""The event files below a location, cached between listings.

A job of a day has tens of thousands of chunks. Their names sort by upload time, so most listings
request only those after the last known ones; now and then, one requests all.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass, field

from trackside.curves.chunks import Piece, Source, by_source, parse
from trackside.curves.event_locations import list_event_files, path_below
from trackside.records.event_names import is_event_file
from trackside.storage.locate import Location

WHOLE_SECONDS = 60.0
"""How long a chunk may stay unseen that only a full listing shows: from a host with a slow clock
that never wrote to this run before.
"""
LEAST_SKIPPED = 1000
"""A page of S3's listing. Fewer known keys are not worth a separate request."""


@dataclass(slots=True)
class _Folder:
    """One run's chunks."""

    newest: dict[str, str] = field(default_factory=dict)
    """By host, its last key: a host sends in the order of its own names."""
    num_pieces: int = 0
    first: tuple[str, int] = ("", 0)
    """Key and size of the piece with the least key. A merge makes it larger."""

    @property
    def settled(self) -> str:
        """Nothing is new up to this key."""
        return min(self.newest.values())


class EventListing:
    """Not thread-safe. `pieces` maps each file to its pieces, in order."""

    def __init__(self, location: Location) -> None:
        self.pieces: dict[Source, list[Piece]] = {}
        self._location = location
        self._folders: dict[str, _Folder] = {}
        self._whole_at: float | None = None

    def update(self, *, whole: bool = False) -> None:
        """Find what is new; with `whole`, and at intervals, also what is gone."""
        is_old = self._whole_at is None or time.monotonic() - self._whole_at > WHOLE_SECONDS
        if whole or is_old or not any(map(_is_long, self._folders.values())):
            self._list_all()
        else:
            try:
                for path, key, size in self._unknown():
                    self._add(path, key, size)
            except _Merged:
                self._list_all()

    def _list_all(self) -> None:
        began = time.monotonic()
        self.pieces = by_source(list_event_files(self._location))
        self._folders = {}
        for source, pieces in self.pieces.items():
            for piece in pieces:
                self._note(source, piece)
        self._whole_at = began

    def _unknown(self) -> Iterator[tuple[str, str, int]]:
        """All except long known ranges, which are skipped."""
        prefix = self._location.key.rstrip("/")
        after = ""
        while True:
            for entry in self._location.store.list(prefix, after):
                path = path_below(prefix, entry.key)
                if path is None or not is_event_file(path):
                    continue
                folder = self._folders.get(entry.key.rpartition("/")[0])
                if folder is not None and _is_long(folder) and entry.key <= folder.settled:
                    if (entry.key, entry.size_bytes) != folder.first:
                        raise _Merged
                    after = folder.settled
                    break
                yield path, entry.key, entry.size_bytes
            else:
                return

    def _add(self, path: str, key: str, size: int) -> None:
        piece = Piece(key, parse(path), size)
        source = piece.chunk.source
        pieces = self.pieces.setdefault(source, [])
        if not pieces or piece.chunk.offset == pieces[-1].end:
            pieces.append(piece)
            self._note(source, piece)
        elif piece.chunk.offset == pieces[-1].chunk.offset and piece.end > pieces[-1].end:
            pieces[-1] = piece  # an unchunked file has grown
        elif piece.chunk.offset > pieces[-1].end:
            pieces.append(piece)  # anything between is found by the next full listing
            self._note(source, piece)

    def _note(self, source: Source, piece: Piece) -> None:
        if not source.host:
            return
        key = piece.key
        folder = self._folders.setdefault(key.rpartition("/")[0], _Folder())
        folder.newest[source.host] = max(key, folder.newest.get(source.host, ""))
        if not folder.num_pieces or key < folder.first[0]:
            folder.first = (key, piece.size)
        folder.num_pieces += 1


class _Merged(Exception):
    """A run's first known chunks no longer exist."""


def _is_long(folder: _Folder) -> bool:
    return folder.num_pieces >= LEAST_SKIPPED

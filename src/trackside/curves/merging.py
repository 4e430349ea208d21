"""Joins the chunks of an event file into one object, on request."""

from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path

from trackside.curves.chunks import Piece, by_source
from trackside.curves.event_locations import list_event_files, located
from trackside.storage.locate import Location


def merge(location: str | Path | Location, *, home: Path | None = None) -> int:
    """One object for each file that a job wrote below a location; returns how many were removed.

    The joined object gets the name of the first chunk, and only then are the others deleted, oldest
    first: a reader sees points twice for a moment, never fewer. For a finished job.
    """
    found = located(location, home, to_write=True)
    num_removed = 0
    for pieces in by_source(list_event_files(found)).values():
        joined = _without_gaps(pieces)
        if len(joined) < 2:
            continue
        found.store.put(joined[0].key, _content(found, joined))
        found.store.delete([piece.key for piece in joined[1:]])
        num_removed += len(joined) - 1
    return num_removed + _remove_repeats(found)


def _remove_repeats(found: Location) -> int:
    """Left by an interrupted merge."""
    objects = list(list_event_files(found))
    kept = {piece.key for pieces in by_source(objects).values() for piece in pieces}
    repeats = [key for _, key, _ in objects if key not in kept]
    if repeats:
        found.store.delete(repeats)
    return len(repeats)


def _without_gaps(pieces: list[Piece]) -> list[Piece]:
    """Consecutive ones from the first on."""
    pairs = zip(pieces, pieces[1:], strict=False)
    following = takewhile(lambda pair: pair[1].chunk.offset <= pair[0].end, pairs)
    return [*pieces[:1], *(piece for _, piece in following)]


def _content(found: Location, pieces: list[Piece]) -> Iterator[bytes]:
    end = 0
    for piece in pieces:
        yield from found.store.read(piece.key, start=end - piece.chunk.offset if end else 0)
        end = piece.end

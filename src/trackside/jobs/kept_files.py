"""Files kept from a script's working folder, as stored.

Most are objects below `files/`. Event files are stored once, as chunks among the job's curves.
"""

from collections.abc import Iterator

from trackside.curves.chunks import Piece, by_source
from trackside.curves.event_locations import list_event_files
from trackside.files import damaged_files
from trackside.files.json_record import DamagedRecord
from trackside.jobs.records import Record
from trackside.quick_dataclass import dataclass
from trackside.records import kept_list
from trackside.records.layout import Home, curves_of, kept_path
from trackside.storage.locate import Location, entries_below, locate, locate_to_read


@dataclass(frozen=True, slots=True)
class Part:
    """An object with bytes of a file, after its first `skipped` bytes."""

    place: Location
    skipped: int = 0


@dataclass(frozen=True, slots=True)
class KeptFile:
    path: str
    """Relative to the working folder; except for the first host, below a folder of its name."""
    size_bytes: int
    parts: tuple[Part, ...]
    """Its parts, in order."""


def kept_files(record: Record, home: Home) -> tuple[KeptFile, ...]:
    """By path."""
    found = [*_plain(record, home), *_events(record, home)]
    return tuple(sorted(found, key=lambda file: file.path))


def _plain(record: Record, home: Home) -> Iterator[KeptFile]:
    place = locate(record.keys.files, home=home.root)
    for path, entry in entries_below(locate_to_read(record.keys.files, home=home.root)):
        yield KeptFile(path, entry.size_bytes, (Part(place.child(path)),))


def _events(record: Record, home: Home) -> Iterator[KeptFile]:
    listed = set(_listed(record, home))
    if not listed:
        return
    uri = curves_of(record.spec, record.keys)
    listed_there, place = locate_to_read(uri, home=home.root), locate(uri, home=home.root)
    newest: dict[tuple[str, str], list[Piece]] = {}
    for source, pieces in sorted(by_source(list_event_files(listed_there)).items()):
        path = f"{source.folder}/{source.name}" if source.folder else source.name
        newest[source.host, path] = pieces  # of one name, generations ascend
    for host, path in listed & newest.keys():
        yield _joined(kept_path(host, path), place, newest[host, path])


def _listed(record: Record, home: Home) -> Iterator[tuple[str, str]]:
    place = locate_to_read(record.keys.kept_lists, home=home.root)
    for _, entry in entries_below(place):
        try:
            found = kept_list.from_bytes(place.store.get(entry.key))
        except DamagedRecord as error:
            damaged_files.say_once(entry.key, f"{error}; it is left out")
        else:
            yield from ((found.host, path) for path in found.events)


def _joined(path: str, place: Location, pieces: list[Piece]) -> KeptFile:
    """Up to the first gap, if any; bytes in two chunks count once."""
    parts, end = [], 0
    for piece in pieces:
        if piece.chunk.offset > end:
            break
        at = Location(place.store, piece.key, f"{place.uri}/{piece.chunk.path}")
        parts.append(Part(at, end - piece.chunk.offset))
        end = piece.end
    return KeptFile(path, end, tuple(parts))

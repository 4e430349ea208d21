"""The files that a script left in its working folder, as they are in storage."""

from collections.abc import Iterator
from dataclasses import dataclass

from trackside.jobs.records import Record
from trackside.layout import Home
from trackside.storage.locate import Location, entries_below, locate


@dataclass(frozen=True, slots=True)
class KeptFile:
    path: str
    """Below the working folder; of hosts but the first, below a folder of the host's name."""
    size_bytes: int
    parts: tuple[Location, ...]
    """The objects that make it up, in this order."""


def kept_files(record: Record, home: Home) -> tuple[KeptFile, ...]:
    """By path."""
    found = _plain(record, home)
    return tuple(sorted(found, key=lambda file: file.path))


def _plain(record: Record, home: Home) -> Iterator[KeptFile]:
    place = locate(record.keys.files, home=home.root)
    for path, entry in entries_below(place):
        yield KeptFile(path, entry.size_bytes, (place.child(path),))

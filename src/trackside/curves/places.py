"""Where event files are: what the user wrote made a location, and the event files below it."""

from collections.abc import Iterator
from pathlib import Path

from trackside.curves.chunks import is_event_file
from trackside.settings import Settings
from trackside.storage.locate import Location, locate


def located(location: str | Path | Location, home: Path | None = None) -> Location:
    if isinstance(location, Location):
        return location
    return locate(location, home=home or Settings.load().home)


def list_event_files(place: Location) -> Iterator[tuple[str, str, int]]:
    """Path below the place, key and size of each, ordered by key; a single file is its own name."""
    prefix = place.key.rstrip("/")
    for entry in place.store.list(prefix):
        if entry.key == prefix:
            path = prefix.rpartition("/")[2]
        elif not prefix:
            path = entry.key
        elif entry.key.startswith(f"{prefix}/"):
            path = entry.key.removeprefix(f"{prefix}/")
        else:
            continue
        if is_event_file(path):
            yield path, entry.key, entry.size_bytes

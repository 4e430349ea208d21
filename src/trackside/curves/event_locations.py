"""Locates event files: resolves what the user wrote, and lists the event files below it."""

from collections.abc import Iterator
from pathlib import Path

from trackside.records.event_names import is_event_file
from trackside.settings import Settings
from trackside.storage.locate import Location, locate, locate_to_read


def located(
    location: str | Path | Location, home: Path | None = None, *, to_write: bool = False
) -> Location:
    if isinstance(location, Location):
        return location
    find = locate if to_write else locate_to_read
    return find(location, home=home or Settings.load().home)


def list_event_files(location: Location) -> Iterator[tuple[str, str, int]]:
    """Relative path, key and size of each, ordered by key; a single file's path is its name."""
    prefix = location.key.rstrip("/")
    for entry in location.store.list(prefix):
        path = path_below(prefix, entry.key)
        if path is not None and is_event_file(path):
            yield path, entry.key, entry.size_bytes


def path_below(prefix: str, key: str) -> str | None:
    """None for a key that only begins with the same letters."""
    if key == prefix:
        return prefix.rpartition("/")[2]
    if not prefix:
        return key
    return key[len(prefix) + 1 :] if key.startswith(f"{prefix}/") else None

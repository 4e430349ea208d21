"""Notices, by stat calls alone, that event files in folders of this machine may have more.

A file that is new shows in its folder's time of change; one that grows, in its size. Chunks never
grow.
"""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from trackside.curves.chunks import Piece, Source
from trackside.storage.locate import Location

_GRAIN_NS = 100_000_000
"""Within which a file system may give two changes the same time."""
MOST_FOLDERS = 10_000
"""With more, every look is a change: nobody writes so many runs."""

_Seen = tuple[int, int, int] | None
"""Inode, size and time of change; None for what is not there."""


class EventWatch:
    """Not thread-safe."""

    def __init__(self) -> None:
        self._seen: dict[str, _Seen] | None = None

    def forget(self) -> None:
        """The next look is a change."""
        self._seen = None

    def has_changed(self) -> bool:
        """Since `note`; True without one."""
        if self._seen is None:
            return True
        return any(_look(path) != seen for path, seen in self._seen.items())

    def note(
        self, found: Iterable[tuple[Location, Mapping[Source, Sequence[Piece]]]], began_ns: int
    ) -> None:
        """What a listing found that began at this time of the wall clock; only if all of it is on
        this machine.
        """
        seen: dict[str, _Seen] = {}
        for location, pieces in found:
            if location.local is None:
                return self.forget()
            root = location.local
            paths = [*_folders(root), *_growing(root, location.key, pieces)]
            seen.update((path, _look(path)) for path in paths)
        fresh = began_ns - _GRAIN_NS
        is_settled = all(each is None or each[2] < fresh for each in seen.values())
        self._seen = seen if is_settled and len(seen) < MOST_FOLDERS else None


def _folders(root: Path) -> Iterator[str]:
    """It and all below; if it is not there, the nearest above that is."""
    while not root.is_dir():
        yield str(root)
        root = root.parent
    yield str(root)
    for folder, names, _ in os.walk(root):
        yield from (os.path.join(folder, name) for name in names)


def _growing(root: Path, key: str, pieces: Mapping[Source, Sequence[Piece]]) -> Iterator[str]:
    for source, found in pieces.items():
        if not source.host:
            below = found[-1].key.removeprefix(key).strip("/")
            yield str(root / below) if below else str(root)


def _look(path: str) -> _Seen:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns

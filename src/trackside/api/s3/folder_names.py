"""The names in a folder, in the order of S3's keys. Those of large folders are cached from one page
of a listing to the next, as long as the folder's times show no change."""

import os
import time
from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Callable, Sequence
from threading import Lock

from trackside.storage.key_order import Name, names_in_key_order

CACHED_FROM = 1000
"""Names; a smaller folder is read again as quickly."""
CACHED_MOST = 500_000
"""Names, of all folders together."""
_SETTLED_NS = 2_000_000_000
"""A folder whose last change is older than this shows the next one by its time."""


_Folder = tuple[int, int]
"""Its device and number, whatever it is called."""
_State = tuple[int, int]
"""When it last changed."""


class FolderNames:
    """Thread-safe."""

    def __init__(self) -> None:
        self._cached: OrderedDict[_Folder, tuple[_State, Sequence[Name]]] = OrderedDict()
        self._num_cached = 0
        self._lock = Lock()

    def read(
        self, descriptor: int, after: bytes = b"", scan: Callable[[int], list[Name]] | None = None
    ) -> Sequence[Name]:
        """Of an open folder, in order, those whose keys are not before this. Links are left out.

        `scan` reads, in order, a folder whose names are not its keys; it is the same each time.
        """
        names = self._all(descriptor, scan or _names)
        return names[first_from(names, after) :] if after else names

    def _all(self, descriptor: int, scan: Callable[[int], list[Name]]) -> Sequence[Name]:
        status = os.fstat(descriptor)
        folder = (status.st_dev, status.st_ino)
        state = (status.st_mtime_ns, status.st_ctime_ns)
        with self._lock:
            cached = self._cached.get(folder)
            if cached is not None and cached[0] == state:
                self._cached.move_to_end(folder)
                return cached[1]
        is_settled = status.st_mtime_ns + _SETTLED_NS < time.time_ns()
        names = scan(descriptor)
        self._store(folder, state, names if is_settled and len(names) >= CACHED_FROM else None)
        return names

    def _store(self, folder: _Folder, state: _State, names: Sequence[Name] | None) -> None:
        with self._lock:
            _, before = self._cached.pop(folder, (state, ()))
            self._num_cached -= len(before)
            if names is not None and len(names) <= CACHED_MOST:
                self._cached[folder] = (state, names)
                self._num_cached += len(names)
            while self._num_cached > CACHED_MOST:
                _, (_, oldest) = self._cached.popitem(last=False)
                self._num_cached -= len(oldest)


def first_from(names: Sequence[Name], key: bytes, start: int = 0) -> int:
    """The number of the first, beginning at `start`, that is not before this key."""
    return bisect_left(names, key, start, key=lambda each: each.key)


def _names(descriptor: int) -> list[Name]:
    return names_in_key_order(descriptor, follow_links=False)

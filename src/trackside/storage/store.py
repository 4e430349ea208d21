"""The storage seam: one bucket, container or folder, addressed by keys with `/` in them.

`folder.py` is a folder on this machine (embedded buckets, `file://`, plain paths); `cloud.py` is
S3, Google Cloud Storage or Azure. `locate.py` finds the right one for what the user wrote.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from pathlib import Path

from trackside.errors import InvalidKey
from trackside.quick_dataclass import dataclass

NOTHING = ""
"""As `replaces` of a put: there must be no object yet."""

_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_REFUSED = re.compile(r"[\x00-\x1f\x7f]|(?:\A|/)\.{0,2}(?:/|\Z)")


@dataclass(frozen=True, slots=True)
class Entry:
    """An object as a listing shows it."""

    key: str
    size_bytes: int
    etag: str | None = None
    """Changes whenever the object does. Without the quotes HTTP puts around it."""
    modified: float = 0.0
    """Seconds since the epoch, by the store's clock; 0 where a put did not ask for it."""

    @property
    def modified_ns(self) -> int:
        """For a file's own time. An integer, since float seconds do not always round-trip."""
        return int(self.modified * 1e9)


class Store(ABC):
    """Complete objects in, complete objects or byte ranges out. Thread-safe.

    Errors are those below `StorageError`, with the location and the way out in the message.
    Temporary errors (no connection, 5xx, a broken body) are retried with back-off inside.
    """

    most_conditional_bytes: int | None = 0
    """Objects up to this size can be put with a condition; None is any size, 0 is none at all."""

    @abstractmethod
    def put(
        self, key: str, data: bytes | Path | Iterable[bytes], *, replaces: str | None = None
    ) -> Entry:
        """Store an object atomically: until this returns, readers see the old one or none.

        A path is sent in parallel parts; chunks are sent as they arrive, a few parts in memory.
        With `replaces`, which is an etag or `NOTHING`, `ObjectChanged` unless that is what the
        store has at the moment of replacing. After a lost response this may be our own put.
        Larger objects than `most_conditional_bytes` are a `StorageError`.
        """

    @abstractmethod
    def get(
        self, key: str, start: int = 0, end: int | None = None, *, etag: str | None = None
    ) -> bytes:
        """The bytes from `start` up to `end` (exclusive; None is the object's end).

        A range beyond the object is truncated. With `etag`, `ObjectChanged` unless the object is
        still that version: parts of two versions never end up in one file.
        """

    def get_newer(self, key: str, than: str | None) -> tuple[bytes, str | None] | None:
        """A small object and its etag; None if it still has the etag `than`."""
        entry = self.stat(key)
        if than is not None and entry.etag == than:
            return None
        return self.get(key, etag=entry.etag), entry.etag

    @abstractmethod
    def read(
        self, key: str, start: int = 0, end: int | None = None, *, etag: str | None = None
    ) -> Iterator[bytes]:
        """What `get` returns, in pieces as they arrive, with a few in memory."""

    def move(
        self, key: str, start: int, end: int, target: int, *, etag: str | None
    ) -> Iterator[int]:
        """Download a range to the same offset of an open file, where that is faster than `read`.

        Yields sizes as they arrive. May end at any byte; the caller reads the rest.
        """
        return iter(())

    @abstractmethod
    def stat(self, key: str) -> Entry:
        """One object's entry; `ObjectNotFound` when there is none."""

    @abstractmethod
    def list(self, prefix: str = "", after: str = "") -> Iterator[Entry]:
        """Entries whose key starts with `prefix` (as text, not by folder), ordered by key bytes.

        Only keys greater than `after`, so that a later listing costs only the new ones.
        Folder markers (keys that end in `/`) are not objects here and are omitted.
        """

    @abstractmethod
    def delete(self, keys: Iterable[str]) -> None:
        """Deleting a missing object succeeds."""


def check_key(key: str) -> None:
    """`InvalidKey` unless every store supports this key, and it stays inside a reader's folder."""
    if _REFUSED.search(key) is None:
        return
    if not key:
        raise InvalidKey("A key is empty. Name an object below the location.")
    if _CONTROL.search(key) is not None:
        raise InvalidKey(f"Key {key!r} contains a control character. Leave it out.")
    raise InvalidKey(
        f"Key {key!r} has an empty, '.' or '..' segment, or a '/' at either end. "
        "Segments between slashes must be plain names."
    )


def up_to(chunks: Iterator[bytes], size_bytes: int) -> Iterator[bytes]:
    """Chunks up to and including the one that passes this size."""
    total = 0
    for chunk in chunks:
        yield chunk
        total += len(chunk)
        if total > size_bytes:
            return

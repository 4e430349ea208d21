"""Stores that did not answer a moment ago: whoever looks at a job, or at a thousand, waits for an
unreachable store once, not for every file that is read.
"""

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from trackside.errors import StoreUnreachable
from trackside.storage.store import Entry, Store

AWAY_SECONDS = 10.0
"""So long after a request that failed, the store is not asked again by this process."""


@contextmanager
def asked_once(store: Store) -> Iterator[None]:
    """For reading from `store`: the same `StoreUnreachable` at once if it was raised just now."""
    known = _away.get(store)
    if known is not None:
        until, text = known
        if time.monotonic() < until:
            raise StoreUnreachable(text)
        _away.pop(store, None)
    try:
        yield
    except StoreUnreachable as error:
        _away[store] = (time.monotonic() + AWAY_SECONDS, str(error))
        raise


_away: dict[Store, tuple[float, str]] = {}
"""Until when, and what was said."""


class AskedOnce(Store):
    """A store for readers, each of whose requests is `asked_once`."""

    def __init__(self, inner: Store) -> None:
        self._inner = inner
        self.most_conditional_bytes = inner.most_conditional_bytes

    def __repr__(self) -> str:
        return repr(self._inner)

    def put(
        self, key: str, data: bytes | Path | Iterable[bytes], *, replaces: str | None = None
    ) -> Entry:
        return self._inner.put(key, data, replaces=replaces)

    def get(
        self, key: str, start: int = 0, end: int | None = None, *, etag: str | None = None
    ) -> bytes:
        with asked_once(self._inner):
            return self._inner.get(key, start, end, etag=etag)

    def get_newer(self, key: str, than: str | None) -> tuple[bytes, str | None] | None:
        with asked_once(self._inner):
            return self._inner.get_newer(key, than)

    def read(
        self, key: str, start: int = 0, end: int | None = None, *, etag: str | None = None
    ) -> Iterator[bytes]:
        with asked_once(self._inner):
            yield from self._inner.read(key, start, end, etag=etag)

    def move(
        self, key: str, start: int, end: int, target: int, *, etag: str | None
    ) -> Iterator[int]:
        with asked_once(self._inner):
            yield from self._inner.move(key, start, end, target, etag=etag)

    def stat(self, key: str) -> Entry:
        with asked_once(self._inner):
            return self._inner.stat(key)

    def list(self, prefix: str = "", after: str = "") -> Iterator[Entry]:
        with asked_once(self._inner):
            yield from self._inner.list(prefix, after)

    def delete(self, keys: Iterable[str]) -> None:
        self._inner.delete(keys)

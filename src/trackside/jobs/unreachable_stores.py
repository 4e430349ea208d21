"""Stores that did not answer a moment ago: whoever looks at a job, or at a thousand, waits for an
unreachable store once, not for every file that is read.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager

from trackside.errors import StoreUnreachable
from trackside.storage.store import Store

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

"""Live updates: what is new of what a tab shows, over one stream of server-sent events.

A stream has feeds, each for one kind of event. They are polled in a thread, one after the other,
and return only what has changed.
"""

import asyncio
import logging
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, Protocol

from starlette.responses import StreamingResponse

from trackside.errors import TracksideError
from trackside.files.json_record import DamagedRecord
from trackside.page.call import to_json
from trackside.page.problems import TooManyStreams
from trackside.page.security_headers import Receive, Scope, Send
from trackside.system.fair_pool import FairPool

logger = logging.getLogger(__name__)

POLL_SECONDS = 0.4
HEARTBEAT_SECONDS = 25.0
ALLOWED_SECONDS = 5.0
"""Between two looks at whether the caller is still allowed, however much is sent meanwhile."""
MOST_OF_CALLER = 32
"""Streams of one session, or of the user of this machine."""
_SHARE = 0.1
"""Of a thread's time that polling may take: what takes long to poll is polled less often."""
_MOST_PAUSE_SECONDS = 5.0
_RETRY = b"retry: 2000\n\n"
_HEARTBEAT = b":\n\n"

Event = tuple[str, Any]
"""Name and data."""


class Feed(Protocol):
    """One kind of event of one stream. Polled by one thread at a time."""

    def poll(self) -> Sequence[Event]:
        """What is new since the last call."""


class LiveStreams:
    """Belongs to the event loop."""

    def __init__(self, is_ending: Callable[[], bool]) -> None:
        self._is_ending = is_ending
        self._pool = FairPool("live", threads=4, per_caller=2)
        self._num_open: Counter[str] = Counter()

    def close(self) -> None:
        self._pool.close()

    async def open(
        self, caller: str, make: Callable[[], list[Feed]], is_allowed: Callable[[], bool]
    ) -> StreamingResponse:
        """`make` is called in a thread, and may raise. The stream ends when its caller is no longer
        allowed."""
        if self._num_open[caller] >= MOST_OF_CALLER:
            raise TooManyStreams(
                f"{self._num_open[caller]} tabs have the page open with this login.",
                "Close some of them.",
            )
        self._num_open[caller] += 1  # at once: many may be opened at the same time
        try:
            feeds = await self._pool.run_for(caller, make)
        except BaseException:
            self._end(caller)
            raise
        body = self._events(caller, feeds, is_allowed)
        return _EventResponse(body, lambda: self._end(caller))

    def _end(self, caller: str) -> None:
        self._num_open[caller] -= 1
        if not self._num_open[caller]:
            del self._num_open[caller]

    async def _events(
        self, caller: str, feeds: Sequence[Feed], is_allowed: Callable[[], bool]
    ) -> AsyncIterator[bytes]:
        yield _RETRY
        sent = checked = time.monotonic()
        while not self._is_ending():
            began = time.monotonic()
            if began - checked > ALLOWED_SECONDS:
                if not await self._pool.run_for(caller, is_allowed):
                    return
                checked = began
            if found := await self._pool.run_for(caller, lambda: _polled(feeds)):
                sent = time.monotonic()
                yield found
            elif time.monotonic() - sent > HEARTBEAT_SECONDS:
                sent = time.monotonic()
                yield _HEARTBEAT
            await self._pause(time.monotonic() - began)

    async def _pause(self, seconds_polled: float) -> None:
        """Ends early with the server."""
        wanted = max(POLL_SECONDS, min(_MOST_PAUSE_SECONDS, seconds_polled / _SHARE))
        deadline = time.monotonic() + wanted
        while not self._is_ending() and (left := deadline - time.monotonic()) > 0:
            await asyncio.sleep(min(left, POLL_SECONDS))


class _EventResponse(StreamingResponse):
    def __init__(self, body: AsyncIterator[bytes], ended: Callable[[], None]) -> None:
        headers = {"x-accel-buffering": "no"}  # for nginx
        super().__init__(body, media_type="text/event-stream", headers=headers)
        self._ended = ended

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._ended()


def _polled(feeds: Sequence[Feed]) -> bytes:
    """A job may be deleted, or its storage be away for a moment, while somebody looks at it."""
    parts = []
    for feed in feeds:
        try:
            parts += [_written(*event) for event in feed.poll()]
        except (TracksideError, DamagedRecord, OSError) as error:
            logger.debug("%s has no news: %s", type(feed).__name__, error)
        except Exception:
            logger.exception("%s broke", type(feed).__name__)
    return b"".join(parts)


def _written(name: str, data: Any) -> bytes:
    """JSON has no line breaks outside of texts, and escapes those in them."""
    return b"event: " + name.encode() + b"\ndata: " + to_json(data) + b"\n\n"

"""A request's body as it arrives: how much is held in memory, how long it may take, and how an
unwanted one is discarded.

A client that sent `Expect` sends its body only after `100 Continue`.
"""

import asyncio
import math
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, MutableMapping
from contextlib import suppress
from typing import Any

from trackside.api.admission import Admission, Cut
from trackside.api.call import BODY_MOST_BYTES, Exchange, ServiceError, too_busy

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]

SMALL_BYTES = 64 << 10
"""What uvicorn holds of a body anyway. Nearly all calls are smaller."""
_KEY_SHARE = 0.5
_UNSIGNED_SECONDS, _UNSIGNED_BYTES = 5.0, BODY_MOST_BYTES
_MOST_LINGERING, _PAUSE_SECONDS = 8, 0.02
"""Discarding unwanted bodies takes CPU: only so many unsigned clients are served so at a time, and
slowly."""
_SIGNED_SECONDS, _SIGNED_BYTES = 30.0, 64 << 20
_MOST_DIGITS = 18


class BodyMemory:
    """What the bodies of all requests hold together. Belongs to the event loop."""

    def __init__(self, most_bytes: float) -> None:
        self._most = most_bytes
        self._held: Counter[str] = Counter()
        """By the key that the request claims; one claimed key cannot use up the memory of all
        others."""

    @property
    def num_bytes(self) -> int:
        return self._held.total()

    def take(self, key: str, size: int) -> bool:
        is_free = self.num_bytes + size <= self._most
        is_free = is_free and self._held[key] + size <= self._most * _KEY_SHARE
        self._held[key] += size if is_free else 0
        return is_free

    def give_back(self, key: str, size: int) -> None:
        self._held[key] -= size
        if not self._held[key]:
            del self._held[key]


class Body:
    def __init__(
        self,
        receive: Receive,
        headers: Mapping[str, str],
        exchange: Exchange,
        admission: Admission,
        memory: BodyMemory,
    ) -> None:
        self._receive = receive
        self.exchange = exchange
        self._admission = admission
        self._memory = memory
        length = headers.get("content-length", "0")
        is_chunked = "transfer-encoding" in headers
        # Digits beyond those of any body add nothing, and Python refuses to read thousands of them.
        self._size = None if is_chunked or not length.isdecimal() else int(length[:_MOST_DIGITS])
        """As announced; None where it is unknown until the end."""
        self._waits_for_us = "expect" in headers
        self._is_over = self._size == 0
        self._is_late = False
        self._held: tuple[str, int] = ("", 0)
        self._waited_seconds, self._num_since = 0.0, 0

    @property
    def is_small(self) -> bool:
        return self._size is not None and self._size <= SMALL_BYTES

    @property
    def is_unread(self) -> bool:
        """Whether some of it may still arrive, which would be taken for the next request."""
        return not self._is_over

    async def whole(self, key: str) -> bytes:
        """In memory, on account of the key that the request claims, until `release`."""
        if (self._size or 0) > BODY_MOST_BYTES:
            raise _too_large()
        parts, size = [], 0
        async for chunk in self.chunks():
            size += len(chunk)
            if size > BODY_MOST_BYTES:
                raise _too_large()
            if size > SMALL_BYTES:
                self._hold(key, size)
            parts.append(chunk)
        return b"".join(parts)

    async def chunks(self) -> AsyncIterator[bytes]:
        self._waits_for_us = False
        while not self._is_over:
            message = await self._next()
            if message["type"] == "http.disconnect":
                self._is_over = True
                raise ServiceError("RequestTimeout", "The body ended before its announced length.")
            self._is_over = not message.get("more_body")
            if message.get("body"):
                self.exchange.bytes_in += len(message["body"])
                yield message["body"]

    async def skip_small(self) -> None:
        """Discard a small unwanted body, so that the connection can be reused."""
        if self.is_small and not self._waits_for_us:
            await self._discard(self._admission.limits.body_seconds, SMALL_BYTES)

    async def linger(self) -> None:
        """Discard what arrives after the response, for a while: most clients send everything before
        they read, and would see a closed connection instead of the error."""
        if self._is_late:
            return
        if self.exchange.key_id:
            await self._discard(_SIGNED_SECONDS, _SIGNED_BYTES)
        elif self._admission.num_lingering < _MOST_LINGERING:
            self._admission.num_lingering += 1
            try:
                await self._discard(_UNSIGNED_SECONDS, _UNSIGNED_BYTES, _PAUSE_SECONDS)
            finally:
                self._admission.num_lingering -= 1

    def release(self) -> None:
        self._memory.give_back(*self._held)
        self._held = ("", 0)

    def _hold(self, key: str, size: int) -> None:
        """The size so far, instead of the size held before."""
        self.release()
        if not self._memory.take(key, size):
            self._admission.cuts[Cut.BODY_MEMORY] += 1
            raise too_busy("The bodies of other requests fill the memory that there is for them.")
        self._held = (key, size)

    async def _discard(self, seconds: float, most_bytes: int, pause_seconds: float = 0) -> None:
        with suppress(ServiceError, TimeoutError):
            async with asyncio.timeout(None if math.isinf(seconds) else seconds):
                async for chunk in self.chunks():
                    most_bytes -= len(chunk)
                    if most_bytes < 0:
                        return
                    if pause_seconds:
                        await asyncio.sleep(pause_seconds)

    async def _next(self) -> MutableMapping[str, Any]:
        """The next message, unless the client is too slow. The time that this server takes to
        process data does not count."""
        limits, loop = self._admission.limits, asyncio.get_running_loop()
        left, started = limits.body_seconds - self._waited_seconds, loop.time()
        try:
            async with asyncio.timeout(None if math.isinf(left) else left):
                message = await self._receive()
        except TimeoutError:
            self._is_late = True
            self._admission.cuts[Cut.BODY_SLOW] += 1
            text = f"Fewer than {limits.body_rate} bytes/s came in {limits.body_seconds:g} s."
            raise ServiceError("RequestTimeout", text, 408) from None
        self._waited_seconds += loop.time() - started
        self._num_since += len(message.get("body", b""))
        if self._num_since >= limits.body_rate * limits.body_seconds:
            self._waited_seconds, self._num_since = 0.0, 0
        return message


def _too_large() -> ServiceError:
    return ServiceError("RequestEntityTooLarge", f"More than {BODY_MOST_BYTES} bytes.", 413)

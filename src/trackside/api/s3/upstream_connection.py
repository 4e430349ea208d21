"""One connection to another S3 server: one request at a time, bodies streamed both ways.

Data is not buffered beyond a limit: a slow side slows the other one down.
"""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from dataclasses import dataclass
from typing import cast

import httptools

_CONTINUE_SECONDS = 1.0
"""How long to wait for `100 Continue` before the body is sent; not all stores send it."""
_RESPONSE_SECONDS = 300.0
"""Stores copy or join large objects before they respond."""
_STALL_SECONDS = 60.0
"""In the middle of a response."""
_BUFFER_BYTES = 1 << 20


class StoreUnavailable(Exception):
    """The store cannot be reached, or closed the connection without a response."""


@dataclass(frozen=True, slots=True)
class Response:
    status: int
    headers: dict[str, str]
    body: bytes | AsyncGenerator[bytes, None]


class UpstreamConnection(asyncio.Protocol):
    """`free` is called with it when it can be reused; never, when it cannot."""

    def __init__(self, free: Callable[["UpstreamConnection"], None]) -> None:
        self._free = free
        self._transport: asyncio.Transport | None = None
        self._writable = asyncio.Event()
        self._reset(is_head=False)

    @property
    def is_open(self) -> bool:
        return self._transport is not None and not self._transport.is_closing()

    async def request(
        self, head: bytes, body: AsyncIterator[bytes] | None, *, is_head: bool, expects: bool
    ) -> Response:
        """`StoreUnavailable` when no response comes. With `expects`, a body that the store refuses
        at once is not sent at all."""
        self._reset(is_head=is_head)
        self._is_sent = body is None
        try:
            if self._transport is None:
                raise StoreUnavailable("closed before the request")
            self._transport.resume_reading()  # the previous response may have ended while paused
            self._transport.write(head)
            if body is not None:
                if expects:
                    await asyncio.wait([self._continued], timeout=_CONTINUE_SECONDS)
                await self._send(body)
            async with asyncio.timeout(_RESPONSE_SECONDS):
                status = await self._status
        except TimeoutError:
            self.close()
            raise StoreUnavailable(f"no response within {_RESPONSE_SECONDS} s") from None
        except BaseException:
            self.close()
            raise
        if self._is_complete:
            held = b"".join(self._pieces)
            self._pieces.clear()
            self._done()
            return Response(status, self._headers, held)
        return Response(status, self._headers, self._body())

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    async def _send(self, body: AsyncIterator[bytes]) -> None:
        """Until all is sent, or the store has responded without waiting for the rest."""
        assert self._transport is not None
        while not self._status.done():
            try:
                piece = await anext(body)
            except StopAsyncIteration:
                self._is_sent = True
                return
            self._transport.write(piece)
            await self._writable.wait()

    async def _body(self) -> AsyncGenerator[bytes, None]:
        try:
            while True:
                while self._pieces:
                    piece = self._pieces.popleft()
                    self._buffered_bytes -= len(piece)
                    yield piece
                if self._is_complete:
                    return
                if self._transport is None:
                    raise StoreUnavailable("closed in the middle of a response")
                self._transport.resume_reading()
                await self._wait_for_data()
        finally:
            self._done()

    async def _wait_for_data(self) -> None:
        self._data_arrived.clear()
        try:
            async with asyncio.timeout(_STALL_SECONDS):
                await self._data_arrived.wait()
        except TimeoutError:
            raise StoreUnavailable(
                f"no data for {_STALL_SECONDS} s in the middle of a response"
            ) from None

    def _done(self) -> None:
        # Unsent parts of a body, or unread parts of a response, would disturb the next request.
        if self._is_complete and not self._pieces and self._is_sent and self._keeps_alive:
            self._free(self)
        else:
            self.close()

    def _reset(self, *, is_head: bool) -> None:
        loop = asyncio.get_running_loop()
        self._parser = httptools.HttpResponseParser(self)
        self._is_head = is_head
        self._continued: asyncio.Future[None] = loop.create_future()
        self._status: asyncio.Future[int] = loop.create_future()
        self._headers: dict[str, str] = {}
        self._pieces: deque[bytes] = deque()
        self._buffered_bytes = 0
        self._data_arrived = asyncio.Event()
        self._is_sent = False
        self._is_complete = False
        self._keeps_alive = False

    # What the event loop calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._writable.set()

    def connection_lost(self, error: Exception | None) -> None:
        self._transport = None
        # A response may last until the store closes the connection; that is no error then.
        if self._status.done() and not self._is_complete and self._ends_by_closing():
            self._is_complete = error is None
        if not self._status.done():
            self._status.set_exception(StoreUnavailable(str(error or "closed without a response")))
            self._status.exception()  # retrieved: there may be no waiter
        self._wake()

    def pause_writing(self) -> None:
        if not self._status.done():
            self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def data_received(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError:
            self.close()
            return
        if self._buffered_bytes > _BUFFER_BYTES and self._transport is not None:
            self._transport.pause_reading()
        self._data_arrived.set()

    # What the parser calls.

    def on_header(self, raw_name: bytes, raw_value: bytes) -> None:
        name, value = raw_name.decode("latin-1").lower(), raw_value.decode("latin-1")
        self._headers[name] = f"{self._headers[name]}, {value}" if name in self._headers else value

    def on_headers_complete(self) -> None:
        status = self._parser.get_status_code()
        if status < 200:
            return
        self._keeps_alive = self._parser.should_keep_alive()
        self._status.set_result(status)
        self._wake()
        self._is_complete = self._is_head  # whatever length it announces

    def on_body(self, piece: bytes) -> None:
        self._pieces.append(piece)
        self._buffered_bytes += len(piece)

    def on_message_complete(self) -> None:
        if self._status.done():
            self._is_complete = True
            return
        self._headers.clear()
        if not self._continued.done():
            self._continued.set_result(None)

    def _ends_by_closing(self) -> bool:
        return "content-length" not in self._headers and "transfer-encoding" not in self._headers

    def _wake(self) -> None:
        self._writable.set()
        self._data_arrived.set()
        if not self._continued.done():
            self._continued.set_result(None)

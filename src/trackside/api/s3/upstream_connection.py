"""One connection to another S3 server: a request at a time, bodies streamed both ways.

Neither side can make the other's bytes pile up here: whoever is slow holds the other one up.
"""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from dataclasses import dataclass
from typing import cast

import httptools

_CONTINUE_SECONDS = 1.0
"""How long a store may think before it says whether it wants the body; not all of them say."""
_ANSWER_SECONDS = 300.0
"""Stores copy or join large objects before they answer."""
_SILENCE_SECONDS = 60.0
"""In the middle of an answer."""
_HELD_MOST_BYTES = 1 << 20


class StoreAway(Exception):
    """The store cannot be reached, or left without an answer."""


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes | AsyncGenerator[bytes, None]


class UpstreamConnection(asyncio.Protocol):
    """`free` is called with it as soon as it can be asked again; never, when it cannot."""

    def __init__(self, free: Callable[["UpstreamConnection"], None]) -> None:
        self._free = free
        self._transport: asyncio.Transport | None = None
        self._writable = asyncio.Event()
        self._reset(is_head=False)

    @property
    def is_open(self) -> bool:
        return self._transport is not None and not self._transport.is_closing()

    async def ask(
        self, head: bytes, body: AsyncIterator[bytes] | None, *, is_head: bool, expects: bool
    ) -> Answer:
        """`StoreAway` when no answer comes. With `expects`, a body that the store refuses at once
        is not even begun."""
        self._reset(is_head=is_head)
        self._is_sent = body is None
        try:
            if self._transport is None:
                raise StoreAway("closed before it was asked")
            self._transport.resume_reading()  # the answer before may have ended held up
            self._transport.write(head)
            if body is not None:
                if expects:
                    await asyncio.wait([self._asked_for], timeout=_CONTINUE_SECONDS)
                await self._send(body)
            async with asyncio.timeout(_ANSWER_SECONDS):
                status = await self._status
        except TimeoutError:
            self.close()
            raise StoreAway(f"no answer within {_ANSWER_SECONDS} s") from None
        except BaseException:
            self.close()
            raise
        if self._is_complete:
            held = b"".join(self._pieces)
            self._pieces.clear()
            self._done()
            return Answer(status, self._headers, held)
        return Answer(status, self._headers, self._body())

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    async def _send(self, body: AsyncIterator[bytes]) -> None:
        """Until all is sent, or the store has answered without waiting for the rest."""
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
                    self._held_bytes -= len(piece)
                    yield piece
                if self._is_complete:
                    return
                if self._transport is None:
                    raise StoreAway("left in the middle of an answer")
                self._transport.resume_reading()
                await self._more()
        finally:
            self._done()

    async def _more(self) -> None:
        self._news.clear()
        try:
            async with asyncio.timeout(_SILENCE_SECONDS):
                await self._news.wait()
        except TimeoutError:
            raise StoreAway(f"silent for {_SILENCE_SECONDS} s in the middle of an answer") from None

    def _done(self) -> None:
        # What of a body was not sent, or of an answer not taken, would be in the next one's way.
        if self._is_complete and not self._pieces and self._is_sent and self._keeps_alive:
            self._free(self)
        else:
            self.close()

    def _reset(self, *, is_head: bool) -> None:
        loop = asyncio.get_running_loop()
        self._parser = httptools.HttpResponseParser(self)
        self._is_head = is_head
        self._asked_for: asyncio.Future[None] = loop.create_future()
        self._status: asyncio.Future[int] = loop.create_future()
        self._headers: dict[str, str] = {}
        self._pieces: deque[bytes] = deque()
        self._held_bytes = 0
        self._news = asyncio.Event()
        self._is_sent = False
        self._is_complete = False
        self._keeps_alive = False

    # What the event loop calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._writable.set()

    def connection_lost(self, error: Exception | None) -> None:
        self._transport = None
        # An answer may last until the store closes the connection; its end is not an error then.
        if self._status.done() and not self._is_complete and self._ends_by_closing():
            self._is_complete = error is None
        if not self._status.done():
            self._status.set_exception(StoreAway(str(error or "closed without an answer")))
            self._status.exception()  # taken: nobody may be waiting
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
        if self._held_bytes > _HELD_MOST_BYTES and self._transport is not None:
            self._transport.pause_reading()
        self._news.set()

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
        self._is_complete = self._is_head  # whatever length it tells of

    def on_body(self, piece: bytes) -> None:
        self._pieces.append(piece)
        self._held_bytes += len(piece)

    def on_message_complete(self) -> None:
        if self._status.done():
            self._is_complete = True
            return
        self._headers.clear()
        if not self._asked_for.done():
            self._asked_for.set_result(None)

    def _ends_by_closing(self) -> bool:
        return "content-length" not in self._headers and "transfer-encoding" not in self._headers

    def _wake(self) -> None:
        self._writable.set()
        self._news.set()
        if not self._asked_for.done():
            self._asked_for.set_result(None)

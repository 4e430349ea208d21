"""uvicorn's HTTP protocol with limits in bytes and time, so that idle or slow clients cannot hold
connections.

Limited here: everything before `app` gets a request, and after its response. `request_body` limits
bodies.
"""

import asyncio
import http
from collections import deque
from typing import Any

from uvicorn.protocols.http.auto import AutoHTTPProtocol

from trackside.api.admission import CONNECTION, Admission, Cut

_MOST_AHEAD = 16
"""Pipelined requests: sent before the previous one was answered. Each is held in memory."""
_CLOSE_SECONDS = 5.0
"""For a client to receive the rest of its last response."""


def guarded(
    admission: Admission, base: type[asyncio.Protocol] = AutoHTTPProtocol
) -> type[asyncio.Protocol]:
    """A protocol class of uvicorn, by httptools or by h11, whose connections are admitted and
    limited."""
    return type("GuardedProtocol", (_Guard, base), {"admission": admission})


class TooManyAhead(Exception):
    """More pipelined requests than are held in memory."""


class _Guard(asyncio.Protocol):
    """A mixin that comes before uvicorn's protocol class."""

    loop: asyncio.AbstractEventLoop
    transport: asyncio.Transport
    client: tuple[str, int] | None
    app_state: dict[str, Any]
    cycle: Any
    """The latest request, and its response."""
    pipeline: deque[Any]

    admission: Admission
    is_signed = False
    is_extra = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.app_state = {**self.app_state, CONNECTION: self}
        self.host = self.client[0] if self.client else ""
        self.descriptor = transport.get_extra_info("socket").fileno()
        self._waits_since: float | None = self.loop.time()
        """For the rest of a request's headers; None before their first byte, and after them."""
        self._num_buffered = 0
        """Bytes received since the parser last produced anything: headers, trailers, chunk
        sizes."""
        self._num_unsent = 0
        self._unsent_since: float | None = None
        self.admission.admit(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self.admission.remove(self)
        self.app_state = {}  # which holds this connection, in turn
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._waits_since is None and self._is_idle():
            self._waits_since = self.loop.time()
        while data and not self.transport.is_closing():
            data = self._take(data)
        if not self._is_idle():
            self._waits_since = None

    def on_headers_complete(self) -> None:
        """Called by httptools. h11 parses a request only after the previous one was answered."""
        if len(self.pipeline) >= _MOST_AHEAD:
            raise TooManyAhead
        super().on_headers_complete()  # type: ignore[misc]

    def on_response_complete(self) -> None:
        super().on_response_complete()  # type: ignore[misc]
        self.admission.mark_idle(self)

    def disconnect(self) -> None:
        if self.is_signed:
            self.transport.close()  # after pending data is sent
        else:
            self.transport.abort()

    def check(self, now: float) -> None:
        limits = self.admission.limits
        if self._waits_since is not None and now - self._waits_since > limits.header_seconds:
            self._refuse(Cut.HEADERS_SLOW, 408 if self._num_buffered else None)
        num_unsent = self.transport.get_write_buffer_size()
        if num_unsent != self._num_unsent or not num_unsent:
            self._num_unsent, self._unsent_since = num_unsent, now
        most = _CLOSE_SECONDS if self.transport.is_closing() else limits.answer_seconds
        if self._unsent_since is not None and now - self._unsent_since > most:
            self.admission.cuts[Cut.RESPONSE_SLOW] += 1
            self.transport.abort()

    def _take(self, data: bytes) -> bytes:
        """Pass on as much as may be buffered, or all if it is a body; returns the rest."""
        cycle, size = self.cycle, self._body_bytes()
        capacity = self.admission.limits.header_bytes - self._num_buffered
        part = data if self._is_receiving() else data[:capacity]
        super().data_received(part)
        if self.cycle is not cycle:
            self.admission.mark_busy(self)
        if self.cycle is not cycle or self._body_bytes() != size:
            self._num_buffered = 0
        else:
            self._num_buffered += len(part)
            if self._num_buffered >= self.admission.limits.header_bytes:
                self._refuse(Cut.HEADERS_LARGE, 431)
        return data[len(part) :]

    def _is_idle(self) -> bool:
        return self.cycle is None or bool(self.cycle.response_complete)

    def _is_receiving(self) -> bool:
        return not self._is_idle() and bool(self.cycle.more_body)

    def _body_bytes(self) -> int:
        """Negative once all of it is there."""
        if self.cycle is None:
            return 0
        return len(self.cycle.body) if self.cycle.more_body else -1

    def _refuse(self, cut: Cut, status: int | None) -> None:
        """Sends a response unless one has been started."""
        self.admission.cuts[cut] += 1
        self._waits_since = None
        if status is not None and self._is_idle():
            self.transport.write(_response(status, cut))
        self.transport.close()


def _response(status: int, cut: Cut) -> bytes:
    text = f"{cut.capitalize()}: see the limits of this server.\n"
    lines = (
        f"HTTP/1.1 {status} {http.HTTPStatus(status).phrase}",
        "content-type: text/plain",
        f"content-length: {len(text)}",
        "connection: close",
    )
    return "\r\n".join([*lines, "", text]).encode()

"""Runs the routes of the page's API in threads, and sends what they return."""

import asyncio
import gzip
import time
from collections.abc import AsyncIterator, Callable, Iterator
from itertools import islice
from threading import Event, Lock
from typing import Any, TypeVar
from urllib.parse import quote

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response, StreamingResponse

from trackside.errors import TracksideError
from trackside.page.call import Answer, Download, Frames, Lines, Streamed, to_json
from trackside.page.problems import TooBusy, as_json
from trackside.page.security_headers import Receive, Scope, Send
from trackside.quick_dataclass import dataclass
from trackside.system.fair_pool import FairPool, TooManyWaiting

FRAME = "application/vnd.trackside.frame"
"""The content type of binary frames."""
_GATHER_SECONDS = 0.1
"""How long lines are gathered before they are sent."""
_MOST_GATHERED = 1000
_PACKED_BYTES = 16 << 10
"""JSON of this size is sent packed, …"""
_PACKING = 1
"""… at the fastest level, which takes a tenth of it."""

T = TypeVar("T")


class Workers:
    """Threads for one request: its caller gets no more than its share of them."""

    def __init__(self, pool: FairPool, caller: str, stop: Event) -> None:
        self._pool = pool
        self._caller = caller
        self._stop = stop

    async def run(self, work: Callable[[], T]) -> T:
        try:
            return await self._pool.run_for(self._caller, work)
        except TooManyWaiting as error:
            raise TooBusy(f"{error.count} of your requests are waiting.", "Try again.") from None

    async def unless_gone(self, request: Request, work: "Callable[[], Prepared]") -> "Prepared":
        """When the client disconnects, a request that waits is given up; one that runs is told, and
        its answer is closed."""
        begun = Event()

        def closing_work() -> Prepared:
            begun.set()
            answer = work()
            if self._stop.is_set():
                _close(answer)
            return answer

        task = asyncio.ensure_future(self.run(closing_work))
        gone = asyncio.ensure_future(_disconnected(request))
        try:
            await asyncio.wait({task, gone}, return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                return task.result()
            raise ClientDisconnect
        finally:
            gone.cancel()
            if not task.done():
                self._stop.set()
                if begun.is_set():
                    task.add_done_callback(_drop)
                else:
                    task.cancel()


@dataclass(frozen=True, slots=True)
class Json:
    """An answer as it is sent."""

    body: bytes
    is_packed: bool


Prepared = Json | bytes | Streamed


def prepared(answer: Answer, takes_gzip: bool) -> Prepared:
    """What takes long to write is written in the thread that made it."""
    if isinstance(answer, bytes | Lines | Frames | Download):
        return answer
    body = to_json(answer)
    is_packed = takes_gzip and len(body) >= _PACKED_BYTES
    return Json(gzip.compress(body, _PACKING) if is_packed else body, is_packed)


def json_response(value: Any, status: int = 200) -> Response:
    return Response(to_json(value), status, media_type="application/json")


def response_of(answer: Prepared, workers: Workers) -> Response:
    match answer:
        case Json(body, is_packed):
            headers = {"content-encoding": "gzip"} if is_packed else None
            return Response(body, media_type="application/json", headers=headers)
        case bytes():
            return Response(answer, media_type=FRAME)
        case Frames():
            return _StreamingResponse(_Pieces(answer, _next_chunk), workers, FRAME)
        case Lines():
            pieces = _Pieces(answer, _gathered_lines)
            return _StreamingResponse(pieces, workers, "application/x-ndjson")
        case Download(name, size):
            kind = "application/octet-stream"
            response = _StreamingResponse(_Pieces(answer, _next_chunk), workers, kind)
            named = f"attachment; filename*=UTF-8''{quote(name, '')}"
            response.headers["content-disposition"] = named
            if size is not None:
                response.headers["content-length"] = str(size)
            return response


class _Pieces:
    """What an answer has to send, one piece after the other."""

    def __init__(self, source: Streamed, gather: Callable[[Iterator[Any]], bytes]) -> None:
        self._source = source
        self._gather = gather
        self._lock = Lock()
        """Held while a thread iterates: it goes on after its request was cancelled."""
        self._is_over = False

    def next(self) -> bytes:
        """Empty at the end."""
        with self._lock:
            return b"" if self._is_over else self._gather(self._source.values)

    def close(self) -> None:
        self._source.cancel()
        with self._lock:
            self._is_over = True
            _close(self._source)


class _StreamingResponse(StreamingResponse):
    def __init__(self, pieces: _Pieces, workers: Workers, kind: str) -> None:
        super().__init__(self._body(), media_type=kind)
        self._pieces = pieces
        self._workers = workers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            # Not awaited: this task may be one that was cancelled.
            asyncio.get_running_loop().run_in_executor(None, self._pieces.close)

    async def _body(self) -> AsyncIterator[bytes]:
        while piece := await self._workers.run(self._pieces.next):
            yield piece


def _close(answer: Prepared) -> None:
    if isinstance(answer, Lines | Frames | Download):
        answer.close()


def _drop(task: "asyncio.Task[Prepared]") -> None:
    if not task.cancelled() and task.exception() is None:
        _close(task.result())


def _gathered_lines(values: Iterator[Any]) -> bytes:
    """What comes within a moment; at least one. An error is the last line."""
    deadline = time.monotonic() + _GATHER_SECONDS
    found = []
    try:
        for value in islice(values, _MOST_GATHERED):
            found.append(to_json(value) + b"\n")
            if time.monotonic() > deadline:
                break
    except TracksideError as error:
        found.append(to_json(as_json(error)) + b"\n")
    return b"".join(found)


def _next_chunk(values: Iterator[bytes]) -> bytes:
    """An error ends the connection before all was sent, which the client sees."""
    return next((chunk for chunk in values if chunk), b"")


async def _disconnected(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass

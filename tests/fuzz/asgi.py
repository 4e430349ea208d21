"""An application called without a socket: as uvicorn would, whatever the request is made of."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any, Self
from urllib.parse import unquote

from trackside.api.app import App
from trackside.sigv4 import Request

_PIECE_BYTES = 1000


@dataclass(frozen=True)
class Wire:
    """A request as bytes, its headers line by line."""

    method: str
    path: bytes
    query: bytes
    headers: tuple[tuple[bytes, bytes], ...]
    body: bytes = b""

    @classmethod
    def of(cls, request: Request, body: bytes = b"") -> "Wire":
        headers = [(n.encode("latin-1"), v.encode("latin-1")) for n, v in request.headers.items()]
        if body:
            headers.append((b"content-length", str(len(body)).encode()))
        path, query = request.path.encode("latin-1"), request.query.encode("latin-1")
        return cls(request.method, path, query, tuple(headers), body)

    def with_headers(self, headers: Sequence[tuple[bytes, bytes]]) -> "Wire":
        return replace(self, headers=tuple(headers))


@dataclass(frozen=True)
class Response:
    status: int
    headers: dict[str, str]
    body: bytes


class AppClient:
    """In its block the application can be called."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._runner = asyncio.Runner()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._runner.close()

    def request(self, wire: Wire) -> Response:
        return self._runner.run(self._request(wire))

    async def _request(self, wire: Wire) -> Response:
        scope = {
            "type": "http",
            "method": wire.method,
            "path": unquote(wire.path),
            "raw_path": wire.path,
            "query_string": wire.query,
            "headers": [(name.lower(), value) for name, value in wire.headers],
            "client": ("127.0.0.1", 1),
        }
        pieces = [
            wire.body[start : start + _PIECE_BYTES]
            for start in range(0, len(wire.body), _PIECE_BYTES)
        ] or [b""]
        waiting = [
            {"type": "http.request", "body": piece, "more_body": number < len(pieces)}
            for number, piece in enumerate(pieces, 1)
        ]
        sent: list[Any] = []

        async def receive() -> Any:
            if waiting:
                return waiting.pop(0)
            await asyncio.sleep(3600)  # until the answer is whole

        async def send(message: Any) -> None:
            sent.append(message)

        await self._app(scope, receive, send)
        start, *rest = sent
        headers = {n.decode("latin-1"): v.decode("latin-1") for n, v in start["headers"]}
        return Response(start["status"], headers, b"".join(each.get("body", b"") for each in rest))

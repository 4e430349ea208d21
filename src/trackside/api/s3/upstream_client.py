"""The S3 server that requests are relayed to: its address, pooled connections, and credentials."""

import asyncio
import logging
import ssl
import time
from collections.abc import AsyncIterator, Callable, Mapping
from urllib.parse import urlsplit

from trackside.api.s3.upstream_connection import Response, StoreUnavailable, UpstreamConnection
from trackside.errors import TracksideError
from trackside.storage.instance_credentials import Keys

logger = logging.getLogger(__name__)

_CONNECT_SECONDS = 5.0
_IDLE_SECONDS = 4.0
"""Less than any store keeps an idle connection, so that none is closing when it is used."""
_IDLE_MOST = 64
RENEW_SECONDS = 300.0
"""Before they expire; the provider has new ones by then."""


class UpstreamClient:
    def __init__(self, endpoint: str) -> None:
        """`endpoint` as in AWS_ENDPOINT_URL; its path, if any, is a prefix of all paths."""
        parts = urlsplit(endpoint)
        self.endpoint = endpoint
        self.host = parts.netloc
        """As the Host header has it, which is signed."""
        self.base_path = parts.path.rstrip("/")
        self._name = parts.hostname or ""
        self._port = parts.port or (443 if parts.scheme == "https" else 80)
        self._tls = ssl.create_default_context() if parts.scheme == "https" else None
        self._idle: list[tuple[float, UpstreamConnection]] = []

    async def request(
        self,
        method: str,
        address: str,
        headers: Mapping[str, str],
        body: AsyncIterator[bytes] | None,
    ) -> Response:
        """`address` is path and query. `StoreUnavailable` when there is no response."""
        lines = [f"{method} {address} HTTP/1.1", *(f"{n}: {v}" for n, v in headers.items())]
        head = "\r\n".join([*lines, "\r\n"]).encode("latin-1")
        expects = "expect" in headers
        is_head = method == "HEAD"
        connection = self._idle_connection()
        if connection is not None:
            try:
                return await connection.request(head, body, is_head=is_head, expects=expects)
            except StoreUnavailable:
                # It may have been closing when it was used. A started body cannot be repeated.
                if body is not None or method == "POST":
                    raise
        connection = await self._connect()
        return await connection.request(head, body, is_head=is_head, expects=expects)

    def close(self) -> None:
        """Idle ones; the others close after their responses."""
        while self._idle:
            self._idle.pop()[1].close()

    def _idle_connection(self) -> UpstreamConnection | None:
        now = time.monotonic()
        while self._idle:
            since, connection = self._idle.pop()
            if connection.is_open and now - since < _IDLE_SECONDS:
                return connection
            connection.close()
        return None

    def _release(self, connection: UpstreamConnection) -> None:
        if len(self._idle) < _IDLE_MOST:
            self._idle.append((time.monotonic(), connection))
        else:
            connection.close()

    async def _connect(self) -> UpstreamConnection:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(_CONNECT_SECONDS):
                _, connection = await loop.create_connection(
                    lambda: UpstreamConnection(self._release), self._name, self._port, ssl=self._tls
                )
        except (OSError, TimeoutError) as error:
            raise StoreUnavailable(
                str(error) or f"no connection within {_CONNECT_SECONDS} s"
            ) from error
        return connection


class UpstreamCredentials:
    def __init__(self, fetch: Callable[[], Keys]) -> None:
        """The first are fetched at once: a server without any does not start."""
        self._fetch = fetch
        self._keys = fetch()
        self._lock = asyncio.Lock()

    async def get(self) -> Keys:
        """The old ones while they are valid if new ones are not available."""
        if self._keys.expires - time.time() > RENEW_SECONDS:
            return self._keys
        async with self._lock:
            if self._keys.expires - time.time() <= RENEW_SECONDS:
                try:
                    self._keys = await asyncio.to_thread(self._fetch)
                except TracksideError as error:
                    logger.warning("the keys for the store are not renewed: %s", error)
        return self._keys

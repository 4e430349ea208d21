"""A pool of connections to one server, for any number of threads. Never retries."""

import select
import ssl
import time
import weakref
from base64 import b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPSConnection
from threading import Lock
from urllib.parse import SplitResult, unquote, urlsplit
from urllib.request import getproxies, proxy_bypass

_CONNECT_SECONDS = 5.0
_SILENCE_SECONDS = 60.0
"""A connection without a byte for so long counts as broken."""
SLOW_SECONDS = 3.0
"""After which the reason for a wait is logged."""
_IDLE_SECONDS = 30.0
"""Less than a server keeps an idle one open."""
_IDLE_MOST = 8


@dataclass(frozen=True, slots=True)
class Response:
    status: int
    headers: Mapping[str, str]
    """Names in lower case."""
    body: bytes


class Connections:
    """Through a proxy where the environment names one: HTTP_PROXY, HTTPS_PROXY, NO_PROXY."""

    def __init__(self, url: str, *, silence_seconds: float = _SILENCE_SECONDS) -> None:
        parts = urlsplit(url)
        self.host = parts.netloc
        """As the Host header has it, which is signed."""
        self._silence_seconds = silence_seconds
        self._tls = ssl.create_default_context() if parts.scheme == "https" else None
        self._proxy = _proxy_for(parts)
        self._idle: list[tuple[float, HTTPConnection]] = []
        self._lock = Lock()
        # It has many users and no last one: clients of jobs are never closed explicitly.
        weakref.finalize(self, _close_all, self._idle)

    def send(
        self,
        method: str,
        path: str,
        headers: Mapping[str, str],
        body: bytes,
        *,
        slow: Callable[[], None] | None = None,
    ) -> Response:
        """`OSError` or `HTTPException` without a complete response; `slow` is called when none has
        started to arrive for a while."""
        line = self._kept() or self._opened()
        try:
            if self._proxy is None or self._tls is not None:
                line.request(method, path, body, dict(headers))
            else:
                address = f"http://{self.host}{path}"
                line.request(method, address, body, {**headers, **self._proxy.headers})
            if slow is not None and not _has_begun(line, SLOW_SECONDS):
                slow()
            response = line.getresponse()
            content = response.read()
        except BaseException:
            line.close()
            raise
        self._keep(line)
        lowered = {name.lower(): value for name, value in response.getheaders()}
        return Response(response.status, lowered, content)

    def _opened(self) -> HTTPConnection:
        at = self.host if self._proxy is None else self._proxy.host
        if self._tls is None:
            line = HTTPConnection(at, timeout=_CONNECT_SECONDS)
        else:
            line = HTTPSConnection(at, timeout=_CONNECT_SECONDS, context=self._tls)
            if self._proxy is not None:
                line.set_tunnel(self.host, headers=self._proxy.headers)
        line.connect()
        line.sock.settimeout(self._silence_seconds)
        return line

    def _kept(self) -> HTTPConnection | None:
        now = time.monotonic()
        with self._lock:
            while self._idle:
                since, line = self._idle.pop()
                if now - since < _IDLE_SECONDS:
                    return line
                line.close()
        return None

    def _keep(self, line: HTTPConnection) -> None:
        """Unless the server has closed it."""
        with self._lock:
            if line.sock is not None and len(self._idle) < _IDLE_MOST:
                self._idle.append((time.monotonic(), line))
            else:
                line.close()


def _has_begun(line: HTTPConnection, most_seconds: float) -> bool:
    poll = select.poll()
    poll.register(line.sock, select.POLLIN)
    return bool(poll.poll(1000 * most_seconds))


@dataclass(frozen=True, slots=True)
class _Proxy:
    host: str
    headers: dict[str, str]


def _proxy_for(url: SplitResult) -> _Proxy | None:
    given = getproxies().get(url.scheme)
    if not given or proxy_bypass(url.netloc):
        return None
    parts = urlsplit(given if "://" in given else f"http://{given}")
    user, at, host = parts.netloc.rpartition("@")
    if not at:
        return _Proxy(host, {})
    credentials = b64encode(unquote(user).encode()).decode()
    return _Proxy(host, {"Proxy-Authorization": f"Basic {credentials}"})


def _close_all(idle: list[tuple[float, HTTPConnection]]) -> None:
    for _, line in idle:
        line.close()

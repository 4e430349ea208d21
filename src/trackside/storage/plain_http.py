"""Downloads ranges of objects from a store without TLS, from socket to file inside the kernel.

For stores on this machine or in the rack, where copying dominates the cost of a download. Only a
fast path: anything unusual ends it, and the caller fetches the rest as usual.
"""

import fcntl
import os
import socket
import struct
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from http.client import HTTPConnection, HTTPException, HTTPResponse
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

_PIPE_BYTES = 1 << 20  # the maximum for any user on Linux
_CONNECT_SECONDS = 2.0
_SILENCE_SECONDS = 10


def is_usable(endpoint: str | None) -> bool:
    """No TLS, no proxy, and a system that supports it."""
    if endpoint is None or not endpoint.startswith("http://") or not hasattr(os, "splice"):
        return False
    return "http" not in getproxies() or bool(proxy_bypass(urlsplit(endpoint).netloc))


def moved(url: str, start: int, end: int, target: int, etag: str) -> Iterator[int]:
    """Sizes, as bytes arrive at the same offsets of the file `target`; ends early when it must."""
    with suppress(OSError, HTTPException), closing(_connected(url)) as line:
        headers = {"Range": f"bytes={start}-{end - 1}", "If-Match": f'"{etag}"'}
        line.request("GET", urlsplit(url)._replace(scheme="", netloc="").geturl(), headers=headers)
        response = line.getresponse()
        if _matches_request(response, end - start, etag):
            first = response.read1(_PIPE_BYTES)  # arrived with the header
            written = os.pwrite(target, first, start)
            yield written
            if written == len(first):
                yield from _spliced(response.fileno(), start + written, end, target)


def _connected(url: str) -> HTTPConnection:
    line = HTTPConnection(urlsplit(url).netloc, timeout=_CONNECT_SECONDS)
    line.connect()
    # Python's own timeout would make the socket non-blocking, and splice give up.
    line.sock.settimeout(None)
    limit = struct.pack("ll", _SILENCE_SECONDS, 0)
    line.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, limit)
    return line


def _matches_request(response: HTTPResponse, size_bytes: int, etag: str) -> bool:
    found = (response.getheader("ETag") or "").strip('"')
    return response.status == 206 and response.length == size_bytes and found == etag


def _spliced(source: int, start: int, end: int, target: int) -> Iterator[int]:
    with _pipe() as (outlet, inlet):
        while start < end:
            waiting = arrived = os.splice(source, inlet, end - start)
            if arrived == 0:
                return  # the connection broke
            while waiting > 0:
                written = os.splice(outlet, target, waiting, offset_dst=start)
                start, waiting = start + written, waiting - written
            yield arrived


@contextmanager
def _pipe() -> Iterator[tuple[int, int]]:
    outlet, inlet = os.pipe()
    try:
        with suppress(OSError):  # a user with hundreds of pipes gets small ones
            fcntl.fcntl(inlet, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
        yield outlet, inlet
    finally:
        os.close(outlet)
        os.close(inlet)

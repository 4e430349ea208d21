"""An HTTP proxy between a client and a real server that breaks what it is told to break."""

import http.client
import re
import socket
import struct
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

HOP = {"connection", "keep-alive", "transfer-encoding", "content-length"}


@dataclass
class Fault:
    """Strikes the next `times` requests whose "METHOD /path?query" matches `pattern`; where an
    operation is named by a header, it follows: "POST / SageMaker.StopTrainingJob"."""

    pattern: str = ""
    times: int = 1
    once_each: bool = False
    """The same request a second time is let through."""
    status: int | None = None
    """Answer this instead of asking the server."""
    cut_after: int | None = None
    """Reset the connection after so many bytes of the answer's body."""
    cut_request_after: int | None = None
    """Reset the connection after so many bytes of the request's body: the server hears nothing."""
    loses_reply: bool = False
    """The server does what was asked, the client never hears of it."""
    changes_byte: int | None = None
    """Flip one bit of the answer's body at this offset."""
    seconds_per_kib: float = 0.0
    """Of the answer's body."""
    seconds_per_sent_kib: float = 0.0
    """Of the request's body."""
    meanwhile: Callable[[], object] = field(default=lambda: None, repr=False)
    """Called before the client knows that its answer was cut, lost or never asked for."""


@dataclass
class Request:
    line: str
    headers: dict[str, str] = field(repr=False)
    fault: Fault | None = None


class FaultProxy:
    """Listens on loopback while in its `with` block. `requests` holds what was asked, in order."""

    def __init__(self, upstream: str) -> None:
        self.upstream = urlsplit(upstream).netloc
        self.requests: list[Request] = []
        self._faults: list[Fault] = []
        self._lock = threading.Lock()
        handler = type("Handler", (_Handler,), {"proxy": self})
        self._server = _Server(("127.0.0.1", 0), handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def inject(self, *faults: Fault) -> None:
        with self._lock:
            self._faults.extend(faults)

    def clear(self) -> None:
        with self._lock:
            self._faults.clear()

    def count(self, pattern: str) -> int:
        return sum(1 for request in self.requests if re.search(pattern, request.line))

    def meet(self, request: Request) -> Fault | None:
        """Note the request, and take the fault that is due for it."""
        with self._lock:
            self.requests.append(request)
            for fault in self._faults:
                if fault.times > 0 and re.search(fault.pattern, request.line):
                    if fault.once_each and self._was_struck(request, fault):
                        continue
                    fault.times -= 1
                    request.fault = fault
                    return fault
        return None

    def _was_struck(self, request: Request, fault: Fault) -> bool:
        return any(each.line == request.line and each.fault is fault for each in self.requests)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, request, client_address):
        """A client that hangs up is part of the test."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    proxy: FaultProxy

    def log_message(self, format, *args):
        pass

    def _forward(self) -> None:
        target = self.headers.get("X-Amz-Target", "")
        line = f"{self.command} {self.path} {target}".rstrip()
        request = Request(line, dict(self.headers.items()))
        fault = self.proxy.meet(request) or Fault()
        body = self._body(fault)
        if fault.cut_request_after is not None:
            fault.meanwhile()
            self._reset()
            return
        if fault.status is not None:
            fault.meanwhile()
            self._answer(fault.status, [], b"<Error><Code>Injected</Code></Error>", fault)
            return
        upstream = http.client.HTTPConnection(self.proxy.upstream, timeout=30)
        try:
            upstream.request(self.command, self.path, body, request.headers)
            answer = upstream.getresponse()
            content = answer.read()
        finally:
            upstream.close()
        if fault.loses_reply:
            fault.meanwhile()
            self._reset()
        else:
            # A HEAD answer has the length of a body that does not follow.
            length = answer.headers.get("Content-Length") if self.command == "HEAD" else None
            self._answer(answer.status, answer.getheaders(), content, fault, length)

    def _body(self, fault: Fault) -> bytes:
        """As much of the request's body as is taken."""
        length = int(self.headers.get("Content-Length", 0))
        if fault.cut_request_after is not None:
            return self.rfile.read(min(length, fault.cut_request_after))
        if not fault.seconds_per_sent_kib:
            return self.rfile.read(length)
        parts = []
        for start in range(0, length, 1024):
            time.sleep(fault.seconds_per_sent_kib)
            parts.append(self.rfile.read(min(1024, length - start)))
        return b"".join(parts)

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = _forward

    def _answer(
        self,
        status: int,
        headers: list[tuple[str, str]],
        content: bytes,
        fault: Fault,
        length: str | None = None,
    ) -> None:
        self.send_response_only(status)
        for name, value in headers:
            if name.lower() not in HOP:
                self.send_header(name, value)
        self.send_header("Content-Length", length or str(len(content)))
        self.end_headers()
        if self.command == "HEAD":
            return
        if fault.changes_byte is not None:
            changed = bytearray(content)
            changed[fault.changes_byte] ^= 1
            content = bytes(changed)
        if fault.cut_after is not None:
            self.wfile.write(content[: fault.cut_after])
            fault.meanwhile()
            self._reset()
            return
        self._write(content, fault.seconds_per_kib)

    def _write(self, content: bytes, seconds_per_kib: float) -> None:
        if not seconds_per_kib:
            self.wfile.write(content)
            return
        for start in range(0, len(content), 1024):
            time.sleep(seconds_per_kib)
            self.wfile.write(content[start : start + 1024])

    def _reset(self) -> None:
        self.close_connection = True
        linger = struct.pack("ii", 1, 0)
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        self.connection.close()

"""A mail server and a web server that keep what they are sent."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread
from typing import Any

from aiosmtpd.controller import Controller


@dataclass
class Mailbox:
    """What the mail server was given."""

    messages: list[Any] = field(default_factory=list)
    refusals: int = 0

    async def handle_DATA(self, server: Any, session: Any, envelope: Any) -> str:
        if self.refusals:
            self.refusals -= 1
            return "451 come back later"
        self.messages.append(envelope)
        return "250 OK"


@contextmanager
def mail_server(box: Mailbox, **options: Any) -> Iterator[dict[str, str]]:
    """A real one; gives the settings that lead to it."""
    server = MailServer(box, "127.0.0.1", 0, ready_timeout=100, **options)
    server.start()
    try:
        yield {"TRACKSIDE_SMTP_HOST": f"localhost:{server.port}"}
    finally:
        server.stop()


class MailServer(Controller):
    """On a port that the kernel chooses."""

    def _trigger_server(self) -> None:
        [listener] = self.server.sockets  # type: ignore[union-attr]
        self.port = listener.getsockname()[1]
        super()._trigger_server()  # type: ignore[no-untyped-call]


class Hooks(HTTPServer):
    """Answers with the next of `answers`, then with 200."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Receiver)
        self.answers: list[int] = []
        self.calls: list[tuple[dict[str, str], bytes]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/hook"


class Receiver(BaseHTTPRequestHandler):
    server: Hooks

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.calls.append((dict(self.headers), body))
        status = self.server.answers.pop(0) if self.server.answers else 200
        self.send_response(status)
        if status == 302:
            self.send_header("Location", self.server.url)
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        pass


@contextmanager
def web_server() -> Iterator[Hooks]:
    server = Hooks()
    thread = Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()

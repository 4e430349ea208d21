"""What needs no signature, requested from a real server in every wrong way: both HTTP parsers, both
event loops."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import count, repeat
from pathlib import Path

import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from tests.api.raw_client import RawClient
from tests.wait import until
from trackside.api.admission import Admission, Cut
from trackside.api.app import App
from trackside.api.http_protocol import guarded
from trackside.api.keys import AccessKeys
from trackside.api.limits import Limits

GET = b"GET /health HTTP/1.1\r\nhost: x\r\n"
FOR_EVER = 3600.0
ENDLESS = 32 << 20
"""Bytes, after which a test stops waiting for the server to refuse."""
LARGE = b"x" * (16 << 20)
"""More than sockets hold between server and client."""


@dataclass
class Running:
    server: uvicorn.Server
    thread: threading.Thread
    admission: Admission
    clients: list[RawClient] = field(default_factory=list)

    def __call__(self) -> RawClient:
        port = self.server.servers[0].sockets[0].getsockname()[1]
        self.clients.append(RawClient(f"127.0.0.1:{port}"))
        return self.clients[-1]

    def close(self) -> None:
        for client in self.clients:
            client.close()
        self.server.should_exit = True
        self.thread.join(60)


Start = Callable[[Limits], Running]


async def healthy(request: Request) -> Response:
    return Response(b"ok")


async def large(request: Request) -> Response:
    return Response(LARGE)


PAGES = [Route("/health", healthy), Route("/large", large)]


@pytest.fixture(params=["httptools", "h11"])
def start(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Start]:
    kinds: dict[str, tuple[type[asyncio.Protocol], str]] = {
        "httptools": (HttpToolsProtocol, "uvloop"),
        "h11": (H11Protocol, "asyncio"),
    }
    base, loop = kinds[request.param]
    begun: list[Running] = []

    def starting(limits: Limits) -> Running:
        app = App({}, AccessKeys(tmp_path), Starlette(routes=PAGES), admission=Admission(limits))
        config = uvicorn.Config(
            app,
            port=0,
            http=guarded(app.admission, base),
            loop=loop,
            log_config=None,
            lifespan="off",
            h11_max_incomplete_event_size=2 * limits.header_bytes,
            timeout_keep_alive=3600,
        )
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, daemon=True)
        thread.start()
        begun.append(Running(server, thread, app.admission))
        until(lambda: server.started)
        return begun[-1]

    yield starting
    for each in begun:
        each.close()


def without_timeouts(**changed: float) -> Limits:
    """Only what is given is ever reached, however slow the machine is."""
    slow = {"header_seconds": FOR_EVER, "body_seconds": FOR_EVER, "answer_seconds": FOR_EVER}
    return Limits(**{**slow, **changed})  # type: ignore[arg-type]


def test_endless_header_lines_end(start: Start):
    client = start(without_timeouts())().send(GET)
    lines = (b"".join(b"x-%d: y\r\n" % number for number in range(n, n + 1000)) for n in count())
    assert client.pour(lines, ENDLESS) < ENDLESS


def test_an_endless_header_value_ends(start: Start):
    client = start(without_timeouts())().send(GET + b"x-endless: ")
    assert client.pour(repeat(b"y" * 65536), ENDLESS) < ENDLESS


def test_an_endless_request_line_ends(start: Start):
    client = start(without_timeouts())().send(b"GET /")
    assert client.pour(repeat(b"y" * 65536), ENDLESS) < ENDLESS


def test_too_large_headers_get_a_431(start: Start):
    limit = Limits().header_bytes
    connect = start(without_timeouts())
    client = connect().send(GET + b"x: " + b"y" * (limit - len(GET) - 3))
    assert client.response()[0] == 431
    assert client.is_ended()
    assert connect().send(GET + b"x: " + b"y" * (limit // 2) + b"\r\n\r\n").response() == (
        200,
        b"ok",
    )


def test_headers_are_counted(start: Start):
    connect, most = start(without_timeouts()), Limits().header_lines
    lines = [b"x-%d: y\r\n" % number for number in range(most)]
    client = connect().send(GET + b"".join(lines) + b"\r\n")
    assert client.response()[0] == 431
    assert client.is_ended()
    assert connect().send(GET + b"".join(lines[1:]) + b"\r\n").response()[0] == 200


@pytest.mark.parametrize(
    "rest", [b"0\r\nx-trailer: ", b"0\r\n", b"1;extension="], ids=["trailer", "trailers", "chunk"]
)
def test_endless_data_around_the_chunks_of_a_body_is_cut_off(start: Start, rest: bytes):
    head = b"POST /health HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n"
    client = start(without_timeouts())().send(head + rest)
    piece = b"x-trailer: yyyy\r\n" * 4096 if rest == b"0\r\n" else b"y" * 65536
    assert client.pour(repeat(piece), ENDLESS) < ENDLESS


def test_an_idle_connection_is_closed(start: Start):
    client = start(without_timeouts(header_seconds=0.2))()
    assert client.response() == (0, b"")


@pytest.mark.parametrize("half", [b"GET /health HT", GET])
def test_half_a_request_gets_a_408_after_its_time(start: Start, half: bytes):
    assert start(without_timeouts(header_seconds=0.2))().send(half).response()[0] == 408


def test_empty_lines_are_no_way_to_stay(start: Start):
    client = start(without_timeouts(header_seconds=0.2))()
    assert client.send(b"\r\n").is_ended()


def test_the_time_of_a_later_request_counts_from_its_first_byte(start: Start):
    client = start(without_timeouts(header_seconds=1.0))()
    assert client.send(GET + b"\r\n").response() == (200, b"ok")
    client.socket.settimeout(2.0)
    with pytest.raises(TimeoutError):  # it is not closed for saying nothing in between
        client.socket.recv(1)
    client.socket.settimeout(60)
    assert client.send(GET + b"\r\n").response() == (200, b"ok")
    assert client.send(GET).response()[0] == 408


def test_too_many_pipelined_requests_are_cut_off(start: Start):
    client = start(without_timeouts())()
    client.pour(repeat((GET + b"\r\n") * 4000, 10), ENDLESS)
    assert client.is_ended()


def test_pipelined_requests_are_answered_in_order(start: Start):
    client = start(without_timeouts())().send((GET + b"\r\n") * 10)
    assert [client.response() for _ in range(10)] == [(200, b"ok")] * 10


def test_a_client_that_does_not_read_is_cut_off(start: Start):
    connect = start(without_timeouts(answer_seconds=0.2))
    connect().send(b"GET /large HTTP/1.1\r\nhost: x\r\n\r\n")
    until(
        lambda: (
            connect.admission.cuts[Cut.RESPONSE_SLOW] == 1
            and connect.admission.num_connections == 0
        )
    )

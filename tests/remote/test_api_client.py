"""Asking a server: what is tried again, for how long, and what each refusal says."""

import json
import logging
import socket
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tests.fault_proxy import Fault, FaultProxy
from tests.kept_port import kept_port, port_of
from tests.server_process import ServerProcess
from tests.wait import until
from trackside.errors import JobNotFound, KeyRefused, ServerError, ServerUnreachable
from trackside.profiles import Key, Server
from trackside.remote import api_client
from trackside.remote.api_client import ApiClient
from trackside.remote.connections import Connections
from trackside.remote.retry_policy import LONG_RETRY, RetryPolicy

LIST = "SageMaker.ListTrainingJobs"
Answering = Callable[[int], tuple[int, dict[str, str], bytes]]


def client_of(server: ServerProcess, url: str = "", **options) -> ApiClient:
    key = Key(server.key.id, server.secret)
    return ApiClient(Server(url or server.url, key), **options)


@pytest.fixture
def nobody() -> Iterator[socket.socket]:
    """Nobody listens here, as long as the test does not."""
    with kept_port() as holder:
        yield holder


@pytest.fixture
def free_url(nobody: socket.socket) -> str:
    return f"http://127.0.0.1:{port_of(nobody)}"


@pytest.fixture
def scripted() -> Iterator[Callable[[Answering], str]]:
    """A server that answers its nth request as a test says."""
    servers: list[ThreadingHTTPServer] = []

    def start(answering: Answering) -> str:
        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            count = 0

            def do_POST(self) -> None:
                self.rfile.read(int(self.headers["Content-Length"]))
                Handler.count += 1
                status, headers, body = answering(Handler.count)
                self.send_response_only(status)
                for name, value in {**headers, "Content-Length": str(len(body))}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        server.daemon_threads = True
        servers.append(server)
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        return f"http://127.0.0.1:{server.server_port}"

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


def asking(url: str) -> ApiClient:
    return ApiClient(Server(url, Key("TSKEY", "secret")))


def test_an_operation_is_answered_over_one_connection(server: ServerProcess):
    client = client_of(server)
    for _ in range(3):
        assert "TrainingJobSummaries" in client.call(LIST, {})
    assert len(client._connections._idle) == 1


def test_no_server_is_reported_with_the_address_and_the_way_out(free_url: str):
    with pytest.raises(ServerUnreachable) as caught:
        asking(free_url).call(LIST, {}, retry_policy=RetryPolicy(0.5, 0.5))
    text = str(caught.value)
    assert free_url in text
    assert "Connection refused" in text
    assert "TRACKSIDE_URL=embedded" in text


def test_a_server_that_starts_late_is_waited_for(
    nobody: socket.socket, free_url: str, caplog, monkeypatch
):
    monkeypatch.setattr(api_client, "SLOW_SECONDS", 0.0)

    def answer_later() -> None:
        until(lambda: f"waiting for {free_url}" in caplog.text)  # the client has met nobody
        nobody.listen()
        line, _ = nobody.accept()
        line.recv(1 << 16)
        line.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}")
        line.close()

    thread = threading.Thread(target=answer_later)
    thread.start()
    try:
        assert asking(free_url).call(LIST, {}, retry_policy=RetryPolicy(60, 60)) == {}
    finally:
        thread.join()


def test_a_long_wait_is_reported_once(scripted, caplog, monkeypatch):
    monkeypatch.setattr(api_client, "SLOW_SECONDS", 0.5)
    caplog.set_level(logging.WARNING)
    busy = (503, {"Retry-After": "0.3"}, b'{"__type": "ServiceUnavailable", "message": "x"}')
    url = scripted(lambda count: busy if count < 5 else (200, {}, b"{}"))
    assert asking(url).call(LIST, {}) == {}
    reported = [record.getMessage() for record in caplog.records]
    assert len(reported) == 1
    assert reported[0].startswith(f"waiting for {url}, 60 s at most")


def test_who_follows_a_job_is_reported_of_a_server_that_hangs_and_how_to_leave(caplog):
    caplog.set_level(logging.WARNING)
    with socket.create_server(("127.0.0.1", 0)) as listener:  # takes requests, answers none
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        client = ApiClient(
            Server(url, Key("TSKEY", "secret")), connections=Connections(url, silence_seconds=0.1)
        )
        with pytest.raises(ServerUnreachable):
            client.call(LIST, {}, retry_policy=RetryPolicy(0.1, 900, LONG_RETRY.way_out))
    (reported,) = (record.getMessage() for record in caplog.records)
    assert reported.startswith(f"waiting for {url}, ")
    assert reported.endswith(
        "it does not answer. The job goes on by itself: Ctrl-C leaves it running."
    )


def test_a_busy_server_is_asked_again_when_it_says(scripted):
    moments: list[float] = []

    def busy_twice(count: int) -> tuple[int, dict[str, str], bytes]:
        moments.append(time.monotonic())
        if count < 3:
            return 503, {"Retry-After": "0.4"}, b'{"__type": "ServiceUnavailable", "message": "x"}'
        return 200, {}, b'{"is": "there"}'

    assert asking(scripted(busy_twice)).call(LIST, {}) == {"is": "there"}
    assert len(moments) == 3
    assert all(after - before >= 0.4 for before, after in zip(moments, moments[1:], strict=False))


def test_a_server_that_stays_busy_is_given_up(scripted):
    body = json.dumps({"__type": "ServiceUnavailable", "message": "no database"}).encode()
    url = scripted(lambda count: (503, {"Retry-After": "100"}, body))
    with pytest.raises(ServerUnreachable, match="it answers 503: no database"):
        asking(url).call(LIST, {}, retry_policy=RetryPolicy(1, 1))


def test_a_broken_server_is_not_asked_for_ever(scripted):
    counts: list[int] = []

    def broken(count: int) -> tuple[int, dict[str, str], bytes]:
        counts.append(count)
        return 500, {}, b'{"__type": "InternalFailure", "message": "more about it in its log"}'

    with pytest.raises(ServerUnreachable, match="more about it in its log"):
        asking(scripted(broken)).call(LIST, {}, retry_policy=RetryPolicy(300, 300))
    assert len(counts) == 4


def test_what_is_no_server_of_ours_is_reported(scripted):
    with pytest.raises(ServerError, match=r"no Trackside server: status 404, '<html>'"):
        asking(scripted(lambda count: (404, {}, b"<html>"))).call(LIST, {})
    with pytest.raises(ServerError, match=r"no Trackside server: status 200"):
        asking(scripted(lambda count: (200, {}, b"<html>"))).call(LIST, {})


def test_an_older_server_is_reported(scripted):
    text = "Value 'True' at 'trackside' failed to satisfy constraint: Member is not known"
    body = json.dumps({"__type": "ValidationException", "message": text}).encode()
    with pytest.raises(ServerError, match="older than this client"):
        asking(scripted(lambda count: (400, {}, body))).call(LIST, {})


def test_a_wrong_key_says_which_and_what_to_do(server: ServerProcess):
    unknown = ApiClient(Server(server.url, Key("TSNOBODY", "x")))
    with pytest.raises(KeyRefused, match=r"'TSNOBODY': it is not known there.*trackside login"):
        unknown.call(LIST, {})
    wrong = ApiClient(Server(server.url, Key(server.key.id, "wrong")))
    with pytest.raises(KeyRefused, match=f"'{server.key.id}': it has another secret there"):
        wrong.call(LIST, {})
    with pytest.raises(KeyRefused, match="no access key for the server"):
        ApiClient(Server(server.url, None))


def test_clocks_that_differ_are_reported(server: ServerProcess):
    late = client_of(server, clock=lambda: datetime.now(UTC) - timedelta(hours=1))
    with pytest.raises(KeyRefused, match=r"clock differs.*the server has \d{8}T\d{6}Z.*Set it"):
        late.call(LIST, {})


def test_a_job_that_is_none_has_its_name_in_the_error(server: ServerProcess):
    given = {"TrainingJobName": "no-job"}
    with pytest.raises(JobNotFound, match="'no-job'"):
        client_of(server).call("SageMaker.DescribeTrainingJob", given, job="no-job")


def test_a_broken_connection_is_made_anew(server: ServerProcess, faulty_server: FaultProxy):
    client = client_of(server, faulty_server.url)
    client.call(LIST, {})
    faulty_server.inject(Fault("POST", times=2, loses_reply=True), Fault("POST", cut_after=3))
    assert "TrainingJobSummaries" in client.call(LIST, {}, retry_policy=RetryPolicy(300, 300))
    assert faulty_server.count("POST") == 5


def test_a_slow_answer_is_read_and_a_silent_server_is_not(
    server: ServerProcess, faulty_server: FaultProxy
):
    patient = client_of(server, faulty_server.url)
    faulty_server.inject(Fault("POST", seconds_per_kib=0.7))
    assert "TrainingJobSummaries" in patient.call(LIST, {})
    hurried = client_of(
        server,
        faulty_server.url,
        connections=Connections(faulty_server.url, silence_seconds=1.0),
    )
    faulty_server.inject(Fault("POST", times=1, seconds_per_kib=300))
    assert "TrainingJobSummaries" in hurried.call(LIST, {}, retry_policy=RetryPolicy(300, 300))
    assert faulty_server.count("POST") >= 3


def test_several_threads_may_ask_at_once(server: ServerProcess):
    client = client_of(server)
    answers: list[object] = []
    threads = [
        threading.Thread(target=lambda: answers.append(client.call(LIST, {}))) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(answers) == 8

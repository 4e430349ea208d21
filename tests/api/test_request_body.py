"""Bodies that are not wanted, come slowly, or come all at once, at a real server."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest
from botocore.exceptions import ClientError

from tests.api.conftest import Connect, Server, running
from tests.api.raw_client import signed
from tests.server_process import ServerProcess
from tests.wait import until
from trackside.api.admission import Admission, Cut
from trackside.api.app import App
from trackside.api.call import BODY_MOST_BYTES
from trackside.api.identity import Sts
from trackside.api.keys import AccessKeys
from trackside.api.limits import Limits
from trackside.api.logs import logs
from trackside.api.request_body import BodyMemory
from trackside.api.sessions import Sessions
from trackside.jobs.jobs import Jobs

LARGE = 4 << 20


@contextmanager
def limited(jobs: Jobs, **limits: float) -> Iterator[tuple[Server, App]]:
    keys = AccessKeys(jobs.settings.layout.server.root)
    services = {"logs": logs(jobs), "sts": Sts(Sessions(keys))}
    app = App(services, keys, admission=Admission(Limits(**limits)))  # type: ignore[arg-type]
    with running(app, keys) as server:
        yield server, app


def call(server: Server, key: tuple[str, str], size: int) -> tuple[bytes, bytes]:
    return signed(server.url, key, "DescribeLogGroups", {}, service="logs", padding=size)


def code(answer: tuple[int, bytes]) -> tuple[int, str]:
    return answer[0], json.loads(answer[1])["__type"]


def test_the_body_of_an_unsigned_request_is_not_awaited(service: Server, connect: Connect):
    head = b"POST / HTTP/1.1\r\nhost: x\r\nx-amz-target: SageMaker.ListTrainingJobs\r\n"
    client = connect(service.url).send(head + b"content-length: %d\r\n\r\n" % LARGE)
    assert code(client.response()) == (400, "MissingAuthenticationTokenException")
    chunked = connect(service.url).send(head + b"transfer-encoding: chunked\r\n\r\n")
    assert code(chunked.response()) == (400, "MissingAuthenticationTokenException")


def test_the_body_of_an_unknown_key_or_of_yesterday_is_not_waited_for(
    service: Server, connect: Connect
):
    head, _ = call(service, ("TSNOBODY", "x"), LARGE)
    client = connect(service.url).send(head)
    assert code(client.response()) == (400, "UnrecognizedClientException")
    head, _ = call(service, (service.key_id, service.secret), LARGE)
    [date] = [line for line in head.splitlines() if line.lower().startswith(b"x-amz-date:")]
    day = date.split()[1][:8]
    client = connect(service.url).send(head.replace(day, b"20200101"))
    assert code(client.response()) == (400, "InvalidSignatureException")


def test_a_client_that_sends_all_before_reading_gets_the_error(service: Server):
    outsider = service.client("logs", aws_access_key_id="TSNOBODY", aws_secret_access_key="x")
    events = [{"timestamp": 1, "message": "x" * 200_000} for _ in range(5)]
    with pytest.raises(ClientError) as caught:
        outsider.put_log_events(logGroupName="a", logStreamName="b", logEvents=events)
    assert caught.value.response["Error"]["Code"] == "UnrecognizedClientException"


def test_a_small_body_that_is_not_wanted_leaves_the_connection_open(
    service: Server, connect: Connect
):
    head, body = call(service, ("TSNOBODY", "x"), 1000)
    client = connect(service.url).send(head)
    client.send(body)
    assert code(client.response()) == (400, "UnrecognizedClientException")
    head, body = call(service, (service.key_id, service.secret), 0)
    assert client.send(head + body).response()[0] == 200


def test_a_body_that_is_too_large_is_not_waited_for(service: Server, connect: Connect):
    head, _ = call(service, (service.key_id, service.secret), 0)
    lines = [line for line in head.splitlines() if not line.startswith(b"Content-Length")]
    length = b"Content-Length: %d" % (BODY_MOST_BYTES + 1)
    client = connect(service.url).send(b"\r\n".join([*lines[:-1], length, b"", b""]))
    assert code(client.response()) == (413, "RequestEntityTooLarge")


@pytest.mark.parametrize("size", [1000, LARGE])
def test_a_body_that_does_not_arrive_times_out(jobs: Jobs, connect: Connect, size: int):
    with limited(jobs, body_seconds=0.3) as (server, app):
        head, body = call(server, (server.key_id, server.secret), size)
        client = connect(server.url).send(head + body[:500])
        assert code(client.response()) == (408, "RequestTimeout")
        assert client.is_ended()
        assert app.admission.cuts[Cut.BODY_SLOW] == 1


def test_a_body_that_trickles_is_given_up(jobs: Jobs, connect: Connect):
    with limited(jobs, body_seconds=0.3, body_rate=100_000) as (server, _):
        head, body = call(server, (server.key_id, server.secret), LARGE)
        client = connect(server.url).send(head)
        client.socket.settimeout(0.05)
        for byte in body[:2000]:
            client.send(bytes([byte]))
            try:
                if client.response_starts():
                    break
            except TimeoutError:
                pass
        client.socket.settimeout(60)
        assert code(client.response()) == (408, "RequestTimeout")


def test_all_bodies_together_have_so_much_memory_and_no_more(jobs: Jobs, connect: Connect):
    """The client has signed nothing yet: that is known when the body is there."""
    with limited(jobs, body_memory=9 << 19, body_seconds=3600) as (server, app):
        key, secret = server.keys.create("another", server.keys.all()[0].rights)
        clients = []
        for who in ((server.key_id, "wrong"), (server.key_id, "wrong"), (key.id, secret)):
            head, body = call(server, who, 1 << 20)
            clients.append((connect(server.url).send(head + body[:-1]), body[-1:]))
        held = 3 * len(body) - 3
        until(lambda: app.bodies_held == held)
        head, body = call(server, (server.key_id, server.secret), 1 << 20)
        refused = connect(server.url).send(head + body)
        assert code(refused.response()) == (503, "ThrottlingException")
        head, body = call(server, (server.key_id, server.secret), 0)
        assert connect(server.url).send(head + body).response()[0] == 200  # a small one needs none
        responses = [client.send(last).response()[0] for client, last in clients]
        assert responses == [400, 400, 200]
        until(lambda: app.bodies_held == 0)
        head, body = call(server, (server.key_id, server.secret), 1 << 20)
        assert connect(server.url).send(head + body).response()[0] == 200


def test_one_key_leaves_half_of_the_memory_to_others():
    memory = BodyMemory(100)
    assert memory.take("a", 50)
    assert not memory.take("a", 1)
    assert memory.take("b", 40)
    assert not memory.take("c", 20)
    memory.give_back("a", 50)
    assert memory.take("c", 20)
    assert memory.num_bytes == 60


def test_unsigned_bodies_take_no_memory(tmp_path: Path, connect: Connect):
    with ServerProcess(tmp_path) as server:
        process = psutil.Process(server.pid)
        before = process.memory_info().rss
        head = b"POST / HTTP/1.1\r\nhost: x\r\nx-amz-target: SageMaker.ListTrainingJobs\r\n"
        clients = [
            connect(server.url).send(head + b"content-length: %d\r\n\r\n" % BODY_MOST_BYTES)
            for _ in range(16)
        ]
        highest = 0
        for client in clients:
            client.pour(iter([bytes(1 << 20)] * 9), BODY_MOST_BYTES)
            highest = max(highest, process.memory_info().rss)
        # Some are cut off before they have sent all: their answer is lost with the connection.
        responses = [client.response()[0] for client in clients]
        assert responses[0] == 400
        assert set(responses) <= {0, 400}
        assert highest - before < 64 << 20

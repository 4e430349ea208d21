"""Too many connections at a real server: which are closed, and which requests are always served."""

import json
import resource
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from tests.api.conftest import Connect, Server, running
from tests.api.raw_client import RawClient, signed
from tests.wait import until
from trackside.api.admission import RESERVED, Cut
from trackside.api.app import App
from trackside.api.keys import AccessKeys, Rights
from trackside.api.limits import Limits
from trackside.api.services import Services
from trackside.jobs.jobs import Jobs

HEALTH = b"GET /health/live HTTP/1.1\r\nhost: x\r\n\r\n"


@contextmanager
def limited(jobs: Jobs, **limits: float) -> Iterator[tuple[Server, App]]:
    keys = AccessKeys(jobs.settings.layout.server.root)
    settings = replace(jobs.settings, **limits)  # type: ignore[arg-type]
    services = Services(settings, keys, {}, jobs=jobs)
    with services, running(services.app, keys) as server:
        yield server, services.app


def listed(server: Server) -> bytes:
    key = (server.key_id, server.secret)
    return b"".join(signed(server.url, key, "ListTrainingJobs", {}))


def keep_busy(server: Server, connect: Connect, count: int) -> list[RawClient]:
    """Busy connections of a caller that has signed, and does not read a large response."""
    s3 = server.client("s3")
    s3.create_bucket(Bucket="data-1")
    s3.put_object(Bucket="data-1", Key="large", Body=bytes(24 << 20))
    url = s3.generate_presigned_url("get_object", {"Bucket": "data-1", "Key": "large"})
    s3.close()
    path, host = url.removeprefix(server.url), server.url.removeprefix("http://")
    get = f"GET {path} HTTP/1.1\r\nhost: {host}\r\n\r\n".encode()
    clients = [connect(server.url).send(get) for _ in range(count)]
    assert all(client.response_starts() for client in clients)
    return clients


def test_the_longest_idle_connection_is_closed_for_a_new_one(jobs: Jobs, connect: Connect):
    with limited(jobs, connections=8, header_seconds=3600) as (server, app):
        idle = [connect(server.url) for _ in range(6)]
        until(lambda: app.admission.num_connections == 6)
        assert connect(server.url).send(HEALTH).response()[0] == 200
        assert idle[0].is_ended()
        assert idle[1].send(HEALTH).response()[0] == 200
        assert app.admission.cuts[Cut.ADDRESS] == 1


def test_signed_connections_stay_while_unsigned_ones_are_closed(jobs: Jobs, connect: Connect):
    with limited(jobs, connections=8, header_seconds=3600) as (server, _):
        caller = connect(server.url)
        assert caller.send(listed(server)).response()[0] == 200
        for _ in range(100):
            connect(server.url)
        assert caller.send(listed(server)).response()[0] == 200
        assert connect(server.url).send(listed(server)).response()[0] == 200


def test_signed_connections_are_closed_between_two_requests(jobs: Jobs, connect: Connect):
    with limited(jobs, connections=4, header_seconds=3600) as (server, _):
        callers = [connect(server.url) for _ in range(3)]
        for caller in callers:
            assert caller.send(listed(server)).response()[0] == 200
        assert connect(server.url).send(listed(server)).response()[0] == 200
        assert callers[0].is_ended()
        assert callers[1].send(listed(server)).response()[0] == 200


def test_when_all_are_busy_pages_are_served_and_calls_throttled(jobs: Jobs, connect: Connect):
    with limited(jobs, connections=4, header_seconds=3600) as (server, app):
        at_work = keep_busy(server, connect, 3)
        assert connect(server.url).send(HEALTH).response()[0] == 200
        refused = connect(server.url).send(listed(server))
        status, body = refused.response()
        assert (status, json.loads(body)["__type"]) == (503, "ThrottlingException")
        assert refused.is_ended()
        head = f"GET /data-1 HTTP/1.1\r\nhost: {server.url.removeprefix('http://')}\r\n\r\n"
        status, body = connect(server.url).send(head.encode()).response()
        assert (status, b"<Code>SlowDown</Code>" in body) == (503, True)
        queued = [connect(server.url) for _ in range(2 * RESERVED)]
        assert queued[0].is_ended()
        assert connect(server.url).send(HEALTH).response()[0] == 200
        assert app.admission.num_connections <= 3 + RESERVED + 1
        for client in at_work:
            client.close()


def test_addresses_of_others_have_less_than_this_machine():
    limits = Limits(connections=100, per_address=10)
    assert limits.of_address("loopback") == 75
    assert limits.of_address("192.0.2.1") == 10


_WITH_FEW = """
import resource, runpy, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (128, 256))
sys.argv = ["trackside", "server", "--listen", "127.0.0.1:0", "--quiet"]
runpy.run_module("trackside.cli", run_name="__main__")
"""


def test_idle_connections_do_not_use_up_the_descriptors(
    tmp_path: Path, connect: Connect, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("TRACKSIDE_HOME", str(tmp_path))
    monkeypatch.setenv("TRACKSIDE_HEADER_SECONDS", "3600")
    with subprocess.Popen(
        [sys.executable, "-c", _WITH_FEW], stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            url = process.stdout.readline().split()[-1]
            key, secret = AccessKeys(tmp_path / "server").create("tests", Rights.ADMIN)
            for _ in range(300):
                connect(url)
            assert connect(url).send(HEALTH).response()[0] == 200
            server = Server(url, AccessKeys(tmp_path / "server"), key.id, secret)
            assert connect(url).send(listed(server)).response()[0] == 200
            assert resource.prlimit(process.pid, resource.RLIMIT_NOFILE) == (256, 256)
        finally:
            process.kill()

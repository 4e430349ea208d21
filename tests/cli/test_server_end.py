"""How a server writes its log, and how it ends: a real process, and clients in no hurry."""

import http.client
import json
import os
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import boto3
import pytest
from botocore.config import Config

from tests.cli.conftest import TRACKSIDE
from tests.wait import until
from trackside.api.keys import AccessKeys, Rights
from trackside.settings import Settings

SIZE = 24 << 20
"""More than sockets hold between server and client."""


@dataclass
class Process:
    process: subprocess.Popen[str]
    address: str
    key: str
    secret: str
    opened: list[http.client.HTTPConnection] = field(default_factory=list)

    def client(self, service: str) -> Any:
        return boto3.client(
            service,
            endpoint_url=f"http://{self.address}",
            region_name="eu-central-1",
            aws_access_key_id=self.key,
            aws_secret_access_key=self.secret,
            config=Config(retries={"total_max_attempts": 1}),
        )

    def connect(self) -> http.client.HTTPConnection:
        self.opened.append(http.client.HTTPConnection(self.address, timeout=60))
        return self.opened[-1]

    def close(self) -> None:
        for connection in self.opened:
            connection.close()
        self.process.kill()
        self.process.communicate()

    def end(self) -> tuple[int, list[str]]:
        """Its exit code, and the lines of its log."""
        code = self.process.wait(120)
        assert self.process.stderr is not None
        return code, self.process.stderr.read().splitlines()


Start = Callable[..., Process]

FOR_EVER = ("--drain-seconds", "3600")
"""Whoever is waited for so long was not cut short."""


@pytest.fixture
def start() -> Iterator[Start]:
    begun: list[Process] = []

    def starting(*options: str) -> Process:
        process = subprocess.Popen(
            [*TRACKSIDE, "server", "--listen", "127.0.0.1:0", *options],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "TRACKSIDE_S3": "embedded"},
        )
        assert process.stdout is not None
        address = process.stdout.readline().split()[-1].removeprefix("http://")
        keys = AccessKeys(Settings.load().layout.server.root)
        key, secret = keys.create("tests", Rights.ADMIN)
        begun.append(Process(process, address, key.id, secret))
        return begun[-1]

    yield starting
    for each in begun:
        each.close()


@contextmanager
def half_read(server: Process) -> Iterator[tuple[http.client.HTTPResponse, bytes]]:
    """A download whose client has stopped in the middle."""
    s3 = server.client("s3")
    s3.create_bucket(Bucket="data-1")
    s3.put_object(Bucket="data-1", Key="large", Body=os.urandom(1) * SIZE)
    url = s3.generate_presigned_url("get_object", {"Bucket": "data-1", "Key": "large"})
    connection = server.connect()
    connection.request("GET", url.removeprefix(f"http://{server.address}"))
    with connection.getresponse() as answer:
        assert answer.status == 200
        yield answer, answer.read(1 << 20)


def is_refused(server: Process) -> bool:
    host, _, port = server.address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), timeout=60).close()
    except ConnectionRefusedError:
        return True
    return False


def test_a_download_that_was_begun_is_finished_and_nobody_else_comes_in(start: Start):
    server = start(*FOR_EVER)
    waiting = server.connect()
    with half_read(server) as (answer, first):
        waiting.request("GET", "/health/live")
        assert json.loads(waiting.getresponse().read()) == {"status": "ok"}

        server.process.send_signal(signal.SIGTERM)
        until(lambda: is_refused(server))
        waiting.request("GET", "/health")
        reported = waiting.getresponse()
        assert (reported.status, reported.headers["connection"]) == (503, "close")
        assert json.loads(reported.read()) == {"status": "draining"}

        assert len(first) + len(answer.read()) == SIZE
    code, log = server.end()
    assert code == 0
    assert "Traceback" not in "\n".join(log)


def test_a_second_signal_ends_it_at_once(start: Start):
    server = start(*FOR_EVER)
    with half_read(server):
        server.process.send_signal(signal.SIGTERM)
        until(lambda: is_refused(server))
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(60) == 0


def test_who_takes_too_long_is_cut_short(start: Start):
    server = start("--drain-seconds", "0.5")
    with half_read(server) as (answer, _):
        server.process.send_signal(signal.SIGTERM)
        code, log = server.end()
        assert code == 0
        assert "stopped after 0.5 s; busy connections: 1" in "\n".join(log)
        assert "Traceback" not in "\n".join(log)
        with pytest.raises((http.client.IncompleteRead, ConnectionError)):
            answer.read()


def test_an_idle_server_ends_at_once_by_either_signal(start: Start):
    for number in (signal.SIGTERM, signal.SIGINT):
        server = start(*FOR_EVER)
        idle = server.connect()
        idle.request("GET", "/health/live")
        idle.getresponse().read()
        server.process.send_signal(number)
        assert server.end()[0] == 0


def test_the_log_has_a_json_object_on_each_line_with_the_client_s_request_id(start: Start):
    server = start("--log-format", "json")
    seen = server.client("sagemaker").list_training_jobs()["ResponseMetadata"]
    s3 = server.client("s3")
    s3.create_bucket(Bucket="data-1")
    s3.put_object(Bucket="data-1", Key="a b/é", Body=b"x" * 1000)
    put = s3.head_object(Bucket="data-1", Key="a b/é")["ResponseMetadata"]
    server.process.send_signal(signal.SIGTERM)
    code, lines = server.end()
    assert code == 0
    log = [json.loads(line) for line in lines]
    assert all({"time", "level", "logger", "message"} <= set(entry) for entry in log)
    [listed] = [e for e in log if e.get("request_id") == seen["HTTPHeaders"]["x-amzn-requestid"]]
    assert listed["operation"] == "ListTrainingJobs"
    assert listed["service"] == "sagemaker"
    assert listed["key"] == server.key
    assert (listed["status"], listed["method"], listed["path"]) == (200, "POST", "/")
    assert listed["bytes_in"] == 2
    assert listed["bytes_out"] > 2
    assert listed["ms"] > 0
    [headed] = [e for e in log if e.get("request_id") == put["HTTPHeaders"]["x-amzn-requestid"]]
    assert (headed["operation"], headed["bytes_out"]) == ("REST.HEAD.OBJECT", 0)
    [stored] = [e for e in log if e.get("operation") == "REST.PUT.OBJECT"]
    assert stored["bytes_in"] >= 1000


@pytest.mark.parametrize("form", ["text", "json"])
def test_no_secret_and_no_signature_is_ever_in_the_log(start: Start, form: str):
    server = start("--log-format", form)
    s3 = server.client("s3")
    s3.create_bucket(Bucket="data-1")
    url = s3.generate_presigned_url("get_object", {"Bucket": "data-1", "Key": "missing"})
    signature = url.rpartition("X-Amz-Signature=")[2].partition("&")[0]
    connection = server.connect()
    connection.request("GET", url.removeprefix(f"http://{server.address}"))
    connection.getresponse().read()
    # Id and secret in each other's place: it happens.
    swapped = Process(server.process, server.address, server.secret, server.key)
    with pytest.raises(Exception, match="security token"):
        swapped.client("sagemaker").list_training_jobs()
    basic = server.connect()
    basic.request("GET", "/metrics", headers={"Authorization": f"Basic {server.secret}"})
    basic.getresponse().read()
    server.process.send_signal(signal.SIGTERM)
    _, lines = server.end()
    log = "\n".join(lines)
    assert "/data-1/missing" in log
    assert "ListTrainingJobs" in log
    assert server.secret not in log
    assert signature not in log
    assert "X-Amz-" not in log

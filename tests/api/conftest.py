"""A real server in a thread, and real clients."""

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.config import Config

from tests.api.raw_client import RawClient
from tests.job_processes import end_processes_of
from tests.jobs.conftest import ENVIRON, STAND_IN
from tests.wait import until
from trackside.api import health
from trackside.api.app import App
from trackside.api.identity import Iam, Sts
from trackside.api.keys import AccessKeys, Rights
from trackside.api.server import listen, make_server
from trackside.api.services import Services
from trackside.api.sessions import Sessions
from trackside.jobs.jobs import Jobs
from trackside.settings import Settings

REGION = "eu-central-1"
Connect = Callable[[str], RawClient]


@dataclass
class Server:
    url: str
    keys: AccessKeys
    key_id: str
    secret: str

    def client(self, service: str, **changed: Any) -> Any:
        given = {
            "endpoint_url": self.url,
            "region_name": REGION,
            "aws_access_key_id": self.key_id,
            "aws_secret_access_key": self.secret,
            "config": Config(retries={"total_max_attempts": 1}),
        }
        return boto3.client(service, **{**given, **changed})


@pytest.fixture(autouse=True)
def slow_health_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    """A slow check means that the machine is busy, not that the server is unhealthy."""
    monkeypatch.setattr(health, "CHECK_SECONDS", 60.0)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    keys = AccessKeys(tmp_path / "server")
    with running(App({"sts": Sts(Sessions(keys)), "iam": Iam()}, keys), keys) as server:
        yield server


@pytest.fixture
def connect() -> Iterator[Connect]:
    """Connections to any server, closed at the end."""
    with ExitStack() as opened:

        def connecting(url: str) -> RawClient:
            client = RawClient(url)
            opened.callback(client.close)
            return client

        yield connecting


@pytest.fixture
def jobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Jobs]:
    """With stand-ins for supervisors, on a home of its own with embedded buckets."""
    monkeypatch.setenv("TRACKSIDE_S3", "embedded")
    variables = {
        "TRACKSIDE_HOME": str(tmp_path / "home; echo 'x'"),
        "TRACKSIDE_CAPACITY": "cores=64,memory_gb=256",  # no test waits unless it is about that
    }
    settings = Settings.load(variables)
    environ = {**ENVIRON, "TRACKSIDE_S3": "embedded"}
    yield Jobs(settings, environ, supervisor_command=STAND_IN)
    end_processes_of(settings.home)


@pytest.fixture
def service(jobs: Jobs) -> Iterator[Server]:
    """Everything that `trackside server` answers."""
    keys = AccessKeys(jobs.settings.layout.server.root)
    services = Services(jobs.settings, keys, {}, jobs=jobs)
    with services, running(services.app, keys) as server:
        yield server


@contextmanager
def running(app: App, keys: AccessKeys) -> Iterator[Server]:
    key, secret = keys.create("tests", Rights.ADMIN)
    server = make_server(app)
    server.config.timeout_keep_alive = 600
    listener = listen("127.0.0.1", 0)
    thread = threading.Thread(target=server.run, args=([listener],), daemon=True)
    thread.start()
    until(lambda: server.started)
    yield Server(f"http://127.0.0.1:{listener.getsockname()[1]}", keys, key.id, secret)
    server.should_exit = True
    thread.join(60)

"""A real server in a thread, and real clients."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3
import pytest
import uvicorn
from botocore.config import Config

from tests.job_processes import end_processes_of
from tests.jobs.conftest import ENVIRON, STAND_IN
from tests.waiting import until
from trackside.api import health
from trackside.api.app import App
from trackside.api.identity import Iam, Sts
from trackside.api.keys import AccessKeys, Rights
from trackside.api.services import Services
from trackside.api.sessions import Sessions
from trackside.jobs.jobs import Jobs
from trackside.settings import Settings

REGION = "eu-central-1"


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
def patient_health(monkeypatch: pytest.MonkeyPatch) -> None:
    """A look that takes long says that the machine is busy, not that the server is ill."""
    monkeypatch.setattr(health, "LOOK_SECONDS", 60.0)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    keys = AccessKeys(tmp_path / "server")
    with running(App({"sts": Sts(Sessions(keys)), "iam": Iam()}, keys), keys) as server:
        yield server


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
    options: Any = {"log_config": None, "lifespan": "off", "timeout_keep_alive": 600}
    config = uvicorn.Config(app, port=0, **options)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    until(lambda: server.started)
    port = server.servers[0].sockets[0].getsockname()[1]
    yield Server(f"http://127.0.0.1:{port}", keys, key.id, secret)
    server.should_exit = True
    thread.join(60)

"""A real server in a thread, and real clients."""

import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3
import pytest
import uvicorn
from botocore.config import Config

from tests.waiting import until
from trackside.api.app import App
from trackside.api.identity import Iam, Sts
from trackside.api.keys import AccessKeys, Rights

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


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    keys = AccessKeys(tmp_path / "server")
    key, secret = keys.create("tests", Rights.ADMIN)
    app = App({"sts": Sts(), "iam": Iam()}, keys)
    config = uvicorn.Config(app, port=0, log_config=None, lifespan="off")
    running = uvicorn.Server(config)
    thread = threading.Thread(target=running.run, daemon=True)
    thread.start()
    until(lambda: running.started)
    port = running.servers[0].sockets[0].getsockname()[1]
    yield Server(f"http://127.0.0.1:{port}", keys, key.id, secret)
    running.should_exit = True
    thread.join(10)

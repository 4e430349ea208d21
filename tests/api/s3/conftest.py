"""The S3 service over a folder, called by real clients, at its own socket and behind a relay."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.config import Config

from tests.wait import until
from trackside.api.app import App
from trackside.api.call import Service
from trackside.api.keys import AccessKeys, Rights
from trackside.api.s3 import upstream_client
from trackside.api.s3.relay import S3Relay
from trackside.api.s3.service import S3
from trackside.api.server import listen, make_server
from trackside.storage.credentials import S3Access
from trackside.storage.folder import FolderStore

REGION = "eu-central-1"
BUCKET = "my-bucket"


@dataclass
class S3Endpoint:
    url: str
    buckets: Path
    keys: AccessKeys
    key_id: str
    secret: str

    def client(self, rights: Rights | None = None, **config: Any) -> Any:
        key_id, secret = self.key_id, self.secret
        if rights is not None:
            key, secret = self.keys.create("of a test", rights)
            key_id = key.id
        return boto3.client(
            "s3",
            endpoint_url=self.url,
            region_name=REGION,
            aws_access_key_id=key_id,
            aws_secret_access_key=secret,
            config=Config(retries={"total_max_attempts": 1}, **config),
        )

    @property
    def environment(self) -> dict[str, str]:
        """For clients in a process of their own."""
        return {
            "AWS_ENDPOINT_URL": self.url,
            "AWS_ENDPOINT_URL_S3": self.url,
            "S3_ENDPOINT_URL": self.url,
            "AWS_ACCESS_KEY_ID": self.key_id,
            "AWS_SECRET_ACCESS_KEY": self.secret,
            "AWS_REGION": REGION,
            "AWS_DEFAULT_REGION": REGION,
        }

    def store(self, bucket: str = BUCKET) -> FolderStore:
        """What jobs on this machine read and write without any server."""
        return FolderStore(self.buckets / bucket)


@pytest.fixture(autouse=True)
def slow_relays(monkeypatch: pytest.MonkeyPatch) -> None:
    """A store of this machine that is slow is not away."""
    monkeypatch.setattr(upstream_client, "_CONNECT_SECONDS", 60.0)
    monkeypatch.setattr(upstream_client, "_IDLE_SECONDS", 60.0)


@contextmanager
def listening(app: App, *, port: int = 0) -> Iterator[str]:
    """The address at which it answers."""
    server = make_server(app)
    listener = listen("127.0.0.1", port)
    thread = threading.Thread(target=server.run, args=([listener],), daemon=True)
    thread.start()
    until(lambda: server.started)
    yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    server.should_exit = True
    thread.join(60)


@contextmanager
def serving(service: Service, home: Path, *, port: int = 0) -> Iterator[S3Endpoint]:
    """A server of its own, with keys of its own."""
    keys = AccessKeys(home / "server")
    key, secret = keys.create("tests", Rights.ADMIN)
    with listening(App({"s3": service}, keys), port=port) as url:
        yield S3Endpoint(url, home / "buckets", keys, key.id, secret)


@contextmanager
def relaying(store: S3Endpoint, home: Path) -> Iterator[S3Endpoint]:
    """A server before a store that checks every signature: other keys, another region."""
    access = S3Access(store.url, "us-east-1", store.key_id, store.secret)
    with serving(S3Relay(access), home) as front:
        yield replace(front, buckets=store.buckets)


@pytest.fixture(params=["embedded", "relayed"])
def endpoint(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[S3Endpoint]:
    with serving(S3(tmp_path / "buckets"), tmp_path) as store:
        if request.param == "embedded":
            yield store
            return
        with relaying(store, tmp_path / "front") as front:
            yield front


@pytest.fixture
def s3(endpoint: S3Endpoint) -> Any:
    """An admin's client, and a bucket."""
    client = endpoint.client()
    client.create_bucket(Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": REGION})
    return client

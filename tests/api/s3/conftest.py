"""The S3 service over a folder, behind a real socket, asked by real clients."""

import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.config import Config

from tests.waiting import until
from trackside.api.app import App
from trackside.api.keys import AccessKeys, Rights
from trackside.api.s3.service import S3
from trackside.api.server import listen, make_server
from trackside.storage.folder import FolderStore

REGION = "eu-central-1"
BUCKET = "my-bucket"


@dataclass
class S3Place:
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


@pytest.fixture
def place(tmp_path: Path) -> Iterator[S3Place]:
    keys = AccessKeys(tmp_path / "server")
    key, secret = keys.create("tests", Rights.ADMIN)
    root = tmp_path / "buckets"
    server = make_server(App({"s3": S3(root)}, keys))
    listener = listen("127.0.0.1", 0)
    thread = threading.Thread(target=server.run, args=([listener],), daemon=True)
    thread.start()
    until(lambda: server.started)
    port = listener.getsockname()[1]
    yield S3Place(f"http://127.0.0.1:{port}", root, keys, key.id, secret)
    server.should_exit = True
    thread.join(10)


@pytest.fixture
def s3(place: S3Place) -> Any:
    """A client of an admin's, and a bucket to begin with."""
    client = place.client()
    client.create_bucket(Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": REGION})
    return client

"""Conditional uploads in parts to our own S3 server, over a network that breaks."""

import os
from collections.abc import Iterator
from itertools import repeat
from pathlib import Path
from typing import Any

import pytest

from tests.api.s3.conftest import BUCKET, REGION, S3Endpoint, serving
from tests.fault_proxy import Fault, FaultProxy
from trackside.api.s3.service import S3
from trackside.errors import AccessRefused, ObjectChanged, StoreUnreachable
from trackside.storage.cloud import CloudStore
from trackside.storage.connect import Retry, open_s3
from trackside.storage.credentials import s3_access
from trackside.storage.store import NOTHING

MIB = 1 << 20
QUICK = Retry(max_retries=3, first_wait_seconds=0.01, longest_wait_seconds=0.05)


@pytest.fixture
def endpoint(tmp_path: Path) -> Iterator[S3Endpoint]:
    with serving(S3(tmp_path / "buckets"), tmp_path) as server:
        server.client().create_bucket(
            Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": REGION}
        )
        yield server


@pytest.fixture
def broken(endpoint: S3Endpoint) -> Iterator[FaultProxy]:
    with FaultProxy(endpoint.url) as proxy:
        yield proxy


@pytest.fixture
def store(endpoint: S3Endpoint, broken: FaultProxy) -> CloudStore:
    access = s3_access({**endpoint.environment, "AWS_ENDPOINT_URL_S3": broken.url})
    assert access is not None
    return open_s3(BUCKET, access, QUICK)


def unfinished(endpoint: S3Endpoint) -> list[Any]:
    listed: list[Any] = endpoint.client().list_multipart_uploads(Bucket=BUCKET).get("Uploads", [])
    return listed


def test_every_response_lost_once_makes_one_whole_object(
    store: CloudStore, broken: FaultProxy, endpoint: S3Endpoint
) -> None:
    content = os.urandom(40 * MIB)
    broken.inject(
        *(Fault(f"partNumber={number}&", loses_reply=True) for number in range(1, 4)),
        Fault("POST .*uploadId", loses_reply=True),
    )
    entry = store.put("odd name/ü", iter([content]), replaces=NOTHING)
    assert store.get("odd name/ü") == content
    assert store.stat("odd name/ü").etag == entry.etag
    assert unfinished(endpoint) == []


def test_one_that_comes_too_late_leaves_the_other_and_no_parts(
    store: CloudStore, broken: FaultProxy, endpoint: S3Endpoint
) -> None:
    old = store.put("k", b"old")

    def replace() -> None:
        endpoint.client().put_object(Bucket=BUCKET, Key="k", Body=b"other")

    broken.inject(Fault("POST .*uploadId", status=503, meanwhile=replace))
    with pytest.raises(ObjectChanged, match="k"):
        store.put("k", repeat(bytes(MIB), 20), replaces=old.etag)
    assert store.get("k") == b"other"
    assert unfinished(endpoint) == []


@pytest.mark.parametrize("pattern", ["partNumber=2&", "POST .*uploadId"])
def test_a_server_that_stays_down_is_named_and_left_clean(
    store: CloudStore, broken: FaultProxy, endpoint: S3Endpoint, pattern: str
) -> None:
    broken.inject(Fault(pattern, status=503, times=1000))
    with pytest.raises(StoreUnreachable, match="k.*503"):
        store.put("k", repeat(bytes(MIB), 40), replaces=NOTHING)
    assert unfinished(endpoint) == []
    assert list(store.list()) == []


def test_a_wrong_key_is_refused_at_once(endpoint: S3Endpoint) -> None:
    access = s3_access({**endpoint.environment, "AWS_SECRET_ACCESS_KEY": "wrong"})
    assert access is not None
    with pytest.raises(AccessRefused, match="AWS_SECRET_ACCESS_KEY"):
        open_s3(BUCKET, access, QUICK).put("k", repeat(bytes(MIB), 20), replaces=NOTHING)

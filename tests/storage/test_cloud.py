"""Cloud stores when the network or the server misbehaves, on a real S3 server behind a proxy."""

import os
import socket
from collections.abc import Iterator
from functools import partial
from itertools import repeat

import pytest

from tests.conftest import S3Server, environment_for
from tests.fault_proxy import Fault, FaultProxy
from trackside.errors import (
    AccessRefused,
    InvalidKey,
    ObjectChanged,
    ObjectNotFound,
    StorageError,
    StoreUnreachable,
)
from trackside.storage.cloud import CloudStore
from trackside.storage.connect import Retry, open_bucket, open_s3
from trackside.storage.credentials import S3Access, s3_access
from trackside.texts.storage_schemes import BY_NAME

MIB = 1 << 20
QUICK = Retry(max_retries=3, first_wait_seconds=0.01, longest_wait_seconds=0.05)


def connect(url: str, bucket: str, retry: Retry = QUICK) -> CloudStore:
    access = s3_access(environment_for(url))
    assert access is not None
    return open_s3(bucket, access, retry)


@pytest.fixture
def store(faulty: FaultProxy, bucket: str) -> CloudStore:
    return connect(faulty.url, bucket)


def unfinished_uploads(server: S3Server, bucket: str) -> list[str]:
    listed = server.client().list_multipart_uploads(Bucket=bucket)
    return [upload["Key"] for upload in listed.get("Uploads", [])]


def test_a_busy_server_is_retried(store: CloudStore, faulty: FaultProxy) -> None:
    faulty.inject(Fault("PUT", status=503, times=2), Fault("GET", status=429, times=2))
    store.put("k", b"content")
    assert store.get("k") == b"content"
    faulty.inject(Fault("list-type", status=503, times=2), Fault("POST", status=503, times=2))
    assert [entry.key for entry in store.list()] == ["k"]
    store.delete(["k"])
    assert list(store.list()) == []


def test_a_broken_body_is_resumed_where_it_broke(store: CloudStore, faulty: FaultProxy) -> None:
    content = os.urandom(3 * MIB)
    store.put("k", content)
    faulty.inject(Fault("GET", cut_after=MIB))
    assert store.get("k") == content
    resumed = {name.lower(): value for name, value in faulty.requests[-1].headers.items()}
    start = int(resumed["range"].removeprefix("bytes=").partition("-")[0])
    assert 0 < start <= MIB


@pytest.mark.parametrize(
    ("is_guarded", "expected"), [(True, ObjectChanged), (False, StoreUnreachable)]
)
def test_a_body_is_never_resumed_with_another_version(
    store: CloudStore,
    faulty: FaultProxy,
    s3_server: S3Server,
    bucket: str,
    is_guarded: bool,
    expected: type[StorageError],
) -> None:
    old, new = b"o" * (3 * MIB), b"n" * (3 * MIB)
    etag = store.put("k", old).etag if is_guarded else None
    store.put("k", old)
    replace = partial(s3_server.client().put_object, Bucket=bucket, Key="k", Body=new)
    faulty.inject(Fault("GET", cut_after=MIB, meanwhile=replace))
    with pytest.raises(expected):
        store.get("k", etag=etag)
    assert store.get("k") == new


def test_a_server_that_stays_down_is_named_with_its_status(
    store: CloudStore, faulty: FaultProxy, bucket: str
) -> None:
    faulty.inject(Fault(status=503, times=10_000))
    for call in (
        lambda: store.get("k"),
        lambda: store.put("k", b"x"),
        lambda: store.put("k", repeat(bytes(MIB), 20)),
        lambda: list(store.list()),
        lambda: store.delete(["k"]),
        lambda: store.stat("k"),
    ):
        with pytest.raises(StoreUnreachable, match=f"s3://{bucket}.*answers 503"):
            call()


def test_a_closed_port_is_reported_with_the_address(bucket: str) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{closed.getsockname()[1]}"
        with pytest.raises(StoreUnreachable, match=f"{url}.*[Cc]onnection refused"):
            connect(url, bucket).get("k")


def test_a_connection_that_stalls_is_closed(bucket: str) -> None:
    retry = Retry(max_retries=1, first_wait_seconds=0.01, silence_seconds=0.3)
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        store = connect(f"http://127.0.0.1:{silent.getsockname()[1]}", bucket, retry)
        with pytest.raises(StoreUnreachable, match="not respond in time"):
            store.get("k")


@pytest.mark.parametrize("pattern", ["partNumber=2&", "POST .*uploadId"])
def test_a_multipart_upload_that_fails_is_taken_back(
    store: CloudStore, faulty: FaultProxy, s3_server: S3Server, bucket: str, pattern: str
) -> None:
    faulty.inject(Fault(pattern, status=503, times=10_000))
    with pytest.raises(StoreUnreachable):
        store.put("k", repeat(bytes(MIB), 40))
    assert unfinished_uploads(s3_server, bucket) == []
    assert list(store.list()) == []


def test_chunks_that_fail_midway_leave_no_upload_behind(
    store: CloudStore, s3_server: S3Server, bucket: str
) -> None:
    def chunks() -> Iterator[bytes]:
        yield from repeat(bytes(MIB), 40)
        raise RuntimeError("no more")

    with pytest.raises(RuntimeError, match="no more"):
        store.put("k", chunks())
    assert unfinished_uploads(s3_server, bucket) == []


def test_every_part_dropped_once_still_makes_one_whole_object(
    store: CloudStore, faulty: FaultProxy, s3_server: S3Server, bucket: str
) -> None:
    content = os.urandom(40 * MIB)
    faulty.inject(
        *(Fault(f"partNumber={number}&", loses_reply=True) for number in range(1, 4)),
        Fault("POST .*uploadId", loses_reply=True),
    )
    store.put("k", iter([content]))
    assert store.get("k") == content
    assert unfinished_uploads(s3_server, bucket) == []


def test_a_put_whose_response_is_lost_is_retried_safely(
    store: CloudStore, faulty: FaultProxy
) -> None:
    faulty.inject(Fault("PUT", loses_reply=True))
    store.put("k", b"content")
    assert faulty.count("PUT") == 2
    assert store.get("k") == b"content"


@pytest.mark.parametrize("status", [401, 403])
def test_a_refusal_is_not_retried(store: CloudStore, faulty: FaultProxy, status: int) -> None:
    faulty.inject(Fault(status=status, times=10_000))
    for call in (
        lambda: store.get("k"),
        lambda: store.put("k", b"x"),
        lambda: list(store.list()),
        lambda: store.delete(["k"]),
    ):
        faulty.requests.clear()
        with pytest.raises(AccessRefused, match="refused"):
            call()
        assert len(faulty.requests) == 1
    faulty.requests.clear()
    with pytest.raises(AccessRefused, match="refused"):
        store.stat("k")
    # The response to HEAD has no body: one GET fetches the reason.
    assert [request.line.split()[0] for request in faulty.requests] == ["HEAD", "GET"]


def test_a_small_put_is_one_request_where_the_store_returns_its_digest(
    store: CloudStore, faulty: FaultProxy
) -> None:
    entry = store.put("k", b"content")
    assert [request.line.split()[0] for request in faulty.requests] == ["PUT"]
    assert (entry.key, entry.size_bytes, entry.etag) == ("k", 7, store.stat("k").etag)
    faulty.requests.clear()
    store.put("k", bytes(2 * MIB))
    assert [request.line.split()[0] for request in faulty.requests] == ["PUT", "HEAD"]


def test_another_region_is_named(store: CloudStore, faulty: FaultProxy) -> None:
    faulty.inject(Fault(status=301))
    with pytest.raises(AccessRefused, match="AWS_REGION"):
        store.get("k")


def test_any_other_response_is_shown(store: CloudStore, faulty: FaultProxy) -> None:
    faulty.inject(Fault(status=400))
    with pytest.raises(StorageError, match="400: Injected"):
        store.get("k")


def test_a_bucket_that_does_not_exist_is_named(s3_server: S3Server) -> None:
    store = connect(s3_server.url, "no-such-bucket")
    for call in (
        lambda: store.get("k"),
        lambda: store.put("k", b"x"),
        lambda: list(store.list()),
        lambda: store.delete(["k"]),
    ):
        with pytest.raises(ObjectNotFound, match="no bucket 's3://no-such-bucket'"):
            call()


def test_folder_markers_are_left_out_and_empty_objects_are_not(
    store: CloudStore, s3_server: S3Server, bucket: str
) -> None:
    client = s3_server.client()
    for key in ("data/", "data/a/", "data/a/file", "data/both", "data/both/", "data/empty"):
        client.put_object(Bucket=bucket, Key=key, Body=b"x" if key.endswith("file") else b"")
    assert [entry.key for entry in store.list()] == ["data/a/file", "data/both", "data/empty"]
    assert [entry.key for entry in store.list("data/")] == [
        "data/a/file",
        "data/both",
        "data/empty",
    ]


def test_an_object_whose_name_we_cannot_hold_is_named(
    store: CloudStore, s3_server: S3Server, bucket: str
) -> None:
    s3_server.client().put_object(Bucket=bucket, Key="odd//name", Body=b"x")
    with pytest.raises(InvalidKey, match="odd//name"):
        list(store.list())


def test_listing_follows_every_page_and_starts_where_it_must(
    store: CloudStore, faulty: FaultProxy
) -> None:
    names = [f"n/{number:02}" for number in range(35)]  # the server's pages have ten
    for name in names:
        store.put(name, b"x")
    faulty.requests.clear()
    assert [entry.key for entry in store.list("n/")] == names
    assert faulty.count("list-type") == 4
    faulty.requests.clear()
    assert [entry.key for entry in store.list("n/", after="n/29")] == names[30:]
    assert [entry.key for entry in store.list("n/3")] == names[30:]
    assert faulty.count("list-type.*start-after") == faulty.count("list-type") == 2
    store.delete(entry.key for entry in store.list())
    assert list(store.list()) == []


def test_azure_without_an_account_says_what_to_set() -> None:
    with pytest.raises(AccessRefused, match="AZURE_STORAGE_ACCOUNT_NAME"):
        open_bucket(BY_NAME["az"], "container")


@pytest.mark.parametrize(
    ("endpoint", "is_checked"),
    [("http://store.example:9000", False), ("https://store.example", True), (None, True)],
)
def test_certificates_are_left_out_only_where_nobody_shows_one(
    endpoint: str | None, is_checked: bool
):
    store = open_s3("bucket", S3Access(endpoint, "us-east-1", "id", "secret"))
    options = store._inner.client_options
    assert options is not None
    assert ("allow_invalid_certificates" in options) is not is_checked

"""Conditional reads and writes, by boto3."""

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pytest

from tests.api.s3.conftest import BUCKET
from tests.api.s3.test_object_calls import content, refused
from trackside.errors import ObjectChanged
from trackside.storage.store import NOTHING

WHERE = {"Bucket": BUCKET, "Key": "k"}
PAST = datetime(2020, 1, 1, tzinfo=UTC)


@pytest.fixture
def etag(s3):
    return s3.put_object(**WHERE, Body=b"old")["ETag"]


def test_reads_depend_on_the_etag(s3, etag):
    assert content(s3, "k", IfMatch=etag) == b"old"
    assert content(s3, "k", IfNoneMatch='"other"') == b"old"
    assert refused(s3.get_object, **WHERE, IfMatch='"other"') == ("PreconditionFailed", 412)
    assert refused(s3.get_object, **WHERE, IfNoneMatch=etag)[1] == 304
    assert refused(s3.head_object, **WHERE, IfNoneMatch=etag)[1] == 304


def test_reads_depend_on_the_time(s3, etag):
    future = datetime.now(UTC) + timedelta(hours=1)
    assert content(s3, "k", IfModifiedSince=PAST) == b"old"
    assert refused(s3.get_object, **WHERE, IfModifiedSince=future)[1] == 304
    assert content(s3, "k", IfUnmodifiedSince=future) == b"old"
    assert refused(s3.get_object, **WHERE, IfUnmodifiedSince=PAST)[1] == 412
    assert content(s3, "k", IfMatch=etag, IfUnmodifiedSince=PAST) == b"old"


def test_writes_depend_on_what_is_there(s3, etag):
    taken = refused(s3.put_object, **WHERE, Body=b"new", IfNoneMatch="*")
    assert taken == ("PreconditionFailed", 412)
    assert refused(s3.put_object, **WHERE, Body=b"new", IfMatch='"other"')[1] == 412
    assert content(s3, "k") == b"old"
    s3.put_object(**WHERE, Body=b"new", IfMatch=etag)
    assert content(s3, "k") == b"new"
    s3.put_object(Bucket=BUCKET, Key="free", Body=b"1", IfNoneMatch="*")
    assert refused(s3.put_object, Bucket=BUCKET, Key="no", IfMatch=etag) == ("NoSuchKey", 404)


def test_the_connection_is_good_for_more_after_a_refused_body(s3, etag):
    for _ in range(3):
        assert refused(s3.put_object, **WHERE, Body=b"x" * 300_000, IfNoneMatch="*")[1] == 412
        assert content(s3, "k") == b"old"


@pytest.mark.parametrize("size", [10, 200_000])
def test_of_many_concurrent_creates_one_succeeds(endpoint, s3, size):
    clients = [endpoint.client() for _ in range(8)]

    def create(number: int) -> bool:
        try:
            clients[number].put_object(**WHERE, Body=b"%d" % number * size, IfNoneMatch="*")
        except clients[number].exceptions.ClientError:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        done = list(pool.map(create, range(8)))
    assert done.count(True) == 1
    assert content(s3, "k") == b"%d" % done.index(True) * size


def test_clients_and_processes_that_use_the_folder_exclude_each_other(endpoint, s3):
    clients = [endpoint.client() for _ in range(4)]

    def create(number: int) -> bool:
        try:
            if number < 4:
                clients[number].put_object(**WHERE, Body=b"%d" % number, IfNoneMatch="*")
            else:
                endpoint.store().put("k", b"%d" % number, replaces=NOTHING)
        except (ObjectChanged, s3.exceptions.ClientError):
            return False
        return True

    for _ in range(5):
        with ThreadPoolExecutor(8) as pool:
            done = list(pool.map(create, range(8)))
        assert done.count(True) == 1
        assert content(s3, "k") == b"%d" % done.index(True)
        s3.delete_object(**WHERE)

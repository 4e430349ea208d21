"""Objects, by boto3: what is put comes back, to S3 clients and to jobs that read the folder."""

import hashlib
import os
import urllib.request

import pytest
from botocore.exceptions import ClientError

from tests.api.s3.conftest import BUCKET

LARGE = os.urandom(3 << 20)


def refused(call, **given) -> tuple[str, int]:
    with pytest.raises(ClientError) as caught:
        call(**given)
    answer = caught.value.response
    return answer["Error"]["Code"], answer["ResponseMetadata"]["HTTPStatusCode"]


def content(s3, key: str, **given) -> bytes:
    return s3.get_object(Bucket=BUCKET, Key=key, **given)["Body"].read()


@pytest.mark.parametrize("data", [b"", b"x", LARGE], ids=["empty", "small", "large"])
def test_a_put_object_is_returned_with_its_md5_as_etag(s3, endpoint, data):
    put = s3.put_object(Bucket=BUCKET, Key="a/b.bin", Body=data)
    assert put["ETag"] == f'"{hashlib.md5(data).hexdigest()}"'
    got = s3.get_object(Bucket=BUCKET, Key="a/b.bin")
    assert got["Body"].read() == data
    assert (got["ETag"], got["ContentLength"]) == (put["ETag"], len(data))
    assert endpoint.store().get("a/b.bin") == data
    assert [e.key for e in endpoint.store().list()] == ["a/b.bin"]


def test_what_a_job_wrote_is_an_object_like_any_other(s3, endpoint):
    entry = endpoint.store().put("run/model.json", b"{}")
    head = s3.head_object(Bucket=BUCKET, Key="run/model.json")
    assert head["ETag"] == f'"{entry.etag}"'
    assert (head["ContentType"], head["ContentLength"]) == ("application/json", 2)
    assert content(s3, "run/model.json") == b"{}"
    listed = s3.list_objects_v2(Bucket=BUCKET)["Contents"]
    assert [(o["Key"], o["ETag"]) for o in listed] == [("run/model.json", f'"{entry.etag}"')]
    s3.delete_object(Bucket=BUCKET, Key="run/model.json")
    assert list(endpoint.store().list()) == []


@pytest.mark.parametrize(
    "record",
    [
        b"[1]",
        b"\xff",
        b"[" * 3000,
        b'{"size": 3, "modified": MODIFIED, "etag": 5}',
        b'{"size": 3, "modified": MODIFIED, "etag": "a", "headers": {"x\\r\\ny": "z"}}',
        b'{"size": 3, "modified": MODIFIED, "etag": "a", "metadata": {"m": "\\u4e2d"}}',
        b'{"size": 3, "modified": MODIFIED, "etag": "a", "parts": [[1]]}',
        b'{"size": 3, "modified": MODIFIED, "etag": "a", "algorithm": "<x>", "checksum": "y"}',
    ],
    ids=["list", "bytes", "deep", "etag", "header", "metadata", "parts", "algorithm"],
)
def test_an_object_whose_record_is_damaged_is_one_all_the_same(s3, endpoint, record: bytes):
    s3.put_object(Bucket=BUCKET, Key="a.json", Body=b"123", Metadata={"owner": "me"})
    path = endpoint.buckets / BUCKET / "a.json"
    try:
        os.getxattr(path, "user.trackside.object")
    except (AttributeError, OSError):
        pytest.skip("no extended attributes here")
    modified = str(path.stat().st_mtime_ns).encode()
    os.setxattr(path, "user.trackside.object", record.replace(b"MODIFIED", modified))
    head = s3.head_object(Bucket=BUCKET, Key="a.json")
    assert (head["ContentType"], head["ContentLength"]) == ("application/json", 3)
    assert content(s3, "a.json") == b"123"
    assert [each["Key"] for each in s3.list_objects_v2(Bucket=BUCKET)["Contents"]] == ["a.json"]


def test_headers_and_user_metadata_are_stored(s3):
    given = {
        "ContentType": "text/x-test",
        "CacheControl": "max-age=3",
        "ContentDisposition": 'attachment; filename="x"',
        "ContentEncoding": "gzip",
        "ContentLanguage": "de",
        "Metadata": {"owner": "me", "empty": ""},
    }
    s3.put_object(Bucket=BUCKET, Key="k", Body=b"1", **given)
    head = s3.head_object(Bucket=BUCKET, Key="k")
    assert {name: head[name] for name in given} == given


def test_the_record_of_a_file_changed_in_place_is_ignored(s3, endpoint):
    put = s3.put_object(Bucket=BUCKET, Key="k", Body=b"1", Metadata={"a": "b"})
    with (endpoint.buckets / BUCKET / "k").open("ab") as file:
        file.write(b"2")
    got = s3.get_object(Bucket=BUCKET, Key="k", ChecksumMode="ENABLED")
    assert got["Body"].read() == b"12"
    assert got["ETag"] != put["ETag"]
    assert got["Metadata"] == {}


@pytest.mark.parametrize(
    ("byte_range", "expected", "content_range"),
    [
        ("bytes=0-0", b"0", "bytes 0-0/10"),
        ("bytes=2-5", b"2345", "bytes 2-5/10"),
        ("bytes=7-", b"789", "bytes 7-9/10"),
        ("bytes=-2", b"89", "bytes 8-9/10"),
        ("bytes=-99", b"0123456789", "bytes 0-9/10"),
        ("bytes=5-99", b"56789", "bytes 5-9/10"),
    ],
)
def test_ranges_are_answered_with_206(s3, byte_range, expected, content_range):
    s3.put_object(Bucket=BUCKET, Key="k", Body=b"0123456789")
    got = s3.get_object(Bucket=BUCKET, Key="k", Range=byte_range)
    assert got["ResponseMetadata"]["HTTPStatusCode"] == 206
    assert (got["Body"].read(), got["ContentRange"]) == (expected, content_range)


def test_a_range_beyond_the_object_is_416(s3):
    s3.put_object(Bucket=BUCKET, Key="k", Body=b"0123456789")
    params = {"Bucket": BUCKET, "Key": "k"}
    assert refused(s3.get_object, **params, Range="bytes=10-") == ("InvalidRange", 416)
    assert refused(s3.get_object, **params, Range="bytes=-0") == ("InvalidRange", 416)


def test_a_missing_object_and_a_missing_bucket_are_different_errors(s3):
    assert refused(s3.get_object, Bucket=BUCKET, Key="no") == ("NoSuchKey", 404)
    assert refused(s3.head_object, Bucket=BUCKET, Key="no") == ("404", 404)
    assert refused(s3.get_object, Bucket="no-such", Key="no") == ("NoSuchBucket", 404)
    assert refused(s3.put_object, Bucket="no-such", Key="no") == ("NoSuchBucket", 404)
    s3.delete_object(Bucket=BUCKET, Key="no")


ODD = ["a", "a/", "a/b", "a//b", "/a", "..", "a/../b", ".", "t\tab", "é" * 200, "x" * 1000,
       ".trackside/keys/a", "d/.trackside-1.part", "per%cent", "+ plus", "a/b/c"]  # fmt: skip


def test_keys_that_cannot_be_plain_files_are_stored_separately(s3, endpoint):
    for key in ODD:
        s3.put_object(Bucket=BUCKET, Key=key, Body=key.encode(), Metadata={"n": "1"})
    for key in ODD:
        assert content(s3, key) == key.encode()
    listed = [o["Key"] for o in s3.list_objects_v2(Bucket=BUCKET)["Contents"]]
    assert listed == sorted(ODD, key=str.encode)
    assert {e.key for e in endpoint.store().list()} == {"a", "per%cent", "+ plus"}
    assert sorted(path.name for path in endpoint.buckets.iterdir()) == [BUCKET]
    for key in ODD:
        s3.delete_object(Bucket=BUCKET, Key=key)
    assert s3.list_objects_v2(Bucket=BUCKET)["KeyCount"] == 0
    s3.delete_bucket(Bucket=BUCKET)
    assert list(endpoint.buckets.iterdir()) == []


def test_an_odd_key_becomes_plain_as_soon_as_it_can(s3, endpoint):
    s3.put_object(Bucket=BUCKET, Key="a/b", Body=b"below")
    s3.put_object(Bucket=BUCKET, Key="a", Body=b"odd")
    s3.delete_object(Bucket=BUCKET, Key="a/b")
    assert content(s3, "a") == b"odd"
    s3.put_object(Bucket=BUCKET, Key="a", Body=b"plain")
    assert content(s3, "a") == b"plain"
    assert endpoint.store().get("a") == b"plain"
    s3.delete_object(Bucket=BUCKET, Key="a")
    assert refused(s3.get_object, Bucket=BUCKET, Key="a") == ("NoSuchKey", 404)


def test_presigned_addresses_work_for_those_without_a_key(s3):
    given = {"Bucket": BUCKET, "Key": "a b/ü"}
    address = s3.generate_presigned_url("put_object", given, ExpiresIn=60)
    with urllib.request.urlopen(urllib.request.Request(address, b"body", method="PUT")):
        pass
    address = s3.generate_presigned_url(
        "get_object", {**given, "ResponseContentType": "text/other"}, ExpiresIn=60
    )
    with urllib.request.urlopen(address) as answer:
        assert answer.read() == b"body"
        assert answer.headers["content-type"] == "text/other"


def test_tags_are_stored_with_the_object(s3):
    s3.put_object(Bucket=BUCKET, Key="k", Body=b"1", Tagging="a=1&b=2")
    before = s3.head_object(Bucket=BUCKET, Key="k")
    params = {"Bucket": BUCKET, "Key": "k"}
    assert s3.get_object_tagging(**params)["TagSet"] == [
        {"Key": "a", "Value": "1"},
        {"Key": "b", "Value": "2"},
    ]
    s3.put_object_tagging(**params, Tagging={"TagSet": [{"Key": "c", "Value": ""}]})
    assert s3.get_object_tagging(**params)["TagSet"] == [{"Key": "c", "Value": ""}]
    s3.delete_object_tagging(**params)
    assert s3.get_object_tagging(**params)["TagSet"] == []
    after = s3.head_object(Bucket=BUCKET, Key="k")
    assert (after["ETag"], after["LastModified"]) == (before["ETag"], before["LastModified"])
